r"""One run in training: what it ends with, and whether its branches move all tokens alike.

.. math:: R = \Bigl\|\sum_l \frac{b_l\,\overline{f_l}}{a_l\,\|x_l\|}\Bigr\|

with :math:`\overline{f_l}` the mean of a branch over tokens, a and b the factors of stream and
branch, ‖x‖ the stream's size after the branch where a norm takes the sum back, else where it
enters. Each token's own part is divided by cosh(R) in a deep stack with a norm on every sum, and by
:math:`\sqrt{1 + R^2}` where the final norm alone takes the stream back.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.measurement import Run
from deepnet_theory.runtime.model import Model, Residual


@dataclass(frozen=True)
class Ended:
    """What one run ends with: a ``value``, NaN where it diverged, and ``why``.

    ``losses`` are those of each step while they are finite, ``taken`` R and the cosine between
    tokens at some of them.
    """

    value: float
    baseline: float | None
    why: str = ""
    losses: tuple[float, ...] = ()
    taken: tuple[CommonMode, ...] = ()


def trained(
    steps: int,
    loss_at: Callable[[int], Tensor | float | None],
    update: Callable[[Any], object],
    evaluate: Callable[[], float],
    baseline: float | None,
) -> Ended:
    """A run of some steps, each a loss, if one is known, and an update by it."""
    losses = list[float]()
    for step in range(steps):
        loss = loss_at(step)
        if loss is not None:
            value = float(loss.detach() if isinstance(loss, Tensor) else loss)
            if not math.isfinite(value):
                why = f"the loss was {value} at step {step}"
                return Ended(math.nan, baseline, why, tuple(losses))
            losses.append(value)
        update(loss)
    value = evaluate()
    why = "" if math.isfinite(value) else f"the loss was {value} behind the last step"
    return Ended(math.nan if why else value, baseline, why, tuple(losses))


def run_of(rule: str, depth: dict[str, int], seeds: Sequence[Ended]) -> Run:
    """The runs of all seeds as one, with the largest R of them and their mean cosine."""
    if not seeds:
        return Run(rule, depth)
    finding = next((one.why for one in seeds if one.why), "")
    each = list(zip(*(one.taken for one in seeds), strict=False))
    return Run(
        rule, depth, tuple(map(fmean, zip(*(one.losses for one in seeds), strict=False))),
        () if finding else tuple(one.value for one in seeds), finding,
        tuple(now[0].step for now in each),
        tuple(max(one.weight for one in now) for now in each),
        tuple(fmean(one.cosine for one in now) for now in each),
    )  # fmt: skip


DROWNED = 0.01  # of an output, the share that is a token's own: what is warned of
EVERY = 16  # steps between two takings, behind the first ones


def is_taken(step: int) -> bool:
    """Whether R is taken at a step, counted from 0: at 0, 1, 2, 4, 8, 16, 32, 48 and so on."""
    return step % EVERY == 0 if step >= EVERY else step & (step - 1) == 0


@dataclass(frozen=True)
class CommonMode:
    """R of the last part's branches, and the mean cosine between tokens at its output.

    ``normed`` says that a norm takes every sum back, ``step`` when it was taken.
    """

    weight: float
    cosine: float
    normed: bool
    step: int = 0


@torch.no_grad()
def weighed(branch: Tensor, times: float, stream: Tensor) -> Tensor:
    """What all tokens share of a branch, ``times`` in the sum, in units of a stream: (width,)."""
    mean, x = branch.float().flatten(0, -2).mean(0), stream.float().flatten(0, -2)
    return mean * times / x.square().sum(-1).mean().sqrt()


@torch.no_grad()
def common_to(terms: Sequence[Tensor], output: Tensor, normed: bool, step: int = 0) -> CommonMode:
    """R of branches, each as it is :func:`weighed`; cosines of an ``output``."""
    unit = nn.functional.normalize(output.float().flatten(0, -2), dim=-1)
    n = len(unit)
    cosine = (unit.sum(0).square().sum() - n) / max(1, n * (n - 1))
    return CommonMode(float(torch.stack(list(terms)).sum(0).norm()), float(cosine), normed, step)


@contextmanager
def watching(model: Model, step: int = 0) -> Iterator[list[CommonMode]]:
    """Within this context each forward pass of a model of ours adds what its tokens share."""
    *_, part = model.parts.values()
    normed = next(iter(model.residuals())).placement.normalises_sum
    found, terms, streams = list[CommonMode](), list[Tensor](), list[Tensor]()

    def enter(residual: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        streams.append(inputs[0].detach())

    def add(residual: Residual, branch: nn.Module, inputs: object, moved: Tensor) -> None:
        stream, times = residual.placement.coefficients(residual.alpha)
        beside = streams[-1 if normed else 0]
        terms.append(weighed(moved, times / stream, beside))

    def end(part: nn.Module, inputs: object, output: Tensor) -> None:
        found.append(common_to(terms, output, normed, step))
        terms.clear()
        streams.clear()

    with part.register_forward_hook(end), ExitStack() as hooked:
        for residual in (m for m in part.modules() if isinstance(m, Residual)):
            places = residual.placement.places
            last = residual.norms[places.index("output")] if "output" in places else residual.branch
            hooked.enter_context(residual.register_forward_pre_hook(enter))
            hooked.enter_context(last.register_forward_hook(partial(add, residual)))
        yield found


def warning(taken: Iterable[CommonMode]) -> str:
    """A sentence where a common part drowns what is a token's own; empty where none does."""
    for one in sorted(taken, key=lambda one: (one.step, -one.weight)):
        law = "cosh(R)" if one.normed else "sqrt(1 + R**2)"
        r = one.weight
        divided = math.cosh(min(r, 700.0)) if one.normed else math.hypot(1, r)
        if divided * DROWNED > 1:
            return (
                f"at step {one.step} the branches move all tokens in one direction, R = {r:.1f} "
                f"in units of the stream: each token's own part is divided by {law} = "
                f"{divided:.0f}; start the head's bias at the log of the text's token frequencies "
                "(deepnet_theory.start_head_), or take a lower learning rate"
            )
    return ""
