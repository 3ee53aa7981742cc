"""Power: how often the laboratory accepts a right rule, and rejects a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

import numpy as np
from scipy.special import betaincinv

from deepnet_theory.numeric.judging.statistics import Array, Interval, fit_exponent, judge
from deepnet_theory.numeric.measuring.model_update import measure_model_update
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.depths import Depth
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.threads import fitting_threads
from deepnet_theory.processes import Job, Work, run_where
from deepnet_theory.runtime.machine import in_threads
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

STACKED = 10  # experiments that are measured together


@dataclass(frozen=True)
class Power:
    """The verdicts of repeated experiments on one rule against one predicted exponent."""

    verdicts: tuple[Verdict, ...]
    exponents: tuple[float, ...]

    def share(self, verdict: Verdict) -> Interval:
        """The share of experiments with ``verdict``, with its exact binomial 95% interval.

        Source: Clopper and Pearson, 1934.
        """
        n, k = len(self.verdicts), self.verdicts.count(verdict)
        low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, 0.025))
        high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 0.975))
        return Interval(k / n, low, high)


def measure_power(
    selection: Selection,
    rule: Rule,
    predicted: float,
    depths: Sequence[Depth],
    settings: Settings,
    *,
    rivals: Sequence[tuple[str, float]] = (),
    experiments: int = 200,
    **work: Unpack[Work],
) -> Power:
    """Repeat the measurement of one exponent with fresh data and weights, and judge each.

    Every experiment has ``settings.seeds`` seeds of its own; several are stacked into one
    batch, which changes nothing, since seeds never meet. ``work`` says who does the batches.
    """
    batches: dict[int, Array] = {}  # by the number of its first experiment
    jobs = []
    for first in range(0, experiments, STACKED):
        count = min(STACKED, experiments - first)
        together = replace(settings, seeds=count * settings.seeds, seed=settings.seed + first)
        with fitting_threads(together) as threads:
            some = partial(_repeat, selection, rule, tuple(depths), together, count)
            keep = partial(batches.__setitem__, first)
            jobs.append(
                Job("repeated experiments", count, partial(in_threads, threads, some), keep)
            )
    run_where(jobs, experiments, **work)
    variable = selection.the_stack.depths[0]
    layers = [depth[variable] for depth in depths]
    fits = [fit_exponent(layers, one) for first in sorted(batches) for one in batches[first]]
    return Power(
        tuple(judge(fit.interval, predicted, rivals)[0] for fit in fits),
        tuple(fit.interval.estimate for fit in fits),
    )


def _repeat(
    selection: Selection,
    rule: Rule,
    depths: Sequence[Depth],
    together: Settings,
    count: int,
) -> Array:
    """‖ΔF‖/η of ``count`` experiments, (experiments, seeds, depths)."""
    updates = [
        measure_model_update(Case(selection, rule, depth, together), draws=together.draws)
        for depth in depths
    ]
    values = np.array([update.values for update in updates])
    return values.T.reshape(count, -1, len(depths))
