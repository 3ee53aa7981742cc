"""One run of some steps, what it ends with, and the runs of all seeds as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from torch import Tensor

from deepnet_theory.definitions.measurement import Run
from deepnet_theory.laboratory.common_mode import CommonMode


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
