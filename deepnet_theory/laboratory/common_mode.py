r"""R and the tokens' cosine of a model in training: do its branches move all tokens alike?

.. math:: R = \Bigl\|\sum_l \frac{b_l\,\overline{f_l}}{a_l\,\|x_l\|}\Bigr\|

with :math:`\overline{f_l}` the mean of a branch over tokens, a and b the factors of stream and
branch, ‖x‖ the stream's size beside it where a norm takes the sum back, else where it enters. What
is a token's own is divided by cosh(R) in a deep stack with a norm on every sum, and by
:math:`\sqrt{1 + R^2}` where the final norm alone takes the stream back.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.measurement import Run
from deepnet_theory.runtime.model import Model, Residual

DROWNED = 0.01  # of an output, the share that is a token's own: what is warned of
EVERY = 16  # steps between two takings, behind the first ones


def is_taken(step: int) -> bool:
    """Whether R is taken at a step, counted from 0: at 0, 1, 2, 4, 8, 16, 32, 48 and so on."""
    return step % EVERY == 0 if step >= EVERY else step & (step - 1) == 0


@dataclass(frozen=True)
class CommonMode:
    """R of the last part's branches, and the mean cosine between tokens at its output."""

    weight: float
    cosine: float


def tokens_of(x: Tensor) -> Tensor:
    """(…, width) as (tokens, width)."""
    return x.detach().float().flatten(0, -2)


def common_to(terms: Sequence[Tensor], output: Tensor) -> CommonMode:
    """R of branches, each as its mean over tokens beside the stream; cosines of an ``output``."""
    unit = nn.functional.normalize(output, dim=-1)
    n = len(unit)
    cosine = (unit.sum(0).square().sum() - n) / max(1, n * (n - 1))
    return CommonMode(float(torch.stack(list(terms)).sum(0).norm()), float(cosine))


def length(x: Tensor) -> Tensor:
    """The root mean square over tokens of their lengths."""
    return x.square().sum(-1).mean().sqrt()


class Watch:
    """Takes R in one forward pass of a model of ours, which leaves it in ``found``."""

    found: CommonMode

    def __init__(self, model: Model) -> None:
        *_, self.part = model.parts.values()
        self.residuals = [m for m in self.part.modules() if isinstance(m, Residual)]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this context a forward pass of the model leaves ``found``."""
        terms, streams = list[Tensor](), list[Tensor]()  # the stream's length before each sublayer
        handles = [self.part.register_forward_hook(partial(self._end, terms))]
        for residual in self.residuals:
            places = residual.placement.places
            last = residual.norms[places.index("output")] if "output" in places else residual.branch
            handles += [
                residual.register_forward_pre_hook(
                    lambda _, given: streams.append(length(tokens_of(given[0])))
                ),
                last.register_forward_hook(partial(self._add, terms, residual, streams)),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @torch.no_grad()
    def _add(
        self, terms: list[Tensor], residual: Residual, streams: list[Tensor], branch: nn.Module,
        inputs: object, moved: Tensor,
    ) -> None:  # fmt: skip
        stream, times = residual.placement.coefficients(residual.alpha)
        beside = streams[-1] if residual.placement.normalises_sum else streams[0]
        terms.append(tokens_of(moved).mean(0) * (times / stream) / beside)

    @torch.no_grad()
    def _end(self, terms: list[Tensor], part: nn.Module, inputs: object, output: Tensor) -> None:
        self.found = common_to(terms, tokens_of(output))


@dataclass(frozen=True)
class Ended:
    """What one run ends with: a ``value``, NaN where it diverged, and ``why``.

    ``losses`` are those of each step while they are finite, ``taken`` R and the cosine between
    tokens at ``steps``. ``normed`` says that a norm takes every sum back.
    """

    value: float
    baseline: float | None
    why: str = ""
    losses: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    taken: tuple[CommonMode, ...] = ()
    normed: bool = False


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


def with_taken(ended: Ended, taken: Mapping[int, CommonMode], normed: bool) -> Ended:
    """The run with what was taken while its losses were finite."""
    kept = {step: one for step, one in taken.items() if step < len(ended.losses)}
    return replace(ended, steps=tuple(kept), taken=tuple(kept.values()), normed=normed)


def run_of(rule: str, depth: dict[str, int], seeds: Sequence[Ended]) -> Run:
    """The runs of all seeds as one, with the largest R of them and their mean cosine."""
    if not seeds:
        return Run(rule, depth)
    finding = next((one.why for one in seeds if one.why), "")
    each = list(zip(*(one.taken for one in seeds), strict=False))
    return Run(
        rule, depth, tuple(map(fmean, zip(*(one.losses for one in seeds), strict=False))),
        () if finding else tuple(one.value for one in seeds), finding,
        min((one.steps for one in seeds), key=len),
        tuple(max(one.weight for one in now) for now in each),
        tuple(fmean(one.cosine for one in now) for now in each),
    )  # fmt: skip


def warning(normed: bool, run: Run) -> str:
    """A sentence where a common part drowns what is a token's own; empty where none does.

    ``normed`` says that a norm takes every sum back.
    """
    for step, weight in zip(run.common_mode_steps, run.common_mode, strict=True):
        divided = math.cosh(min(weight, 700.0)) if normed else math.hypot(1, weight)
        if divided * DROWNED > 1:
            return (
                f"at step {step} the branches move all tokens in one direction, R = {weight:.1f} "
                "beside the stream: what is a token's own is divided by "
                f"{'cosh(R)' if normed else 'sqrt(1 + R**2)'} = {divided:.0f}; start the head's "
                "bias at the log of the text's token frequencies (deepnet_theory.start_head_), or "
                "take a lower learning rate"
            )
    return ""
