"""What one optimizer step moves through a parameter."""

from __future__ import annotations

import pytest
import sympy as sp

from deepnet_theory.spec.optimizer import custom_optimizer
from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.monomial import alpha, beta
from deepnet_theory.symbolic.laws.optimizer import degrees
from deepnet_theory.symbolic.laws.placement import STARTS_AT_ZERO, Term

UPDATES = ("-eta*g/norm(g)**2", "-eta*sign(g)", "-eta*g*norm(theta)", "-eta*g/norm(theta)")


@pytest.mark.parametrize("update", UPDATES)
def test_a_step_moves_the_output_by_gradient_times_step(update: str) -> None:
    found = degrees(custom_optimizer(update))
    for role in Role:
        term = Term("w", role, beta / alpha, beta)
        assert sp.simplify(term.increment(found) / term.update(found) / term.gradient) == 1
        powers = (found.p, 0 if role in STARTS_AT_ZERO else found.q)  # |0|^q would be no step
        assert term.update(found) == (beta / alpha) ** powers[0] * beta ** powers[1]


@pytest.mark.parametrize("update", UPDATES)
def test_where_there_is_no_gradient_nothing_moves(update: str) -> None:
    """At p = −1 too, where γ^{1+p} would be 1."""
    term = Term("w", Role.SCALED, sp.Integer(0), beta)
    assert term.increment(degrees(custom_optimizer(update))) == 0
