r"""One table of a rule: a row for every kind of sublayer and one for every parameter.

Everything that follows from a rule is a query here: shares, learning-rate, ε and decay multipliers,
the orders of an update, the closures compared and what closures have in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb

from deepnet_theory.sizes import laws, update
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.norm_epsilon import with_norm_epsilon
from deepnet_theory.sizes.rule import Balanced, Kind, Rule, solve_rule, written
from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.expression import UPDATE, FloatAlgebra, fold
from deepnet_theory.spec.rule import ParameterRule, RuleEntry
from deepnet_theory.spec.rule import Rule as Texts
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import MATRICES, Role

STABLE, LAZY, UNSTABLE = "stable", "lazy", "unstable"
DEPTHS = ("N", "M")

# An update of degree q > 0 gives a parameter at 0 no step at all; libraries then take its ratio
# as 1, which is degree 0, as done here.
STARTS_AT_ZERO = frozenset(
    {Role.NORM_BIAS, Role.OUTPUT_BIAS, Role.INNER_BIAS, Role.QUERY_BIAS, Role.KEY_BIAS}
)


@dataclass(frozen=True)
class SublayerRow:
    r"""One kind of sublayer of a part at the rule.

    One update moves all m matrices of a branch at once, each by ηρ of itself, so that S branches
    of weight r change the output by

    .. math:: A S r\,\bigl((1+\eta\rho)^m - 1\bigr) = A S r \sum_k \binom mk (\eta\rho)^k ;

    ``orders`` are the terms, in units of η^k. ``failing`` is how the largest stable learning rate
    scales in the worst case, all updates aligned: :math:`\rho^{1/m-1}` where ρ grows, else 1.
    """

    part: str
    sublayer: str
    depth: str
    members: tuple[str, ...]
    matrices: int
    alpha: Monomial
    beta: Monomial
    rate: Monomial
    eta: Monomial
    weight: Monomial
    aligned: Monomial  # S·r
    independent: Monomial  # S·n·r², n uses of one layer
    rho: Monomial
    orders: tuple[Monomial, ...]

    @property
    def failing(self) -> Monomial:
        """How the largest stable learning rate scales, worst case."""
        if self.rho.exponent(self.depth) <= 0:
            return ONE
        return self.rho ** (Fraction(1, self.matrices) - 1)

    @property
    def state(self) -> str:
        powers = [order.exponent(depth) for order in self.orders for depth in DEPTHS]
        if any(power > 0 for power in powers):
            return UNSTABLE
        return LAZY if any(power < 0 for power in powers) else STABLE


@dataclass(frozen=True)
class ParameterRow:
    """One parameter of one kind of sublayer at the rule; None stands for 0.

    ``gradient`` and ``update`` are of one such parameter, all its uses together, per η; ``share``
    is what all of them move the output by, the scaled matrices by 1. ``size`` is its own at the
    start.
    """

    part: str
    sublayer: str
    parameter: str
    role: Role
    depth: str
    size: Monomial | None
    gradient: Monomial | None
    update: Monomial | None
    share: Monomial | None
    rate: Monomial  # what its learning rate is multiplied with
    epsilon: Monomial
    decay: Monomial | None

    @property
    def exponent(self) -> Fraction:
        """The exponent of its share in the part's own depth."""
        return self.share.exponent(self.depth) if self.share else Fraction(0)

    @property
    def standing(self) -> str:
        """Whether it is negligible, equal or dominant beside the scaled matrices."""
        if self.exponent > 0:
            return "dominant"
        return "equal" if self.share and not self.exponent else "negligible"

    @property
    def balancing(self) -> Monomial:
        """The learning-rate multiplier that gives it the weight of the scaled matrices."""
        return ONE / self.share if self.share else ONE


@dataclass(frozen=True)
class Table:
    rule: Rule

    @property
    def selection(self) -> Selection:
        return self.rule.selection

    @cached_property
    def sublayers(self) -> tuple[SublayerRow, ...]:
        return tuple(self._row(b, kind) for b in self.rule.parts for kind in b.kinds)

    @cached_property
    def parameters(self) -> tuple[ParameterRow, ...]:
        return tuple(self._parameters())

    @property
    def state(self) -> str:
        states = {row.state for row in self.sublayers}
        return next(state for state in (UNSTABLE, LAZY, STABLE) if state in states)

    def _row(self, at: Balanced, kind: Kind) -> SublayerRow:
        weight, rho = at.weight(kind), at.relative(kind)
        # the branches of experts add up at random, what one step makes of them in line
        together = Monomial.number(kind.law.sublayer.chosen) ** Fraction(1, 2)
        first = at.factor / at.backward * at.count * weight * together
        return SublayerRow(
            part=at.part.name,
            sublayer=kind.name,
            depth=at.part.depth,
            members=kind.members,
            matrices=kind.matrices,
            alpha=at.alpha(kind),
            beta=at.beta(kind),
            rate=at.rate(kind),
            eta=at.eta,
            weight=weight,
            aligned=at.count * weight,
            independent=at.squares(kind),
            rho=rho,
            orders=tuple(
                first * Monomial.number(comb(kind.matrices, order)) * rho**order
                for order in range(1, kind.matrices + 1)
            ),
        )

    def _parameters(self) -> Iterator[ParameterRow]:
        for at in self.rule.parts:
            for sublayer in {s.name: s for s in at.part.layer}.values():
                kind = at.kind_of(sublayer.name)
                law = laws.law(self.selection.placed(sublayer), sublayer, self.selection.the_norm)
                for name, role in parameters(law):
                    if role is Role.NORM_BIAS and not self.selection.the_norm.bias:
                        continue
                    yield self._parameter(at, kind, law, name, role)

    def _parameter(
        self, at: Balanced, kind: Kind, law: laws.Law, name: str, role: Role
    ) -> ParameterRow:
        of, scaled = self.rule.update, role is Role.SCALED
        knobs = {"beta": at.beta(kind)}
        gains = {g: m.put(knobs) for g, m in laws.common_gains(law.sublayer).items()}
        gains["alpha"] = at.alpha(kind)
        gains[laws.LATER] = at.squares(kind) ** Fraction(1, 2)
        paths = [path.put(gains) for path in law.responses.get(name, ())]
        response = largest(paths, at.part.depth) if paths else None
        start = law.starts.get(name, ONE)
        size = gains[name] if role in MATRICES else (start or ONE).put(gains)
        at_zero = role in STARTS_AT_ZERO or start is None
        q = Fraction(0) if at_zero else of.q
        kappa = at.rate(kind) if scaled else ONE
        share = update_size = gradient = None
        if response is not None:
            reached = response * law.reached(name) * at.uses
            gradient = reached * at.upstream
            moved = at.eta * kappa * reached**of.p * size**q
            update_size = moved * at.backward
            count = at.count_of(name, self.selection.placed(law.sublayer).normalises_sum)
            share = count * at.factor * response * moved
        dominant = share is not None and share.exponent(at.part.depth) > 0
        rate = kappa / share if share and dominant else kappa
        constants = update.practised(self.selection.the_optimizer).constants

        def of_size(constant: str) -> Monomial:
            """The size of a term of the constant's degrees in this gradient and this parameter."""
            if gradient is None or constant not in constants:  # it never moves: whatever its ε
                return ONE
            return constants[constant].put({"g": gradient, "theta": size})

        decay = None
        if role in MATRICES:
            shrunk = ONE if gradient is None else gradient**of.p * size ** (of.q - 1)
            decay = of_size("decay") / (at.eta * rate * shrunk)
        return ParameterRow(
            part=at.part.name,
            sublayer=law.sublayer.name,
            parameter=name,
            role=role,
            depth=at.part.depth,
            size=None if at_zero else size,
            gradient=gradient,
            update=update_size,
            share=share,
            rate=rate,
            epsilon=of_size("epsilon"),
            decay=decay,
        )


def parameters(law: laws.Law) -> Iterator[tuple[str, Role]]:
    for parameter in law.sublayer.parameters:
        yield parameter.name, parameter.role
    for name in (*laws.OF_NORMS, *law.starts):
        if name in law.responses:
            yield name, law.role(name)


def largest(sizes: list[Monomial], depth: str) -> Monomial:
    """The size that grows fastest in the part's own depth, then in the other."""
    others = [d for d in DEPTHS if d != depth]
    return max(sizes, key=lambda size: [size.exponent(d) for d in (depth, *others)])


# ---- queries ----


def table(selection: Selection) -> Table:
    """The table of a selection's rule; raises :class:`Refusal` where there is none."""
    return Table(solve_rule(selection))


def texts(rule: Rule) -> Texts:
    """The rule as texts in N and M, in the grammar of depths."""
    entries = [
        RuleEntry(
            at.part.name,
            kind.name,
            *(
                written(value, rule.selection)
                for value in (at.alpha(kind), at.beta(kind), at.rate(kind), at.relative(kind))
            ),
        )
        for at in rule.parts
        for kind in at.kinds
    ]
    bare = Texts(
        name=rule.selection.optimizer or "custom",
        entries=tuple(entries),
        eta=written(rule.parts[-1].eta, rule.selection),
        meaning=(
            "the powers of the depth are derived orders; the constant in front is the convention "
            f"of the balance '= 1' and of the closure '{rule.closure.name}'"
        ),
    )
    return with_norm_epsilon(rule.selection, bare)


def parameter_rules(of: Table) -> tuple[ParameterRule, ...]:
    """What every kind of parameter starts with and steps with, as texts in N and M."""
    return tuple(
        ParameterRule(
            part=row.part,
            sublayer=row.sublayer,
            name=row.parameter,
            role=row.role,
            gain=str(row.size) if row.size is not None else "0",
            rate=str(row.rate),
            epsilon=str(row.epsilon),
            weight_decay=str(row.decay) if row.decay is not None else "0",
        )
        for row in of.parameters
    )


def invariants(of: Table) -> dict[tuple[str, str], tuple[Monomial, Monomial]]:
    """S·r and ρ by part and sublayer: all that a change of scales leaves alone."""
    return {
        (row.part, name): (row.aligned, row.rho) for row in of.sublayers for name in row.members
    }


def equivalent_closures(of: Table) -> tuple[tuple[str, bool], ...]:
    """The other closures of the same class, and whether they have the same constants too."""
    own, found = invariants(of), []
    for name in closures():
        if name == of.rule.closure.name:
            continue
        try:
            theirs = invariants(table(replace(of.selection, closure=name)))
        except Refusal:
            continue
        ratios = [
            a / b for key, pair in own.items() for a, b in zip(pair, theirs[key], strict=True)
        ]
        if not any(ratio.symbols for ratio in ratios):
            found.append((name, all(ratio == ONE for ratio in ratios)))
    return tuple(found)


@dataclass(frozen=True)
class Crossing:
    """The depth (in the width d and the hidden width) where a matrix falls below a floor.

    ``depth`` is a monomial in ``fans``, the sum of the matrix's fan-in and fan-out.
    """

    part: str
    sublayer: str
    matrix: str
    fans: tuple[str, str]
    depth: Monomial

    @property
    def formula(self) -> str:
        first, second = ({"d": "d", "hidden": "m"}[fan] for fan in self.fans)
        return str(self.depth).replace("fans", f"(2*{first})" if first == second else "(d + m)")

    def at(self, d: int, hidden: int) -> float:
        sizes = {"d": d, "hidden": hidden}
        return self.depth.at(fans=sum(sizes[f] for f in self.fans))


def crossings(of: Table) -> Iterator[Crossing]:
    r"""Where a floor ``rms(theta) > constant`` is crossed; none for other regimes.

    A scaled matrix has :math:`\mathrm{rms}(\theta) = \beta\sqrt{2/(f_{in}+f_{out})}` at Xavier
    initialisation, and β falls with depth.
    """
    for regime in of.rule.update.regimes:
        if not regime.is_floor:
            continue
        smaller = fold(UPDATE.parse(regime.smaller).root, FloatAlgebra())
        floor = Monomial.number(Fraction(str(smaller)))
        for at in of.rule.parts:
            for sublayer in dict.fromkeys(at.part.layer):
                beta = at.beta(at.kind_of(sublayer.name))
                power = beta.exponent(at.part.depth)
                if not power:
                    continue
                size = beta * (Monomial.number(2) / Monomial.of("fans")) ** Fraction(1, 2)
                own = Monomial.of(at.part.depth)
                depth = (floor / (size / own**power)) ** (1 / power)
                for matrix in sublayer.scaled:
                    yield Crossing(
                        at.part.name,
                        sublayer.name,
                        matrix.name,
                        (matrix.fan_in, matrix.fan_out),
                        depth,
                    )
