r"""‖ΔF‖/η in absolute size from single sublayers, at any depth and at the price of one.

Near the identity the changes :math:`V_l` that the layers make add up,

.. math:: E\|\Delta F\|^2 = L\,E\|V\|^2 + L(L-1)\,E\langle V, V'\rangle,

with V and V' of two independent layers: the first part adds as :math:`\sqrt L`, what they have
in common as :math:`L`. Both are measured on two sampled layers with the laboratory's own data,
embeddings and heads, between the blocks of :class:`~deepnet_theory.laboratory.trial.Sampled`, which
stand for the others' corrections; L counts distinct layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import NormalDist, fmean
from typing import Any

import torch
from torch import Tensor

from deepnet_theory.laboratory.model_update import (
    ALL,
    Direction,
    by_kind,
    change_along,
    directions_of,
)
from deepnet_theory.laboratory.settings import fitting_threads
from deepnet_theory.laboratory.trace import take_trace
from deepnet_theory.laboratory.trial import Case, Sampled, Trial

COPIES = 4  # of every seed at each pair of places
EVENLY = 0.7548776662466927  # the root of x³ + x² = 1, whose multiples fill [0, 1] evenly

# by part, and whether in a layer: as many layers as a change V stands for, and V
Changes = dict[tuple[str, bool], list[tuple[float, Tensor]]]
Changed = Callable[[Sequence[Direction]], Changes]


@dataclass(frozen=True)
class PredictedUpdate:
    """The predicted ‖ΔF‖/η of independent seeds, with its standard error over layers."""

    values: tuple[float, ...]
    errors: tuple[float, ...]

    def __add__(self, other: PredictedUpdate) -> PredictedUpdate:
        return PredictedUpdate(self.values + other.values, self.errors + other.errors)

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def interval_given_data(self) -> tuple[float, float]:
        """The mean's 95 % interval over layers alone, beside a measurement on the same data."""
        if not self.mean > 0:
            return self.mean, self.mean
        error = math.hypot(*self.errors) / len(self.errors)
        factor = math.exp(NormalDist().inv_cdf(0.975) * error / self.mean)
        return self.mean / factor, self.mean * factor


def predict_depth(case: Case) -> dict[str, PredictedUpdate]:
    """The predicted ‖ΔF‖/η of one depth, of all steps and of each part's where there are two."""
    return _predict(case, by_part, case.settings.draws)


def predict_shares(case: Case) -> dict[str, PredictedUpdate]:
    """What each kind of parameter moves when it is stepped alone, by part and name: one draw."""

    def alone(changed: Changed, directions: list[Direction]) -> dict[str, Changes]:
        return {key: changed(some) for key, some in by_kind(directions).items()}

    return _predict(case, alone, 1)


def by_part(changed: Changed, directions: list[Direction]) -> dict[str, Changes]:
    """The changes by all steps together and, where there are several parts, by those of each."""
    changes = changed(directions)
    parts = dict.fromkeys(part for part, _ in changes)
    shares = {
        name: {place: some for place, some in changes.items() if place[0] == name} for name in parts
    }
    return {ALL: changes, **(shares if len(parts) > 1 else {})}


def distance_from_identity(case: Case) -> list[float]:
    r"""S·r² of every seed, the sum over sublayers of :math:`(\|G\|/\|\alpha x\|)^2`."""
    with fitting_threads(case.settings):
        weights = take_trace(Trial(_sampled(case))).each("branch_weight")
    found: list[float] = weights.cpu().square().sum(0).tolist()
    return found


def _sampled(case: Case, **how: Any) -> Sampled:
    return Sampled(case.selection, case.rule, case.depth, case.settings, scheme=case.scheme, **how)


def _predict(
    case: Case, split: Callable[[Changed, list[Direction]], dict[str, Changes]], draws: int
) -> dict[str, PredictedUpdate]:
    sizes: dict[str, list[tuple[Tensor, Tensor]]] = {}
    with fitting_threads(case.settings):
        for draw in range(draws):
            squares: dict[str, list[Tensor]] = {}
            for index, places in enumerate(places_in(draw, draws)):
                sampled = _sampled(case, places=places, index=index)
                trial = Trial(sampled, draws=[draw], copies=COPIES)
                directions = directions_of(trial, sampled.is_sampled)
                for key, changes in split(partial(_changes, trial, sampled), directions).items():
                    squares.setdefault(key, []).append(_square(trial, changes))
            for key, rows in squares.items():
                sizes.setdefault(key, []).append(_root(torch.cat(rows, dim=1)))
    result = {}
    for key, roots in sizes.items():
        values, errors = (torch.stack(x) for x in zip(*roots, strict=True))  # (draws, seeds)
        result[key] = PredictedUpdate(
            tuple(values.mean(0).tolist()), tuple((errors.square().sum(0).sqrt() / draws).tolist())
        )
    return result


def places_in(draw: int, draws: int) -> tuple[tuple[float, float], ...]:
    """Two places of one draw, and their mirror image; those of all draws together spread.

    Two places in [0, 1] are apart by more than g with probability (1 − g)²: g is one of each of
    equally likely ranges.
    """
    # A change may depend on its depth: with both places fixed, sandwich-LN under SGD was 13 % off.
    apart = 1 - math.sqrt(1 - (draw + 0.5) / draws)
    start = (1 - apart) * ((0.5 + draw * EVENLY) % 1)
    return (start, start + apart), (1 - start - apart, 1 - start)


def _changes(trial: Trial, sampled: Sampled, directions: Sequence[Direction]) -> Changes:
    """What the steps of every sampled layer change, and of a final norm."""
    layers = {part.name: float(part.layers) for part in trial.model.constants.parts}
    alike: dict[tuple[str, bool], dict[int, list[Direction]]] = {}
    for direction in directions:
        d, copy = direction[1], sampled.copy_of(direction[1])
        assert d.part is not None and copy is not None
        alike.setdefault((d.part, d.layer is not None), {}).setdefault(copy, []).append(direction)
    return {
        (part, inside): [
            (layers[part] if inside else 1.0, change_along(trial, copies[c]))
            for c in sorted(copies)
        ]
        for (part, inside), copies in alike.items()
    }


def _square(trial: Trial, changes: Changes) -> Tensor:
    """The expected ‖ΔF_t‖² of every token from these changes: (seeds, copies, tokens).

    A sampled layer's change V counts n times, as many layers as it stands for.
    """
    layers = {part.name: part.layers for part in trial.model.constants.parts}
    total = torch.zeros(())
    for (part, inside), some in changes.items():
        total = total + _mean([n * v.square().sum(-1) for n, v in some])
        count = layers[part]
        if inside and count > 1:  # a part has one final norm
            (n, v), (m, w) = some
            total = total + n * m * (count - 1) / count * (v * w).sum(-1)
    for first, second in combinations(changes.values(), 2):
        total = total + 2 * _mean([n * m * (v * w).sum(-1) for n, v in first for m, w in second])
    return total.reshape(-1, trial.copies, total[0].numel())


def _mean(values: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean(0)


def _root(squares: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over tokens of the root of the mean square, and its standard error: (seeds,) each.

    ``squares`` are (seeds, draws, tokens) of independent draws.
    """
    mean = squares.mean(1, keepdim=True)
    root = mean.clamp(min=0).sqrt()
    slope = torch.where(root > 0, 0.5 / root, torch.zeros_like(root))
    parts = (squares * slope).mean(2)  # what each draw adds, to first order
    return root.mean((1, 2)), parts.std(1) / math.sqrt(squares.shape[1])
