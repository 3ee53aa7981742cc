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
from decimal import Decimal, localcontext
from functools import cached_property

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
from deepnet_theory.sizes.update import Entries, law
from deepnet_theory.spec.expression import (
    DEPTH,
    UPDATE,
    FloatAlgebra,
    Number,
    evaluate,
    fold,
    parts,
)
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.laws.optimizer import (
    length_of,
    of_norms,
    step_entries,
    step_length,
    telling_signs,
)
from deepnet_theory.symbolic.proof.witness import Sizes, sizes

Depth = dict[str, int]
DEPTHS: tuple[Depth, ...] = (
    {"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6},
)  # fmt: skip
SAME = 1e-6  # two roads to one number
CONSTANT = 1e-3  # a share that must not change with the depth, by a difference quotient
DIGITS = 60
ZERO, ROUNDING = Decimal(0), Decimal(10) ** (10 - DIGITS)


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
        agree = all(
            abs(stated - found) <= SAME * max(abs(stated), abs(found))
            for stated, found in zip(self.table, self.found, strict=True)
        )
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
    return tuple(_Rows(of).all())


# ---- the update as a library takes it, with its epsilon and weight decay ----


@dataclass(frozen=True)
class Practised:
    """The update of a parameter, its gradient and itself of given norms, η = 1."""

    optimizer: Optimizer
    gradient: float
    size: float

    @cached_property
    def _start(self) -> tuple[Entries, Entries]:
        signs = telling_signs(law(self.optimizer).reduced)
        return of_norms(Decimal(self.gradient), Decimal(self.size), signs)

    def _entries(
        self, epsilon: float = 0.0, decay: Decimal = ZERO, along: Decimal = ZERO
    ) -> Entries:
        """The update, the gradient moved by so many times the parameter."""
        g, theta = self._start
        moved = (g[0] + along * theta[0], g[1] + along * theta[1])
        root = self.optimizer.practised.root
        return step_entries(root, moved, theta, epsilon=Decimal(epsilon), decay=decay)

    def hidden(self, epsilon: float) -> float:
        """By how much of itself an ε changes the update as its library takes it."""
        with localcontext(prec=DIGITS):
            without = self._entries()
            share = _apart(self._entries(epsilon), without) / length_of(without)
            return float(share) if share > ROUNDING else 0.0

    @cached_property
    def shrinks(self) -> float:
        """The share of the parameter that a weight decay of 1 takes in one step.

        A decay in the gradient moves the parameter by as much of ‖Δθ‖ as λθ is of g. One beside
        the update is seen in the update; it is a part of it.
        """
        with localcontext(prec=DIGITS):
            still, gradient, size = self._entries(), Decimal(self.gradient), Decimal(self.size)
            length = length_of(still)
            # beside the gradient's size, and beside the update's: where either would show
            if all(self._in_gradient(lam) for lam in (gradient / size, length / size)):
                return float(length / gradient)
            tiny = Decimal("1e-9") * length / size
            return float(_apart(self._entries(decay=tiny), still) / tiny / size)

    def _in_gradient(self, lam: Decimal) -> bool:
        """Whether the decay acts as a part of the gradient: u(g, λ) = u(g + λθ, 0).

        In direction alone: a norm in a denominator may count the decay another way.
        """
        one, other = self._entries(decay=lam), self._entries(along=lam)
        cross = abs(one[0] * other[1] - one[1] * other[0])
        return cross <= Decimal("1e-9") * length_of(one) * length_of(other)


def _apart(one: Entries, other: Entries) -> Decimal:
    return length_of(a - b for a, b in zip(one, other, strict=True))


# ---- one sublayer of a part, at one depth ----


@dataclass(frozen=True)
class Moved:
    """What one update does through one parameter, per η."""

    response: float
    size: float
    kappa: float
    gradient: float
    update: float
    share: float


@dataclass(frozen=True)
class Place:
    """The numbers of a sublayer at a depth, none of them from the table's laws."""

    rows: _Rows
    part: Part
    sublayer: Sublayer
    depth: Depth

    @cached_property
    def entry(self) -> RuleEntry:
        return self.rows.rule.entry(self.part.name, self.sublayer.name)

    @cached_property
    def knobs(self) -> tuple[float, float]:
        """α and β."""
        return self.entry.at(**self.depth)

    @property
    def beta(self) -> float:
        return self.knobs[1]

    @cached_property
    def eta(self) -> float:
        """The learning rate's factor."""
        return evaluate(DEPTH.parse(self.rows.rule.eta), **self.depth)

    @property
    def count(self) -> int:
        """S: the sublayers of a layer, listed, times the layers."""
        return sum(1 for _ in self.part.layer) * self.depth[self.part.depth]

    @cached_property
    def sizes(self) -> Sizes:
        return sizes(self.rows.of.selection.the_placement, self.sublayer)

    @cached_property
    def weight(self) -> float:
        """r."""
        return self.sizes.weight.at(*self.knobs)

    @property
    def aligned(self) -> float:
        """S·r."""
        return self.count * self.weight

    @cached_property
    def rho(self) -> float:
        """ρ: an update of a scaled matrix over the matrix."""
        moved = self.of(self.sublayer.scaled[0].name, Role.SCALED)
        assert moved is not None
        return moved.update / moved.size

    @cached_property
    def amplified(self) -> tuple[float, float, float]:
        """What a later part multiplies the increment, the update and the gradient with."""
        stack = self.rows.of.selection.the_stack.parts
        if self.part is stack[-1]:
            return 1.0, 1.0, 1.0
        size, p = self._passage(self.depth), float(law(self.rows.of.selection.the_optimizer).p)
        if self.rows.of.selection.amplification == "published":
            shallow, deep = (self._passage({**self.depth, "M": n}) for n in (10**3, 10**6))
            return (size if deep > shallow * (1 + SAME) else 1.0), 1.0, 1.0
        return size ** (1 + p), size**p, size

    def _passage(self, depth: Depth) -> float:
        """A: the cross-attentions of the later part, one after the other."""
        later = self.rows.of.selection.the_stack.parts[-1]
        reading = [sublayer.name for sublayer in later.layer if sublayer.reads_memory]
        many = len(reading) * depth[later.depth]
        one = self.rows.at(later.name, reading[0], depth).weight
        independent = self.rows.of.selection.amplification == "independent"
        return one * (math.sqrt(many) if independent else many)

    @cached_property
    def _moved(self) -> dict[str, Moved | None]:
        return {}

    def of(self, parameter: str, role: Role) -> Moved | None:
        """What an update through a parameter does; None where the output does not respond."""
        if parameter not in self._moved:
            self._moved[parameter] = self._of(parameter, role)
        return self._moved[parameter]

    def _of(self, parameter: str, role: Role) -> Moved | None:
        powers = self.sizes.responses[parameter]
        if powers is None:
            return None
        response = powers.at(*self.knobs)
        scaled = role is Role.SCALED  # nothing else has a size or a rate that is not 1
        size = self.beta if scaled else 1.0
        kappa = self.entry.rate_at(**self.depth) if scaled else 1.0
        factor, backward, upstream = self.amplified
        stepped = step_length(self.rows.of.selection.the_optimizer, response, size)
        update = self.eta * kappa * float(stepped) * backward
        share = self.count * factor / backward * response * update
        return Moved(response, size, kappa, response * upstream, update, share)


# ---- the rows ----

BETA = "the rule's own constant"
EXPLICIT = "explicit matrices, one branch in place of another"
OF_SUBLAYER: tuple[
    tuple[str, str, Callable[[SublayerRow], Monomial], Callable[[Place], float]], ...
]
OF_SUBLAYER = (
    ("beta", BETA, lambda row: row.beta, lambda at: at.beta),
    ("r", EXPLICIT, lambda row: row.weight, lambda at: at.weight),
    ("S*r", EXPLICIT, lambda row: row.aligned, lambda at: at.aligned),
    ("S*r^2", EXPLICIT, lambda row: row.independent, lambda at: at.aligned * at.weight),
    (
        "rho", "the update of a matrix under the gradient it has",
        lambda row: row.rho, lambda at: at.rho,
    ),
)  # fmt: skip
OF_PARAMETER: tuple[
    tuple[str, str, Callable[[ParameterRow], Monomial | None], Callable[[Moved], float]], ...
]
OF_PARAMETER = (
    ("gradient", "an explicit response", lambda row: row.gradient, lambda at: at.gradient),
    ("update", "the optimizer's own expression", lambda row: row.update, lambda at: at.update),
    ("share", "S responses to such an update", lambda row: row.share, lambda at: at.share),
)


@dataclass(frozen=True)
class _Rows:
    of: Table

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

    @cached_property
    def _places(self) -> dict[tuple[object, ...], Place]:
        return {}

    def at(self, part: str, sublayer: str, depth: Depth) -> Place:
        key = (part, sublayer, *depth.values())
        if key not in self._places:
            own = next(p for p in self.of.selection.the_stack.parts if p.name == part)
            found = next(s for s in own.layer if s.name == sublayer)
            self._places[key] = Place(self, own, found, depth)
        return self._places[key]

    def row(
        self, of: str, value: Monomial, because: str, found: Callable[[Depth], float]
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
        equation = self.of.selection.the_placement.expression.root
        return any(isinstance(node, Number) for node in parts(equation))

    def constant(self, of: str, says: str, because: str, found: list[float]) -> Measured:
        """A quantity that must not change with the depth."""
        level = [1.0 if abs(f / found[0] - 1) < CONSTANT else f / found[0] for f in found]
        return Measured(of, says, because, (1.0,) * len(found), tuple(level))

    # ---- the kinds of sublayers ----

    def _sublayer(self, row: SublayerRow) -> Iterator[Measured]:
        of = f"{row.part}, {row.sublayer}"

        def at(depth: Depth) -> Place:
            return self.at(row.part, row.members[0], depth)

        def order(k: int, depth: Depth) -> float:
            factor, backward, _ = at(depth).amplified
            several = math.comb(len(at(depth).sublayer.scaled), k)
            return factor / backward * at(depth).aligned * several * at(depth).rho ** k

        def failing(depth: Depth) -> float:
            """The rate where aligned steps have moved the branch by as much as itself."""
            shallow, deep = (at({**depth, row.depth: n}).rho for n in (10**3, 10**9))
            grows = deep > shallow * (1 + CONSTANT)
            return at(depth).rho ** (1 / len(at(depth).sublayer.scaled) - 1) if grows else 1.0

        for name, because, stated, found in OF_SUBLAYER:
            yield self.row(f"{name} of {of}", stated(row), because, lambda d, f=found: f(at(d)))  # type: ignore[misc]
        for k, size in enumerate(row.orders, start=1):
            because = f"{k} of a branch's matrices moved at once"
            yield self.row(f"order {k} of {of}", size, because, lambda d, k=k: order(k, d))  # type: ignore[misc]
        yield self.row(f"largest stable rate of {of}", row.failing, "rho at two depths", failing)
        yield from self._norms(row)

    def _norms(self, row: SublayerRow) -> Iterator[Measured]:
        """The ε of every norm, beside what the norm divides in the deepest branch of the entry."""
        entry = self.rule.entry(row.part, row.members[0])
        own = next(p for p in self.of.selection.the_stack.parts if p.name == row.part)
        sharing = [s for s in own.layer if entry.sublayer in ("*", s.name)]
        deepest = max(sharing, key=lambda sublayer: len(sublayer.scaled)).name
        for norm in of_entry(self.of.selection, entry):
            places = [self.at(row.part, deepest, depth) for depth in DEPTHS]
            squared = DEPTH.parse(norm.squared)
            yield self.constant(
                f"epsilon of the norm on the {norm.place}, {row.part}, {row.sublayer}",
                norm.squared,
                "its share of the variance that an explicit norm divides by",
                [
                    evaluate(squared, **at.depth) / at.sizes.variances[norm.place].at(*at.knobs)
                    for at in places
                ],
            )

    # ---- every parameter ----

    def _parameter(self, row: ParameterRow) -> Iterator[Measured]:
        of = f"{row.parameter} of {row.sublayer}, {row.part}"

        def moved(depth: Depth) -> Moved:
            found = self.at(row.part, row.sublayer, depth).of(row.parameter, row.role)
            assert found is not None
            return found

        if row.size is not None:
            scaled = row.role is Role.SCALED
            yield self.row(
                f"size of {of}",
                row.size,
                "the rule's own constant, 1 where it scales nothing",
                lambda d: self.at(row.part, row.sublayer, d).beta if scaled else 1.0,
            )
        still = self.at(row.part, row.sublayer, DEPTHS[0]).of(row.parameter, row.role) is None
        if still or row.gradient is None or row.share is None or row.update is None:
            nothing = still and row.share is None and row.gradient is None
            because = "an explicit response of 0" if still else "an explicit response"
            found = 0.0 if nothing else 1.0
            yield Measured(f"gradient of {of}", "0", because, (0.0,), (found,))
            return
        every = [moved(depth) for depth in DEPTHS]
        for name, because, stated, measure in OF_PARAMETER:
            value = stated(row)
            assert value is not None
            yield self.row(f"{name} of {of}", value, because, lambda d, m=measure: m(moved(d)))  # type: ignore[misc]
        shallow, deep = (moved({**DEPTHS[0], row.depth: n}).share for n in (10**3, 10**12))
        dominant = deep > shallow * (1 + CONSTANT)
        yield self.row(
            f"learning rate of {of}",
            row.rate,
            "what makes its share of order one, where that grows",
            lambda d: moved(d).kappa / (moved(d).share if dominant else 1.0),
        )
        optimizer = self.of.selection.the_optimizer
        practised = [Practised(optimizer, at.gradient, at.size) for at in every]
        if "epsilon" in optimizer.practised.names:
            epsilons = [row.epsilon.at(**depth) for depth in DEPTHS]
            shares = [of.hidden(1e-6 * e) for of, e in zip(practised, epsilons, strict=True)]
            if not any(shares):  # a clamp that a scale-free update does not feel
                shares = [e / at.gradient for e, at in zip(epsilons, every, strict=True)]
            because = "the share of the update that a small epsilon takes"
            yield self.constant(f"epsilon of {of}", str(row.epsilon), because, shares)
        if row.role in MATRICES and row.decay is not None:
            shares = [
                self.at(row.part, row.sublayer, d).eta
                * row.rate.at(**d) * of.shrinks * row.decay.at(**d)
                for d, of in zip(DEPTHS, practised, strict=True)
            ]  # fmt: skip
            because = "the share of the matrix that one step's decay takes"
            yield self.constant(f"weight decay of {of}", str(row.decay), because, shares)

    # ---- what is predicted of the whole ----

    def _exponents(self) -> Iterator[Measured]:
        """The predicted exponents as slopes of the summed shares of scaled and other matrices."""
        if any(row.independent.exponent(row.depth) > 0 for row in self.of.sublayers):
            return  # beyond the identity's neighbourhood a share is not what one sublayer says
        if len(self.of.selection.the_stack.parts) > 1:
            return  # the laboratory says which amplification is real
        matrices = [row for row in self.of.parameters if row.role in MATRICES and row.share]
        if not matrices:
            return  # nothing moves the output
        for prediction in predictions(self.of.selection, self.rule).exponents:
            if prediction.exponent is None:
                continue
            totals = []
            for layers in (10**12, 10**16):
                depth = {**DEPTHS[2], prediction.variable: layers}
                moved = (
                    self.at(m.part, m.sublayer, depth).of(m.parameter, m.role) for m in matrices
                )
                totals.append(math.fsum(one.share for one in moved if one is not None))
            slope = math.log(totals[1] / totals[0]) / math.log(1e4)
            stated = float(prediction.exponent)
            yield Measured(
                f"predicted exponent in {prediction.variable}, {prediction.share}",
                str(prediction.exponent),
                "the slope of the summed shares of all matrices",
                (stated,),
                (stated if abs(slope - stated) < 0.01 else slope,),
            )

    def _floors(self) -> Iterator[Measured]:
        """The depth where a floor is crossed: the matrix's own rms there is the floor."""
        for crossing in crossings(self.of):
            regime = next(r for r in self.of.rule.update.regimes if r.is_floor)
            floor = abs(float(fold(UPDATE.parse(regime.smaller).root, FloatAlgebra())))
            part = next(p for p in self.of.selection.the_stack.parts if p.name == crossing.part)
            own = next(s for s in part.layer if crossing.matrix in {m.name for m in s.matrices})
            depth = crossing.at(64, 256)
            fans = [{"d": 64, "hidden": 256}[f] for f in crossing.fans]
            beta = evaluate(
                DEPTH.parse(self.rule.entry(part.name, own.name).beta), N=depth, M=depth
            )
            yield Measured(
                f"floor of {crossing.matrix}, {crossing.part}",
                str(crossing.depth),
                "the rms of a Xavier matrix at that depth",
                (floor,),
                (beta * math.sqrt(2 / sum(fans)),),
            )

    def _equivalent(self) -> Iterator[Measured]:
        """Closures said to be one rule: S·r and ρ of both, measured."""
        for name, exact in equivalent_closures(self.of):
            other = _Rows(table(replace(self.of.selection, closure=name)))
            ratios = []
            for part, member in ((r.part, m) for r in self.of.sublayers for m in r.members):
                pairs = [[rows.at(part, member, d) for rows in (self, other)] for d in DEPTHS]
                for found in (
                    [own.aligned / theirs.aligned for own, theirs in pairs],
                    [own.rho / theirs.rho for own, theirs in pairs],
                ):
                    ratios.append(found[-1] if exact else found[-1] / found[0])
            yield Measured(
                f"equivalent closure {name}",
                "the same constants" if exact else "the same up to constants",
                "S*r and rho under both rules",
                (1.0,) * len(ratios),
                tuple(ratios),
            )
