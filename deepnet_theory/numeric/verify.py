"""Verify: measure a rule's exponents and its premises on real stacks, and judge them."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import scipy
import torch

from deepnet_theory.numeric.judging.criteria import judge_assumption
from deepnet_theory.numeric.judging.statistics import (
    Array,
    fit_exponent,
    judge,
    still_arriving,
    t_interval,
)
from deepnet_theory.numeric.measuring.measurement import measurement
from deepnet_theory.numeric.measuring.model_update import (
    LINEAR,
    ModelUpdate,
)
from deepnet_theory.numeric.running.progress import Progress, Watch, silent
from deepnet_theory.numeric.running.record import Record, resume_record, rule_to_dict
from deepnet_theory.numeric.running.schedule import Schedule, share_key
from deepnet_theory.numeric.running.workers import Job, Workers
from deepnet_theory.numeric.stacks.constants import constants_for
from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.threads import fitting_processes, fitting_threads
from deepnet_theory.spec.assumption import Assumption
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.prediction import Prediction, Predictions
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.spec.verification import AssumptionResult, Exponent, Point, Verification

ALL = "all"


def verify(
    selection: Selection,
    rule: Rule,
    predictions: Predictions,
    depths: Iterable[Depth],
    settings: Settings,
    *,
    progress: Progress | None = None,
    watch: Watch | None = None,
    resume: Verification | str | Path | None = None,
    processes: int | None = 1,
) -> Verification:
    r"""Measure ‖ΔF‖/η per token of ``rule`` at ``depths`` and test what was predicted of it.

    The verdict is that of the first exponent: SUPPORTED needs the interval inside the
    tolerance, the rivals excluded and steps that are linear. Each assumption of
    ``predictions`` is measured beside it; ``watch`` receives each depth's point. An interrupt
    (Ctrl-C) ends the measuring and gives the partial result, which ``resume`` takes up again,
    as does its file. ``processes`` share the work where the device is the CPU (None: one a
    core, where the work is long); the result is the same whatever their number.

    Raises :class:`InputError` where the depths give no exponent, the rule has no value at one
    of them, or ``resume`` belongs to another measurement.
    """
    began = time.perf_counter()
    wanted = list(depths)
    for depth in wanted:  # a rule without a value somewhere is refused before measuring
        constants_for(selection, rule, depth, settings)
        rule.eta_at(**depth)
    plans = plan_exponents(selection, predictions, wanted)
    for assumption in predictions.assumptions:
        if assumption.measurement is not None:
            measurement(assumption.measurement)  # an unknown one is refused likewise
    record = resume_record(resume, selection, rule, settings)
    warnings = list(predictions.warnings)
    count = fitting_processes(processes, wanted, settings)
    names = [a.measurement for a in predictions.assumptions if a.measurement is not None]
    shares = [p.prediction.share for p in plans if p.prediction.share != ALL]
    schedule = Schedule(
        selection, rule, settings, record, names, shares,
        lambda update: None if watch is None else watch(_point(update)),
    )  # fmt: skip
    with fitting_threads(settings, count) as threads:
        try:
            _measure(schedule, wanted, progress, count)
        except KeyboardInterrupt:
            done = len(_measured(record, wanted))
            warnings.append(
                f"interrupted: {done} of {len(wanted)} depths were measured; resume to go on"
            )
    measured = _measured(record, wanted)
    if settings.torch_device.type == "cuda":
        warnings.append("measured on CUDA: not repeatable bit for bit")
    warnings += _findings(record, measured)
    exponents = tuple(_exponent(plan, record, measured) for plan in plans)
    assumptions = tuple(_assumption(a, record, measured) for a in predictions.assumptions)
    return Verification(
        select=selection.to_dict(),
        measure={**settings.to_dict(), "depths": [depth_key(d) for d in wanted]},
        rule=rule_to_dict(rule),
        points=tuple(_point(record.updates[depth_key(d)]) for d in measured),
        exponents=exponents,
        assumptions=assumptions,
        verdict=exponents[0].verdict,
        device=_device(settings),
        seconds=time.perf_counter() - began,
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "threads": str(threads),
        },
        checks=record.checks(),
        warnings=tuple(warnings),
    )


class Plan:
    """One exponent to be fitted: of which share, in which depth, with which others held fixed."""

    def __init__(self, prediction: Prediction, wanted: Sequence[Depth], total: bool) -> None:
        self.prediction = prediction
        self.total = total  # the depths grow together: the exponents add

    @property
    def key(self) -> str:
        """The name of the share's samples."""
        return share_key(self.prediction.share)

    def groups(self, depths: Sequence[Depth]) -> list[object]:
        """The depths that are held fixed, for each point."""
        if self.total:
            return [None] * len(depths)
        variable = self.prediction.variable
        return [tuple(n for s, n in d.items() if s != variable) for d in depths]


def plan_exponents(
    selection: Selection, predictions: Predictions, depths: Sequence[Depth]
) -> list[Plan]:
    """Which exponents these depths can give.

    An exponent in N needs two depths that differ in N alone. Where every depth has the same
    ratio of N to M the sum of both exponents is fitted, as one exponent in N. Raises
    :class:`InputError` where the depths give neither.
    """
    symbols = selection.the_stack.depths
    given = predictions.exponents or tuple(Prediction(s, ALL, None) for s in symbols)
    free = [s for s in symbols if _varies_alone(s, depths)]
    if free:
        found = [Plan(p, depths, total=False) for p in given if p.variable in free]
        if found:
            return found
    ratios = {Fraction(*d.values()) for d in depths} if len(symbols) == 2 else set()
    if len(depths) < 2 or len(ratios) != 1:
        shown = ", ".join(depth_key(d) for d in depths)
        raise InputError(
            f"the depths {shown} give no exponent: two that differ in "
            f"{' or in '.join(symbols)} alone are needed"
            + (", or equal ratios of N to M" if len(symbols) == 2 else "")
        )
    return [Plan(_sum_of(p, given), depths, total=True) for p in given if p.variable == symbols[0]]


def _varies_alone(symbol: str, depths: Sequence[Depth]) -> bool:
    seen: dict[tuple[int, ...], set[int]] = {}
    for d in depths:
        others = tuple(n for s, n in d.items() if s != symbol)
        seen.setdefault(others, set()).add(d[symbol])
    return any(len(values) > 1 for values in seen.values())


def _sum_of(first: Prediction, given: Sequence[Prediction]) -> Prediction:
    """The prediction where all depths grow together: exponents of the same share add."""
    same = [p for p in given if p.share == first.share]
    exponents = [p.exponent for p in same]
    total = None if None in exponents else sum((e for e in exponents if e), Fraction(0))
    by_name = [dict(p.rivals) for p in same]
    rivals = tuple((n, sum((r[n] for r in by_name), Fraction(0))) for n in by_name[0])
    return Prediction(first.variable, first.share, total, rivals)


def _measure(
    schedule: Schedule,
    depths: Sequence[Depth],
    progress: Progress | None,
    processes: int,
) -> None:
    """Do what the schedule still misses at these depths."""
    report = silent if progress is None else progress
    layers = [sum(depth.values()) for depth in depths]
    total, done = float(sum(layers) * schedule.stages + layers[0] + layers[-1]), 0.0

    def before(job: Job) -> None:
        report(done, total, job.what)

    def after(job: Job) -> None:
        nonlocal done
        done += job.cost
        if processes > 1:
            report(done, total, job.what)

    report(done, total, "starting")
    with Workers(processes, before, after) as workers:
        for depth, cost in zip(depths, layers, strict=True):
            report(done, total, f"model update at depth {depth_key(depth)}")
            schedule.first_draw(depth)
            done += cost
            for job in schedule.further(depth):
                workers.do(job)
        for depth in (depths[0], depths[-1]):
            for job in schedule.reference(depth):
                workers.do(job)
    report(total, total, "done")


def _measured(record: Record, depths: Sequence[Depth]) -> list[Depth]:
    return [d for d in depths if depth_key(d) in record.updates]


def _values(record: Record, share: str, key: str, depths: Sequence[Depth]) -> Array:
    if share == ALL:
        columns = [record.updates[depth_key(d)].values for d in depths]
    else:
        columns = [tuple(record.samples[key][depth_key(d)]) for d in depths]
    return np.array(columns, dtype=float).T


def _point(update: ModelUpdate) -> Point:
    interval = t_interval(update.values)
    return Point(
        depth=dict(update.depth),
        mean=interval.estimate,
        low=interval.low,
        high=interval.high,
        seeds=len(update.values),
        values=update.values,
        finding=update.finding,
    )


def _exponent(plan: Plan, record: Record, depths: Sequence[Depth]) -> Exponent:
    prediction = plan.prediction
    variable, share = prediction.variable, prediction.share
    predicted = None if prediction.exponent is None else float(prediction.exponent)
    rivals = [(name, float(e)) for name, e in prediction.rivals]
    if share != ALL:
        there = record.samples.get(plan.key, {})
        depths = [d for d in depths if depth_key(d) in there]
    if not (_varies_alone(variable, depths) if not plan.total else len(depths) > 1):
        nan = math.nan
        because = "too few depths were measured"
        return Exponent(
            variable, share, nan, nan, nan, predicted, Verdict.UNDECIDED, because, None,
            tuple(rivals),
        )  # fmt: skip
    values = _values(record, share, plan.key, depths)
    fit = fit_exponent([d[variable] for d in depths], values, plan.groups(depths))
    verdict, because = judge(fit.interval, predicted, rivals)
    if verdict is Verdict.REFUTED and still_arriving(fit, predicted) and fit.drift is not None:
        verdict = Verdict.UNDECIDED
        because += (
            f"; but the local slope has not settled, it moves toward the prediction, from "
            f"{fit.drift[0]:+.3f} to {fit.drift[1]:+.3f}: measure deeper"
        )
    if plan.total:
        because = f"all depths grow together, so the exponents add; {because}"
    updates = [record.updates[depth_key(d)] for d in depths if d[variable] >= fit.fitted_from]
    bent = [u for u in updates if not u.second_order < LINEAR]
    if verdict is Verdict.SUPPORTED and bent:
        verdict = Verdict.UNDECIDED
        because += f"; but at depth {depth_key(bent[0].depth)} the step was not linear"
    lost = values.shape[0] - len(fit.per_seed)
    if lost:
        because += f"; {lost} of {values.shape[0]} seeds were not finite and are left out"
        verdict = Verdict.UNDECIDED if verdict is Verdict.SUPPORTED else verdict
    return Exponent(
        variable=variable,
        share=share,
        estimate=fit.interval.estimate,
        low=fit.interval.low,
        high=fit.interval.high,
        predicted=predicted,
        verdict=verdict,
        because=because,
        fitted_from=fit.fitted_from,
        rivals=tuple(rivals),
    )


def _assumption(a: Assumption, record: Record, depths: Sequence[Depth]) -> AssumptionResult:
    there = record.samples.get(a.measurement or "", {})
    depths = [d for d in depths if depth_key(d) in there]
    if a.measurement is None or not depths:
        because = "not measured" if a.measurement is None else "no depth was measured"
        return AssumptionResult(a.name, Verdict.ASSUMED, None, None, None, a.statement, because)
    values = np.array([there[depth_key(d)] for d in depths], dtype=float).T
    symbols = list(depths[0])
    # The first depth that varies carries the slope, with the others held fixed.
    variable = next((s for s in symbols if _varies_alone(s, depths)), symbols[0])
    groups = [tuple(n for s, n in d.items() if s != variable) for d in depths]
    if not _varies_alone(variable, depths):
        groups = [()] * len(depths)
    return judge_assumption(a, [d[variable] for d in depths], values, groups)


def _findings(record: Record, depths: Sequence[Depth]) -> list[str]:
    found = []
    for depth in depths:
        update = record.updates[depth_key(depth)]
        if update.finding:
            found.append(update.finding)
        elif not update.second_order < LINEAR:
            found.append(
                f"at depth {depth_key(depth)} the second-order part of the step is "
                f"{update.second_order:.1%}: try float64"
            )
    return found


def _device(settings: Settings) -> str:
    device = settings.torch_device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
