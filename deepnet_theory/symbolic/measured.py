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

from deepnet_theory.sizes.consequences import of_sublayer, share_consequences
from deepnet_theory.sizes.exponents import predictions
from deepnet_theory.sizes.monomial import Monomial, parse
from deepnet_theory.sizes.norm_epsilon import of_entry, sinking
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
from deepnet_theory.spec.expression import DEPTH, UPDATE, FloatAlgebra, evaluate, fold
from deepnet_theory.spec.norm import EPSILON
from deepnet_theory.spec.rule import ParameterRule, Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import MATRICES
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.laws.at_depth import SAME, Depth, ExplicitStack, Moved, Place
from deepnet_theory.symbolic.laws.optimizer import Practised
from deepnet_theory.symbolic.proof.witness import xavier_variance

DEPTHS: tuple[Depth, ...] = (
    {"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6},
)  # fmt: skip
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
    return tuple(_Rows(of).all())


# ---- the rows ----


@dataclass(frozen=True)
class _Rows:
    of: Table

    def all(self) -> Iterator[Measured]:
        for row in self.of.sublayers:
            yield from self._sublayer(row)
        for parameter, printed in zip(self.of.parameters, parameter_rules(self.of), strict=True):
            yield from self._parameter(parameter, printed)
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

    def said(self, of: str, says: str, found: str, because: str) -> Measured:
        """A word of the answer against the one that is found."""
        return Measured(of, says, because, (1.0,), (float(says == found),))

    @property
    def deeper(self) -> dict[str, tuple[Depth, Depth]]:
        """Two depths of every part, the other's held."""
        names = self.selection.the_stack.depths
        return {d: ({**DEPTHS[0], d: 10**3}, {**DEPTHS[0], d: 10**12}) for d in names}

    def power(self, depth: str, found: list[float]) -> float:
        """The slope between :attr:`deeper` depths, 0 where it is none."""
        slope = math.log(found[1] / found[0]) / math.log(1e9)
        return slope if abs(slope) > CONSTANT else 0.0

    # ---- the kinds of sublayers ----

    def _sublayer(self, row: SublayerRow) -> Iterator[Measured]:
        of = f"{row.part}, {row.sublayer}"
        every = [self.at(row.part, row.members[0], depth) for depth in DEPTHS]
        rho = [at.rho for at in every]
        printed = {c.name: c for c in of_sublayer(self.of, row)}
        explicit = "explicit matrices, one branch in place of another"
        for name, because, said, found in (
            ("beta", "the rule's own constant", "initial-weight", [at.beta for at in every]),
            ("r", explicit, "branch-weight", [at.weight for at in every]),
            ("S*r", explicit, "aligned-sum", [at.aligned for at in every]),
            (every[0].part.squares, explicit, "self-consistency",
             [at.independent for at in every]),
            ("rho", "the update of a matrix under the gradient it has", "relative-update", rho),
        ):  # fmt: skip
            stated = printed[said].value
            assert stated is not None
            yield self.row(f"{name} of {of}", stated, because, found)
        matrices = len(every[0].sublayer.scaled)
        orders = range(1, matrices + 1)
        for k in orders:
            stated, because = printed[f"order-{k}"].value, f"{k} of a branch's matrices at once"
            assert stated is not None
            yield self.row(f"order {k} of {of}", stated, because, [at.order(k) for at in every])
        powers = [
            self.power(depth, [self.at(row.part, row.members[0], d).order(k) for d in depths])
            for k in orders
            for depth, depths in self.deeper.items()
        ]
        state = UNSTABLE if max(powers) > 0 else LAZY if min(powers) < 0 else STABLE
        yield self.said(f"state of {of}", printed["failing-rate"].remark, state, "two depths")
        # the rate where aligned steps have moved the branch by as much as itself
        shallow, deep = (
            self.at(row.part, row.members[0], {**DEPTHS[0], row.depth: n}).rho
            for n in (10**3, 10**9)
        )
        power = 1 / matrices - 1 if deep > shallow * (1 + CONSTANT) else 0
        failing = [size**power for size in rho]
        stated = printed["failing-rate"].value
        assert stated is not None
        yield self.row(f"largest stable rate of {of}", stated, "rho at two depths", failing)
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
        for sinks in sinking(self.selection, Rule("", (entry,))):
            for name, depth in sinks.depths:
                if name in row.members and not depth.symbols:
                    one = next(s for s in sharing if s.name == name)
                    there = {**DEPTHS[0], row.depth: depth.at()}
                    variance = evaluate(DEPTH.parse(sinks.epsilon), **there)
                    variance *= xavier_variance(one) if sinks.place == "output" else 1.0
                    yield Measured(
                        f"depth where epsilon sinks the {sinks.place}, {row.part}, {name}",
                        str(depth),
                        "explicit Xavier matrices at that depth, and a ReLU",
                        (EPSILON,),
                        (EPSILON if abs(math.log(variance / EPSILON)) < DRAWN else variance,),
                    )

    # ---- every parameter ----

    def _parameter(self, row: ParameterRow, printed: ParameterRule) -> Iterator[Measured]:
        """Its entries, those that are printed where there are such."""
        rate, epsilon = parse(printed.rate), parse(printed.epsilon)
        of = f"{row.parameter} of {row.sublayer}, {row.part}"
        places = [self.at(row.part, row.sublayer, depth) for depth in DEPTHS]
        if row.size is not None:
            because = "the rule's own constant, 1 where it scales nothing"
            found = [at.size_of(row.parameter, row.role) for at in places]
            yield self.row(f"size of {of}", parse(printed.gain), because, found)
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
        share = row.share
        for shown in share_consequences((row,)):
            assert shown.value is not None
            share, standing = shown.value, shown.remark.partition(";")[0]
            falls = deep.share < shallow.share * (1 - CONSTANT)
            seen = "dominant" if grows else "negligible" if falls else "equal"
            yield self.said(f"standing of {of}", standing, seen, "its share at two depths")
        for name, because, stated, found in (
            ("gradient", "an explicit response", row.gradient, [at.gradient for at in every]),
            ("update", "the optimizer's own expression", row.update, [at.update for at in every]),
            ("share", "S responses to such an update", share, [at.share for at in every]),
            ("multiplier", "the share", row.balancing, [1 / at.share for at in every]),
            ("learning rate", "what makes its share of order one, where that grows", rate,
             [at.kappa / (at.share if grows else 1.0) for at in every]),
        ):  # fmt: skip
            yield self.row(f"{name} of {of}", stated, because, found)
        optimizer = self.selection.the_optimizer
        practised = [Practised(optimizer, at.gradient, at.size) for at in every]
        if "epsilon" in optimizer.practised.names:
            epsilons = [epsilon.at(**depth) for depth in DEPTHS]
            shares = [p.hidden(1e-6 * e) for p, e in zip(practised, epsilons, strict=True)]
            if not any(shares):  # a clamp that a scale-free update does not feel
                shares = [e / at.gradient for e, at in zip(epsilons, every, strict=True)]
            because = "the share of the update that a small epsilon takes"
            yield self.constant(f"epsilon of {of}", printed.epsilon, because, shares)
        if row.role in MATRICES and row.decay is not None:
            taken = rate * parse(printed.weight_decay)
            rates = [at.eta * taken.at(**at.depth) for at in places]
            shares = [rate * p.shrinks for rate, p in zip(rates, practised, strict=True)]
            because = "the share of the matrix that one step's decay takes"
            yield self.constant(f"weight decay of {of}", printed.weight_decay, because, shares)

    def _moved(self, row: ParameterRow, places: list[Place]) -> list[Moved]:
        found = (at.moved_by(row.parameter, row.role) for at in places)
        return [moved for moved in found if moved is not None]

    # ---- what is predicted of the whole ----

    def _exponents(self) -> Iterator[Measured]:
        """The predicted exponents as slopes of the summed shares of scaled and other matrices.

        None beyond the identity's neighbourhood, where a share is not what one sublayer says. Of
        two parts cross-attentions amplify as independent ones, whatever the rule was balanced with.
        """
        independent = replace(self.selection, amplification="independent")
        stack = ExplicitStack(independent, self.stack.rule)
        matrices = [row for row in self.of.parameters if row.role in MATRICES and row.share]
        far = any(row.independent.exponent(d) > 0 for row in self.of.sublayers for d in DEPTHS[0])
        several = len(self.selection.the_stack.parts) > 1 and self.selection.uses != "1"
        if far or several or not matrices:
            return
        for prediction in predictions(self.selection, self.stack.rule).exponents:
            if prediction.exponent is None:
                continue
            totals = []
            for layers in (10**12, 10**16):
                depth = {**DEPTHS[0], prediction.variable: layers}
                own = (row for row in matrices if prediction.share in ("all", row.part))
                places = ((row, [stack.at(row.part, row.sublayer, depth)]) for row in own)
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
            fans = sum({"d": 64, "hidden": 256}[fan] for fan in crossing.fans)
            # at any depth of the other part, which an encoder's constants may hold
            depth = {**DEPTHS[0], part.depth: crossing.depth.at(**DEPTHS[0], fans=fans)}
            entry = self.stack.rule.entry(part.name, crossing.sublayer)
            beta = evaluate(DEPTH.parse(entry.beta), **depth)
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
