r"""A stream that is not normalised, at any branch weight: what its growth takes off the increment.

.. math:: \sum_{i=1}^S (1 + i r^2)^{-(1+p)/2} \le \int_0^S (1 + i r^2)^{-(1+p)/2}\,di

Source: derived here; Pre/Post norm note, §1.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import S, i, r
from deepnet_theory.proof.lemma import PLACEMENT as SECTION
from deepnet_theory.proof.step import Check, Step


def far_from_identity(power: sp.Expr) -> Step:
    """Σ (1 + i r²)^(−(1+p)/2) ≤ its integral: what a growing stream takes off the increment."""
    half = (1 - power) / 2
    size = 1 + S * r**2
    integral = sp.log(size) / r**2 if half == 0 else (size**half - 1) / (half * r**2)
    return SECTION.at_most(
        "sum-without-near-identity",
        sp.Sum((1 + i * r**2) ** (half - 1), (i, 1, S)),
        integral,
        (
            "D^(1+p) summed at any branch weight: where r does not shrink with depth the growing "
            "stream makes S terms count as log S (p = 1) or √S (p = 0), in independent directions"
        ),
        uses=("stream-jacobians",),
        assumptions=("independent-signs",),
        checks=(Check("a decreasing summand under its own integral", _under_integral),),
    )


def _under_integral(step: Step) -> bool:
    """rhs is 0 at S = 0, its derivative in S is the summand at S, and that does not increase."""
    summand = step.lhs.function.subs(i, S)
    slope = sp.diff(step.rhs, S) / summand
    falling = sp.factor(-sp.diff(summand, S))
    return bool(
        step.rhs.subs(S, 0) == 0
        and sp.simplify(slope) == 1
        and falling.is_nonnegative
        and step.lhs.limits[0] == (i, 1, S)
    )
