"""Verify and predict: ‖ΔF‖/η of a rule on real stacks and from single sublayers, and its judgement.

What is still to be done are jobs, which any executor does; what has come is a :class:`Record`.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any, TypeVar, Unpack

import numpy as np
import scipy
import torch

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.measurement import (
    AssumptionResult,
    Exponent,
    Level,
    MeasuredShare,
    Point,
    PredictedPoint,
    PredictedShare,
    Prediction,
    Predictions,
    UpdatePrediction,
    Verification,
)
from deepnet_theory.definitions.outcome import INTERRUPTION, InputError, Refusal, Verdict
from deepnet_theory.definitions.rule import Rule
from deepnet_theory.definitions.scheme import Scheme
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.case import NEAR, Case
from deepnet_theory.laboratory.judging import (
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
from deepnet_theory.laboratory.model_update import (
    LINEAR,
    ModelUpdate,
    RealStep,
    average_draws,
    compare_with_real_step,
    counts,
    further_draws,
    measure_draw,
    measure_model_update,
    measure_updates,
)
from deepnet_theory.laboratory.one_sublayer import (
    BLOCK,
    ERROR,
    IDENTITY,
    PREDICTED,
    Key,
    PredictedUpdate,
    Shares,
    compare_shares,
    predict_samples,
    predict_shares,
)
from deepnet_theory.laboratory.settings import (
    Depth,
    Settings,
    by_depth,
    depth_key,
    fitting_processes,
    fitting_threads,
    require_memory,
)
from deepnet_theory.laboratory.statistics import Array, positive_interval
from deepnet_theory.laboratory.stepping import running_of
from deepnet_theory.laboratory.trace import Probe, quantity
from deepnet_theory.processes import Job, Work, per_seed, run_until_stopped, run_where, silent
from deepnet_theory.runtime import Description
from deepnet_theory.runtime.machine import in_threads

T = TypeVar("T")
Samples = dict[str, list[float]]  # by name, one value a seed
Keep = Callable[[T], Iterable[Job] | None]
Watch = Callable[[Point], None]  # receives each point as soon as it is measured
NEEDS_LESS = "fewer tokens, seeds or layers, a smaller batch or width, or fewer processes need less"


@dataclass
class Record:
    """Model updates by depth, samples by quantity and depth, and the deepest one's ``kinds``."""

    updates: dict[str, ModelUpdate] = field(default_factory=dict)
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    references: dict[str, RealStep] = field(default_factory=dict)
    kinds: list[tuple[Shares, dict[Key, PredictedUpdate]]] = field(default_factory=list)

    def keep(self, key: str, samples: Samples) -> None:
        for name, values in samples.items():
            self.samples.setdefault(name, {})[key] = values

    def measured(self, share: str) -> Mapping[str, Sequence[float]]:
        """‖ΔF‖/η by depth, of the whole step or of one share."""
        if share == ALL:
            return {key: update.values for key, update in self.updates.items()}
        return self.samples.get(share_key(share), {})

    def table(self, name: str, depths: Sequence[Depth]) -> Array | None:
        """A quantity at every depth, (seeds, depths); None where one lacks it."""
        rows = self.samples.get(name, {})
        lacking = [d for d in depths if depth_key(d) not in rows]
        return _table(rows, depths) if depths and not lacking else None

    def checks(self) -> dict[str, Any]:
        """Plain data for a verification's ``checks``, in order whatever came first."""
        return {
            "steps": [u.to_dict() for u in by_depth(self.updates).values()],
            "reference": list(by_depth(self.references).values()),
            "samples": {name: by_depth(self.samples[name]) for name in sorted(self.samples)},
        }


def _table(rows: Mapping[str, Sequence[float]], depths: Sequence[Depth]) -> Array:
    return np.array([rows[depth_key(d)] for d in depths], dtype=float).T


# ---- what is to be done, as jobs ----


def measuring(
    case: Case,
    what: str,
    cost: float,
    work: Callable[[], T],
    keep: Keep[T],
    threads: int,
    names: Iterable[object] = (),
) -> Job:
    """``work`` on a case as a job of ``threads`` threads, whose result has these ``names``."""
    alone = partial(in_threads, threads, work)
    return Job(what, cost, alone, keep, depends_on=alone, fits=partial(_fits, case, set(names)))


def _fits(case: Case, names: set[object], result: Any) -> bool:
    depth = result.get("depth") if isinstance(result, dict) else getattr(result, "depth", None)
    named = not names or names <= result.keys()
    return named and depth in (None, case.depth) and per_seed(result, case.settings.seeds)


def predicting(case: Case, keep: Keep[Samples], threads: int) -> Job:
    """What single sublayers say of a case, as a job: the same for a prediction by itself."""
    names = IDENTITY, BLOCK, f"{PREDICTED} {ALL}", f"{ERROR} {ALL}"
    what, work = f"one sublayer at depth {depth_key(case.depth)}", partial(predict_samples, case)
    return measuring(case, what, 1, work, keep, threads, names)


@dataclass
class Schedule:
    """What ``record`` is to hold of a depth, as jobs of ``threads`` threads.

    The first draw of a depth finds the size of its step by itself, so that what is measured there
    depends on the settings alone; all else follows it. Wanted are the measurements ``names``, the
    ``shares`` of ΔF, and where ``predicted`` what single sublayers say. ``complete`` receives each
    depth's model update.
    """

    record: Record
    names: Sequence[str]
    shares: Sequence[str]
    complete: Callable[[ModelUpdate], None]
    threads: int
    predicted: bool

    def jobs(self, case: Case, at_end: bool, by_kind: bool) -> Iterator[Job]:
        """The first job of a depth.

        ``at_end`` steps the real optimizer too, and ``by_kind`` every kind of parameter by itself.
        """
        key = depth_key(case.depth)
        first = self._job(
            case, "model update", partial(measure_model_update, case),
            partial(self._follow, case, at_end, by_kind),
        )  # fmt: skip
        if not self.predicted:
            yield first
            return

        def predicted(samples: Samples) -> list[Job]:
            self.record.keep(key, samples)
            return [first]

        yield predicting(case, predicted, self.threads)

    def _job(
        self, case: Case, what: str, work: Callable[[], T], keep: Keep[T],
        names: Iterable[object] = (), parts: int = 1,
    ) -> Job:  # fmt: skip
        """A job as dear as the case has layers, or one of several ``parts`` of it."""
        what, cost = f"{what} at depth {depth_key(case.depth)}", sum(case.depth.values()) / parts
        return measuring(case, what, cost, work, keep, self.threads, names)

    def _follow(self, case: Case, at_end: bool, by_kind: bool, first: ModelUpdate) -> Iterator[Job]:
        key, settings, record = depth_key(case.depth), case.settings, self.record
        job, sampled, probe = (
            partial(self._job, case),
            partial(record.keep, key),
            Probe(case, first),
        )
        draws = further_draws(first, settings.draws)
        drawn: dict[int, ModelUpdate] = {}

        def draw_came(draw: int, update: ModelUpdate) -> None:
            drawn[draw] = update
            if len(drawn) > len(draws):  # averaged in their order, whichever came first
                record.updates[key] = average_draws([drawn[i] for i in sorted(drawn)])
                self.complete(record.updates[key])

        draw_came(0, first)
        for draw in draws:
            work = partial(measure_draw, case, first.eta, draw)
            yield job("model update", work, partial(draw_came, draw), parts=len(draws))
        for share in self.shares:
            alone = partial(_share, probe, share)
            yield job(f"the share {share}", alone, sampled, [share_key(share)])
        if settings.updates > 1:
            names = [share_key(updates_share(n)) for n in counts(settings.updates)]
            yield job(f"{settings.updates} updates", partial(_updates, case), sampled, names)
        if self.names:
            measured = partial(_quantities, probe, self.names)
            yield job("assumptions", measured, sampled, self.names)
        if by_kind and self.predicted and not first.finding:
            compared = partial(compare_shares, case)
            yield job("every kind of parameter", compared, record.kinds.append)
        if at_end:
            real = partial(compare_with_real_step, case, first.eta)
            yield job("the real optimizer", real, partial(record.references.__setitem__, key))


def share_key(share: str) -> str:
    return f"share {share}"


def updates_share(count: int) -> str:
    return f"{count} updates"


def _share(probe: Probe, share: str) -> Samples:
    """What the parameters of a part, of a matrix by its name, or of a role move alone."""

    def chosen(d: Description) -> bool:
        return share in (d.part, d.name, d.role.value)

    return {share_key(share): probe.share(chosen, probe.case.settings.draws).tolist()}


def _updates(case: Case) -> Samples:
    return {share_key(updates_share(n)): values for n, values in measure_updates(case).items()}


def _quantities(probe: Probe, names: Sequence[str]) -> Samples:
    return {name: quantity(name)(probe).tolist() for name in names}


# ---- the two experiments ----


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
    cases = cases_of(selection, rule, depths, settings, scheme)
    wanted, first = [case.depth for case in cases], cases[0]
    require_memory(selection, wanted, settings)
    plans = plan_exponents(selection, predictions, wanted)
    names = list(dict.fromkeys(a.measurement for a in predictions.assumptions if a.measurement))
    for name in names:
        quantity(name)  # an unknown one is refused before measuring, as a rule without a value is
    record, warnings = Record(), list(predictions.warnings)
    parts = [p.prediction.share for p in plans if p.prediction.share != ALL]
    if settings.updates > 1:
        running_of(selection.the_optimizer)  # one that has a first step alone is refused
    work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    with fitting_threads(settings) as threads:
        predicted = first.alike
        schedule = Schedule(
            record, names, parts, lambda update: watch and watch(_point(update, record)), threads,
            predicted,
        )  # fmt: skip
        # the layers worked on, by stages; a prediction costs one at every depth
        layers = [sum(depth.values()) for depth in wanted]
        stages = 2 + len(parts) + bool(names) + (settings.updates > 1)
        ends = layers[0] + layers[-1] * (1 + (shares and predicted))
        total = float(sum(layers) * stages + ends + len(layers) * predicted)
        jobs = (
            job
            for case in cases
            for job in schedule.jobs(case, case in (first, cases[-1]), shares and case is cases[-1])
        )
        stopped = run_until_stopped(jobs, total, **work)
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
    later = (updates_share(n) for n in counts(settings.updates))  # nothing predicts these
    several = [
        Plan(Prediction(plan.prediction.variable, share, None), plan.total)
        for share in later
        for plan in plans
        if plan.prediction.share == ALL
    ]
    case_at = partial(_case, selection, rule, settings, scheme)
    exponents = tuple(_exponent(plan, record, wanted, case_at) for plan in (*plans, *several))
    return Verification(
        select=first.select,
        measure={**settings.to_dict(), "depths": [depth_key(d) for d in wanted]},
        rule=asdict(first.rule),
        points=tuple(_point(record.updates[depth_key(d)], record) for d in measured),
        exponents=exponents,
        assumptions=tuple(_assumption(a, record, measured) for a in predictions.assumptions),
        verdict=Verdict.UNDECIDED if stopped else exponents[0].verdict,
        seconds=time.perf_counter() - began,
        **machine_of(settings, threads),
        checks=record.checks(),
        warnings=(*warnings, *_findings(record, measured)),
        stopped=stopped,
        level=_level(record, measured),
        shares=tuple(_shares(record)) if measured[-1:] == wanted[-1:] else (),
    )


def predict(cases: Sequence[Case], **work: Unpack[Work]) -> UpdatePrediction:
    """‖ΔF‖/η per token of cases, one a depth, at one price each; shares at the deepest.

    ``work`` as in :func:`verify`. Raises :class:`InputError` where the prediction is not finite,
    :class:`Refusal` where no sampled layer can stand for the others.
    """
    began = time.perf_counter()
    settings, rule = cases[0].settings, cases[0].rule
    if not cases[0].alike:
        raise Refusal(
            f"the {'scheme' if cases[0].scheme else 'rule'} {rule.name!r} is not predicted from "
            "single sublayers: its layers differ, or what multiplies the stream does not say what "
            "all of them do together"
        )
    by_key = {depth_key(case.depth): case for case in cases}
    record, kinds = Record(), list[dict[Key, PredictedUpdate]]()
    with fitting_threads(settings) as threads:
        jobs = [
            predicting(case, partial(record.keep, key), threads) for key, case in by_key.items()
        ]
        last = partial(predict_shares, cases[-1])
        jobs.append(measuring(cases[-1], "shares", 1, last, kinds.append, threads))
        wanted = [case.depth for case in cases]
        work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
        run_where(jobs, len(jobs), **work)
    points, warnings = [], []
    for key, case in by_key.items():
        sizes = record.samples[f"{PREDICTED} {ALL}"][key]
        mean, whole = fmean(sizes), fmean(record.samples[IDENTITY][key])
        if not math.isfinite(mean + whole):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        # each seed has data of its own: over seeds the interval is what other data would give
        _, low, high = positive_interval(sizes).numbers
        points.append(PredictedPoint(dict(case.depth), mean, low, high, whole))
        if fmean(record.samples[BLOCK][key]) > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {whole:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    shares = []
    for (part, name), share in kinds[0].items():
        _, low, high = positive_interval(share.values).numbers
        shares.append(PredictedShare(part, name, share.mean, low, high))
    return UpdatePrediction(
        select=cases[0].select,
        measure={**settings.to_dict(), "depths": [*by_key]},
        rule=asdict(rule),
        points=tuple(points),
        shares=tuple(shares),
        warnings=tuple(warnings),
        seconds=time.perf_counter() - began,
    )


def _case(
    selection: Selection, rule: Rule, settings: Settings, scheme: Scheme | None, depth: Depth
) -> Case:
    # plain texts go to other processes, which need no SymPy
    return Case(selection, rule.plain(), depth, settings, scheme=scheme)


def cases_of(
    selection: Selection, rule: Rule, depths: Iterable[Depth], settings: Settings,
    scheme: Scheme | None = None,
) -> list[Case]:  # fmt: skip
    """A case a depth; a rule without a value somewhere is refused before measuring."""
    cases = [_case(selection, rule, settings, scheme, depth) for depth in depths]
    for case in cases:
        _ = case.constants, case.eta_factor
    return cases


# ---- what was measured, judged ----


def _exponent(
    plan: Plan, record: Record, wanted: Sequence[Depth], case_at: Callable[[Depth], Case]
) -> Exponent:
    share = plan.prediction.share
    rows = record.measured(share)
    depths = [d for d in wanted if depth_key(d) in rows.keys() & record.updates.keys()]
    updates = [record.updates[depth_key(d)] for d in depths]
    expected = record.table(f"{PREDICTED} {share}", depths)

    def arrival(exponent: float) -> Arrival | None:
        symbols = list(depths[-1]) if plan.total else [plan.prediction.variable]
        return find_arrival(case_at, depths[-1], symbols, exponent) if share == ALL else None

    values = _table(rows, depths)
    return judge_exponent(plan, depths, values, updates, len(wanted), expected, arrival)


def _level(record: Record, depths: Sequence[Depth]) -> Level | None:
    expected, identity = (record.table(name, depths) for name in (f"{PREDICTED} {ALL}", BLOCK))
    if expected is None or identity is None:
        return None
    return judge_level(depths, _table(record.measured(ALL), depths), expected, identity)


def _shares(record: Record) -> Iterator[MeasuredShare]:
    for measured, predicted in record.kinds:
        for key, values in measured.items():
            expected, ratio = predicted[key], tuple[float, ...]()
            if min(*values, *expected.values) > 0:
                ratio = ratio_interval(np.array(values), np.array(expected.values)).numbers
            sizes = *positive_interval(values).numbers, expected.mean, *expected.interval_given_data
            yield MeasuredShare(*key, *sizes, *ratio)


def _point(update: ModelUpdate, record: Record) -> Point:
    key, values, samples = depth_key(update.depth), update.values, record.samples
    interval = positive_interval(values)
    point = Point(dict(update.depth), *interval.numbers, len(values), values, update.finding)
    predicted, errors = (samples.get(f"{name} {ALL}", {}).get(key) for name in (PREDICTED, ERROR))
    if predicted is None or errors is None:
        return point
    expected = PredictedUpdate(update.depth, tuple(predicted), tuple(errors))
    low, high = expected.interval_given_data  # a point is measured on the same data
    return replace(point, predicted=expected.mean, predicted_low=low, predicted_high=high)


def _assumption(a: Assumption, record: Record, depths: Sequence[Depth]) -> AssumptionResult:
    rows = record.samples.get(a.measurement or "", {})
    depths = [d for d in depths if depth_key(d) in rows]
    if a.measurement is None or not depths:
        because = "not measured" if a.measurement is None else "no depth was measured"
        return AssumptionResult(a.name, Verdict.ASSUMED, None, None, None, a.statement, because)
    # The first depth that varies carries the slope, with the others held fixed.
    variable = next((s for s in depths[0] if varies_alone(s, depths)), None)
    groups = [tuple(n for s, n in d.items() if variable and s != variable) for d in depths]
    carrier = variable or next(iter(depths[0]))
    return judge_assumption(a, [d[carrier] for d in depths], _table(rows, depths), groups)


def _findings(record: Record, depths: Sequence[Depth]) -> Iterator[str]:
    for depth in depths:
        update = record.updates[depth_key(depth)]
        if update.finding:
            yield update.finding
        elif not update.second_order < LINEAR:
            yield (
                f"at depth {depth_key(depth)} the second-order part of the step is "
                f"{update.second_order:.1%}: try float64"
            )


def machine_of(settings: Settings, threads: int) -> dict[str, Any]:
    """What a measurement was made on, as the fields of a result."""
    device = settings.torch_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    libraries = {one.__name__: one.__version__ for one in (torch, np, scipy)}
    versions = {"python": platform.python_version(), **libraries, "threads": str(threads)}
    return {"device": name, "versions": versions}
