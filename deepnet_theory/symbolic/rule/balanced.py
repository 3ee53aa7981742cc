"""One part of a stack at its rule: what its steps say, and expressions with the rule put in."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import simplified
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.rule.amplification import Amplification
from deepnet_theory.symbolic.rule.kinds import Kind
from deepnet_theory.symbolic.rule.solution import rate


@dataclass(frozen=True)
class Balanced:
    """One part: its steps from the count of its sublayers to the solution."""

    part: Part
    sublayers: sp.Expr  # S, in the depth symbol
    kinds: tuple[Kind, ...]
    closure: Closure
    values: dict[sp.Symbol, sp.Expr]  # α's and β's (and η's factor), in the depth symbols
    steps: tuple[Step, ...] = ()
    amplification: Amplification | None = None

    @property
    def conclusion(self) -> tuple[str, ...]:
        """The steps that state the solution."""
        return tuple(s.name for s in self.steps if s.name.startswith("solution-"))

    @property
    def factor(self) -> sp.Expr:
        """What the later part multiplies this part's increment with."""
        return sp.Integer(1) if self.amplification is None else self.amplification.factor

    @property
    def rate(self) -> sp.Expr:
        """The learning rate's factor."""
        return self.values.get(rate, sp.Integer(1))

    def rate_of(self, kind: Kind) -> sp.Expr:
        """κ, the learning-rate multiplier of a kind's scaled matrices."""
        return self.values.get(kind.rate, sp.Integer(1))

    @property
    def upstream(self) -> sp.Expr:
        """What the later part multiplies the gradients of this one with."""
        passed = self.amplification
        return sp.Integer(1) if passed is None or passed.form == "published" else passed.size

    @property
    def backward(self) -> sp.Expr:
        """What it multiplies the updates of this one with."""
        return sp.Integer(1) if self.amplification is None else self.amplification.backward

    def relative_update(self, kind: Kind) -> sp.Expr:
        """ρ = ‖ΔW‖/(η‖W‖) of a scaled matrix at the solution."""
        times = self.rate * self.rate_of(kind) * self.backward
        return simplified(times * self.at_solution(kind.relative))

    def value(self, symbol: sp.Symbol) -> sp.Expr:
        """The solved value of α or β (or of η's factor)."""
        return self.values[symbol]

    def at_solution(self, expression: sp.Expr) -> sp.Expr:
        """An expression in α's and β's with the solved values put in."""
        return simplified(sp.sympify(expression).xreplace(self.values))

    def self_consistency(self, kind: Kind, power: int = 2) -> sp.Expr:
        """S·r^power of a kind at the solution."""
        return self.sublayers * self.at_solution(kind.weight) ** power
