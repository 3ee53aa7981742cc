r"""Every number that stands beside the chain of steps, measured on an explicit sublayer.

The table's entries come from the algebra of sizes. Here each is computed again by another road:
how a sublayer responds is measured on matrices (:mod:`~deepnet_theory.symbolic.proof.witness`), the
optimizer's update is evaluated on entries of the sizes at hand, sublayers and cross-attentions are
counted one by one. A row holds where both agree at several depths, constants included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

import mpmath

from deepnet_theory.sizes.exponents import predictions
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.norm_epsilon import of_entry
from deepnet_theory.sizes.table import (
    ParameterRow,
    SublayerRow,
    Table,
    crossings,
    equivalent_closures,
    table,
    texts,
)
from deepnet_theory.spec.expression import (
    DEPTH,
    UPDATE,
    FloatAlgebra,
    Node,
    Number,
    evaluate,
    fold,
    parts,
)
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.laws.optimizer import degrees, on_numbers
from deepnet_theory.symbolic.proof import witness
from deepnet_theory.symbolic.proof.witness import Knobs

DEPTHS = ({"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6})
SAME = 1e-6  # two roads to one number
CONSTANT = 1e-3  # a share that must not change with the depth, by a difference quotient
DIGITS = 60
_AT_START = frozenset({"norm_gain"})  # what else starts with a size: all matrices do


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
        agree = all(_same(a, b) for a, b in zip(self.table, self.found, strict=True))
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


def _same(stated: float, found: float) -> bool:
    return abs(stated - found) <= SAME * max(abs(stated), abs(found))


@cache
def stepped_by(optimizer: Optimizer, starts_at_zero: bool = False) -> Stepped:
    """The update of an optimizer, whose numbers are kept."""
    return Stepped(optimizer, starts_at_zero)


@dataclass(frozen=True)
class Stepped:
    """An optimizer's update of a parameter, evaluated on entries of given sizes."""

    optimizer: Optimizer
    starts_at_zero: bool = False

    @cached_property
    def _signs(self) -> tuple[int, int]:
        """Of g and θ, such that the update is not 0, as max(-theta, 0)*g is at some."""
        update = degrees(self.optimizer).reduced
        return next(
            signs
            for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1))
            if any(self._at(update, 1.0, 1.0, signs))
        )

    @cached_property
    def _unit(self) -> float:
        return self._length(degrees(self.optimizer).reduced, 1.0, 1.0)

    @cache  # noqa: B019  a few numbers for each of a handful of updates
    def size(self, gradient: float, parameter: float) -> float:
        """‖Δθ‖ over that of a unit gradient and parameter, η = 1."""
        size = 1.0 if self.starts_at_zero else parameter  # a library's ratio of a zero is 1
        return self._length(degrees(self.optimizer).reduced, gradient, size) / self._unit

    def _length(self, update: Node, gradient: float, parameter: float) -> float:
        return math.hypot(*self._entries(update, gradient, parameter))

    def _entries(
        self, update: Node, gradient: float, parameter: float, **constants: float
    ) -> tuple[float, float]:
        return self._at(update, gradient, parameter, self._signs, **constants)

    def _at(
        self,
        update: Node,
        gradient: float,
        parameter: float,
        signs: tuple[int, int],
        **constants: float,
    ) -> tuple[float, float]:
        with mpmath.workdps(DIGITS):
            g, theta = signs[0] * mpmath.mpf(gradient), signs[1] * mpmath.mpf(parameter)
            values = {
                "eta": mpmath.mpf(1),
                "g": (g * 0.6, -g * 0.8),
                "theta": (theta * mpmath.mpf(5) / 13, theta * mpmath.mpf(12) / 13),
                **{name: mpmath.mpf(value) for name, value in constants.items()},
            }
            first, second = on_numbers(update, values)
            return float(first), float(second)

    def hidden(self, gradient: float, parameter: float, epsilon: float) -> float:
        """By how much of itself an ε changes the update as its library takes it."""
        root = self.optimizer.practised.root
        of = (gradient, parameter)
        with_, without = (self._entries(root, *of, epsilon=e, decay=0) for e in (epsilon, 0.0))
        return math.hypot(*(a - b for a, b in zip(with_, without, strict=True))) / math.hypot(
            *without
        )

    def shrinks(self, gradient: float, parameter: float, decay: float) -> float:
        """The share of a parameter that a weight decay takes in one step, η = 1.

        A decay in the gradient moves the parameter by as much of ‖Δθ‖ as λθ is of g. One beside
        the update is seen in the update; it is a part of it.
        """
        root = self.optimizer.practised.root
        still = self._entries(root, gradient, parameter, epsilon=0.0, decay=0.0)
        if self._in_gradient(gradient, parameter):
            return math.hypot(*still) * decay / gradient
        tiny = 1e-9 * math.hypot(*still) / parameter
        moved = self._entries(root, gradient, parameter, epsilon=0.0, decay=tiny)
        change = math.hypot(*(a - b for a, b in zip(moved, still, strict=True))) / tiny
        return change * decay / parameter

    def _in_gradient(self, gradient: float, parameter: float) -> bool:
        """Whether the decay acts as a part of the gradient: u(g, λ) = u(g + λθ, 0)."""
        root = self.optimizer.practised.root
        still = self._entries(root, gradient, parameter, epsilon=0.0, decay=0.0)
        with mpmath.workdps(DIGITS):
            # beside the gradient's size, and beside the update's: where either would show
            for lam in (gradient / parameter, math.hypot(*still) / parameter):
                values = {"eta": mpmath.mpf(1), "epsilon": mpmath.mpf(0)}
                g = [self._signs[0] * mpmath.mpf(gradient) * part for part in (0.6, -0.8)]
                theta = [self._signs[1] * mpmath.mpf(parameter) * part / 13 for part in (5, 12)]
                shifted = [a + lam * b for a, b in zip(g, theta, strict=True)]
                values["theta"] = tuple(theta)  # type: ignore[assignment]
                one = on_numbers(root, {**values, "g": tuple(g), "decay": mpmath.mpf(lam)})
                other = on_numbers(root, {**values, "g": tuple(shifted), "decay": mpmath.mpf(0)})
                # the direction alone: a norm in a denominator may count the decay another way
                cross = abs(one[0] * other[1] - one[1] * other[0])
                if cross > 1e-9 * mpmath.hypot(*one) * mpmath.hypot(*other):
                    return False
        return True


@dataclass(frozen=True)
class Laboratory:
    """The numbers of one part at one depth, none of them from the table's laws."""

    selection: Selection
    part: Part
    entry: RuleEntry
    sublayer: Sublayer
    later: tuple[Part, RuleEntry] | None
    eta: str
    depth: dict[str, int]

    @cached_property
    def knobs(self) -> Knobs:
        return Knobs(*self.entry.at(**self.depth))

    @cached_property
    def kappa(self) -> float:
        return self.entry.rate_at(**self.depth)

    @cached_property
    def rate(self) -> float:
        """The learning rate's factor."""
        return evaluate(DEPTH.parse(self.eta), **self.depth)

    @property
    def count(self) -> int:
        """S: the sublayers of a layer, listed, times the layers."""
        return sum(1 for _ in self.part.layer) * self.depth[self.part.depth]

    @cached_property
    def weight(self) -> float:
        return witness.weight(self.selection.the_placement, self.sublayer).at(self.knobs)

    def response(self, parameter: str) -> float | None:
        powers = witness.responses(self.selection.the_placement, self.sublayer)[parameter]
        return None if powers is None else powers.at(self.knobs)

    def amplified(self) -> tuple[float, float, float]:
        """What a later part multiplies the increment, the update and the gradient with."""
        if self.later is None:
            return 1.0, 1.0, 1.0
        p, form = float(degrees(self.selection.the_optimizer).p), self.selection.amplification
        size = self._passage(self.depth)
        if form == "published":
            deep = [self._passage({**self.depth, "M": n}) for n in (10**3, 10**6)]
            grows = deep[1] > deep[0] * (1 + SAME)
            return (size if grows else 1.0), 1.0, 1.0
        return size ** (1 + p), size**p, size

    def _passage(self, depth: dict[str, int]) -> float:
        """A: the cross-attentions of the later part, one after the other."""
        assert self.later is not None
        part, entry = self.later
        reading = [s for s in part.layer if s.reads_memory]
        knobs = Knobs(*entry.at(**depth))
        one = witness.weight(self.selection.the_placement, reading[0]).at(knobs)
        many = len(reading) * depth[part.depth]
        return one * (math.sqrt(many) if self.selection.amplification == "independent" else many)


def measured(of: Table) -> tuple[Measured, ...]:
    """Every row of the table, and every number that the derivation prints beside its steps."""
    return tuple(_Rows(of).all())


@dataclass(frozen=True)
class _Rows:
    of: Table

    @property
    def selection(self) -> Selection:
        return self.of.selection

    def all(self) -> Iterator[Measured]:
        for row in self.of.sublayers:
            yield from self._sublayer(row)
        for parameter in self.of.parameters:
            yield from self._parameter(parameter)
        yield from self._exponents()
        yield from self._floors()
        yield from self._equivalent()

    @cached_property
    def rule(self) -> Rule:
        return texts(self.of.rule)

    def laboratory(self, part: str, sublayer: str, depth: dict[str, int]) -> Laboratory:
        key = (part, sublayer, *depth.values())
        if key not in self._made:
            self._made[key] = self._laboratory(part, sublayer, depth)
        return self._made[key]

    @cached_property
    def _made(self) -> dict[tuple[object, ...], Laboratory]:
        return {}

    def _laboratory(self, part: str, sublayer: str, depth: dict[str, int]) -> Laboratory:
        parts = self.selection.the_stack.parts
        own = next(p for p in parts if p.name == part)
        rule = self.rule
        later = None
        if len(parts) > 1 and own is parts[0]:
            crossing = next(s for s in parts[1].layer if s.reads_memory)
            later = (parts[1], rule.entry(parts[1].name, crossing.name))
        return Laboratory(
            self.selection,
            own,
            rule.entry(part, sublayer),
            next(s for s in own.layer if s.name == sublayer),
            later,
            rule.eta,
            depth,
        )

    def row(
        self,
        of: str,
        value: Monomial,
        because: str,
        found: Callable[[dict[str, int]], float],
    ) -> Measured:
        """A monomial of the table against what is found, at every depth.

        The witness measures powers of α and β. The numbers of an equation such as
        ``norm(alpha*x + branch(x)/2)`` make constants beside them, which are not measured.
        """
        stated = tuple(value.at(**depth) for depth in DEPTHS)
        seen = tuple(found(depth) for depth in DEPTHS)
        if self._numbered:
            ratios = [a / b for a, b in zip(stated, seen, strict=True)]
            return self.constant(of, str(value), because, ratios)
        return Measured(of, str(value), because, stated, seen)

    @cached_property
    def _numbered(self) -> bool:
        """Whether the equation of the placement holds numbers."""
        equation = self.selection.the_placement.expression.root
        return any(isinstance(node, Number) for node in parts(equation))

    def constant(self, of: str, says: str, because: str, found: list[float]) -> Measured:
        """A quantity that must not change with the depth."""
        level = [1.0 if abs(f / found[0] - 1) < CONSTANT else f / found[0] for f in found]
        return Measured(of, says, because, (1.0,) * len(found), tuple(level))

    # ---- the kinds of sublayers ----

    def _sublayer(self, row: SublayerRow) -> Iterator[Measured]:
        name, of = row.members[0], f"{row.part}, {row.sublayer}"
        sublayer = next(
            s
            for p in self.selection.the_stack.parts
            if p.name == row.part
            for s in p.layer
            if s.name == name
        )

        def at(depth: dict[str, int]) -> Laboratory:
            return self.laboratory(row.part, name, depth)

        def rho(depth: dict[str, int]) -> float:
            return self.invariants(row.part, name, depth)[1]

        def order(k: int, depth: dict[str, int]) -> float:
            lab = at(depth)
            factor, backward, _ = lab.amplified()
            several = math.comb(len(sublayer.scaled), k)
            return factor / backward * lab.count * lab.weight * several * rho(depth) ** k

        def failing(depth: dict[str, int]) -> float:
            """The rate where aligned steps have moved the branch by as much as itself."""
            grows = rho({**depth, row.depth: 10**9}) > rho({**depth, row.depth: 10**3}) * 1.001
            return rho(depth) ** (1 / len(sublayer.scaled) - 1) if grows else 1.0

        explicit = "explicit matrices, one branch in place of another"
        own = "the rule's own constant"
        yield self.row(f"beta of {of}", row.beta, own, lambda d: at(d).knobs.beta)
        yield self.row(f"r of {of}", row.weight, explicit, lambda d: at(d).weight)
        yield self.row(f"S*r of {of}", row.aligned, explicit, lambda d: at(d).count * at(d).weight)
        yield self.row(
            f"S*r^2 of {of}", row.independent, explicit, lambda d: at(d).count * at(d).weight ** 2
        )
        yield self.row(
            f"rho of {of}", row.rho, "the update of a matrix under the gradient it has", rho
        )
        for k, size in enumerate(row.orders, start=1):
            yield self.row(
                f"order {k} of {of}",
                size,
                f"{k} of a branch's matrices moved at once",
                lambda d, k=k: order(k, d),  # type: ignore[misc]
            )
        yield self.row(f"largest stable rate of {of}", row.failing, "rho at two depths", failing)
        entry = next(
            e for e in self.rule.entries if e.part == row.part and e.sublayer in ("*", row.sublayer)
        )
        deepest = max(
            (
                s
                for p in self.selection.the_stack.parts
                if p.name == row.part
                for s in p.layer
                if entry.sublayer in ("*", s.name)
            ),
            key=lambda s: len(s.scaled),
        )
        for norm in of_entry(self.selection, entry):
            powers = witness.variances(self.selection.the_placement, deepest)[norm.place]
            yield self.constant(
                f"epsilon of the norm on the {norm.place}, {of}",
                norm.squared,
                "its share of the variance that an explicit norm divides by",
                [
                    evaluate(DEPTH.parse(norm.squared), **d) / powers.at(Knobs(*entry.at(**d)))
                    for d in DEPTHS
                ],
            )

    # ---- every parameter ----

    def _parameter(self, row: ParameterRow) -> Iterator[Measured]:
        of = f"{row.parameter} of {row.sublayer}, {row.part}"
        zero = row.parameter not in _AT_START | {m.name for m in self._sublayer_of(row).matrices}
        stepped = stepped_by(self.selection.the_optimizer, zero)
        matrix = witness.is_matrix(row.role)

        def at(depth: dict[str, int]) -> Laboratory:
            return self.laboratory(row.part, row.sublayer, depth)

        def size(lab: Laboratory) -> float:
            return lab.knobs.beta if row.role is Role.SCALED else 1.0

        def kappa(lab: Laboratory) -> float:
            return lab.kappa if row.role is Role.SCALED else 1.0

        if row.size is not None:
            constant = "the rule's own constant, 1 where it scales nothing"
            yield self.row(f"size of {of}", row.size, constant, lambda d: size(at(d)))
        if at(DEPTHS[0]).response(row.parameter) is None:
            nothing = row.share is None and row.gradient is None
            yield Measured(
                f"gradient of {of}",
                "0",
                "an explicit response of 0",
                (0.0,),
                (0.0 if nothing else 1.0,),
            )
            return
        if row.gradient is None or row.share is None or row.update is None:
            yield Measured(f"gradient of {of}", "0", "an explicit response", (0.0,), (1.0,))
            return

        def gradient(depth: dict[str, int]) -> float:
            lab = at(depth)
            response = lab.response(row.parameter)
            assert response is not None
            return response * lab.amplified()[2]

        def update(depth: dict[str, int]) -> float:
            lab = at(depth)
            response = lab.response(row.parameter)
            assert response is not None
            moved = stepped.size(response, size(lab)) * lab.amplified()[1]
            return lab.rate * kappa(lab) * moved

        def share(depth: dict[str, int]) -> float:
            lab = at(depth)
            response = lab.response(row.parameter)
            assert response is not None
            factor, backward, _ = lab.amplified()
            return lab.count * factor / backward * response * update(depth)

        yield self.row(f"gradient of {of}", row.gradient, "an explicit response", gradient)
        yield self.row(f"update of {of}", row.update, "the optimizer's own expression", update)
        yield self.row(f"share of {of}", row.share, "S responses to such an update", share)
        deep, shallow = (share({**DEPTHS[0], row.depth: n}) for n in (10**12, 10**3))
        dominant = deep > shallow * (1 + CONSTANT)

        def rate(depth: dict[str, int]) -> float:
            return kappa(at(depth)) / (share(depth) if dominant else 1.0)

        yield self.row(
            f"learning rate of {of}",
            row.rate,
            "what makes its share of order one, where that grows",
            rate,
        )
        if "epsilon" in self.selection.the_optimizer.practised.names:
            shares = [
                stepped.hidden(gradient(d), size(at(d)), 1e-6 * row.epsilon.at(**d)) for d in DEPTHS
            ]
            if not any(shares):  # a clamp that a scale-free update does not feel
                shares = [row.epsilon.at(**d) / gradient(d) for d in DEPTHS]
            yield self.constant(
                f"epsilon of {of}",
                str(row.epsilon),
                "the share of the update that a small epsilon takes",
                shares,
            )
        if matrix and row.decay is not None:
            decay = row.decay

            def shrinks(depth: dict[str, int]) -> float:
                lab = at(depth)
                of_rate = lab.rate * row.rate.at(**depth)
                return of_rate * stepped.shrinks(gradient(depth), size(lab), decay.at(**depth))

            yield self.constant(
                f"weight decay of {of}",
                str(decay),
                "the share of the matrix that one step's decay takes",
                [shrinks(d) for d in DEPTHS],
            )

    # ---- what is predicted of the whole ----

    def _exponents(self) -> Iterator[Measured]:
        """The predicted exponents as slopes of the summed shares of scaled and other matrices."""
        if any(row.independent.exponent(row.depth) > 0 for row in self.of.sublayers):
            return  # beyond the identity's neighbourhood a share is not what one sublayer says
        if len(self.selection.the_stack.parts) > 1:
            return  # the laboratory says which amplification is real
        matrices = [row for row in self.of.parameters if witness.is_matrix(row.role) and row.share]
        if not matrices:
            return  # nothing moves the output
        for prediction in predictions(self.selection, self.rule).exponents:
            if prediction.exponent is None:
                continue
            deep, deeper = ({**DEPTHS[2], prediction.variable: n} for n in (10**12, 10**16))
            totals = []
            for depth in (deep, deeper):
                totals.append(math.fsum(self._share(row, depth) for row in matrices))
            slope = math.log(totals[1] / totals[0]) / math.log(1e4)
            stated = float(prediction.exponent)
            found = stated if abs(slope - stated) < 0.01 else slope
            yield Measured(
                f"predicted exponent in {prediction.variable}, {prediction.share}",
                str(prediction.exponent),
                "the slope of the summed shares of all matrices",
                (stated,),
                (found,),
            )

    def _share(self, row: ParameterRow, depth: dict[str, int]) -> float:
        lab = self.laboratory(row.part, row.sublayer, depth)
        response = lab.response(row.parameter)
        assert response is not None
        size = lab.knobs.beta if row.role is Role.SCALED else 1.0
        kappa = lab.kappa if row.role is Role.SCALED else 1.0
        stepped = stepped_by(self.selection.the_optimizer).size(response, size)
        return lab.count * response * lab.rate * kappa * stepped

    def _floors(self) -> Iterator[Measured]:
        """The depth where a floor is crossed: the matrix's own rms there is the floor."""
        for crossing in crossings(self.of):
            regime = next(r for r in self.of.rule.update.regimes if r.is_floor)
            floor = abs(float(fold(UPDATE.parse(regime.smaller).root, FloatAlgebra())))
            part = next(p for p in self.selection.the_stack.parts if p.name == crossing.part)
            own = next(s for s in part.layer if crossing.matrix in {m.name for m in s.matrices})
            depth = crossing.at(64, 256)
            fans = [{"d": 64, "hidden": 256}[f] for f in crossing.fans]
            entry = self.rule.entry(part.name, own.name)
            beta = evaluate(DEPTH.parse(entry.beta), **{"N": depth, "M": depth})
            size = beta * math.sqrt(2 / sum(fans))
            yield Measured(
                f"floor of {crossing.matrix}, {crossing.part}",
                str(crossing.depth),
                "the rms of a Xavier matrix at that depth",
                (floor,),
                (size,),
            )

    def _equivalent(self) -> Iterator[Measured]:
        """Closures said to be one rule: S·r and ρ of both, measured."""
        for name, exact in equivalent_closures(self.of):
            other = _Rows(table(replace(self.selection, closure=name)))
            ratios = []
            for row in self.of.sublayers:
                for member in row.members:
                    pairs = [
                        (
                            self.invariants(row.part, member, d),
                            other.invariants(row.part, member, d),
                        )
                        for d in DEPTHS
                    ]
                    for index in (0, 1):
                        found = [a[index] / b[index] for a, b in pairs]
                        ratios.append(found[-1] / found[0] if not exact else found[-1])
            yield Measured(
                f"equivalent closure {name}",
                "the same constants" if exact else "the same up to constants",
                "S*r and rho under both rules",
                (1.0,) * len(ratios),
                tuple(ratios),
            )

    def invariants(self, part: str, sublayer: str, depth: dict[str, int]) -> tuple[float, float]:
        """S·r and ρ of a sublayer at a depth."""
        lab = self.laboratory(part, sublayer, depth)
        scaled = lab.sublayer.scaled[0].name
        response, size = lab.response(scaled), lab.knobs.beta
        assert response is not None
        update = stepped_by(self.selection.the_optimizer).size(response, size)
        backward = lab.amplified()[1]
        return lab.count * lab.weight, lab.rate * lab.kappa * backward * update / size

    def _sublayer_of(self, row: ParameterRow) -> Sublayer:
        part = next(p for p in self.selection.the_stack.parts if p.name == row.part)
        return next(s for s in part.layer if s.name == row.sublayer)
