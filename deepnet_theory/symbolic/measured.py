r"""Every number that stands beside the chain of steps, measured on an explicit sublayer.

The table's entries come from the algebra of sizes. Here each is held against an explicit sublayer
(:mod:`~deepnet_theory.symbolic.laws.at_depth`): a row holds where both agree at several depths,
constants included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from deepnet_theory.spec.expression import DEPTH, UPDATE, FloatAlgebra, evaluate, fold
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import MATRICES
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.laws.at_depth import SAME, Depth, ExplicitStack, Moved, Place
from deepnet_theory.symbolic.laws.optimizer import Practised

DEPTHS: tuple[Depth, ...] = (
    {"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6},
)  # fmt: skip
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
    def stack(self) -> ExplicitStack:
        return ExplicitStack(self.selection, texts(self.of.rule))

    def at(self, part: str, sublayer: str, depth: Depth) -> Place:
        return self.stack.at(part, sublayer, depth)

    def row(self, of: str, value: Monomial, because: str, found: list[float]) -> Measured:
        """A monomial of the table against what is found, at every depth."""
        stated = tuple(value.at(**depth) for depth in DEPTHS)
        if self.stack.numbered:
            ratios = [a / b for a, b in zip(stated, found, strict=True)]
            return self.constant(of, str(value), because, ratios)
        return Measured(of, str(value), because, stated, tuple(found))

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
             [at.independent for at in every]),
            ("rho", "the update of a matrix under the gradient it has", row.rho, rho),
        ):  # fmt: skip
            yield self.row(f"{name} of {of}", stated, because, found)
        matrices = len(every[0].sublayer.scaled)
        for k, size in enumerate(row.orders, start=1):
            because = f"{k} of a branch's matrices moved at once"
            yield self.row(f"order {k} of {of}", size, because, [at.order(k) for at in every])
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
        entry = self.stack.rule.entry(row.part, row.members[0])
        sharing = [s for s in self.stack.part(row.part).layer if entry.sublayer in ("*", s.name)]
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
        for prediction in predictions(self.selection, self.stack.rule).exponents:
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
            part = self.stack.part(crossing.part)
            own = next(s for s in part.layer if crossing.matrix in {m.name for m in s.matrices})
            fans = sum({"d": 64, "hidden": 256}[fan] for fan in crossing.fans)
            # at any depth of the other part, which an encoder's constants may hold
            depth = {**DEPTHS[0], part.depth: crossing.depth.at(**DEPTHS[0], fans=fans)}
            beta = evaluate(DEPTH.parse(self.stack.rule.entry(part.name, own.name).beta), **depth)
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
