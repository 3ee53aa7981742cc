"""One kind of sublayer at the rule, and its numbers at any depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.monomial import exponents, simplified
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, part_symbol
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.laws.parameters import terms
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.kinds import Kind
from deepnet_theory.symbolic.rule.problem import Problem

SECTION = Section("Beyond the first order")
DEPTH_POINTS = ((3, 5), (10_000, 700), (10**8, 10**6))  # its own depth, and any other
DIGITS = 40


@dataclass(frozen=True)
class OfKind:
    """One kind of sublayer of a part at the rule: what the steps speak of, and its numbers."""

    problem: Problem
    balanced: Balanced
    kind: Kind

    @property
    def tag(self) -> str:
        """What the names of its steps end in."""
        return self.kind.tag(self.balanced.part.name)

    @property
    def depth(self) -> sp.Symbol:
        """The symbol of its part's depth."""
        return DEPTHS[self.balanced.part.depth]

    @property
    def rho(self) -> sp.Symbol:
        """The symbol of the relative update."""
        parts = len(self.problem.selection.the_stack.parts)
        return part_symbol("rho", self.balanced.part.name, parts, self.kind.name)

    @property
    def multiplier(self) -> sp.Expr:
        """κ and the learning rate's factor, at the rule: what the user's η is multiplied with."""
        return simplified(self.balanced.rate * self.balanced.rate_of(self.kind))

    @property
    def weights(self) -> tuple[str, ...]:
        """The steps that find its branch weights."""
        return tuple(self.problem.route.weights[name].name for name in self.kind.members)

    @property
    def at_rule(self) -> tuple[str, ...]:
        """The steps that the rule rests on."""
        amplified = self.balanced.amplification
        passed = () if amplified is None else tuple(step.name for step in amplified.steps)
        return (*self.balanced.conclusion, *passed)

    @property
    def has_degrees(self) -> bool:
        """Whether the route states the optimizer's degrees as a step."""
        return any(step.name == "degrees" for step in self.problem.route.steps)

    def depths(self, point: tuple[int, int]) -> dict[sp.Symbol, Any]:
        """The depths at a point: its own depth, and any other."""
        own, other = point
        return {
            symbol: sp.Integer(own if symbol == self.depth else other) for symbol in DEPTHS.values()
        }

    def numbers(self, point: tuple[int, int]) -> dict[sp.Symbol, Any]:
        """Depths and knobs at a depth."""
        depths = self.depths(point)
        knobs = {
            symbol: sp.N(value.xreplace(depths), 2 * DIGITS)
            for symbol, value in self.balanced.values.items()
        }
        return {**depths, **knobs}

    def rho_at(self, point: tuple[int, int]) -> sp.Expr:
        """ρ by running the optimizer on entries of the gradient's and the matrix's size."""
        numbers = self.numbers(point)
        amplified = self.balanced.amplification
        passes = amplified is not None and amplified.form != "published"
        grown = amplified.size.xreplace(numbers) if amplified and passes else sp.Integer(1)
        times = self.multiplier.xreplace(numbers)
        return sp.N(times * self.stepped(numbers, grown), DIGITS)

    def stepped(self, knobs: dict[sp.Symbol, Any], grown: sp.Expr = sp.S.One) -> sp.Expr:
        """The update of a scaled matrix over the matrix at values of its knobs, without κ.

        ``grown`` is what a later part multiplies the gradient with.
        """
        found = terms(self.kind.sublayer, self.problem.law)
        term = next(t for t in found if t.role is Role.SCALED)
        gradient, size = (
            sp.sympify(e).xreplace(self.kind.own).xreplace(knobs)
            for e in (term.gradient, term.size)
        )
        one, optimizer = sp.Integer(1), self.problem.selection.the_optimizer
        length = step_length(optimizer, grown * gradient, size) / step_length(optimizer, one, one)
        return length / size


def power_of(size: sp.Expr) -> str:
    """The powers of the depths in a monomial, in words."""
    found = {base: power for base, power in exponents(size).items() if base.is_Symbol}
    return "*".join(f"{base}^({found[base]})" for base in sorted(found, key=str)) or "1"


def near(side: sp.Expr, expected: Any, numbers: dict[sp.Symbol, Any]) -> bool:
    """Whether an expression has a value, to 25 digits."""
    value = sp.N(side.xreplace(numbers), DIGITS)
    return bool(abs(value - expected) <= sp.Float("1e-25") * abs(expected))


def value(expression: sp.Expr, numbers: dict[sp.Symbol, Any]) -> Any:
    """The number at the working precision of mpmath, every node computed in it.

    SymPy never meets the numbers: it would factor a root of 4*10^200 + 1, and give up. Nor does
    Python: in code printed for it, an unevaluated 3**(-1) is a quotient of integers, in double
    precision.
    """
    leaf = numbers.get(expression, expression)
    if leaf.is_Atom:
        return mpmath.mpmathify(sp.N(leaf, mpmath.mp.dps))
    return _COMPUTED[expression.func](*(value(node, numbers) for node in expression.args))


_COMPUTED: dict[type[sp.Expr], Callable[..., Any]] = {
    sp.Add: lambda *terms: mpmath.fsum(terms),
    sp.Mul: lambda *factors: mpmath.fprod(factors),
    sp.Pow: mpmath.power,
    sp.exp: mpmath.exp,
}
