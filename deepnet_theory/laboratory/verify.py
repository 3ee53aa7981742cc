"""Verify and predict: ‖ΔF‖/η of a rule on real stacks and from single sublayers, and its judgement.

What is still to be done are jobs, which any executor does; what has come is at its depth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, NamedTuple, Unpack

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
from deepnet_theory.laboratory.judging import (
    judge_assumption,
    judge_exponent,
    plan_exponents,
    power_deep_down,
)
from deepnet_theory.laboratory.model_update import (
    ALL,
    Sizes,
    mean_of,
    measure_updates,
    several,
)
from deepnet_theory.laboratory.one_sublayer import (
    PredictedUpdate,
    distance_from_identity,
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
from deepnet_theory.laboratory.statistics import CONFIDENCE, estimated, table
from deepnet_theory.laboratory.stepping import stepping
from deepnet_theory.laboratory.trace import measure_draws, quantity
from deepnet_theory.laboratory.trial import NEAR, Case
from deepnet_theory.processes.jobs import Job, Work, run_jobs
from deepnet_theory.runtime.machine import in_threads

# what is asked of a depth, beside its draws
FORESEEN, LATER = "one sublayer", "later updates"
STACKED = 2**26  # weights of the draws that one stack has, where several fit


@dataclass
class AtDepth:
    """What is known of one depth, by what was asked, in whatever order it comes."""

    case: Case
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the update is there, and what is predicted of it where something is."""
        predicted = FORESEEN in self.found or not self.case.alike
        return predicted and all(draw in self.found for draw in self.draws)

    @property
    def draws(self) -> list[str]:
        return [f"model update, draw {draw}" for draw in range(self.case.settings.draws)]

    def measured(self, name: str) -> tuple[float, ...] | None:
        """A size by seed: ‖ΔF‖/η of a share, or another quantity; None where it has not come."""
        found = [one[name] for what, one in self.found.items() if what != FORESEEN and name in one]
        return mean_of(found) if found and self.complete else None

    def expected(self, share: str) -> PredictedUpdate | None:
        return self.found.get(FORESEEN, {}).get(share)

    def point(self, confidence: float) -> Estimate:
        """The mean over seeds, its interval, and the prediction of single sublayers."""
        values, expected, finding = self.measured(ALL), self.expected(ALL), ""
        assert values is not None
        if lost := sum(not math.isfinite(value) for value in values):
            where = f"at depth {depth_key(self.case.depth)} the update of the output"
            finding = f"{where} is not finite in {lost} of {len(values)} seeds"
        told = None if expected is None else (expected.mean, *expected.interval_given_data)
        return estimated(dict(self.case.depth), values, told, finding, confidence)

    def jobs(self, threads: int, shares: Sequence[str], quantities: Sequence[str]) -> Iterator[Job]:
        """What has not come yet."""
        case, layers = self.case, float(sum(self.case.depth.values()))
        asked: dict[str, tuple[float, Callable[[], Any]]] = {}
        if case.alike:
            asked[FORESEEN] = 1, partial(predict_depth, case)
        if case.settings.updates > 1:
            asked[LATER] = layers, partial(measure_updates, case)
        for what, one in asked.items():
            if what not in self.found:
                yield _job(case, threads, what, *one, partial(self.found.__setitem__, what))
        for draws in self.stacks():
            named = [self.draws[draw] for draw in draws]
            work = partial(measure_draws, case, draws, shares, () if draws[0] else quantities)
            if not all(what in self.found for what in named):
                cost = layers * len(draws) / len(self.draws)
                yield _job(case, threads, named[0], cost, work, partial(self._keep, named))

    def stacks(self) -> list[tuple[int, ...]]:
        """The draws that are measured in one stack; the first, of premises too, by itself."""
        settings, draws = self.case.settings, (*range(self.case.settings.draws),)
        weights = 12 * settings.width**2 * sum(self.case.depth.values()) * settings.seeds
        size = max(1, STACKED // weights)
        return [draws[:1], *(draws[i : i + size] for i in draws[1::size])]

    def _keep(self, named: Sequence[str], each: Sequence[Sizes]) -> None:
        self.found.update(zip(named, each, strict=True))

    def with_seeds(self, other: AtDepth) -> AtDepth:
        """The seeds of both."""
        both = {
            what: {name: x + other.found[what][name] for name, x in one.items()}
            for what, one in self.found.items()
        }
        return AtDepth(self.case, both)


def _job(
    case: Case, threads: int, what: str, cost: float, work: Callable[[], Any],
    keep: Callable[[Any], None],
) -> Job:  # fmt: skip
    """The job of one thing that is asked of a depth."""
    alone = partial(in_threads, threads, work)
    return Job(f"{what} at depth {depth_key(case.depth)}", cost, alone, keep, depends_on=alone)


# ---- how much is measured: a few seeds at a few depths first, then what a verdict needs ----

FIRST = (3, 5)  # seeds in all at the looks before the last: two give no useful interval
STRIDE = 2**28  # between the seeds of two looks' draws: far from any that is typed


class Look(NamedTuple):
    """One look at the data: ``seeds`` in all at ``depths``, of these ``new`` ones drawn for it."""

    seeds: int
    depths: Sequence[Depth]
    confidence: float
    new: int

    def settings(self, settings: Settings, number: int) -> Settings:
        """Those of the seeds that are new at this look; the first seed has number 0."""
        seed = (settings.seed + number * STRIDE) % 2**31
        return replace(settings, seeds=self.new, seed=seed)


def spread(depths: Sequence[Depth]) -> tuple[Depth, ...]:
    """Of each number of layers the lowest, the highest, and every second one between them."""
    kept = {}
    for symbol in depths[0]:
        numbers = sorted({depth[symbol] for depth in depths})
        kept[symbol] = {numbers[0], *numbers[::-2]}
    return tuple(d for d in depths if all(d[symbol] in kept[symbol] for symbol in d))


def looks_at(depths: Sequence[Depth], most: int, fewer_depths: bool = False) -> list[Look]:
    r"""Several looks, up to ``most`` seeds; the first one may have fewer depths.

    Alpha spending: by the look with n of the K seeds, 5 % of error are spent up to

    .. math:: \alpha(n) = 0.05\,\log\bigl(1 + (e - 1)\,n/K\bigr)

    and the interval of a look has the confidence 1 − what is spent at it. The errors of all looks
    add up to 5 %, so by Bonferroni's inequality the interval that is reported has a coverage of
    95 % or more, whatever ends the looks.

    Source: Lan and DeMets, Biometrika 70 (1983), with their function of Pocock's kind.
    """
    totals = [0, *(n for n in FIRST if n < most - 1), most]
    shallow = spread(depths) if fewer_depths and len(totals) > 2 else depths
    spent = [(1 - CONFIDENCE) * math.log1p((math.e - 1) * n / most) for n in totals]
    return [
        Look(n, depths if before else shallow, 1 - (by - until), n - before)
        for (before, n), (until, by) in zip(pairwise(totals), pairwise(spent), strict=True)
    ]


def decided(exponents: Sequence[Exponent], look: Look, looks: Sequence[Look]) -> bool:
    """Whether every predicted exponent has its verdict; all depths are needed to refute one.

    Few depths cannot show from where on a slope has settled.
    """
    enough = {Verdict.SUPPORTED}
    if look.depths == looks[-1].depths:
        enough.add(Verdict.REFUTED)
    judged = [e.verdict in enough for e in exponents if e.predicted is not None]
    return bool(judged) and all(judged)


def because(exponents: Sequence[Exponent], look: Look, looks: Sequence[Look]) -> str:
    """How many seeds were taken and why no more; no word where the number was fixed."""
    if len(looks) < 2:
        return ""
    last, enough = looks[-1], "every predicted exponent is decided"
    short = "the budget ended before every exponent was decided"
    return (
        f"{look.seeds} of up to {last.seeds} seeds at {len(look.depths)} of {len(last.depths)} "
        f"depths were measured: {enough if decided(exponents, look, looks) else short}. The "
        f"intervals have 95 % coverage over all {len(looks)} looks at the data."
    )


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
    """Measure ‖ΔF‖/η per token of ``rule`` at ``depths`` and test what was predicted.

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
        there = [[wave[depth_key(depth)] for wave in waves] for depth in now.depths]
        if (stopped := _measured([*chain(*there)], parts, names, work)) and number:
            break  # what the look before has seen is whole
        look, rows = now, [reduce(AtDepth.with_seeds, seeds) for seeds in there]
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
    wanted, found = [case.depth for case in cases], [dict[str, Any]() for _ in cases]
    work["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    asked = {FORESEEN: predict_depth, "distance": distance_from_identity}
    with fitting_threads(settings) as threads:
        jobs = [
            _job(case, threads, what, 1, partial(ask, case), partial(at.__setitem__, what))
            for case, at in zip(cases, found, strict=True)
            for what, ask in asked.items()
        ]
        work_of, keep = partial(predict_shares, cases[-1]), partial(found[-1].__setitem__, "shares")
        jobs.append(_job(cases[-1], threads, "shares", 1, work_of, keep))
        stopped = run_jobs(jobs, len(jobs), **work)
    if stopped:
        raise KeyboardInterrupt if stopped == INTERRUPTION else InputError(stopped)
    points, warnings = [], []
    for depth, at in zip(wanted, found, strict=True):
        # each seed has data of its own: over seeds the interval is what other data would give
        points.append(point := estimated(dict(depth), at[FORESEEN][ALL].values))
        key, distance = depth_key(depth), fmean(at["distance"])
        if not math.isfinite(point.mean + distance):
            raise InputError(f"the prediction at depth {key} is not finite: try float64")
        if distance > NEAR:
            warnings.append(
                f"at depth {key} S·r² is {distance:.3g}, above {NEAR:g}: the stack is not near the "
                "identity, and the prediction does not reach it"
            )
    return Result(
        PREDICTION,
        of={"select": cases[0].select, "rule": asdict(rule)},
        settings={**settings.to_dict(), "depths": [depth_key(depth) for depth in wanted]},
        points=tuple(points),
        shares=tuple(
            estimated(dict(zip(("part", "name"), key.split(" ", 1), strict=True)), one.values)
            for key, one in found[-1]["shares"].items()
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
    settings, wanted = there[-1].case.settings, [at.case.depth for at in there]
    given = Work(**work)
    given["processes"] = fitting_processes(work.get("processes", 1), wanted, settings)
    with fitting_threads(settings) as threads:
        jobs = [job for at in there for job in at.jobs(threads, parts, names)]
        return run_jobs(jobs, sum(job.cost for job in jobs), **given)


# ---- what was measured, judged ----


def _exponent(asked: Exponent, rows: Sequence[AtDepth], confidence: float) -> Exponent:
    share = asked.share
    found = [(at, values) for at in rows if (values := at.measured(share)) is not None]
    depths = [at.case.depth for at, _ in found]
    predicted = [p.values for at, _ in found if (p := at.expected(share)) is not None]
    expected = table(predicted) if found and len(predicted) == len(found) else None

    def deep_down() -> float | None:
        return power_deep_down(found[-1][0].case, asked.variable) if share == ALL else None

    measured = table(values for _, values in found)
    return judge_exponent(asked, depths, measured, len(rows), expected, deep_down, confidence)


def _assumption(a: Assumption, measured: Sequence[AtDepth], confidence: float) -> AssumptionResult:
    if a.measurement is None or not measured:
        because = "not measured" if a.measurement is None else "no depth was measured"
        return AssumptionResult(a.name, Verdict.ASSUMED, None, None, None, a.statement, because)
    values = table(at.measured(a.measurement) or () for at in measured)
    return judge_assumption(a, [at.case.depth for at in measured], values, confidence)
