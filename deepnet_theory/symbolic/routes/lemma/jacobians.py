r"""The product of Q Jacobians of the scalar sublayer, whose branches have random signs.

.. math:: J = \frac{1 + \xi r}{\sqrt{1 + r^2}}, \qquad \mathbb E J^2 = 1

so that in mean square, which is what independent directions of a wide layer show, nothing decays
and nothing grows. The typical product, the mean and the worst case stand beside, in the claims.
"""

from __future__ import annotations

from itertools import product

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import alpha, r, vanishes
from deepnet_theory.symbolic.proof.checks import written_out
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.routes.lemma.scalar import sublayer, x

SOURCE = "layer cake, §4.3, supplement"
SECTION = Section("Products of Jacobians", SOURCE)

Q = sp.Symbol("Q", positive=True)  # number of Jacobians in a product
j = sp.Symbol("j", integer=True, nonnegative=True)  # how many of their signs are positive
jacobian = (1 + r) / sp.sqrt(1 + r**2)
opposite = (1 - r) / sp.sqrt(1 + r**2)
THIRD = sp.Rational(1, 3)  # a branch weight to look at signs with, which squares lose


def expectation(power: int) -> sp.Expr:
    """E J₁^p…J_K^p as a sum over the number of positive signs."""
    weight = sp.binomial(Q, j) / 2**Q
    return sp.Sum(weight * (jacobian**j * opposite ** (Q - j)) ** power, (j, 0, Q))


def jacobian_step() -> Step:
    """The root mean square of a product of Jacobians."""
    return SECTION.equal(
        "jacobian-root-mean-square",
        sp.sqrt(expectation(2)),
        sp.Integer(1),
        "E J² = ((1 + r)² + (1 − r)²)/(2(1 + r²)) = 1: in mean square nothing decays "
        "and nothing grows, at any depth and branch weight",
        uses=("derivative-x-signed", "branch-weight"),
        assumptions=("independent-signs",),
        checks=(by_patterns(2),),
        establishes=(Q,),
        source="derived here",
    )


def patterns(count: int) -> list[sp.Expr]:
    """The derivative of ``count`` sublayers in x for each of the 2^count sign patterns."""
    # gains of product r and α = 1: the Jacobian knows the branch weight alone
    one = {s: sp.diff(sublayer((r,), sp.Integer(s)), x).xreplace({alpha: 1}) for s in (1, -1)}
    return [sp.Mul(*(one[s] for s in signs)) for signs in product((1, -1), repeat=count)]


def by_patterns(power: int) -> Check:
    """Both sides (to the power) against the mean over every sign pattern, listed one by one."""

    def holds(step: Step) -> bool:
        for count in (1, 2, 3):  # at 1 and 2 alone 2^Q is 2K
            truth = sp.Add(*(p**power for p in patterns(count))) / 2**count
            for side in (step.lhs, step.rhs):
                written = written_out(side.xreplace({Q: sp.Integer(count)}))
                if not (vanishes(written**power - truth) and written.xreplace({r: THIRD}) > 0):
                    return False
        return True

    return Check("every sign pattern listed, Q = 1, 2, 3", holds)
