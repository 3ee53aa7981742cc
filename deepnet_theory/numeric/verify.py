"""Verify: measure a rule's exponents and its premises on real stacks, and judge them."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Unpack

import numpy as np
import scipy
import torch

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.numeric.judging import (
    ALL,
    Arrival,
    Plan,
    find_arrival,
    judge_assumption,
    judge_exponent,
    judge_level,
    plan_exponents,
    ratio_interval,
    varies_alone,
)
from deepnet_theory.numeric.model_update import LINEAR, ModelUpdate, counts
from deepnet_theory.numeric.one_sublayer import BLOCK, ERROR, PREDICTED, PredictedUpdate
from deepnet_theory.numeric.premises import quantity
from deepnet_theory.numeric.schedule import Record, Schedule, share_key, updates_share
from deepnet_theory.numeric.settings import (
    Settings,
    fitting_processes,
    fitting_threads,
    require_memory,
)
from deepnet_theory.numeric.statistics import Array, positive_interval
from deepnet_theory.numeric.stepping import running_of
from deepnet_theory.processes import Work, run_until_stopped, silent
from deepnet_theory.spec.assumption import Assumption
from deepnet_theory.spec.errors import INTERRUPTION, InputError
from deepnet_theory.spec.results.measurement import (
    AssumptionResult,
    Exponent,
    Level,
    MeasuredShare,
    Point,
    Prediction,
    Predictions,
    Verification,
)
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.scheme import Scheme
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

Watch = Callable[[Point], None]  # receives each point as soon as it is measured
NEEDS_LESS = "fewer tokens, seeds or layers, a smaller batch or width, or fewer processes need less"


def verify(
    selection: Selection,
    rule: Rule,
    predictions: Predictions,
    depths: Iterable[Depth],
    settings: Settings,
    *,
    watch: Watch | None = None,
    shares: bool = False,
    scheme: Scheme | None = None,
    **work: Unpack[Work],
) -> Verification:
    """Measure ‖ΔF‖/η per token of ``rule`` at ``depths`` and test what was predicted of it.

    The verdict is that of the first exponent: SUPPORTED needs the interval inside the tolerance,
    the rivals excluded and linear steps. Assumptions of ``predictions`` are measured beside it,
    with ``shares`` each kind of parameter at the deepest depth. ``watch`` receives each depth's
    point. A published ``scheme``, whose texts ``rule`` then has, is measured in its place. ``work``
    says who does it, with the same result. Ctrl-C, a process that dies or a lack of memory gives
    the partial result, UNDECIDED, with the reason in ``stopped``.

    Raises :class:`InputError` where the depths give no exponent, the rule has no value at one of
    them, or memory does not suffice.
    """
    began = time.perf_counter()
    wanted = list(depths)
    rule = rule.plain()  # it goes to other processes, which need no SymPy

    def case_at(depth: Depth) -> Case:
        return Case(selection, rule, depth, settings, scheme=scheme)

    for depth in wanted:  # a rule without a value somewhere is refused before measuring
        _ = case_at(depth).constants, case_at(depth).eta_factor
    require_memory(selection, wanted, settings)
    plans = plan_exponents(selection, predictions, wanted)
    names = list(dict.fromkeys(a.measurement for a in predictions.assumptions if a.measurement))
    for name in names:
        quantity(name)  # an unknown one is refused likewise
    record = Record()
    warnings = list(predictions.warnings)
    parts = [p.prediction.share for p in plans if p.prediction.share != ALL]
    if settings.updates > 1:
        running_of(selection.the_optimizer)  # one that has a first step alone is refused
    work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    with fitting_threads(settings) as threads:
        schedule = Schedule(
            case_at, record, names, parts,
            lambda update: watch and watch(_point(update, record)), threads,
            predicted=case_at(wanted[0]).alike, by_kind=shares,
        )  # fmt: skip
        total = schedule.cost(wanted)
        stopped = run_until_stopped(schedule.jobs(wanted), total, **work)
        if not stopped:
            (work.get("progress") or silent)(total, total, "done")
    measured = [d for d in wanted if depth_key(d) in record.updates]
    if stopped:
        if not measured and stopped != INTERRUPTION:
            raise InputError(f"{stopped}: {NEEDS_LESS}")
        warnings.append(f"{stopped}: {len(measured)} of {len(wanted)} depths were measured")
    if settings.torch_device.type == "cuda":
        warnings.append(
            "measured on CUDA: repeatable bit for bit only where torch warns of nothing"
        )
    warnings += _findings(record, measured)
    later = (updates_share(n) for n in counts(settings.updates))  # nothing predicts these
    several = [
        Plan(Prediction(plan.prediction.variable, share, None), plan.total)
        for share in later
        for plan in plans
        if plan.prediction.share == ALL
    ]
    exponents = tuple(_judged(plan, record, wanted, case_at) for plan in (*plans, *several))
    assumptions = tuple(_assumption(a, record, measured) for a in predictions.assumptions)
    return Verification(
        select=case_at(wanted[0]).select,
        measure={**settings.to_dict(), "depths": [depth_key(d) for d in wanted]},
        rule=asdict(rule),
        points=tuple(_point(record.updates[depth_key(d)], record) for d in measured),
        exponents=exponents,
        assumptions=assumptions,
        verdict=Verdict.UNDECIDED if stopped else exponents[0].verdict,
        seconds=time.perf_counter() - began,
        **machine_of(settings, threads),
        checks=record.checks(),
        warnings=tuple(warnings),
        stopped=stopped,
        level=_level(record, measured),
        shares=tuple(_shares(record)) if measured[-1:] == wanted[-1:] else (),
    )


def _judged(
    plan: Plan, record: Record, wanted: Sequence[Depth], case_at: Callable[[Depth], Case]
) -> Exponent:
    share = plan.prediction.share
    rows = {key: update.values for key, update in record.updates.items()}
    if share != ALL:
        there = record.samples.get(share_key(share), {})
        rows = {key: tuple(there[key]) for key in rows if key in there}
    depths = [d for d in wanted if depth_key(d) in rows]
    values = np.array([rows[depth_key(d)] for d in depths], dtype=float).T
    updates = [record.updates[depth_key(d)] for d in depths]
    expected = _samples(record, f"{PREDICTED} {share}", depths)

    def arrival(exponent: float) -> Arrival | None:
        symbols = list(depths[-1]) if plan.total else [plan.prediction.variable]
        return find_arrival(case_at, depths[-1], symbols, exponent) if share == ALL else None

    return judge_exponent(plan, depths, values, updates, len(wanted), expected, arrival)


def _samples(record: Record, name: str, depths: Sequence[Depth]) -> Array | None:
    """A quantity at every depth, (seeds, depths); None where one lacks it."""
    rows = record.samples.get(name, {})
    keys = [depth_key(d) for d in depths]
    if not keys or not rows.keys() >= {*keys}:
        return None
    return np.array([rows[key] for key in keys], dtype=float).T


def _level(record: Record, depths: Sequence[Depth]) -> Level | None:
    expected, identity = (_samples(record, name, depths) for name in (f"{PREDICTED} {ALL}", BLOCK))
    if expected is None or identity is None:
        return None
    measured = np.array([record.updates[depth_key(d)].values for d in depths], dtype=float).T
    return judge_level(depths, measured, expected, identity)


def _shares(record: Record) -> Iterator[MeasuredShare]:
    for measured, expected in record.kinds:
        for key, values in measured.items():
            ruled, ratio = expected[key], tuple[float, ...]()
            if min(*values, *ruled.values) > 0:
                ratio = ratio_interval(np.array(values), np.array(ruled.values)).numbers
            sizes = *positive_interval(values).numbers, ruled.mean, *ruled.interval_given_data
            yield MeasuredShare(*key, *sizes, *ratio)


def _point(update: ModelUpdate, record: Record) -> Point:
    key, values, samples = depth_key(update.depth), update.values, record.samples
    interval = positive_interval(values)
    point = Point(dict(update.depth), *interval.numbers, len(values), values, update.finding)
    predicted, errors = (samples.get(f"{name} {ALL}", {}).get(key) for name in (PREDICTED, ERROR))
    if predicted is None or errors is None:
        return point
    found = PredictedUpdate(update.depth, tuple(predicted), tuple(errors))
    low, high = found.interval_given_data  # a point is measured on the same data
    return replace(point, predicted=found.mean, predicted_low=low, predicted_high=high)


def _assumption(a: Assumption, record: Record, depths: Sequence[Depth]) -> AssumptionResult:
    there = record.samples.get(a.measurement or "", {})
    depths = [d for d in depths if depth_key(d) in there]
    if a.measurement is None or not depths:
        because = "not measured" if a.measurement is None else "no depth was measured"
        return AssumptionResult(a.name, Verdict.ASSUMED, None, None, None, a.statement, because)
    values = np.array([there[depth_key(d)] for d in depths], dtype=float).T
    # The first depth that varies carries the slope, with the others held fixed.
    variable = next((s for s in depths[0] if varies_alone(s, depths)), None)
    groups = [tuple(n for s, n in d.items() if variable and s != variable) for d in depths]
    carrier = variable or next(iter(depths[0]))
    return judge_assumption(a, [d[carrier] for d in depths], values, groups)


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


def machine_of(settings: Settings, threads: int) -> dict[str, Any]:
    """What a measurement was made on, as the fields of a result."""
    device = settings.torch_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    libraries = {one.__name__: one.__version__ for one in (torch, np, scipy)}
    versions = {"python": platform.python_version(), **libraries, "threads": str(threads)}
    return {"device": name, "versions": versions}
