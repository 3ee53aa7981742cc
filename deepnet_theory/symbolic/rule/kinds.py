"""The kinds of sublayers of a part, as its route proves them, and the part at its solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy as sp

from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    alpha,
    beta,
    depth_expression,
    simplified,
)
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.route import sublayers

if TYPE_CHECKING:
    from deepnet_theory.symbolic.rule.amplification import Amplification

rate = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob


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
        return self.own[alpha]

    @property
    def beta(self) -> sp.Symbol:
        return self.own[beta]

    @property
    def matrices(self) -> int:
        """m_s, the number of scaled matrices of a branch."""
        return len(self.sublayer.scaled)

    def symbol(self, name: str) -> sp.Symbol:
        """Another size of the kind, ``rho`` or ``r``, with the indices of its κ."""
        return sp.Symbol(self.rate.name.replace("kappa", name), positive=True)

    def tag(self, part: str) -> str:
        """How steps that speak of this kind are called."""
        return part if self.name == "*" else f"{part}-{self.name}"


@dataclass(frozen=True)
class Balanced:
    """One part at its rule: its steps from the count of its sublayers to the solution.

    ``values`` are α's, β's, κ's and the learning rate's factor, in the depth symbols.
    """

    part: Part
    kinds: tuple[Kind, ...]
    values: dict[sp.Symbol, sp.Expr]
    steps: tuple[Step, ...] = ()
    amplification: Amplification | None = None
    together: sp.Expr = sp.S.One  # what the uses of one matrix multiply its update with

    @property
    def uses(self) -> sp.Expr:
        """How many sublayers use one matrix."""
        return depth_expression(self.part.uses)

    @property
    def depth(self) -> sp.Symbol:
        return DEPTHS[self.part.depth]

    @property
    def sublayers(self) -> sp.Expr:
        return sublayers(self.part)

    @property
    def knobs(self) -> tuple[sp.Symbol, ...]:
        return tuple(dict.fromkeys(symbol for kind in self.kinds for symbol in kind.own.values()))

    @property
    def conclusion(self) -> tuple[str, ...]:
        """The steps that state the solution."""
        return tuple(s.name for s in self.steps if s.name.startswith("solution-"))

    @property
    def factor(self) -> sp.Expr:
        """What the later part multiplies this part's increment with."""
        return sp.S.One if self.amplification is None else self.amplification.factor

    @property
    def backward(self) -> sp.Expr:
        """What it multiplies the updates of this one with."""
        return sp.S.One if self.amplification is None else self.amplification.backward

    @property
    def rate(self) -> sp.Expr:
        """The learning rate's factor."""
        return self.values.get(rate, sp.S.One)

    def rate_of(self, kind: Kind) -> sp.Expr:
        """κ, the learning-rate multiplier of a kind's scaled matrices."""
        return self.values.get(kind.rate, sp.S.One)

    def relative_update(self, kind: Kind) -> sp.Expr:
        """ρ = ‖ΔW‖/(η‖W‖) of a scaled matrix at the solution."""
        times = self.rate * self.rate_of(kind) * self.backward * self.together
        return simplified(times * self.at_solution(kind.relative))

    def at_solution(self, expression: sp.Expr) -> sp.Expr:
        """An expression in α's and β's with the solved values put in."""
        return simplified(sp.sympify(expression).xreplace(self.values))
