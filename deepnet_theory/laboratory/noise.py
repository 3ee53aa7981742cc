r"""The noise of a model's gradient on its data, by group of parameters.

.. math:: B_\mathrm{noise} = \frac{\operatorname{tr}\Sigma}{|G|^2}

G is the mean of one sequence's gradient and Σ its covariance: in a batch of B_noise sequences the
noise of the gradient is as large as its signal. The gradients g of n sequences give both without
bias, as batches of the two sizes 1 and n do:

.. math:: |G|^2 = \frac{|\sum g|^2 - \sum|g|^2}{n(n-1)}, \qquad
          \operatorname{tr}\Sigma = \frac1n\sum|g|^2 - |G|^2

The interval of their ratio is Fieller's, over the jackknife's values of one sequence each.

Source: McCandlish et al., arXiv 1812.06162, appendix A.1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import torch
from torch import Tensor

from deepnet_theory.definitions.measurement import Estimate
from deepnet_theory.definitions.outcome import DeepNetTheoryError, InputError
from deepnet_theory.definitions.reading import UNKNOWN, Reading
from deepnet_theory.definitions.subject import Wanted, WantedSublayer
from deepnet_theory.laboratory.model_steps import in_all_layers
from deepnet_theory.laboratory.model_update import ALL
from deepnet_theory.laboratory.statistics import Array, ratio_interval
from deepnet_theory.models.asked import TIED, describe, role_of
from deepnet_theory.models.factory import Made
from deepnet_theory.models.reading import read
from deepnet_theory.models.step import FinalState

SEQUENCES = 64  # that suffice for most groups
FEWEST = 8  # sequences: fewer give no interval worth printing
SHARES = 1 / 2, 1 / 8  # of the sequences, the ends of the classes
CLASSES = "seen by 1/2 or more", "seen by 1/8 to 1/2", "seen by under 1/8"
MEAN = 1e-3  # of a batch's loss: it differs less from the mean over its sequences
Group = tuple[str, str, int]  # its name, its role, and the rows that are in classes


def noise_of(made: Made, sequences: int, seed: int = 0) -> tuple[Estimate, ...]:
    r"""B_noise in sequences, of all parameters and then of each group.

    The ``sequences`` are from as many batches as the inputs give. A group is a role in one kind of
    sublayer, as the forward pass shows it, or the parameters of one name in all layers. Rows of a
    table and experts are in classes by the share of the sequences that give them a gradient.
    B_noise has no upper end and is UNDECIDED where the interval of \|G\|² holds 0.

    Raises :class:`InputError` for fewer than 8 sequences, a model without a loss, and where a
    batch's loss is not the mean over its sequences.
    """
    each = list(_each(made, sequences, seed))
    named = {n: p for n, p in made.module.named_parameters() if p.requires_grad}
    groups = _groups(made, named)

    def gradients() -> Iterator[Iterator[tuple[Group, Tensor, Tensor, Tensor]]]:
        for final in each:
            loss, weights = final.with_loss()[1], [*named.values()]
            found = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
            yield zip(groups, whole, seen, (g.to_dense() for g in found), strict=True)

    whole = [torch.zeros_like(p) for p in named.values()]
    seen = [torch.zeros(max(rows, 1)) for _, _, rows in groups]
    for of_one in gradients():
        for _, total, shares, g in of_one:
            total += g
            shares += g.reshape(len(shares), -1).any(1).cpu() / len(each)
    sizes: dict[tuple[str, str], Array] = defaultdict(lambda: np.zeros((2, len(each))))
    for index, of_one in enumerate(gradients()):
        for (name, role, rows), total, shares, g in of_one:
            both = [x.double().reshape(len(shares), -1).sum(1).cpu() for x in (g * g, g * total)]
            classes = (shares[:, None] < torch.tensor(SHARES) - 1e-4).sum(1) * bool(rows)
            for one in {*classes.tolist()}:
                own = [float(x[classes == one].sum()) for x in both]
                for key in ((ALL, ALL), (f"{name}, {CLASSES[one]}" if rows else name, role)):
                    sizes[key][:, index] += own
    return tuple(b_noise(*key, *both) for key, both in sizes.items() if both.any())


def b_noise(group: str, role: str, own: Array, beside: Array) -> Estimate:
    """B_noise of a group from each sequence's |g|² and ⟨g, Σg⟩."""
    n, square, squares = len(own), beside.sum(), own.sum()
    # of |G|² without one sequence n - 1 times, from n times that of all: the jackknife's values
    signal = (square - squares) / (n - 1) - (square - squares - 2 * (beside - own)) / (n - 2)
    found = ratio_interval(own - signal, signal)
    finding = "" if math.isfinite(found.high) else "UNDECIDED: the interval of |G|² holds 0"
    return Estimate({"group": group, "role": role}, *found.numbers, finding=finding)


def at_batch(noise: Sequence[Estimate], batch: float, power: float | None) -> Iterator[Estimate]:
    r"""The noise of every group beside a ``batch`` B, and what one learning rate for all costs it.

    .. math:: \eta^* \propto (1 + B_\mathrm{noise}/B)^{-e}, \qquad \text{gain} \propto r(2 - r)

    with e the ``power`` of B in the rate where noise dominates, and r one rate, the best of the
    whole gradient, over the group's best. Exact for SGD, within some 20 % for sign and polar.
    """
    for e in noise:
        said = "noise" if e.low > batch else "the signal" if e.high < batch else ""
        said = f"{said} dominates" if said else "UNDECIDED"
        if e is noise[0]:
            said += f" at a batch of {batch:g}"
        elif power is not None and math.isfinite(e.high):
            r = ((batch + e.mean) / (batch + noise[0].mean)) ** power
            left = f"leaves {r * (2 - r):.0%} of a step's gain" if r < 2 else "undoes a step's gain"
            said += f"; one rate for all, {r:.2g} of its best, {left}"
        yield replace(e, finding=said)


def _each(made: Made, sequences: int, seed: int) -> Iterator[FinalState]:
    """The model on one sequence after the other."""
    left, what = sequences, type(made.module).__name__
    for step in count():
        batch = made.at(step)
        final = FinalState(batch, torch.Generator().manual_seed(seed))
        if final.random is not None and bool((final.random[1] >= 0).all()):  # by chance
            raise InputError(
                f"{what} has no loss of its own and was given no token ids: let its output have "
                "one, as (output, loss) has"
            )
        every = [final.sequence(index) for index in range(batch.sequences)]
        with torch.no_grad():
            together = final.with_loss()[1].item()
            mean = sum(one.with_loss()[1].item() for one in every) / max(len(every), 1)
        if not abs(together - mean) <= MEAN * abs(together):
            raise InputError(
                f"the loss of {what} on {len(every)} sequences is {together:.5g}, and the mean of "
                f"theirs is {mean:.5g}: the noise of a gradient needs a loss that is a mean over "
                "sequences, which the first axis of its inputs counts"
            )
        yield from every[:left]
        left -= len(every)
        if left <= 0 or not every or made.batches is None:
            break
    if sequences - left < FEWEST:
        raise InputError(
            f"{what} was given {sequences - left} sequences, and its noise needs {FEWEST} or more: "
            "give inputs of more, or a function of the step that gives them"
        )


def _groups(made: Made, named: dict[str, torch.nn.Parameter]) -> list[Group]:
    """The group of every parameter, by what it does, else by its name."""
    try:
        reading = read(made)
    except DeepNetTheoryError:  # what no forward pass shows
        reading = Reading((), (), {})
    known = tuple(s for s in reading.sublayers if s.kind != UNKNOWN)
    rule = Wanted("", "", "", tuple(WantedSublayer(frozenset(), 1.0, {}) for _ in known))
    described = describe(replace(reading, sublayers=known), rule)
    tables, groups = {t.name: t.of_inputs for t in reading.tables}, list[Group]()
    for name, p in named.items():
        blocks, rows = described.get(name, ()), 0
        role = "+".join(dict.fromkeys(map(role_of, blocks))) or UNKNOWN
        where = " ".join(dict.fromkeys(f"{d.part} {d.kind or ''}".strip() for d in blocks))
        if name in tables and role == "token-embedding" and blocks[0].name != TIED:
            role, rows = role if tables[name] else "position-embedding", len(p)
        elif "@" in where and role != "router":
            rows = len(p) if p.dim() > 1 + blocks[0].is_matrix else 1  # stacked, or one by one
        groups.append((where or in_all_layers(name), role, rows))
    return groups
