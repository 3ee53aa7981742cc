"""A selection with its laws and its route, and the kinds of sublayers that a part is made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import sympy as sp

from deepnet_theory.sizes.rule import Rule, solve_rule
from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, alpha, beta, part_symbol, simplified
from deepnet_theory.symbolic.laws.placement import PlacementLaw, placement_law, relative_update
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.route import Route, route_of, sublayers

if TYPE_CHECKING:
    from deepnet_theory.symbolic.rule.amplification import Amplification

rate = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob


@dataclass(frozen=True)
class Setting:
    """What is talked about, and the laws that hold of it.

    ``sized`` is the rule by the algebra of sizes: it refuses where there is none, and says which
    closures' conditions pick it. What the rule is, the steps find by themselves.
    """

    selection: Selection

    @cached_property
    def sized(self) -> Rule:
        """The rule by sizes; raises :class:`Refusal` where there is none."""
        return solve_rule(self.selection)

    @cached_property
    def degrees(self) -> Update:
        """p and q of the optimizer."""
        return degrees(self.selection.the_optimizer)

    @cached_property
    def law(self) -> PlacementLaw:
        """The placement's law."""
        return placement_law(self.selection.the_placement)

    @property
    def closure(self) -> Closure:
        """The closure asked for, or the default."""
        return self.sized.closure

    @cached_property
    def route(self) -> Route:
        """The steps of the method, up to the increments of single sublayers."""
        return route_of(self.selection)

    def kinds(self, part: Part) -> tuple[Kind, ...]:
        """The kinds of sublayers of a part; one kind ``"*"`` where all behave alike."""
        distinct = list({s.name: s for s in part.layer}.values())
        proved = [
            (self.route.increments[s.name].value, self.route.weights[s.name].value, len(s.scaled))
            for s in distinct
        ]
        if len(set(proved)) == 1:
            return (self._kind(part, "*", distinct),)
        return tuple(self._kind(part, s.name, [s]) for s in distinct)

    def _kind(self, part: Part, name: str, group: list[Sublayer]) -> Kind:
        parts, first = len(self.selection.the_stack.parts), group[0]
        one = "*" if self.selection.has_one_alpha(part) else name
        own = {
            alpha: part_symbol("alpha", part.name, parts, one),
            beta: part_symbol("beta", part.name, parts, name),
        }
        increments = [self.route.increments[s.name] for s in group]
        return Kind(
            name=name,
            sublayer=first,
            own=own,
            increment=increments[0].per_eta.xreplace(own),
            weight=self.route.weights[first.name].value.xreplace(own),
            relative=relative_update(first, self.law, self.degrees).xreplace(own),
            rate=part_symbol("kappa", part.name, parts, name),
            rests_on=tuple(increment.name for increment in increments),
            members=tuple(s.name for s in group),
        )


@dataclass(frozen=True)
class Kind:
    """Sublayers of a part that share α and β, with what the route proved of one of them.

    ``increment`` (per η), ``weight`` and ``relative``, the update of a scaled matrix over the
    matrix (per η), are in the kind's ``own`` α and β; ``rate`` is κ, where the scaled matrices take
    a learning-rate multiplier.
    """

    name: str  # "*" where every sublayer of the part behaves alike
    sublayer: Sublayer
    own: dict[sp.Symbol, sp.Symbol]  # α and β of one sublayer → those of this kind
    increment: sp.Expr
    weight: sp.Expr
    relative: sp.Expr
    rate: sp.Symbol
    rests_on: tuple[str, ...]  # the steps of the increments
    members: tuple[str, ...]  # the names of its sublayers

    @property
    def alpha(self) -> sp.Symbol:
        """α of the kind."""
        return self.own[alpha]

    @property
    def beta(self) -> sp.Symbol:
        """β of the kind."""
        return self.own[beta]

    @property
    def matrices(self) -> int:
        """m_s, the number of scaled matrices of a branch."""
        return len(self.sublayer.scaled)

    @property
    def constant(self) -> sp.Expr:
        """c of the increment c·r·ρ, what the route keeps of the number of matrices."""
        return simplified(self.increment / (self.weight * self.relative))

    def symbol(self, name: str) -> sp.Symbol:
        """Another size of the kind, ``rho`` or ``r``, with the indices of its κ."""
        return sp.Symbol(self.rate.name.replace("kappa", name), positive=True)

    def tag(self, part: str) -> str:
        """How steps that speak of this kind are called."""
        return part if self.name == "*" else f"{part}-{self.name}"


@dataclass(frozen=True)
class Balanced:
    """One part at its rule: its steps from the count of its sublayers to the solution."""

    part: Part
    kinds: tuple[Kind, ...]
    values: dict[sp.Symbol, sp.Expr]  # α's and β's (and η's factor), in the depth symbols
    steps: tuple[Step, ...] = ()
    amplification: Amplification | None = None

    @property
    def depth(self) -> sp.Symbol:
        """The symbol of its number of layers."""
        return DEPTHS[self.part.depth]

    @property
    def sublayers(self) -> sp.Expr:
        """S, in the depth symbol."""
        return sublayers(self.part)

    @property
    def conclusion(self) -> tuple[str, ...]:
        """The steps that state the solution."""
        return tuple(s.name for s in self.steps if s.name.startswith("solution-"))

    @property
    def factor(self) -> sp.Expr:
        """What the later part multiplies this part's increment with."""
        return sp.Integer(1) if self.amplification is None else self.amplification.factor

    @property
    def backward(self) -> sp.Expr:
        """What it multiplies the updates of this one with."""
        return sp.Integer(1) if self.amplification is None else self.amplification.backward

    @property
    def rate(self) -> sp.Expr:
        """The learning rate's factor."""
        return self.values.get(rate, sp.Integer(1))

    def rate_of(self, kind: Kind) -> sp.Expr:
        """κ, the learning-rate multiplier of a kind's scaled matrices."""
        return self.values.get(kind.rate, sp.Integer(1))

    def relative_update(self, kind: Kind) -> sp.Expr:
        """ρ = ‖ΔW‖/(η‖W‖) of a scaled matrix at the solution."""
        times = self.rate * self.rate_of(kind) * self.backward
        return simplified(times * self.at_solution(kind.relative))

    def at_solution(self, expression: sp.Expr) -> sp.Expr:
        """An expression in α's and β's with the solved values put in."""
        return simplified(sp.sympify(expression).xreplace(self.values))

    def self_consistency(self, kind: Kind, power: int = 2) -> sp.Expr:
        """S·r^power of a kind at the solution."""
        return self.sublayers * self.at_solution(kind.weight) ** power
