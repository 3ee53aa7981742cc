r"""What one update through each role moves as the width grows, measured and judged.

One backward pass gives every gradient g, and the update ΔW of every parameter from it. A role's own
output :math:`y = cWx` then moves by :math:`c\,\Delta W x`, on the tokens of the batch, and the loss
by :math:`\langle g, \Delta W\rangle`: both exact to first order, at any learning rate. What of them
is the law and what is the finite width: few tokens beside the width, from ``LEAST`` on.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import starmap
from statistics import fmean
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.measurement import (
    VERIFICATION,
    Estimate,
    Exponent,
    Prediction,
    Result,
    Scaling,
)
from deepnet_theory.definitions.outcome import INTERRUPTION, InputError, Verdict
from deepnet_theory.definitions.rule import ParameterRule
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.judging import ALL, WORST_FIRST, Plan, varies_alone
from deepnet_theory.laboratory.settings import (
    FEWEST,
    Depth,
    depth_key,
    fitting_processes,
    fitting_threads,
    provenance,
    require_memory,
)
from deepnet_theory.laboratory.statistics import (
    Array,
    exponent_of,
    fit_exponent,
    judge,
    positive_interval,
    slopes,
    to_decide,
)
from deepnet_theory.laboratory.stepping import arriving, backward, inner_product, only, update
from deepnet_theory.laboratory.trial import Trial
from deepnet_theory.laboratory.verify import NEEDS_LESS, measuring
from deepnet_theory.models.groups import role_of
from deepnet_theory.processes import Work, run_until_stopped, with_advice
from deepnet_theory.runtime import Description, described
from deepnet_theory.runtime.linear import Linear, Norm

LEAST = 128  # the width that exponents are fitted from, where three are not narrower
VOCABULARY = 32  # bytes modulo it: fewer than the width, as the law of a table has it
FEW = 8  # widths a token: sign(g) of T tokens acts as n·sqrt(2/(πT)) beside its noise, sqrt(n)
TOLERANCE = 0.1  # the exponents of two laws differ by a half; finite widths by less than this
APART = 0.5  # the exponents at full and at no alignment; many tokens lie between
LOSS = "{} on the loss"

Moves = dict[str, list[float]]  # by role, one value a seed


@dataclass(frozen=True)
class Wide(Case):
    """A case whose roles scale from the width ``base`` on, where every power of the width is 1."""

    scalings: tuple[Scaling, ...] = ()
    base: int = 1
    parameters: tuple[ParameterRule, ...] = ()

    def times(self, power: Fraction) -> float:
        """What a power of the width multiplies with, over that of the base."""
        return float((self.settings.width / self.base) ** power)

    @property
    def constants(self) -> Constants:
        sizes = replace(super().constants.architecture, vocab=VOCABULARY)
        return Constants.of(self.selection, self.rule, self.depth, sizes, self.parameters)

    @property
    def place(self) -> Depth:
        return {**self.depth, "d": self.settings.width}


class Roles:
    """The parameters of a trial by role, at the sizes, multipliers and rates of a wide case.

    The model has no multipliers, its embedding one of √d. A role's W with multiplier c stands there
    as P = mW: its gradient is m times that of P, and the update of P m times that of W.
    """

    def __init__(self, case: Wide, draw: int = 0) -> None:
        self.case, self.trial = case, Trial(case, seeds=1, draw=draw)
        self.by_role = {s.role: s for s in case.scalings}
        self.parameters = [
            (p, d) for p, d in described(self.trial.model) if role_of(d) in self.by_role
        ]
        with torch.no_grad():
            for p, d in self.parameters:
                if d.is_matrix:
                    p.mul_(self._resized(d))

    def _resized(self, d: Description) -> float:
        """The size that is asked for over the one that the builder draws."""
        scaling, case = self.by_role[role_of(d)], self.case
        # Xavier's law at the base: all fans are widths but the head's, which is the vocabulary
        assert d.fan_in is not None and d.fan_out is not None
        fans = d.fan_in + d.fan_out
        fixed = d.fan_out if d.role is Role.HEAD else 0
        at_base = (fans - fixed) * case.base / case.settings.width + fixed
        table = Fraction(-1, 2) if d.role is Role.EMBEDDING else Fraction(0)
        return case.times(scaling.size + scaling.multiplier + table) * math.sqrt(fans / at_base)

    def change(self, p: nn.Parameter, d: Description, gradient: Tensor) -> Tensor:
        """The update of a parameter at a learning rate of 1 at the base width: as ``gradient``."""
        optimizer = self.trial.selection.the_optimizer
        scaling, table = self.by_role[role_of(d)], d.role is Role.EMBEDDING
        m = self.case.times(scaling.multiplier) / (
            math.sqrt(self.case.settings.width) if table else 1
        )
        rate = self.case.times(scaling.rate) * self.trial.rate(p)
        g, theta = m * gradient, p.detach() / m
        at_zero = not d.is_matrix and d.role is not Role.NORM_GAIN
        expression = optimizer.from_zero if at_zero else optimizer.expression
        return m * update(expression, rate, g, theta)


def measure_moves(case: Wide) -> Moves:
    """What one update through each role moves, the root mean square over a seed's draws."""
    seeds, draws = case.settings.seeds, case.settings.draws
    # one at a time: memory that is small enough is used again
    drawn = [_moves(Roles(case, draw)) for draw in range(seeds * draws)]
    return {
        name: np.sqrt(
            np.mean(np.square([one[name] for one in drawn]).reshape(seeds, draws), 1)
        ).tolist()
        for name in drawn[0]
    }


def _moves(roles: Roles) -> dict[str, float]:
    trial = roles.trial
    model, batch = trial.model, trial.batch
    inputs: dict[nn.Module, tuple[Tensor, ...]] = {}
    squares: dict[str, list[float]] = defaultdict(list)
    slopes: dict[str, list[float]] = defaultdict(list)
    owners = {
        id(p): (m, name) for m in model.modules() for name, p in m.named_parameters("", False)
    }
    descriptions = {id(p): d for p, d in roles.parameters}
    handles = [
        m.register_forward_hook(lambda m, given, _: inputs.__setitem__(m, given))
        for m in model.modules()
        if isinstance(m, Linear | Norm)
    ]

    def see(p: nn.Parameter, gradient: Tensor) -> None:
        d = descriptions[id(p)]
        change = roles.change(p, d, gradient)
        if d.role is Role.EMBEDDING:
            moved = math.sqrt(trial.settings.width) * change[:, torch.cat(batch.inputs).flatten()]
        else:  # what is linear in its parameters moves by itself with the change in their place
            module, name = owners[id(p)]
            nothing = {n: torch.zeros_like(v) for n, v in module.named_parameters()}
            moved = functional_call(module, {**nothing, name: change}, inputs[module])
        role = role_of(d)
        squares[role].append(float(moved.double().square().mean()))
        slopes[role].append(float(inner_product(gradient, change)))

    parameters = [p for p, _ in roles.parameters]
    try:
        *memory, tokens = batch.inputs
        with only(model, parameters), arriving(parameters, see):
            output = model(tokens, *memory)
            backward(nn.functional.cross_entropy(output.flatten(0, -2), batch.targets.flatten()))
    finally:
        for handle in handles:
            handle.remove()
    return {
        ALL: abs(math.fsum(slope for each in slopes.values() for slope in each)),
        **{role: math.sqrt(fmean(each)) for role, each in squares.items()},
        **{LOSS.format(role): abs(math.fsum(each)) for role, each in slopes.items()},
    }


# ---- what was measured, judged ----


def judge_power(
    prediction: Prediction,
    places: Sequence[Depth],
    values: Array,
    tokens: int,
    expected: Array | None = None,
) -> Exponent:
    """The exponent of ``values`` (seeds, places) in one symbol, the others held fixed.

    In d it is fitted from ``LEAST`` on, where enough widths are left. ``expected`` is a sum of
    powers, held against its slope over the same widths. With ``tokens`` above a ``FEW``-th of the
    width, what is off by up to ``APART`` may be theirs: UNDECIDED.
    """
    symbol, groups = prediction.variable, Plan(prediction, total=False).groups(places)
    numbers, widths = (np.array([place[name] for place in places]) for name in (symbol, "d"))
    kept = widths >= LEAST
    if len({*widths[kept].tolist()}) < FEWEST:
        kept[:] = True
    narrow = widths[kept].min()

    def held() -> list[object]:
        return [group for group, inside in zip(groups, kept, strict=True) if inside]

    fit = fit_exponent(numbers[kept].tolist(), values[:, kept], held())
    predicted = here = None if prediction.exponent is None else float(prediction.exponent)
    if expected is not None:
        kept &= numbers >= fit.fitted_from
        summed = slopes(np.log(numbers[kept]), np.log(expected[:, kept]), held()).mean()
        here = round(float(summed), 6)
    verdict, because = judge(fit.interval, here, tolerance=TOLERANCE)
    more = to_decide(fit.interval, here, tolerance=TOLERANCE)
    if here != predicted:
        because += ", what the powers of single roles add up to over these widths"
    if not values.any():
        because = "the update moves nothing: it leaves 0 where it is"
    elif (
        verdict is Verdict.REFUTED
        and here is not None
        and tokens * FEW > narrow
        and not fit.interval.outside(here - APART - TOLERANCE, here + APART + TOLERANCE)
    ):
        verdict, low, high = Verdict.UNDECIDED, fit.interval.low, fit.interval.high
        because = (
            f"[{low:+.3f}, {high:+.3f}] is off {here:+g} ± {TOLERANCE:g} by no more than "
            f"{tokens} tokens can make it beside a width of {narrow}"
        )
        more = "fewer tokens or larger widths would decide, not more seeds"
    return exponent_of(
        symbol, prediction.share, fit.interval, predicted, verdict, because,
        tolerance=TOLERANCE,
        more=more,
        fitted_from=fit.fitted_from,
        here=None if here == predicted else here,
    )  # fmt: skip


def predictions(scalings: Sequence[Scaling], places: Sequence[Depth]) -> Iterator[Prediction]:
    """What is predicted: of the loss by all roles together, of each role, and of the loss by it.

    The whole is to be the same at each depth. Nothing is said of it where a role's is not known.
    """
    losses = [s.loss for s in scalings if s.loss is not None]
    if len(losses) == len(scalings):
        yield Prediction("d", ALL, max(losses))
        for symbol in places[0]:
            if symbol != "d" and varies_alone(symbol, places):
                yield Prediction(symbol, ALL, Fraction(0))
    yield from (Prediction("d", s.role, s.output) for s in scalings if s.output is not None)
    for s in scalings:
        if s.loss is not None:
            yield Prediction("d", LOSS.format(s.role), s.loss)


def judge_moves(
    scalings: Sequence[Scaling],
    places: Sequence[Depth],
    moves: Sequence[Moves],
    tokens: int,
) -> tuple[Exponent, ...]:
    def values(name: str) -> Array:
        return np.array([one[name] for one in moves], dtype=float).T

    widths = np.array([place["d"] for place in places])
    exponents = []
    for prediction in predictions(scalings, places):
        expected = None
        if (prediction.variable, prediction.share) == ("d", ALL):
            powers = ((s, widths / widths[0]) for s in scalings)
            expected = np.sum(
                [values(LOSS.format(s.role))[:, :1] * r ** float(s.loss or 0) for s, r in powers], 0
            )
        measured = values(prediction.share)
        exponents.append(judge_power(prediction, places, measured, tokens, expected))
    return tuple(exponents)


def verdict_on(exponents: Sequence[Exponent]) -> Verdict:
    """REFUTED where any exponent is; else the worst of all but the loss by single roles."""
    verdicts = [e.verdict for e in exponents]
    if Verdict.REFUTED in verdicts:
        return Verdict.REFUTED
    outputs = [e.verdict for e in exponents if not e.share.endswith(LOSS.format(""))]
    return min(outputs, key=WORST_FIRST.index, default=Verdict.UNDECIDED)


def verify_width(
    name: str,
    scalings: Sequence[Scaling],
    case: Case,
    places: Sequence[Depth],
    parameters: Iterable[ParameterRule] = (),
    *,
    across: str = "width",
    watch: Callable[[Estimate], None] | None = None,
    **work: Unpack[Work],
) -> Result:
    """Measure one update at ``places`` (depth and width d) under the parametrisation of a name.

    Selection, rule and settings are those of ``case``; ``parameters`` what the depth asks for.
    Points are the change of the loss by one update of everything. Raises :class:`InputError` for
    widths that the heads do not divide, data without tokens, and too little memory.
    """
    began, settings = time.perf_counter(), replace(case.settings, step="all")
    if settings.correlation is not None:
        raise InputError(
            f"the data {settings.data!r} have no embedding; across width valid is: text"
        )
    widths = sorted({place["d"] for place in places})
    cases = [
        Wide(
            case.selection, case.rule.plain(), {s: n for s, n in place.items() if s != "d"},
            replace(settings, width=place["d"]), scalings=tuple(scalings), base=widths[0],
            parameters=tuple(parameters),
        )
        for place in places
    ]  # fmt: skip
    depths, largest = [c.depth for c in cases], replace(settings, width=widths[-1])
    require_memory(case.selection, depths, largest)
    work["processes"] = fitting_processes(work.get("processes", 1), depths, largest)
    moved: dict[str, Moves] = {}

    def keep(case: Wide, moves: Moves) -> None:
        moved[depth_key(case.place)] = moves
        if watch is not None:
            watch(_point(case, moves))

    with fitting_threads(largest) as threads:
        jobs = [
            measuring(
                case, f"{name} at {depth_key(case.place)}",
                float(sum(case.depth.values()) * case.settings.width**2),
                partial(measure_moves, case), partial(keep, case), threads,
            )
            for case in cases
        ]  # fmt: skip
        stopped = run_until_stopped(jobs, sum(job.cost for job in jobs), **work)
    if stopped and stopped != INTERRUPTION and not moved:
        raise InputError(with_advice(stopped, NEEDS_LESS))
    exponents: tuple[Exponent, ...] = ()
    if not stopped:
        moves = [moved[depth_key(place)] for place in places]
        exponents = judge_moves(scalings, places, moves, settings.batch * settings.tokens)
    there = [(case, moved[key]) for case in cases if (key := depth_key(case.place)) in moved]
    roles = [{key: str(value) for key, value in asdict(s).items()} for s in scalings]
    return Result(
        VERIFICATION,
        of={
            "select": {**case.select, "across": across},
            "rule": {"name": name, "roles": roles},
        },
        settings={**settings.to_dict(), "width": widths, "places": list(places)},
        points=tuple(starmap(_point, there)),
        exponents=exponents,
        verdict=verdict_on(exponents),
        provenance=provenance(began, settings.torch_device, stopped),
    )


def _point(case: Wide, moves: Moves) -> Estimate:
    values = tuple(moves[ALL])
    return Estimate(case.place, *positive_interval(values).numbers, values=values)
