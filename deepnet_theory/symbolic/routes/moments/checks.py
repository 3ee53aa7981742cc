"""The joint limit of a weak branch, in which the moment route's bounds are reached."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.routes.moments.setting import alpha, v, w

_s = sp.Symbol("s", positive=True)


def meet_for_a_weak_branch(left: sp.Expr, right: sp.Expr) -> bool:
    """(left/right)² → 1 for v, w → 0 and α → ∞ at once: no constant was lost on the way."""
    weak = {v: v * _s, w: w * _s, alpha: alpha / _s}
    ratio = sp.cancel(sp.together((left / right) ** 2).xreplace(weak))
    return bool(sp.cancel(ratio.subs(_s, 0)) == 1)


def _reached(step: Step) -> bool:
    return meet_for_a_weak_branch(step.lhs, step.rhs)


REACHED = Check("lhs/rhs -> 1 as the branch's weight -> 0", _reached)
