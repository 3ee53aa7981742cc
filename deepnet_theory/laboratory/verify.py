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
    Plan,
    judge_assumption,
    judge_exponent,
    judge_level,
    plan_exponents,
    power_deep_down,
    varies_alone,
)
from deepnet_theory.laboratory.model_update import (
    Key,
    Sizes,
    counts,
    mean_of,
    measure_draw,
    measure_shares,
    measure_updates,
    not_finite,
    updates_share,
)
from deepnet_theory.laboratory.one_sublayer import (
    PredictedDepth,
    PredictedUpdate,
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
)
from deepnet_theory.laboratory.statistics import Array, positive_interval
from deepnet_theory.laboratory.stepping import running_of
from deepnet_theory.laboratory.trace import measure_quantities, quantity
from deepnet_theory.processes import (
    Job,
    Work,
    run_until_stopped,
    run_where,
    with_advice,
)
from deepnet_theory.runtime.machine import in_threads

T = TypeVar("T")
Shares = dict[Key, tuple[float, ...]]
Watch = Callable[[Estimate], None]  # receives each point as soon as it is measured
NEEDS_LESS = "fewer tokens, seeds or layers, a smaller batch or width, or fewer processes need less"


@dataclass
class AtDepth:
    """What is known of one depth, in whatever order it comes.

    ``drawn`` are ‖ΔF‖/η of each draw, of the whole step and of parts stepped alone; ``more`` what
    it is after several updates, and what assumptions ask for.
    """

    case: Case
    drawn: dict[int, Sizes] = field(default_factory=dict)
    predicted: PredictedDepth | None = None
    more: Sizes = field(default_factory=dict)
    kinds: Shares | None = None
    foreseen: dict[Key, PredictedUpdate] | None = None

    @property
    def depth(self) -> Depth:
        return self.case.depth

    @property
    def complete(self) -> bool:
        """Whether the update is there, and what is predicted of it where something is."""
        predicted = self.predicted is not None or not self.case.alike
        return predicted and len(self.drawn) == self.case.settings.draws

    def measured(self, share: str) -> tuple[float, ...] | None:
        """‖ΔF‖/η by seed, of the whole step or of one share; None where it has not come."""
        if share in self.more or not self.complete:
            return self.more.get(share)
        return mean_of([self.drawn[draw] for draw in sorted(self.drawn)]).get(share)

    def expected(self, share: str) -> PredictedUpdate | None:
        return None if self.predicted is None else self.predicted.shares.get(share)

    @property
    def point(self) -> Estimate:
        """The mean over seeds, its interval, and what single sublayers predict of it."""
        values, expected = self.measured(ALL), self.expected(ALL)
        assert values is not None
        return Estimate(
            dict(self.depth), *positive_interval(values).numbers,
            # a point is measured on the same data
            predicted=None if expected is None else (expected.mean, *expected.interval_given_data),
            values=values,
            finding=not_finite(self.case, values),
        )  # fmt: skip

    def jobs(
        self, shares: Sequence[str], quantities: Sequence[str], by_kind: bool, threads: int,
        watch: Watch | None,
    ) -> Iterator[Job]:  # fmt: skip
        """All that is asked of a depth; ``by_kind`` steps every kind of parameter by itself, too.

        ``watch`` receives the point when it is complete.
        """
        case, layers = self.case, float(sum(self.depth.values()))
        several = f"{case.settings.updates} updates"

        def keep(took: Callable[[T], object]) -> Callable[[T], None]:
            def kept(found: T) -> None:
                before = self.complete
                took(found)
                if watch is not None and self.complete > before:
                    watch(self.point)

            return kept

        if case.alike:
            foreseen = partial(setattr, self, "predicted")
            yield measuring(
                case, "one sublayer", 1, partial(predict_depth, case), keep(foreseen), threads
            )
        for draw in range(case.settings.draws):
            work, took = (
                partial(measure_draw, case, draw, shares),
                partial(self.drawn.__setitem__, draw),
            )
            yield measuring(
                case, "model update", layers / case.settings.draws, work, keep(took), threads
            )
        if case.settings.updates > 1:
            yield measuring(
                case, several, layers, partial(measure_updates, case), self.more.update, threads
            )
        if quantities:
            probed = partial(measure_quantities, case, quantities)
            yield measuring(case, "assumptions", layers, probed, self.more.update, threads)
        if by_kind and case.alike:
            each, half = "every kind of parameter", layers / 2
            kinds, foreseen = (partial(setattr, self, name) for name in ("kinds", "foreseen"))
            yield measuring(case, each, half, partial(measure_shares, case), kinds, threads)
            yield measuring(case, each, half, partial(predict_shares, case), foreseen, threads)


def measuring(
    case: Case, what: str, cost: float, work: Callable[[], T], keep: Callable[[T], None],
    threads: int,
) -> Job:  # fmt: skip
    """``work`` on a case as a job of that number of threads."""
    alone = partial(in_threads, threads, work)
    return Job(f"{what} at depth {depth_key(case.depth)}", cost, alone, keep, depends_on=alone)


def _table(rows: Iterable[Sequence[float]]) -> Array:
    """Values by depth as (seeds, depths)."""
    return np.array(list(rows), dtype=float).T


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

    The verdict is that of the first exponent: SUPPORTED needs the interval inside the tolerance
    and the rivals excluded. Assumptions of ``predictions`` are measured beside it, with ``shares``
    each kind of parameter at the deepest depth. ``watch`` receives each depth's point. A published
    ``scheme``, whose texts ``rule`` then has, is measured in its place. ``work`` says who does it,
    with the same result. Ctrl-C, a process that dies or a lack of memory gives the partial result,
    UNDECIDED, with the reason in ``stopped``.

    Raises :class:`InputError` where the depths give no exponent, the rule has no value at one of
    them.
    """
    began = time.perf_counter()
    cases = cases_of(selection, rule, depths, settings, scheme)
    wanted, first = [case.depth for case in cases], cases[0]
    plans = plan_exponents(selection, predictions, wanted)
    names = list(dict.fromkeys(a.measurement for a in predictions.assumptions if a.measurement))
    for name in names:
        quantity(name)  # an unknown one is refused before measuring, as a rule without a value is
    if settings.updates > 1:
        running_of(selection.the_optimizer)  # one that has a first step alone is refused
    rows, warnings = [AtDepth(case) for case in cases], list(predictions.warnings)
    parts = list(dict.fromkeys([ALL, *(plan.prediction.share for plan in plans)]))
    work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    last = rows[-1]
    with fitting_threads(settings) as threads:
        asked = (at.jobs(parts, names, shares and at is last, threads, watch) for at in rows)
        jobs = [job for one in asked for job in one]
        stopped = run_until_stopped(jobs, sum(job.cost for job in jobs), **work)
    measured = [at for at in rows if at.complete]
    if stopped:
        if not measured and stopped != INTERRUPTION:
            raise InputError(with_advice(stopped, NEEDS_LESS))
        warnings.append(f"{stopped}: {len(measured)} of {len(wanted)} depths were measured")
    if settings.torch_device.type == "cuda":
        warnings.append(
            "measured on CUDA: repeatable bit for bit only where torch warns of nothing"
        )
    warnings += [at.point.finding for at in measured if at.point.finding]
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
        provenance=provenance(began, settings.torch_device, stopped, warnings),
        level=_level(measured),
        shares=tuple(_shares(last.kinds, last.foreseen)) if last.kinds and last.foreseen else (),
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
            "single sublayers: what multiplies the stream does not say what all of them do together"
        )
    rows, kinds = [AtDepth(case) for case in cases], list[dict[Key, PredictedUpdate]]()
    with fitting_threads(settings) as threads:
        jobs = [
            measuring(at.case, "one sublayer", 1, partial(predict_depth, at.case),
                      partial(setattr, at, "predicted"), threads)
            for at in rows
        ]  # fmt: skip
        last = partial(predict_shares, cases[-1])
        jobs.append(measuring(cases[-1], "shares", 1, last, kinds.append, threads))
        wanted = [case.depth for case in cases]
        work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
        run_where(jobs, len(jobs), **work)
    points, warnings = [], []
    for at in rows:
        found, key = at.predicted, depth_key(at.depth)
        assert found is not None
        mean, distance = found.shares[ALL].mean, fmean(found.distance)
        if not math.isfinite(mean + distance):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        # each seed has data of its own: over seeds the interval is what other data would give
        _, low, high = positive_interval(found.shares[ALL].values).numbers
        values = found.shares[ALL].values
        points.append(Estimate(dict(at.depth), mean, low, high, values=values))
        if distance > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {distance:.3g}, above {NEAR:g}: the stack is not near the "
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
    depths = [at.depth for at, _ in found]
    predicted = [p.values for at, _ in found if (p := at.expected(share)) is not None]
    expected = _table(predicted) if found and len(predicted) == len(found) else None

    def deep_down() -> float | None:
        symbols = list(depths[-1]) if plan.total else [plan.prediction.variable]
        return power_deep_down(case_at, depths[-1], symbols) if share == ALL else None

    table = _table(values for _, values in found)
    return judge_exponent(plan, depths, table, len(rows), expected, deep_down)


def _level(measured: Sequence[AtDepth]) -> AssumptionResult | None:
    predicted = [p for at in measured if (p := at.predicted) is not None]
    if len(predicted) < len(measured) or not measured:
        return None
    values = _table(at.measured(ALL) or () for at in measured)
    expected = _table(p.shares[ALL].values for p in predicted)
    identity = _table(p.distance for p in predicted)
    return judge_level([at.depth for at in measured], values, expected, identity)


def _shares(measured: Shares, predicted: Mapping[Key, PredictedUpdate]) -> Iterator[Estimate]:
    for (part, name), values in measured.items():
        expected = predicted[part, name]
        told = (expected.mean, *expected.interval_given_data)
        interval = positive_interval(values).numbers
        yield Estimate({"part": part, "name": name}, *interval, predicted=told, values=values)


def _assumption(a: Assumption, measured: Sequence[AtDepth]) -> AssumptionResult:
    rows = [(at.depth, at.more[n]) for at in measured if (n := a.measurement or "") in at.more]
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
