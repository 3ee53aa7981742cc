"""Power: how often the laboratory accepts a right rule, and rejects a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv

from deepnet_theory.numeric.depths import Depth
from deepnet_theory.numeric.model_update import ModelUpdate, measure_model_update, next_eta
from deepnet_theory.numeric.progress import Progress, silent
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.statistics import Interval, fit_exponent, judge
from deepnet_theory.numeric.threads import fitting_threads
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
) -> Power:
    """Repeat the measurement of one exponent with fresh data and weights, and judge each.

    Every experiment has ``settings.seeds`` seeds of its own; several are stacked into one
    batch, which changes nothing, since seeds never meet.
    """
    report = silent if progress is None else progress
    variable = selection.the_stack.depths[0]
    verdicts: list[Verdict] = []
    exponents: list[float] = []
    while len(verdicts) < experiments:
        report(len(verdicts), experiments, "repeated experiments")
        count = min(STACKED, experiments - len(verdicts))
        together = replace(
            settings, seeds=count * settings.seeds, seed=settings.seed + len(verdicts)
        )
        updates: list[ModelUpdate] = []
        columns = []
        with fitting_threads(together):
            for depth in depths:
                update = measure_model_update(
                    selection,
                    rule,
                    depth,
                    together,
                    eta=next_eta(depth, updates),
                    draws=settings.draws,
                )
                updates.append(update)
                columns.append(update.values)
        values = np.array(columns).T.reshape(count, settings.seeds, len(depths))
        for one in values:
            fit = fit_exponent([d[variable] for d in depths], one)
            verdicts.append(judge(fit.interval, predicted, rivals)[0])
            exponents.append(fit.interval.estimate)
    report(experiments, experiments, "done")
    return Power(tuple(verdicts), tuple(exponents))
