"""Verify and predict: ‖ΔF‖/η of a rule on real stacks and from single sublayers, and its judgement.

What is still to be done are jobs, which any executor does; what has come is at its depth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from statistics import fmean
from typing import Any, Unpack

import numpy as np

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.measurement import (
    PREDICTION,
    VERIFICATION,
    AssumptionResult,
    Estimate,
    Exponent,
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
    judge_assumption,
    judge_exponent,
    plan_exponents,
    power_deep_down,
)
from deepnet_theory.laboratory.looks import Look, because, decided
from deepnet_theory.laboratory.model_update import (
    Sizes,
    mean_of,
    measure_draw,
    measure_updates,
    several,
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
from deepnet_theory.laboratory.statistics import CONFIDENCE, Array, positive_interval
from deepnet_theory.laboratory.stepping import stepping
from deepnet_theory.laboratory.trace import measure_quantities, quantity
from deepnet_theory.processes.jobs import Job, Work, run_jobs
from deepnet_theory.runtime.machine import in_threads

# what is asked of a depth, beside its draws
FORESEEN, LATER, PREMISES = "one sublayer", "later updates", "assumptions"
SHARES = "shares"


@dataclass
class AtDepth:
    """What is known of one depth, by what was asked, in whatever order it comes."""

    case: Case
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def depth(self) -> Depth:
        return self.case.depth

    @property
    def complete(self) -> bool:
        """Whether the update is there, and what is predicted of it where something is."""
        draws = range(self.case.settings.draws)
        predicted = FORESEEN in self.found or not self.case.alike
        return predicted and all(_draw(draw) in self.found for draw in draws)

    @property
    def more(self) -> Sizes:
        """What ‖F‖ has moved by after several updates, and what assumptions ask for."""
        later: Sizes = self.found.get(LATER, {})
        return {**later, **self.found.get(PREMISES, {})}

    def measured(self, share: str) -> tuple[float, ...] | None:
        """‖ΔF‖/η by seed, of the whole step or of one share; None where it has not come."""
        if share in self.more or not self.complete:
            return self.more.get(share)
        drawn = [self.found[_draw(draw)] for draw in range(self.case.settings.draws)]
        return mean_of(drawn).get(share)

    def expected(self, share: str) -> PredictedUpdate | None:
        known: PredictedDepth | None = self.found.get(FORESEEN)
        return None if known is None else known.shares.get(share)

    def point(self, confidence: float) -> Estimate:
        """The mean over seeds, its interval, and what single sublayers predict of it."""
        values = self.measured(ALL)
        assert values is not None
        where = f"at depth {depth_key(self.depth)} the update of the output"
        lost = sum(not math.isfinite(value) for value in values)
        finding = f"{where} is not finite in {lost} of {len(values)} seeds" if lost else ""
        return _estimate(dict(self.depth), values, self.expected(ALL), finding, confidence)

    def asked(
        self, shares: Sequence[str], quantities: Sequence[str]
    ) -> Iterator[tuple[str, float, Callable[[], Any]]]:
        """The name, cost and work of each thing."""
        case, layers = self.case, float(sum(self.depth.values()))
        if case.alike:
            yield FORESEEN, 1, partial(predict_depth, case)
        for draw in range(case.settings.draws):
            work = partial(measure_draw, case, draw, shares)
            yield _draw(draw), layers / case.settings.draws, work
        if case.settings.updates > 1:
            yield LATER, layers, partial(measure_updates, case)
        if quantities:
            yield PREMISES, layers, partial(measure_quantities, case, quantities)

    def job(self, threads: int, what: str, cost: float, work: Callable[[], Any]) -> Job:
        """The job of one of :meth:`asked`."""
        alone = partial(in_threads, threads, work)
        keep = partial(self.found.__setitem__, what)
        return Job(f"{what} at depth {depth_key(self.depth)}", cost, alone, keep, depends_on=alone)


def _joined(one: AtDepth, other: AtDepth) -> AtDepth:
    """The seeds of both at one depth."""

    def both(x: Any, y: Any) -> Any:
        return {name: x[name] + y[name] for name in x} if isinstance(x, dict) else x + y

    known = {what: both(x, other.found[what]) for what, x in one.found.items()}
    return AtDepth(one.case, known)


def _draw(index: int) -> str:
    return f"model update, draw {index}"


def _estimate(
    at: dict[str, Any], values: tuple[float, ...], expected: PredictedUpdate | None = None,
    finding: str = "", confidence: float = CONFIDENCE,
) -> Estimate:  # fmt: skip
    """The mean of seeds beside its prediction on the same data."""
    told = None if expected is None else (expected.mean, *expected.interval_given_data)
    return Estimate(at, *positive_interval(values, confidence).numbers, told, values, finding)


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
    scheme: Scheme | None = None,
    looks: Sequence[Look] = (),
    **work: Unpack[Work],
) -> Result:
    """Measure ‖ΔF‖/η per token of ``rule`` at ``depths`` and test what was predicted of it.

    Of several ``looks`` (:func:`~deepnet_theory.laboratory.looks.looks_at`) the first one that
    decides is the last; without them all seeds are measured at all depths. The verdict is that of
    the first exponent: SUPPORTED needs the interval inside the tolerance and the rivals excluded.
    A published ``scheme``, whose texts ``rule`` then has, is measured in its place. Ctrl-C, a
    process that dies or a lack of memory gives the partial result, UNDECIDED.
    Raises :class:`InputError` where the depths give no exponent, or the rule no value at one.
    """
    began = time.perf_counter()
    cases = cases_of(selection, rule, depths, settings, scheme)
    wanted, first = [case.depth for case in cases], cases[0]
    plans = plan_exponents(selection, predictions, wanted)
    names = list(dict.fromkeys(a.measurement for a in predictions.assumptions if a.measurement))
    for name in names:
        quantity(name)  # an unknown one is refused before measuring, as a rule without a value is
    if settings.updates > 1:
        stepping(selection.the_optimizer)  # a missing extra is said before measuring
    warnings, share = list(predictions.warnings), several(settings.updates)
    parts = list(dict.fromkeys([ALL, *(prediction.share for prediction in plans)]))
    if settings.updates > 1:  # nothing predicts these
        plans += [Exponent(p.variable, share) for p in plans if p.share == ALL]
    looks = looks or [Look(settings.seeds, wanted, CONFIDENCE, settings.seeds)]
    look, rows, stopped = looks[0], list[AtDepth](), ""
    exponents, waves = tuple[Exponent, ...](), list[dict[str, AtDepth]]()
    for number, now in enumerate(looks):
        drawn = now.settings(settings, number)
        waves.append({depth_key(at.depth): AtDepth(replace(at, settings=drawn)) for at in cases})
        there = [wave[depth_key(depth)] for depth in now.depths for wave in waves]
        if (stopped := _measured(there, parts, names, work)) and number:
            break  # what the look before has seen is whole
        look = now
        rows = [reduce(_joined, (w[depth_key(depth)] for w in waves)) for depth in look.depths]
        exponents = tuple(_exponent(one, rows, look.confidence) for one in plans)
        if stopped or decided(exponents, look, looks):
            break
    measured = [at for at in rows if at.complete]
    if stopped:
        if not measured and stopped != INTERRUPTION:
            raise InputError(stopped)
        warnings.append(f"{stopped}: {len(measured)} of {len(look.depths)} depths were measured")
    if settings.torch_device.type == "cuda":
        warnings.append(
            "measured on CUDA: repeatable bit for bit only where torch warns of nothing"
        )
    points = tuple(at.point(look.confidence) for at in measured)
    warnings += [point.finding for point in points if point.finding]
    taken = {"seeds": look.seeds, "depths": [depth_key(d) for d in look.depths]}
    return Result(
        VERIFICATION,
        of={"select": first.select, "rule": asdict(first.rule)},
        settings={**settings.to_dict(), **taken},
        points=points,
        exponents=exponents,
        assumptions=tuple(
            _assumption(a, measured, look.confidence) for a in predictions.assumptions
        ),
        verdict=Verdict.UNDECIDED if stopped else exponents[0].verdict,
        provenance=provenance(began, settings.torch_device, stopped, warnings),
        because=because(exponents, look, looks),
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
    rows, wanted = [AtDepth(case) for case in cases], [case.depth for case in cases]
    work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    with fitting_threads(settings) as threads:
        jobs = [at.job(threads, FORESEEN, 1, partial(predict_depth, at.case)) for at in rows]
        last = partial(predict_shares, cases[-1])
        shares_too = [*jobs, rows[-1].job(threads, SHARES, 1, last)]
        stopped = run_jobs(shares_too, len(shares_too), **work)
    if stopped:
        raise KeyboardInterrupt if stopped == INTERRUPTION else InputError(stopped)
    points, warnings = [], []
    for at in rows:
        found, key = at.found[FORESEEN], depth_key(at.depth)
        # each seed has data of its own: over seeds the interval is what other data would give
        points.append(point := _estimate(dict(at.depth), found.shares[ALL].values))
        distance = fmean(found.distance)
        if not math.isfinite(point.mean + distance):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        if distance > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {distance:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    shares = rows[-1].found[SHARES].items()
    return Result(
        PREDICTION,
        of={"select": cases[0].select, "rule": asdict(rule)},
        settings={**settings.to_dict(), "depths": [depth_key(at.depth) for at in rows]},
        points=tuple(points),
        shares=tuple(
            _estimate(dict(zip(("part", "name"), key.split(" ", 1), strict=True)), one.values)
            for key, one in shares
        ),
        provenance=provenance(began, settings.torch_device, warnings=warnings),
    )


def cases_of(
    selection: Selection, rule: Rule, depths: Iterable[Depth], settings: Settings,
    scheme: Scheme | None = None,
) -> list[Case]:  # fmt: skip
    """A case a depth; a rule without a value somewhere is refused before measuring."""
    # plain texts go to other processes, which need no SymPy
    cases = [Case(selection, rule.plain(), at, settings, scheme=scheme) for at in depths]
    for case in cases:
        _ = case.constants, case.eta_factor
    return cases


def _measured(
    there: Sequence[AtDepth], parts: Sequence[str], names: Sequence[str], work: Work
) -> str:
    """Have what is missing of these measured; why that ended early, or no word."""
    settings, wanted = there[-1].case.settings, [at.depth for at in there]
    given = Work(**work)
    given["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    with fitting_threads(settings) as threads:
        asked = [(at, one) for at in there for one in at.asked(parts, names)]
        jobs = [at.job(threads, *one) for at, one in asked if one[0] not in at.found]
        return run_jobs(jobs, sum(job.cost for job in jobs), **given)


# ---- what was measured, judged ----


def _exponent(asked: Exponent, rows: Sequence[AtDepth], confidence: float) -> Exponent:
    share = asked.share
    found = [(at, values) for at in rows if (values := at.measured(share)) is not None]
    depths = [at.depth for at, _ in found]
    predicted = [p.values for at, _ in found if (p := at.expected(share)) is not None]
    expected = _table(predicted) if found and len(predicted) == len(found) else None

    def deep_down() -> float | None:
        return power_deep_down(found[-1][0].case, asked.variable) if share == ALL else None

    table = _table(values for _, values in found)
    return judge_exponent(asked, depths, table, len(rows), expected, deep_down, confidence)


def _assumption(a: Assumption, measured: Sequence[AtDepth], confidence: float) -> AssumptionResult:
    rows = [(at.depth, at.more[n]) for at in measured if (n := a.measurement or "") in at.more]
    if not rows:
        because = "not measured" if a.measurement is None else "no depth was measured"
        return AssumptionResult(a.name, Verdict.ASSUMED, None, None, None, a.statement, because)
    values = _table(values for _, values in rows)
    return judge_assumption(a, [depth for depth, _ in rows], values, confidence)
