r"""The update substituted: what one optimizer step makes one sublayer add to the output.

With :math:`D = \sqrt2\,\beta\kappa` the coefficient of ‖Δθ‖ at v = w = β,

.. math:: D\,\eta\,(\|\partial L/\partial F\| D)^p\,(\sqrt2\,\beta)^q .

D is taken from the step that ends the recursion, p and q from the step that counts the degrees.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp
from sympy.core.function import AppliedUndef

from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.symbolic.algebra.monomial import alpha, beta, eta, vanishes
from deepnet_theory.symbolic.expectation.model import norm_of
from deepnet_theory.symbolic.laws.optimizer import degrees, entrywise, step_length
from deepnet_theory.symbolic.laws.placement import P, PlacementLaw
from deepnet_theory.symbolic.proof.step import BOUNDED, IDENTITY, SAMPLED, Check, Section, Step
from deepnet_theory.symbolic.routes.moments.setting import v, w
from deepnet_theory.symbolic.routes.route import Increment, Proved

UPDATE = Section("Update substituted")
WEIGHT = Section("Weight of a branch")

loss_gradient = norm_of("dL_dF", r"\partial L/\partial F")
EQUAL_GAINS = {v: beta, w: beta}
parameter_size = sp.sqrt(v**2 + w**2)  # ‖θ‖, each matrix against its width


def update_size(degree: Step, gradient: sp.Expr, size: sp.Expr) -> sp.Expr:
    """‖Δθ‖ of an update u with u(η, t·g, s·θ) = t^p s^q u(η, g, θ), u of unit arguments being η."""
    (unscaled,) = degree.rhs.atoms(AppliedUndef)
    _, gradient_factor, size_factor = (
        scaled / plain for scaled, plain in zip(degree.lhs.args, unscaled.args, strict=True)
    )
    factor = degree.rhs / unscaled
    return eta * factor.xreplace({gradient_factor: gradient, size_factor: size})


def is_gradient_step(optimizer: Optimizer) -> bool:
    """Whether the update is the gradient itself times a number."""
    found = degrees(optimizer)
    if (found.p, found.q) != (1, 0) or "polar(" in optimizer.update:
        return False  # the polar factor of a single row, as below, is the row's direction
    # of either sign: 2 + sign(theta) is no number
    g, theta = (sp.symbols(f"{n}_1 {n}_2", real=True, nonzero=True) for n in ("g", "theta"))
    first, second = entrywise(optimizer, eta, g, theta)
    return bool(sp.simplify(first * g[1] - second * g[0]) == 0)


def increment(
    name: str,
    coefficient: Step,
    degree: Step,
    aligned: tuple[str, ...],
    optimizer: Optimizer,
    law: PlacementLaw,
) -> Increment:
    """What a sublayer adds, from the steps that give D and the degrees.

    ``aligned`` names the steps that derive that a gradient step moves the output by |g||Δθ|;
    every other update is assumed to.
    """
    response = coefficient.rhs.xreplace(EQUAL_GAINS)
    size = parameter_size.xreplace(EQUAL_GAINS)
    moved = response * update_size(degree, loss_gradient * response, size)
    derived = is_gradient_step(optimizer)
    return Increment(
        UPDATE.bound(
            name,
            moved,
            moved.xreplace({loss_gradient: sp.S.One}),
            (
                f"the coefficient {response} of ‖Δθ‖ times ‖Δθ‖ = "
                f"{update_size(degree, sp.Symbol('|g|'), sp.Symbol('|θ|'))} at v = w = β, ‖g‖ at "
                "most ‖∂L/∂F‖ times the same coefficient, ‖∂L/∂F‖ of order one; the update moves "
                "the output by |g||Δθ|, as "
                + ("a gradient step does" if derived else "aligned updates do")
            ),
            source="layer cake, §5.3 and §4.3",
            uses=(coefficient.name, degree.name, *(aligned if derived else ())),
            assumptions=(
                "bounded-loss-gradient",
                "independent-signs",
                "equal-gains",
                *(() if derived else ("aligned-updates",)),
            ),
            establishes=(loss_gradient,),
            bounded=(loss_gradient,),
            checks=(
                BOUNDED,
                Check("the optimizer run behind the placement's own law", _run(optimizer, law)),
            ),
        )
    )


def _run(optimizer: Optimizer, law: PlacementLaw) -> Callable[[Step], bool]:
    """Explicit gradients and parameters of the sizes in question, stepped by the expression."""

    def holds(step: Step) -> bool:
        for residual, gain in ((sp.Rational(7, 3), sp.Rational(2, 5)), (sp.Integer(9), sp.S.Half)):
            kappa = sp.sympify(law.response).xreplace({P: gain**2, alpha: residual})
            joined = sp.sqrt(gain**2 + gain**2)  # of two matrices with one gain
            grown = step_length(optimizer, joined * kappa, joined)
            moved = joined * kappa * grown / step_length(optimizer, sp.S.One, sp.S.One)
            at = {alpha: residual, beta: gain, loss_gradient: sp.S.One, eta: sp.S.One}
            for side in (step.lhs, step.rhs):
                if abs(sp.N(side.xreplace(at) / moved - 1, 40)) > sp.Float("1e-30"):
                    return False
        return True

    return holds


def weight(
    name: str, ratios: tuple[sp.Expr, ...], uses: tuple[str, ...], law: PlacementLaw
) -> Proved:
    """r at v = w = β, from the mean squares of branch over path, one for each kind."""

    def as_the_equation_reads(step: Step) -> bool:
        return bool(sp.powsimp(step.rhs / law.weight.xreplace({P: beta**2})) == 1)

    def of_every_kind(step: Step) -> bool:
        return all(vanishes(step.rhs**2 - ratio.xreplace(EQUAL_GAINS)) for ratio in ratios)

    square = sp.cancel(ratios[0])
    return Proved(
        WEIGHT.equal(
            name,
            sp.sqrt(ratios[0]).xreplace(EQUAL_GAINS),
            sp.sqrt(square.xreplace(EQUAL_GAINS)),
            "the root mean square of the branch against that of the identity path",
            source="layer cake, §5.1",
            uses=uses,
            assumptions=("equal-gains", "unit-activations"),
            checks=(
                IDENTITY,
                SAMPLED,
                Check("of every kind of sublayer", of_every_kind),
                Check("as the placement's equation reads", as_the_equation_reads),
            ),
        )
    )
