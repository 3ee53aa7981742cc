r"""Every number that stands beside the chain of steps, measured on an explicit sublayer.

A derivation has two roads to one answer. The table's entries come from the algebra of sizes, and a
second formula for each would make the same error twice; so each is held against an explicit
sublayer (:mod:`~deepnet_theory.proof.explicit`). A row holds where both agree at several
depths, constants included. What is measured here needs no step that restates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter, methodcaller

from deepnet_theory.definitions.expression import DEPTH, UPDATE, FloatAlgebra, evaluate, fold
from deepnet_theory.definitions.measurement import Prediction
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.rule import ParameterRule, Rule
from deepnet_theory.definitions.sublayer import EPSILON, MATRICES
from deepnet_theory.proof.explicit import (
    SAME,
    Depth,
    Moved,
    Place,
    explicit_stack,
    practised,
)
from deepnet_theory.proof.witness import xavier_variance
from deepnet_theory.sizes.answer import of_sublayer, share_consequences
from deepnet_theory.sizes.exponents import predictions, rival_rules
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.monomial import Monomial, parse
from deepnet_theory.sizes.norm_epsilon import LOST, of_entry, sinking
from deepnet_theory.sizes.table import (
    LAZY,
    STABLE,
    UNSTABLE,
    ParameterRow,
    SublayerRow,
    Table,
    crossings,
    equivalent_closures,
    parameter_rules,
    table,
    texts,
)
from deepnet_theory.sizes.update import law

DEPTHS: tuple[Depth, ...] = (
    {"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6},
)  # fmt: skip
SHALLOW, DEEP = 10**3, 10**12  # a power of the depth is what lies between
DRAWN = 0.4  # of a logarithm, with drawn matrices: less than a factor of two
CONSTANT = 1e-3  # a share that must not change with the depth, by a difference quotient


@dataclass(frozen=True)
class Measured:
    """A number of the table and what was measured of it, at each of :data:`DEPTHS`.

    ``of`` names it, ``because`` says how it was measured; ``verdict`` is MEASURED or REFUTED.
    """

    of: str
    says: str
    because: str
    table: tuple[float, ...]
    found: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        pairs = zip(self.table, self.found, strict=True)
        agree = all(abs(a - b) <= SAME * max(abs(a), abs(b)) for a, b in pairs)
        return Verdict.MEASURED if agree else Verdict.REFUTED

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "of": self.of,
            "says": self.says,
            "because": self.because,
            "table": list(self.table),
            "measured": list(self.found),
            "verdict": self.verdict.value,
        }


def measured(of: Table) -> tuple[Measured, ...]:
    """Every row of the table, and every number that the derivation prints beside its steps."""
    rows = _Rows(of)
    return tuple(
        measurement
        for measurements in (
            *map(rows.sublayer, of.sublayers),
            *map(rows.parameter, of.parameters, parameter_rules(of)),
            rows.conditions(),
            rows.exponents(),
            rows.floors(),
            rows.equivalent(),
        )
        for measurement in measurements
    )


def once(name: str, says: str, because: str, stated: float, value: float) -> Measured:
    """A number at one depth."""
    return Measured(name, says, because, (stated,), (value,))


def word(name: str, says: str, seen: str, because: str) -> Measured:
    """A word of the answer against the one that is measured."""
    return once(name, says, because, 1.0, float(says == seen))


def constant(name: str, says: str, because: str, values: Sequence[float]) -> Measured:
    """A quantity that must not change with the depth."""
    level = (value / values[0] for value in values)
    same = tuple(1.0 if abs(ratio - 1) < CONSTANT else ratio for ratio in level)
    return Measured(name, says, because, (1.0,) * len(values), same)


def grows(shallow: float, deep: float) -> bool:
    return deep > shallow * (1 + CONSTANT)


def _numbers(place: Place) -> dict[str, float]:
    """What the sides of a closure speak of, at a place."""
    alpha, beta = place.knobs
    matrices = len(place.sublayer.scaled)
    return {"alpha": alpha, "beta": beta, "m": matrices, "rho": place.rho}


class _Rows:
    """The rows of a table, on the explicit sublayers of its rule."""

    def __init__(self, of: Table) -> None:
        self.of, self.selection = of, of.selection
        self.stack = explicit_stack(of.selection, texts(of.rule))

    def places(self, part: str, sublayer: str, depths: Sequence[Depth] = DEPTHS) -> list[Place]:
        return [self.stack.at(part, sublayer, depth) for depth in depths]

    def row(
        self, name: str, stated: Monomial | None, because: str, values: Sequence[float]
    ) -> Measured:
        """A monomial of the table against what is measured, at every depth."""
        assert stated is not None
        numbers = tuple(stated.at(**depth) for depth in DEPTHS)
        if self.stack.numbered:
            ratios = [a / b for a, b in zip(numbers, values, strict=True)]
            return constant(name, str(stated), because, ratios)
        return Measured(name, str(stated), because, numbers, tuple(values))

    # ---- the kinds of sublayers ----

    def sublayer(self, row: SublayerRow) -> Iterator[Measured]:
        kind, member = f"{row.part}, {row.sublayer}", row.members[0]
        places = self.places(row.part, member)
        matrices = len(factors(places[0].sublayer))
        orders = {k: methodcaller("order", k) for k in range(1, matrices + 1)}
        printed = {c.name: c for c in of_sublayer(self.of, row)}
        explicit = "explicit matrices, one branch in place of another"
        sizes: tuple[tuple[str, str, str, Callable[[Place], float]], ...] = (
            ("beta", "the rule's own constant", "initial-weight", lambda at: at.knobs[1]),
            ("r", explicit, "branch-weight", attrgetter("weight")),
            ("S*r", explicit, "aligned-sum", attrgetter("aligned")),
            (places[0].part.squares, explicit, "self-consistency", attrgetter("independent")),
            ("rho", "the update of a matrix under the gradient it has", "relative-update",
             attrgetter("rho")),
            *((f"order {k}", f"{k} of a branch's matrices at once", f"order-{k}", order)
              for k, order in orders.items()),
        )  # fmt: skip
        for name, because, consequence, size in sizes:
            values = [size(place) for place in places]
            yield self.row(f"{name} of {kind}", printed[consequence].value, because, values)
        slopes = []
        for depth in self.selection.the_stack.depths:  # the other part's is held
            ends = [{**DEPTHS[0], depth: layers} for layers in (SHALLOW, DEEP)]
            pair = self.places(row.part, member, ends)
            slopes += [
                math.log(deep / shallow) / math.log(DEEP / SHALLOW)
                for shallow, deep in (map(order, pair) for order in orders.values())
            ]
        lazy = min(slopes) < -CONSTANT
        state = UNSTABLE if max(slopes) > CONSTANT else LAZY if lazy else STABLE
        failing = printed["failing-rate"]
        yield word(f"state of {kind}", failing.remark, state, "two depths")
        # the rate where aligned steps have moved the branch by as much as itself
        ends = [{**DEPTHS[0], row.depth: layers} for layers in (SHALLOW, 10**9)]
        rises = grows(*(place.rho for place in self.places(row.part, member, ends)))
        rates = [place.rho ** (1 / matrices - 1 if rises else 0) for place in places]
        name = f"largest stable rate of {kind}"
        yield self.row(name, failing.value, "rho at two depths", rates)
        yield from self.norms(row)

    def norms(self, row: SublayerRow) -> Iterator[Measured]:
        """The ε of every norm, beside what the norm divides in the deepest branch of the entry."""
        entry = self.stack.rule.entry(row.part, row.members[0])
        sharing = [s for s in self.stack.part(row.part).layer if entry.sublayer in ("*", s.name)]
        deepest = max(sharing, key=lambda sublayer: len(factors(sublayer))).name
        for norm in of_entry(self.selection, entry):
            yield constant(
                f"epsilon of the norm on the {norm.place}, {row.part}, {row.sublayer}",
                norm.squared,
                "its share of the variance that an explicit norm divides by",
                [
                    evaluate(DEPTH.parse(norm.squared), **place.depth)
                    / place.sizes.variances[norm.place].at(*place.knobs)
                    for place in self.places(row.part, deepest)
                ],
            )
        for sinks in sinking(self.selection, Rule("", (entry,))):
            for name, depth in sinks.depths:
                if name in row.members and not depth.symbols:
                    branch = next(s for s in sharing if s.name == name)
                    there = {**DEPTHS[0], row.depth: depth.at()}
                    variance = evaluate(DEPTH.parse(sinks.epsilon), **there)
                    variance *= xavier_variance(branch) if sinks.place == "output" else 1.0
                    passes = 1 + law(self.selection.the_optimizer).p  # forward, and to the gradient
                    kept = (1 + EPSILON / variance) ** (-passes / 2)
                    near = abs(math.log((1 - kept) / LOST)) < DRAWN
                    yield once(
                        f"depth where epsilon takes {LOST}, {sinks.place}, {row.part}, {name}",
                        str(depth),
                        "explicit Xavier matrices at that depth, and a ReLU",
                        float(LOST),
                        float(LOST) if near else 1 - kept,
                    )

    # ---- every parameter ----

    def parameter(self, row: ParameterRow, printed: ParameterRule) -> Iterator[Measured]:
        """Its entries, those that are printed where there are such."""
        rate, epsilon = parse(printed.rate), parse(printed.epsilon)
        kind = f"{row.parameter} of {row.sublayer}, {row.part}"
        places = self.places(row.part, row.sublayer)
        if row.size is not None:
            because = "the rule's own constant, 1 where it scales nothing"
            sizes = [place.size_of(row.parameter, row.role) for place in places]
            yield self.row(f"size of {kind}", parse(printed.gain), because, sizes)
        moved = self.moved(row, places)
        if not moved or row.gradient is None or row.share is None or row.update is None:
            nothing = not moved and row.share is None and row.gradient is None
            because = "an explicit response" if moved else "an explicit response of 0"
            yield once(f"gradient of {kind}", "0", because, 0.0, float(not nothing))
            return
        # a learning rate makes the share of order one, where that grows with the part's depth
        ends = [{**DEPTHS[0], row.depth: layers} for layers in (SHALLOW, DEEP)]
        shares = [at.share for at in self.moved(row, self.places(row.part, row.sublayer, ends))]
        dominant, share = grows(*shares), row.share
        for shown in share_consequences((row,)):
            assert shown.value is not None
            share, standing = shown.value, shown.remark.partition(";")[0]
            falls = shares[1] < shares[0] * (1 - CONSTANT)
            seen = "dominant" if dominant else "negligible" if falls else "equal"
            yield word(f"standing of {kind}", standing, seen, "its share at two depths")
        for name, because, stated, values in (
            ("gradient", "an explicit response", row.gradient, [at.gradient for at in moved]),
            ("update", "the optimizer's own expression", row.update, [at.update for at in moved]),
            ("share", "S responses to such an update", share, [at.share for at in moved]),
            ("multiplier", "the share", row.balancing, [1 / at.share for at in moved]),
            ("learning rate", "what makes its share of order one, where that grows", rate,
             [at.kappa / (at.share if dominant else 1.0) for at in moved]),
        ):  # fmt: skip
            yield self.row(f"{name} of {kind}", stated, because, values)
        optimizer = self.selection.the_optimizer
        at_start = [practised(optimizer, at.gradient, at.size) for at in moved]
        if "epsilon" in optimizer.practised.names:
            epsilons = [epsilon.at(**depth) for depth in DEPTHS]
            taken = [p.hidden(1e-6 * e) for p, e in zip(at_start, epsilons, strict=True)]
            if not any(taken):  # a clamp that a scale-free update does not feel
                taken = [e / at.gradient for e, at in zip(epsilons, moved, strict=True)]
            because = "the share of the update that a small epsilon takes"
            yield constant(f"epsilon of {kind}", printed.epsilon, because, taken)
        if row.role in MATRICES and row.decay is not None:
            rates = rate * parse(printed.weight_decay)
            taken = [
                place.eta * rates.at(**place.depth) * p.shrinks
                for place, p in zip(places, at_start, strict=True)
            ]
            because = "the share of the matrix that one step's decay takes"
            yield constant(f"weight decay of {kind}", printed.weight_decay, because, taken)

    def moved(self, row: ParameterRow, places: Sequence[Place]) -> list[Moved]:
        every = (place.moved_by(row.parameter, row.role) for place in places)
        return [moved for moved in every if moved is not None]

    # ---- what is said of the whole ----

    def conditions(self) -> Iterator[Measured]:
        """The balance and the closure at the rule.

        The steps solve both for the rule that they end in alone; a rule to train with and a closure
        said to be equivalent come from the table, and a wrong constant there is consistent with
        every size that follows from it.
        """
        closure, picked = self.of.rule.closure, set[str]()
        for row in self.of.sublayers:
            places = self.places(row.part, row.members[0])
            yield constant(
                f"balance of {row.part}, {row.sublayer}",
                "1",
                "what the first order adds does not change with the depth",
                [place.order(1) for place in places],
            )
            if row.part in picked and self.selection.has_one_alpha(self.stack.part(row.part)):
                continue  # with one α the closure picks that of the first kind, β of others follows
            picked.add(row.part)
            for left, right in closure.expressions:
                values = [
                    evaluate(left, **numbers) / evaluate(right, **numbers)
                    for numbers in map(_numbers, places)
                ]
                name = f"closure {closure.name} of {row.part}, {row.sublayer}"
                says, because = f"{left.text} = {right.text}", "both sides at the rule"
                if self.stack.numbered:  # where a number stands in the equation, up to a constant
                    yield constant(name, says, because, values)
                else:
                    yield Measured(name, says, because, (1.0,) * len(values), tuple(values))

    def exponents(self) -> Iterator[Measured]:
        """The predicted exponents, of this rule and of others' under the same optimizer.

        None beyond the identity's neighbourhood, where a share is not what one sublayer says. Of
        two parts cross-attentions amplify as independent ones, whatever the rule was balanced with.
        """
        far = any(row.independent.exponent(d) > 0 for row in self.of.sublayers for d in DEPTHS[0])
        several = len(self.selection.the_stack.parts) > 1 and self.selection.uses != "1"
        if far or several:
            return
        rules = {"": self.stack.rule, **rival_rules(self.selection)}
        for prediction in predictions(self.selection, self.stack.rule).exponents:
            for name, exponent in (("", prediction.exponent), *prediction.rivals):
                if exponent is not None and name in rules:
                    yield from self.exponent(prediction, name, exponent, rules[name])

    def exponent(
        self, prediction: Prediction, name: str, stated: Fraction, rule: Rule
    ) -> Iterator[Measured]:
        """A predicted exponent as that of the matrix whose share is the largest in the limit.

        Each share is a power of the depth, while the slope of a sum of unlike powers is none of
        them at any finite depth.
        """
        stack = explicit_stack(replace(self.selection, amplification="independent"), rule)
        rows = [
            row
            for row in self.of.parameters
            if row.role in MATRICES and row.share and prediction.share in ("all", row.part)
        ]
        shares: list[list[float]] = []
        squares = []
        for layers in (SHALLOW, DEEP):
            depth = {**DEPTHS[0], prediction.variable: layers}
            places = [stack.at(row.part, row.sublayer, depth) for row in rows]
            moved = (self.moved(row, [place]) for row, place in zip(rows, places, strict=True))
            shares.append([one.share for each in moved for one in each])
            squares.append(max((place.independent for place in places), default=0.0))
        if not all(shares) or grows(*squares):
            return
        slope = max(
            math.log(deep / shallow) / math.log(DEEP / SHALLOW)
            for shallow, deep in zip(*shares, strict=True)
        )
        yield once(
            f"predicted exponent in {prediction.variable}, {prediction.share}"
            + f", of {name}'s rule" * bool(name),
            str(stated),
            "the largest power among the shares of all matrices",
            float(stated),
            float(stated) if abs(slope - stated) < SAME else slope,
        )

    def floors(self) -> Iterator[Measured]:
        """The depth where a floor is crossed: the matrix's own rms there is the floor."""
        for crossing in crossings(self.of):
            regime = next(r for r in self.of.rule.update.regimes if r.is_floor)
            floor = abs(float(fold(UPDATE.parse(regime.smaller).root, FloatAlgebra())))
            part = self.stack.part(crossing.part)
            fans = sum({"d": 64, "hidden": 256}[fan] for fan in crossing.fans)
            # at any depth of the other part, which an encoder's constants may hold
            depth = {**DEPTHS[0], part.depth: crossing.depth.at(**DEPTHS[0], fans=fans)}
            entry = self.stack.rule.entry(part.name, crossing.sublayer)
            yield once(
                f"floor of {crossing.matrix}, {crossing.part}",
                str(crossing.depth),
                "the rms of a Xavier matrix at that depth",
                floor,
                evaluate(DEPTH.parse(entry.beta), **depth) * math.sqrt(2 / fans),
            )

    def equivalent(self) -> Iterator[Measured]:
        """Closures said to be one rule: S·r and ρ of both, measured."""
        for name, exact in equivalent_closures(self.of):
            other, ratios = _Rows(table(replace(self.selection, closure=name))), []
            for measurement in other.conditions():
                yield replace(measurement, of=f"{measurement.of}, under {name}")
            for part, member in ((r.part, m) for r in self.of.sublayers for m in r.members):
                pairs = [*zip(self.places(part, member), other.places(part, member), strict=True)]
                for size in ("aligned", "rho"):
                    ratio = [getattr(ours, size) / getattr(theirs, size) for ours, theirs in pairs]
                    ratios.append(ratio[-1] if exact else ratio[-1] / ratio[0])
            yield Measured(
                f"equivalent closure {name}",
                "the same constants" if exact else "the same up to constants",
                "S*r and rho under both rules",
                (1.0,) * len(ratios),
                tuple(ratios),
            )
