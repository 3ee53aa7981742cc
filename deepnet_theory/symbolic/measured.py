r"""Every number that stands beside the chain of steps, measured on an explicit sublayer.

The table's entries come from the algebra of sizes. Here each is computed again by another road:
how a sublayer responds is measured on matrices (:mod:`~deepnet_theory.symbolic.proof.witness`), the
optimizer's update is evaluated on entries of the sizes at hand, sublayers and cross-attentions are
counted one by one. A row holds where both agree at several depths, constants included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from deepnet_theory.sizes.exponents import predictions
from deepnet_theory.sizes.laws import OF_NORMS
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
from deepnet_theory.sizes.update import law
from deepnet_theory.spec.expression import (
    DEPTH,
    UPDATE,
    FloatAlgebra,
    Number,
    evaluate,
    fold,
    parts,
)
from deepnet_theory.spec.placement import STREAM_GAIN, Placement
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.laws.optimizer import Practised, step_length
from deepnet_theory.symbolic.proof.witness import Mixed, Sizes, mixed, of_uses, sizes

Depth = dict[str, int]
DEPTHS: tuple[Depth, ...] = (
    {"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6},
)  # fmt: skip
SAME = 1e-6  # two roads to one number
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
    return tuple(_Rows(of).all())


# ---- one sublayer of a part, at one depth ----


@dataclass(frozen=True)
class Moved:
    """What one update does through one parameter, per η."""

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
    def placement(self) -> Placement:
        return self.rows.selection.placed(self.sublayer)

    @cached_property
    def sizes(self) -> Sizes:
        return sizes(self.placement, self.sublayer)

    @cached_property
    def weight(self) -> float:
        """r."""
        return self.sizes.weight.at(*self.knobs)

    @cached_property
    def experts(self) -> Mixed:
        return mixed(self.sublayer)

    @cached_property
    def aligned(self) -> float:
        """S·r, the sublayers of a layer listed."""
        return float(sum(self.part.shares)) * self.depth[self.part.depth] * self.weight

    @cached_property
    def uses(self) -> float:
        """How many sublayers use one matrix."""
        return evaluate(DEPTH.parse(self.part.uses), **self.depth)

    def of_uses(self, parameter: str = "") -> float:
        """What they are together beside one: the response to a parameter, or the branch's r."""
        if self.part.uses == "1":
            return 1.0
        powers = of_uses(self.placement, self.sublayer)
        return float(self.uses ** powers[parameter])

    @cached_property
    def rho(self) -> float:
        """ρ: an update of a scaled matrix over the matrix."""
        moved = self.moved_by(self.sublayer.scaled[0].name, Role.SCALED)
        assert moved is not None
        return moved.update / moved.size

    @cached_property
    def amplified(self) -> tuple[float, float, float]:
        """What a later part multiplies a change of the output, the update and the gradient with."""
        if self.part is self.rows.selection.the_stack.parts[-1]:
            return 1.0, 1.0, 1.0
        size, p = self._passage(self.depth), float(law(self.rows.selection.the_optimizer).p)
        if self.rows.selection.amplification == "published":
            shallow, deep = (self._passage({**self.depth, "M": n}) for n in (10**3, 10**6))
            return (size if deep > shallow * (1 + SAME) else 1.0), 1.0, 1.0
        return size, size**p, size

    def _passage(self, depth: Depth) -> float:
        """A: the cross-attentions of the later part, one after the other."""
        later = self.rows.selection.the_stack.parts[-1]
        reading = [sublayer.name for sublayer in later.layer if sublayer.reads_memory]
        many = float(later.crossings) * depth[later.depth]
        independent = self.rows.selection.amplification == "independent"
        one = self.rows.at(later.name, reading[0], depth).weight
        return one * (math.sqrt(many) if independent else many)

    def size_of(self, parameter: str, role: Role) -> float:
        """What a parameter starts at."""
        placement = self.placement
        if role is Role.SCALED:
            return self.beta
        starts = zip(placement.learnt, placement.starts(self.knobs[0]), strict=True)
        return dict(starts).get(parameter, 1.0)

    @property
    def along_stream(self) -> bool:
        """Whether one number multiplies a stream that the last norm alone divides."""
        return self.placement.final_norm and not self.placement.per_channel

    def moved_by(self, parameter: str, role: Role) -> Moved | None:
        """What an update through a parameter does; None where the output does not respond."""
        powers = self.sizes.responses[parameter]
        if powers is None:
            return None
        scaled = role is Role.SCALED  # nothing else has a rate that is not 1
        size = self.size_of(parameter, role)
        kappa = self.entry.rate_at(**self.depth) if scaled else 1.0
        forward, backward, upstream = self.amplified
        response = powers.at(*self.knobs) * self.of_uses(parameter)
        if parameter == STREAM_GAIN and self.along_stream:
            # each of the sublayers behind adds as much, in a direction of its own
            response *= math.sqrt(sum(self.part.shares) * self.depth[self.part.depth])
        inside = parameter in {p.name for p in self.sublayer.parameters}
        reached = response * (self.experts.reached if inside else 1.0)
        stepped = step_length(self.rows.selection.the_optimizer, reached, size)
        update = self.eta * kappa * float(stepped) * backward
        # such parameters, listed: a norm on the sum stands behind all its branches, once
        once = parameter in OF_NORMS and self.placement.normalises_sum
        own = zip(self.part.shares, self.part.parallel, strict=True)
        many = float(sum(share for share, joins in own if not (once and joins))) / self.uses
        share = many * self.depth[self.part.depth] * forward * response * update
        return Moved(size, kappa, reached * upstream, update, share)


# ---- the rows ----


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

    @property
    def selection(self) -> Selection:
        return self.of.selection

    @cached_property
    def rule(self) -> Rule:
        return texts(self.of.rule)

    def part(self, name: str) -> Part:
        return next(part for part in self.selection.the_stack.parts if part.name == name)

    def at(self, part: str, sublayer: str, depth: Depth) -> Place:
        key = (part, sublayer, *depth.values())
        if key not in self._places:
            own = self.part(part)
            one = next(s for s in own.layer if s.name == sublayer)
            self._places[key] = Place(self, own, one, depth)
        return self._places[key]

    @cached_property
    def _places(self) -> dict[tuple[object, ...], Place]:
        return {}

    def row(self, of: str, value: Monomial, because: str, found: list[float]) -> Measured:
        """A monomial of the table against what is found, at every depth.

        The witness measures powers of α and β. The numbers of an equation such as
        ``norm(alpha*x + branch(x)/2)`` make constants beside them, which are not measured.
        """
        stated = tuple(value.at(**depth) for depth in DEPTHS)
        if self._numbered:
            ratios = [a / b for a, b in zip(stated, found, strict=True)]
            return self.constant(of, str(value), because, ratios)
        return Measured(of, str(value), because, stated, tuple(found))

    @cached_property
    def _numbered(self) -> bool:
        """Whether the equation of a placement holds numbers, other than 1."""
        nodes = (n for p in self.selection.placements for n in parts(p.expression.root))
        return any(isinstance(node, Number) and abs(node.value) != 1 for node in nodes)

    def constant(self, of: str, says: str, because: str, found: list[float]) -> Measured:
        """A quantity that must not change with the depth."""
        level = [1.0 if abs(f / found[0] - 1) < CONSTANT else f / found[0] for f in found]
        return Measured(of, says, because, (1.0,) * len(found), tuple(level))

    # ---- the kinds of sublayers ----

    def _sublayer(self, row: SublayerRow) -> Iterator[Measured]:
        of = f"{row.part}, {row.sublayer}"
        every = [self.at(row.part, row.members[0], depth) for depth in DEPTHS]
        rho = [at.rho for at in every]
        explicit = "explicit matrices, one branch in place of another"
        for name, because, stated, found in (
            ("beta", "the rule's own constant", row.beta, [at.beta for at in every]),
            ("r", explicit, row.weight, [at.weight for at in every]),
            ("S*r", explicit, row.aligned, [at.aligned for at in every]),
            (every[0].part.squares, explicit, row.independent,
             [at.aligned / at.uses * at.weight * at.of_uses() ** 2 for at in every]),
            ("rho", "the update of a matrix under the gradient it has", row.rho, rho),
        ):  # fmt: skip
            yield self.row(f"{name} of {of}", stated, because, found)
        matrices = len(every[0].sublayer.scaled)
        for k, size in enumerate(row.orders, start=1):
            several, because = math.comb(matrices, k), f"{k} of a branch's matrices moved at once"
            found = [
                at.amplified[0] * at.aligned / at.experts.size * at.experts.together
                * several * at.rho**k
                for at in every
            ]  # fmt: skip
            yield self.row(f"order {k} of {of}", size, because, found)
        # the rate where aligned steps have moved the branch by as much as itself
        shallow, deep = (
            self.at(row.part, row.members[0], {**DEPTHS[0], row.depth: n}).rho
            for n in (10**3, 10**9)
        )
        power = 1 / matrices - 1 if deep > shallow * (1 + CONSTANT) else 0
        failing = [size**power for size in rho]
        yield self.row(f"largest stable rate of {of}", row.failing, "rho at two depths", failing)
        yield from self._norms(row)

    def _norms(self, row: SublayerRow) -> Iterator[Measured]:
        """The ε of every norm, beside what the norm divides in the deepest branch of the entry."""
        entry = self.rule.entry(row.part, row.members[0])
        sharing = [s for s in self.part(row.part).layer if entry.sublayer in ("*", s.name)]
        deepest = max(sharing, key=lambda sublayer: len(sublayer.scaled)).name
        for norm in of_entry(self.selection, entry):
            shares = []
            for at in (self.at(row.part, deepest, depth) for depth in DEPTHS):
                variance = at.sizes.variances[norm.place].at(*at.knobs)
                shares.append(evaluate(DEPTH.parse(norm.squared), **at.depth) / variance)
            yield self.constant(
                f"epsilon of the norm on the {norm.place}, {row.part}, {row.sublayer}",
                norm.squared,
                "its share of the variance that an explicit norm divides by",
                shares,
            )

    # ---- every parameter ----

    def _parameter(self, row: ParameterRow) -> Iterator[Measured]:
        of = f"{row.parameter} of {row.sublayer}, {row.part}"
        places = [self.at(row.part, row.sublayer, depth) for depth in DEPTHS]
        if row.size is not None:
            because = "the rule's own constant, 1 where it scales nothing"
            found = [at.size_of(row.parameter, row.role) for at in places]
            yield self.row(f"size of {of}", row.size, because, found)
        every = self._moved(row, places)
        if not every or row.gradient is None or row.share is None or row.update is None:
            nothing = not every and row.share is None and row.gradient is None
            because = "an explicit response" if every else "an explicit response of 0"
            yield Measured(f"gradient of {of}", "0", because, (0.0,), (0.0 if nothing else 1.0,))
            return
        # a learning rate makes the share of order one, where that grows with the part's depth
        depths = ({**DEPTHS[0], row.depth: n} for n in (10**3, 10**12))
        shallow, deep = self._moved(row, [self.at(row.part, row.sublayer, d) for d in depths])
        grows = deep.share > shallow.share * (1 + CONSTANT)
        for name, because, stated, found in (
            ("gradient", "an explicit response", row.gradient, [at.gradient for at in every]),
            ("update", "the optimizer's own expression", row.update, [at.update for at in every]),
            ("share", "S responses to such an update", row.share, [at.share for at in every]),
            ("learning rate", "what makes its share of order one, where that grows", row.rate,
             [at.kappa / (at.share if grows else 1.0) for at in every]),
        ):  # fmt: skip
            yield self.row(f"{name} of {of}", stated, because, found)
        optimizer = self.selection.the_optimizer
        practised = [Practised(optimizer, at.gradient, at.size) for at in every]
        if "epsilon" in optimizer.practised.names:
            epsilons = [row.epsilon.at(**depth) for depth in DEPTHS]
            shares = [p.hidden(1e-6 * e) for p, e in zip(practised, epsilons, strict=True)]
            if not any(shares):  # a clamp that a scale-free update does not feel
                shares = [e / at.gradient for e, at in zip(epsilons, every, strict=True)]
            because = "the share of the update that a small epsilon takes"
            yield self.constant(f"epsilon of {of}", str(row.epsilon), because, shares)
        if row.role in MATRICES and row.decay is not None:
            rates = [at.eta * row.rate.at(**at.depth) * row.decay.at(**at.depth) for at in places]
            shares = [rate * p.shrinks for rate, p in zip(rates, practised, strict=True)]
            because = "the share of the matrix that one step's decay takes"
            yield self.constant(f"weight decay of {of}", str(row.decay), because, shares)

    def _moved(self, row: ParameterRow, places: list[Place]) -> list[Moved]:
        found = (at.moved_by(row.parameter, row.role) for at in places)
        return [moved for moved in found if moved is not None]

    # ---- what is predicted of the whole ----

    def _exponents(self) -> Iterator[Measured]:
        """The predicted exponents as slopes of the summed shares of scaled and other matrices.

        None beyond the identity's neighbourhood, where a share is not what one sublayer says; nor
        of two parts, since the laboratory says which amplification is real.
        """
        matrices = [row for row in self.of.parameters if row.role in MATRICES and row.share]
        far = any(row.independent.exponent(row.depth) > 0 for row in self.of.sublayers)
        if far or len(self.selection.the_stack.parts) > 1 or not matrices:
            return
        for prediction in predictions(self.selection, self.rule).exponents:
            if prediction.exponent is None:
                continue
            totals = []
            for layers in (10**12, 10**16):
                depth = {**DEPTHS[2], prediction.variable: layers}
                places = ((row, [self.at(row.part, row.sublayer, depth)]) for row in matrices)
                moved = (one for row, at in places for one in self._moved(row, at))
                totals.append(math.fsum(one.share for one in moved))
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
            part = self.part(crossing.part)
            own = next(s for s in part.layer if crossing.matrix in {m.name for m in s.matrices})
            fans = sum({"d": 64, "hidden": 256}[fan] for fan in crossing.fans)
            # at any depth of the other part, which an encoder's constants may hold
            depth = {**DEPTHS[0], part.depth: crossing.depth.at(**DEPTHS[0], fans=fans)}
            beta = evaluate(DEPTH.parse(self.rule.entry(part.name, own.name).beta), **depth)
            yield Measured(
                f"floor of {crossing.matrix}, {crossing.part}",
                str(crossing.depth),
                "the rms of a Xavier matrix at that depth",
                (floor,),
                (beta * math.sqrt(2 / fans),),
            )

    def _equivalent(self) -> Iterator[Measured]:
        """Closures said to be one rule: S·r and ρ of both, measured."""
        for name, exact in equivalent_closures(self.of):
            other = _Rows(table(replace(self.selection, closure=name)))
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
