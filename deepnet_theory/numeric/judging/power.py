"""Power: how often the laboratory accepts a right rule, and rejects a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import betaincinv

from deepnet_theory.numeric.judging.statistics import Array, Interval, fit_exponent, judge
from deepnet_theory.numeric.measuring.model_update import (
    ModelUpdate,
    measure_model_update,
    next_eta,
)
from deepnet_theory.numeric.running.progress import Progress, silent
from deepnet_theory.numeric.running.workers import Job, Workers
from deepnet_theory.numeric.stacks.depths import Depth
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.threads import fitting_threads
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
    progress: Progress | None = None,
    processes: int = 1,
) -> Power:
    """Repeat the measurement of one exponent with fresh data and weights, and judge each.

    Every experiment has ``settings.seeds`` seeds of its own; several are stacked into one
    batch, which changes nothing, since seeds never meet. ``processes`` share the batches.
    """
    report = silent if progress is None else progress
    batches: dict[int, Array] = {}  # by the number of its first experiment
    done = 0

    def after(job: Job) -> None:
        nonlocal done
        done += int(job.cost)
        report(done, experiments, job.what)

    report(0, experiments, "repeated experiments")
    with Workers(processes, lambda job: None, after) as workers:
        for first in range(0, experiments, STACKED):
            count = min(STACKED, experiments - first)
            workers.do(
                Job(
                    "repeated experiments",
                    count,
                    partial(_repeat, selection, rule, tuple(depths), settings, first, count),
                    partial(batches.__setitem__, first),
                )
            )
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
    settings: Settings,
    first: int,
    count: int,
) -> Array:
    """‖ΔF‖/η of ``count`` experiments, (experiments, seeds, depths)."""
    together = replace(settings, seeds=count * settings.seeds, seed=settings.seed + first)
    updates: list[ModelUpdate] = []
    with fitting_threads(together):
        for depth in depths:
            eta = next_eta(depth, updates)
            updates.append(
                measure_model_update(
                    selection, rule, depth, together, eta=eta, draws=settings.draws
                )
            )
    values = np.array([update.values for update in updates])
    return values.T.reshape(count, settings.seeds, len(depths))
