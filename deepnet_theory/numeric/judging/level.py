"""The level: measured ‖ΔF‖/η against what single sublayers predict of it in absolute size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deepnet_theory.numeric.judging.statistics import Array, Interval, t_interval
from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.sampled import NEAR
from deepnet_theory.spec.results.verification import Level
from deepnet_theory.spec.verdict import Verdict

LEVEL = 0.05  # a size within this share of the prediction is equivalent to it
ORDER = (Verdict.REFUTED, Verdict.UNDECIDED, Verdict.SUPPORTED)


def ratio_interval(measured: Array, predicted: Array) -> Interval:
    r"""Measured over predicted, paired by seed, with an interval made in logarithms.

    .. math:: \exp\Bigl(\overline{\log(b/\hat b)} \pm t_{n-1}\,s/\sqrt n\Bigr)
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = t_interval(np.log(measured / predicted))
        return Interval(*(float(np.exp(x)) for x in (logs.estimate, logs.low, logs.high)))


def judge_level(
    depths: Sequence[Depth], measured: Array, expected: Array, identity: Array
) -> Level | None:
    """The verdict on the sizes at every depth, (seeds, depths): that of the worst one.

    SUPPORTED where the interval of the ratio lies within ``LEVEL`` of 1, REFUTED where it lies
    beyond, UNDECIDED between them, and where the blocks of the prediction are not near the
    ``identity``, by their S·r².
    None where there is no depth.
    """
    found = []
    for index, depth in enumerate(depths):
        ratio = ratio_interval(measured[:, index], expected[:, index])
        distance = float(identity[:, index].mean())
        low, high = 1 - LEVEL, 1 + LEVEL
        shown = f"at {depth_key(depth)} [{ratio.low:.3f}, {ratio.high:.3f}] of the prediction"
        if not math.isfinite(ratio.estimate):
            verdict, because = Verdict.UNDECIDED, f"nothing finite at {depth_key(depth)}"
        elif not distance <= NEAR:
            verdict = Verdict.UNDECIDED
            because = f"{shown}, which does not reach it: S·r² = {distance:.3g} is above {NEAR:g}"
        elif ratio.within(low, high):
            verdict, because = Verdict.SUPPORTED, f"{shown}, inside 1 ± {LEVEL:g}"
        elif ratio.outside(low, high):
            verdict, because = Verdict.REFUTED, f"{shown}, beyond 1 ± {LEVEL:g}"
        else:
            verdict, because = Verdict.UNDECIDED, f"{shown}, not inside 1 ± {LEVEL:g} nor beyond"
        far = abs(math.log(ratio.estimate)) if 0 < ratio.estimate < math.inf else math.inf
        level = Level(dict(depth), ratio.estimate, ratio.low, ratio.high, verdict, because)
        found.append((ORDER.index(verdict), -far, index, level))
    return min(found)[3] if found else None
