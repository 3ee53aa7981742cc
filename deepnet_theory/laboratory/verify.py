"""Verify and predict: ‖ΔF‖/η of a rule on real stacks and from single sublayers, and its judgement.

What is still to be done are jobs, which any executor does; what has come is at its depth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import fmean
from typing import TypeVar, Unpack

import numpy as np

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.measurement import (
    PREDICTION,
    VERIFICATION,
    AssumptionResult,
    Estimate,
    Exponent,
    Prediction,
    Predictions,
    Result,
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
    varies_alone,
)
from deepnet_theory.laboratory.model_update import (
    LINEAR,
    ModelUpdate,
    average_draws,
    counts,
    further_draws,
    measure_draw,
    measure_model_update,
    measure_updates,
)
from deepnet_theory.laboratory.one_sublayer import (
    Key,
    PredictedDepth,
    PredictedUpdate,
    Shares,
    measure_shares,
    predict_depth,
    predict_shares,
)
from deepnet_theory.laboratory.settings import (
    Depth,
    Settings,
    depth_key,
    fitting_processes,
    fitting_threads,
    provenance,
    require_memory,
)
from deepnet_theory.laboratory.statistics import Array, positive_interval
from deepnet_theory.laboratory.stepping import running_of
from deepnet_theory.laboratory.trace import Probe, quantity
from deepnet_theory.processes import (
    Job,
    Work,
    run_until_stopped,
    run_where,
    silent,
    with_advice,
)
from deepnet_theory.runtime import Description
from deepnet_theory.runtime.machine import in_threads

T = TypeVar("T")
Keep = Callable[[T], Iterable[Job] | None]
Watch = Callable[[Estimate], None]  # receives each point as soon as it is measured
NEEDS_LESS = "fewer tokens, seeds or layers, a smaller batch or width, or fewer processes need less"


@dataclass
class AtDepth:
    """What is known of one depth, in whatever order it comes.

    ``shares`` are ‖ΔF‖/η of parts stepped alone and sizes after several updates, ``quantities``
    what assumptions ask for; both by name, one value a seed.
    """

    case: Case
    update: ModelUpdate | None = None
    predicted: PredictedDepth | None = None
    shares: dict[str, list[float]] = field(default_factory=dict)
    quantities: dict[str, list[float]] = field(default_factory=dict)
    kinds: Shares | None = None
    foreseen: dict[Key, PredictedUpdate] | None = None

    @property
    def depth(self) -> Depth:
        return self.case.depth

    @property
    def step(self) -> ModelUpdate:
        """The update of a depth that was measured."""
        assert self.update is not None
        return self.update

    def measured(self, share: str) -> Sequence[float] | None:
        """‖ΔF‖/η by seed, of the whole step or of one share; None where it has not come."""
        if self.update is None or share == ALL:
            return None if self.update is None else self.update.values
        return self.shares.get(share)

    def expected(self, share: str) -> PredictedUpdate | None:
        return None if self.predicted is None else self.predicted.shares.get(share)

    @property
    def point(self) -> Estimate:
        """The mean over seeds, its interval, and what single sublayers predict of it."""
        step, expected = self.step, self.expected(ALL)
        numbers = positive_interval(step.values).numbers
        return Estimate(
            dict(self.depth), *numbers,
            # a point is measured on the same data
            predicted=None if expected is None else (expected.mean, *expected.interval_given_data),
            values=step.values,
            finding=step.finding,
        )  # fmt: skip


def _table(rows: Iterable[Sequence[float]]) -> Array:
    """Values by depth as (seeds, depths)."""
    return np.array(list(rows), dtype=float).T


# ---- what is to be done, as jobs ----


def measuring(
    case: Case, what: str, cost: float, work: Callable[[], T], keep: Keep[T], threads: int
) -> Job:
    """``work`` on a case as a job of ``threads`` threads."""
    alone = partial(in_threads, threads, work)
    return Job(f"{what} at depth {depth_key(case.depth)}", cost, alone, keep, depends_on=alone)


@dataclass(frozen=True)
class Asked:
    """What is asked of every depth beside its update, by jobs of ``threads`` threads.

    The first draw of a depth finds the size of its step by itself, so that what is measured there
    depends on the settings alone; all else follows it. Wanted are the ``quantities``, the
    ``shares`` of ΔF, and where ``predicted`` what single sublayers say. ``complete`` receives each
    depth when its update is there.
    """

    quantities: Sequence[str]
    shares: Sequence[str]
    complete: Callable[[AtDepth], None]
    threads: int
    predicted: bool

    def jobs(self, at: AtDepth, by_kind: bool) -> Iterator[Job]:
        """The first job of a depth; ``by_kind`` steps every kind of parameter by itself, too."""
        work, follow = partial(measure_model_update, at.case), partial(self._follow, at)
        first = self._job(at, "model update", work, partial(follow, by_kind))

        def predicted(found: PredictedDepth) -> list[Job]:
            at.predicted = found
            return [first]

        yield predicting(at, predicted, self.threads) if self.predicted else first

    def _job(
        self, at: AtDepth, what: str, work: Callable[[], T], keep: Keep[T], parts: int = 1
    ) -> Job:
        """A job as dear as the case has layers, or one of several ``parts`` of it."""
        cost = sum(at.depth.values()) / parts
        return measuring(at.case, what, cost, work, keep, self.threads)

    def _follow(self, at: AtDepth, by_kind: bool, first: ModelUpdate) -> Iterator[Job]:
        case, settings, job = at.case, at.case.settings, partial(self._job, at)
        probe, draws = Probe(case, first), further_draws(first, settings.draws)
        drawn: dict[int, ModelUpdate] = {}

        def draw_came(draw: int, update: ModelUpdate) -> None:
            drawn[draw] = update
            if len(drawn) > len(draws):  # averaged in their order, whichever came first
                at.update = average_draws([drawn[i] for i in sorted(drawn)])
                self.complete(at)

        draw_came(0, first)
        for draw in draws:
            work = partial(measure_draw, case, first.eta, draw)
            yield job("model update", work, partial(draw_came, draw), len(draws))
        for share in self.shares:
            keep = partial(at.shares.__setitem__, share)
            yield job(f"the share {share}", partial(_share, probe, share), keep)
        if settings.updates > 1:
            yield job(f"{settings.updates} updates", partial(_updates, case), at.shares.update)
        if self.quantities:
            measured = partial(_quantities, probe, self.quantities)
            yield job("assumptions", measured, at.quantities.update)
        if by_kind and self.predicted and not first.finding:
            one = "every kind of parameter"
            yield job(one, partial(measure_shares, case), partial(setattr, at, "kinds"), 2)
            yield job(one, partial(predict_shares, case), partial(setattr, at, "foreseen"), 2)


def predicting(at: AtDepth, keep: Keep[PredictedDepth], threads: int) -> Job:
    """What single sublayers say of a depth, as a job: the same for a prediction by itself."""
    return measuring(at.case, "one sublayer", 1, partial(predict_depth, at.case), keep, threads)


def _share(probe: Probe, share: str) -> list[float]:
    """What the parameters of a part, of a matrix by its name, or of a role move alone."""

    def chosen(d: Description) -> bool:
        return share in (d.part, d.name, d.role.value)

    values: list[float] = probe.share(chosen, probe.case.settings.draws).tolist()
    return values


def updates_share(count: int) -> str:
    return f"{count} updates"


def _updates(case: Case) -> dict[str, list[float]]:
    return {updates_share(n): values for n, values in measure_updates(case).items()}


def _quantities(probe: Probe, names: Sequence[str]) -> dict[str, list[float]]:
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
) -> Result:
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
    rows, warnings = [AtDepth(case) for case in cases], list(predictions.warnings)
    parts = [p.prediction.share for p in plans if p.prediction.share != ALL]
    if settings.updates > 1:
        running_of(selection.the_optimizer)  # one that has a first step alone is refused
    work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    with fitting_threads(settings) as threads:
        predicted = first.alike
        asked = Asked(names, parts, lambda at: watch and watch(at.point), threads, predicted)
        # the layers worked on, by stages; a prediction costs one at every depth
        layers = [sum(depth.values()) for depth in wanted]
        stages = 2 + len(parts) + bool(names) + (settings.updates > 1)
        ends = layers[-1] * (shares and predicted)
        total = float(sum(layers) * stages + ends + len(layers) * predicted)
        last = rows[-1]
        jobs = (job for at in rows for job in asked.jobs(at, shares and at is last))
        stopped = run_until_stopped(jobs, total, **work)
        if not stopped:
            (work.get("progress") or silent)(total, total, "done")
    measured = [at for at in rows if at.update is not None]
    if stopped:
        if not measured and stopped != INTERRUPTION:
            raise InputError(with_advice(stopped, NEEDS_LESS))
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
    exponents = tuple(_exponent(plan, rows, case_at) for plan in (*plans, *several))
    return Result(
        VERIFICATION,
        of={"select": first.select, "rule": asdict(first.rule)},
        settings={**settings.to_dict(), "depths": [depth_key(d) for d in wanted]},
        points=tuple(at.point for at in measured),
        exponents=exponents,
        assumptions=tuple(_assumption(a, measured) for a in predictions.assumptions),
        verdict=Verdict.UNDECIDED if stopped else exponents[0].verdict,
        provenance=provenance(
            began, settings.torch_device, stopped, [*warnings, *_findings(measured)]
        ),
        level=_level(measured),
        shares=tuple(_shares(last.kinds, last.foreseen))
        if last.update and last.kinds and last.foreseen
        else (),
    )


def predict(cases: Sequence[Case], **work: Unpack[Work]) -> Result:
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
    rows, kinds = [AtDepth(case) for case in cases], list[dict[Key, PredictedUpdate]]()
    with fitting_threads(settings) as threads:
        jobs = [predicting(at, partial(setattr, at, "predicted"), threads) for at in rows]
        last = partial(predict_shares, cases[-1])
        jobs.append(measuring(cases[-1], "shares", 1, last, kinds.append, threads))
        wanted = [case.depth for case in cases]
        work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
        run_where(jobs, len(jobs), **work)
    points, warnings = [], []
    for at in rows:
        found, key = at.predicted, depth_key(at.depth)
        assert found is not None
        mean, whole = found.shares[ALL].mean, fmean(found.whole)
        if not math.isfinite(mean + whole):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        # each seed has data of its own: over seeds the interval is what other data would give
        _, low, high = positive_interval(found.shares[ALL].values).numbers
        values = found.shares[ALL].values
        points.append(Estimate(dict(at.depth), mean, low, high, values=values))
        if fmean(found.block) > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {whole:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    shares = []
    for (part, name), share in kinds[0].items():
        _, low, high = positive_interval(share.values).numbers
        at_share = {"part": part, "name": name}
        shares.append(Estimate(at_share, share.mean, low, high, values=share.values))
    return Result(
        PREDICTION,
        of={"select": cases[0].select, "rule": asdict(rule)},
        settings={**settings.to_dict(), "depths": [depth_key(at.depth) for at in rows]},
        points=tuple(points),
        shares=tuple(shares),
        provenance=provenance(began, settings.torch_device, warnings=warnings),
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


def _exponent(plan: Plan, rows: Sequence[AtDepth], case_at: Callable[[Depth], Case]) -> Exponent:
    share = plan.prediction.share
    found = [(at, values) for at in rows if (values := at.measured(share)) is not None]
    depths, updates = [at.depth for at, _ in found], [at.step for at, _ in found]
    predicted = [p.values for at, _ in found if (p := at.expected(share)) is not None]
    expected = _table(predicted) if found and len(predicted) == len(found) else None

    def arrival(exponent: float) -> Arrival | None:
        symbols = list(depths[-1]) if plan.total else [plan.prediction.variable]
        return find_arrival(case_at, depths[-1], symbols, exponent) if share == ALL else None

    table = _table(values for _, values in found)
    return judge_exponent(plan, depths, table, updates, len(rows), expected, arrival)


def _level(measured: Sequence[AtDepth]) -> AssumptionResult | None:
    predicted = [p for at in measured if (p := at.predicted) is not None]
    if len(predicted) < len(measured) or not measured:
        return None
    values = _table(at.step.values for at in measured)
    expected = _table(p.shares[ALL].values for p in predicted)
    identity = _table(p.block for p in predicted)
    return judge_level([at.depth for at in measured], values, expected, identity)


def _shares(measured: Shares, predicted: Mapping[Key, PredictedUpdate]) -> Iterator[Estimate]:
    for (part, name), values in measured.items():
        expected = predicted[part, name]
        told = (expected.mean, *expected.interval_given_data)
        interval = positive_interval(values).numbers
        yield Estimate({"part": part, "name": name}, *interval, predicted=told, values=values)


def _assumption(a: Assumption, measured: Sequence[AtDepth]) -> AssumptionResult:
    rows = [
        (at.depth, at.quantities[n]) for at in measured if (n := a.measurement) in at.quantities
    ]
    if not rows:
        because = "not measured" if a.measurement is None else "no depth was measured"
        return AssumptionResult(a.name, Verdict.ASSUMED, None, None, None, a.statement, because)
    depths = [depth for depth, _ in rows]
    # The first depth that varies carries the slope, with the others held fixed.
    variable = next((s for s in depths[0] if varies_alone(s, depths)), None)
    groups = [tuple(n for s, n in d.items() if variable and s != variable) for d in depths]
    carrier = variable or next(iter(depths[0]))
    values = _table(values for _, values in rows)
    return judge_assumption(a, [d[carrier] for d in depths], values, groups)


def _findings(measured: Iterable[AtDepth]) -> Iterator[str]:
    for step in (at.step for at in measured):
        if step.finding:
            yield step.finding
        elif not step.second_order < LINEAR:
            yield (
                f"at depth {depth_key(step.depth)} the second-order part of the step is "
                f"{step.second_order:.1%}: try float64"
            )
