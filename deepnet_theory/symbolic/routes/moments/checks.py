"""Checks of the moment route's bounds, and the joint limit in which they are reached."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.routes.moments.setting import alpha, v, w

_s = sp.Symbol("s", positive=True)


def at_most(left: sp.Expr, right: sp.Expr) -> bool:
    """Both sides are non-negative and right² − left² is a quotient of sums of positive terms."""
    top, bottom = sp.fraction(sp.together(right**2 - left**2))
    return bool(
        left.is_nonnegative
        and right.is_nonnegative
        and sp.expand(top).is_nonnegative
        and sp.expand(bottom).is_positive
    )


def meet_for_a_weak_branch(left: sp.Expr, right: sp.Expr) -> bool:
    """(left/right)² → 1 for v, w → 0 and α → ∞ at once: no constant was lost on the way."""
    weak = {v: v * _s, w: w * _s, alpha: alpha / _s}
    ratio = sp.cancel(sp.together((left / right) ** 2).xreplace(weak))
    return bool(sp.cancel(ratio.subs(_s, 0)) == 1)


def _squares(step: Step) -> bool:
    return at_most(step.lhs, step.rhs)


def _reached(step: Step) -> bool:
    return meet_for_a_weak_branch(step.lhs, step.rhs)


SQUARES = Check("rhs^2 - lhs^2 is a quotient of positive sums", _squares)
REACHED = Check("lhs/rhs -> 1 as the branch's weight -> 0", _reached)
