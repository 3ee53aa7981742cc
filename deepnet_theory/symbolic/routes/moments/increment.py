r"""The update substituted: what one optimizer step makes one sublayer add to the output.

With :math:`D = \sqrt2\,\beta\kappa` the coefficient of ‖Δθ‖ at v = w = β and A_f, A_b what a change
and a gradient gain on the way between the sublayer and the output,

.. math:: A_f D\,\eta\,(\|\partial L/\partial F\| A_b D)^p\,(\sqrt2\,\beta)^q .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.symbols import alpha, beta, eta
from deepnet_theory.symbolic.expectation.model import norm_of
from deepnet_theory.symbolic.laws.optimizer import Degrees, degrees
from deepnet_theory.symbolic.laws.placement import P, placement_law
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import BOUNDED, Check, Step
from deepnet_theory.symbolic.routes.moments.recursion import COEFFICIENT

loss_gradient = norm_of("dL_dF", r"\partial L/\partial F")
INCREMENT, UPDATE = "moment-increment", "Update substituted"


@dataclass(frozen=True)
class Passage:
    """What a change and a gradient gain between a sublayer and the stack's output, and why."""

    forward: Any = sp.S.One
    backward: Any = sp.S.One
    because: str = ""
    uses: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()


def increment_step(
    selection: Selection,
    name: str = INCREMENT,
    knobs: tuple[Any, Any] = (alpha, beta),
    passage: Passage | None = None,
) -> Step:
    """One sublayer's share of the change of the output, per η, in the knobs of its part."""
    way = passage or Passage()
    found: Degrees = degrees(selection.the_optimizer)
    residual, gain = knobs
    law = placement_law(selection.the_placement)
    kappa = law.response.xreplace({P: gain**2, alpha: residual})
    response, size = sp.sqrt(2) * gain * kappa, sp.sqrt(2) * gain
    gradient = loss_gradient * way.backward * response
    return Step(
        name=name,
        section=UPDATE,
        lhs=way.forward * response * (eta * gradient**found.p * size**found.q),
        rhs=eta
        * sp.sqrt(2) ** (1 + found.p + found.q)
        * way.forward
        * way.backward**found.p
        * (gain * kappa) ** (1 + found.p)
        * gain**found.q,
        relation=Relation.BOUND,
        because=(
            f"the coefficient {response} of ‖Δθ‖ times ‖Δθ‖ = η‖g‖^p‖θ‖^q at v = w = {gain}, "
            f"p = {found.p}, q = {found.q}, ‖g‖ at most ‖∂L/∂F‖ times the same coefficient; "
            f"‖∂L/∂F‖ is of order one{way.because}"
        ),
        source="layer cake, §5.3 and §4.3",
        uses=(COEFFICIENT, "telescoping", "degrees", *way.uses),
        assumptions=("bounded-loss-gradient", "independent-signs", "equal-gains"),
        establishes=(loss_gradient,),
        bounded=(loss_gradient,),
        checks=(
            BOUNDED,
            Check("equal where ‖∂L/∂F‖ = 1", _equal_at_unit_gradient),
            *way.checks,
        ),
    )


def _equal_at_unit_gradient(step: Step) -> bool:
    ratio = sp.powsimp(step.lhs.subs(loss_gradient, 1) / step.rhs, force=True)
    return bool(sp.simplify(ratio - 1) == 0)
