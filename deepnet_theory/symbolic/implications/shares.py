"""What every kind of parameter contributes at a rule, and the learning rate that balances it.

The published rules speak of the scaled matrices. Query and key, biases and the norms' gains
are stepped too: here each has its own total S·A·γ^{1+p}|θ|^q, to be held against the 1 of the
scaled matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.monomial import exponent_in, present, simplified
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.laws.parameters import Term, terms
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.kinds import Kind
from deepnet_theory.symbolic.rule.problem import Problem


@dataclass(frozen=True)
class Share:
    """One parameter of one kind of sublayer, summed over the part."""

    part: str
    sublayer: str
    parameter: str
    role: Role
    gradient: sp.Expr  # of one parameter of this kind, in the depth symbols
    size: sp.Expr  # of the parameter itself
    total: sp.Expr  # of all of them; the scaled matrices' is the balance
    exponent: sp.Rational  # of the total in the part's own depth

    @property
    def standing(self) -> str:
        """Whether it is negligible, equal or dominant beside the scaled matrices."""
        if self.total == 0 or self.exponent < 0:
            return "negligible"
        return "equal" if self.exponent == 0 else "dominant"

    @property
    def balancing(self) -> sp.Expr:
        """The learning-rate multiplier that gives it the weight of the scaled matrices."""
        return sp.Integer(1) if self.total == 0 else present(1 / self.total)

    @property
    def multiplier(self) -> sp.Expr:
        """The multiplier that is exported: the balancing one where the share is dominant.

        A negligible share needs no mending: to raise its learning rate would spend the balance
        on parameters that the rule leaves quiet.
        """
        return self.balancing if self.standing == "dominant" else sp.Integer(1)


def shares(problem: Problem) -> Iterator[Share]:
    """The share of every parameter of every part, at the problem's rule."""
    norm = problem.selection.the_norm
    for balanced in problem.balanced:
        depth = DEPTHS[balanced.part.depth]
        for sublayer in {s.name: s for s in balanced.part.layer}.values():
            kind = next(k for k in balanced.kinds if sublayer.name in k.members)
            for term in terms(sublayer, problem.law, norm):
                total = total_of(problem, balanced, kind, term)
                yield Share(
                    part=balanced.part.name,
                    sublayer=sublayer.name,
                    parameter=term.name,
                    role=term.role,
                    gradient=_at_rule(balanced, kind, term.gradient) * balanced.upstream,
                    size=_at_rule(balanced, kind, term.size),
                    total=total,
                    exponent=sp.Integer(0) if total == 0 else exponent_in(total, depth),
                )


def total_of(problem: Problem, balanced: Balanced, kind: Kind, term: Term) -> sp.Expr:
    """S·A·(increment of one term) at the solution; κ is of the scaled matrices alone."""
    increment = term.increment(problem.degrees)
    if increment == 0:
        return sp.Integer(0)
    repeated = balanced.sublayers * balanced.factor * balanced.rate
    if term.role is Role.SCALED:
        repeated *= balanced.rate_of(kind)
    return simplified(repeated * _at_rule(balanced, kind, increment))


def _at_rule(balanced: Balanced, kind: Kind, expression: sp.Expr) -> sp.Expr:
    """An expression in the α and β of one sublayer with the solved values put in."""
    return balanced.at_solution(expression.xreplace(kind.own))
