r"""A mixture of experts beside one dense branch: three numbers, whatever the experts are.

.. math:: y = \sum_{i \in K} p_i E_i(x), \qquad |K| = k, \quad p_i = 1/k

Independent outputs add as a root, so that y is :math:`k^{-1/2}` of one expert. A loss is a mean
over tokens: a share k/E of them reaches an expert, each weighed by 1/k, and its gradient is 1/E of
the dense one's. What one step makes of the k chosen experts points where the loss's gradient does,
and adds up in line: the output answers all experts together as it answers one dense branch. So SGD
moves the output by 1/E of what it moves a dense one by, and a sign-like update as far as there.
"""

from __future__ import annotations

from typing import NamedTuple

import sympy as sp

from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import i
from deepnet_theory.symbolic.proof.step import IDENTITY, Check, Section, Step
from deepnet_theory.symbolic.proof.witness import TOLERANCE, mixed

SECTION = Section("Experts")


class Mixture(NamedTuple):
    """The steps of a mixture; their right-hand sides are the factors beside a dense branch."""

    size: Step
    reached: Step
    together: Step


def mixture(of: Sublayer) -> Mixture | None:
    """What k of E experts are to one; None for a branch without experts."""
    if of.experts == 1:
        return None
    k, experts = sp.Integer(of.chosen), sp.Integer(of.experts)
    gate = 1 / k

    def step(name: str, lhs: sp.Expr, rhs: sp.Expr, because: str) -> Step:
        def explicit(step: Step) -> bool:
            found = getattr(mixed(of), name)
            return all(abs(float(s.doit()) - found) < TOLERANCE for s in (step.lhs, step.rhs))

        return SECTION.equal(
            f"experts-{name}-{of.name}",
            lhs,
            rhs,
            because,
            assumptions=("alike-experts",),
            checks=(IDENTITY, Check("explicit experts", explicit)),
        )

    return Mixture(
        step(
            "size",
            sp.sqrt(sp.Sum(gate**2, (i, 1, k))),
            1 / sp.sqrt(k),
            f"{k} independent outputs weighed by {gate} beside one",
        ),
        step(
            "reached",
            sp.Mul(k / experts, gate, evaluate=False),
            1 / experts,
            f"the share {k}/{experts} of the tokens reaches an expert, each weighed by {gate}",
        ),
        step(
            "together",
            sp.Sum(gate, (i, 1, k)),
            sp.Integer(1),
            f"{k} experts, each weighed by {gate}, that one step moves in the direction of the "
            "loss's gradient",
        ),
    )
