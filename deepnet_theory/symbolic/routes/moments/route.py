r"""The moment route from a selection to the increment and the weight of its sublayers.

With :math:`D = \sqrt2\,\beta R` the coefficient of ‖Δθ‖ at v = w = β,

.. math:: D\,\eta\,(\|\partial L/\partial F\| D)^p\,(\sqrt2\,\beta)^q .

D is taken from the step that ends the recursion, p and q from the step that counts the degrees.
"""

from __future__ import annotations

from collections.abc import Iterator

import mpmath
import sympy as sp
from sympy.core.function import AppliedUndef

from deepnet_theory.sizes.rule import MOMENTS_OF, require_moments
from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, S, alpha, beta, eta, v, vanishes, w
from deepnet_theory.symbolic.expectation import norm_of
from deepnet_theory.symbolic.laws.optimizer import homogeneity_step, step_length
from deepnet_theory.symbolic.laws.placement import P, PlacementLaw, placement_law
from deepnet_theory.symbolic.proof.checks import Point, at_points, number
from deepnet_theory.symbolic.proof.step import BOUNDED, IDENTITY, Check, Section, Step
from deepnet_theory.symbolic.routes.moments.parts import AMPLIFICATION, Parts, own_symbols
from deepnet_theory.symbolic.routes.moments.recursion import (
    COEFFICIENT,
    Moments,
    norm_steps,
    recursion_steps,
)
from deepnet_theory.symbolic.routes.moments.sublayer import Reading, Sublayer, d, m, norm_dx, norm_x
from deepnet_theory.symbolic.routes.route import (
    Route,
    encoder_and_decoder,
    supporting,
)

UPDATE = Section("Update substituted", "layer cake, §5.3 and §4.3")
WEIGHT = Section("Weight of a branch", "layer cake, §5.1")

loss_gradient = norm_of("dL_dF", r"\partial L/\partial F")
EQUAL_GAINS = {v: beta, w: beta}
parameter_size = sp.sqrt(v**2 + w**2)  # ‖θ‖, each matrix against its width


def sublayers(selection: Selection) -> tuple[Sublayer, ...]:
    """The kinds of sublayers of the selection that the route has a law for.

    Raises :class:`Refusal` for every other placement or sublayer, naming the missing law.
    """
    reading, parts = Reading.of(selection.the_placement), selection.the_stack.parts
    names = dict.fromkeys(sublayer.name for part in parts for sublayer in part.layer)
    for part in parts:
        for sublayer in part.layer:
            require_moments(sublayer)
    # the feed-forward sublayer first, as in the source
    return tuple(Sublayer(name, reading) for name in MOMENTS_OF if name in names)


def moment_route(selection: Selection) -> Route:
    """The steps that the increment and the weight of the selection's sublayers rest on.

    Raises :class:`Refusal` where a law is missing.
    """
    kinds, law = sublayers(selection), placement_law(selection.the_placement)
    optimizer = selection.the_optimizer
    steps: list[Step] = []
    every: list[Moments] = []
    for sublayer in kinds:
        own = tuple(sublayer.steps())
        steps += own
        every.append(Moments.of(sublayer, own))
    steps += norm_steps(selection.the_norm.centred)
    steps += recursion_steps(tuple(every))
    degree = homogeneity_step(optimizer, degrees(optimizer))
    coefficient = next(step for step in steps if step.name == COEFFICIENT)
    ends = (weight(tuple(every), law), increment(coefficient, degree, optimizer, law))
    sums: tuple[str, ...] = ("telescoping",)
    symbols = (*DEPTHS.values(), S, alpha, beta, eta, v, w, d, m, norm_x, norm_dx)
    if len(selection.the_stack.parts) == 2:
        halves = encoder_and_decoder(selection.the_stack)
        crossing = next(one for one in every if one.sublayer.crosses)
        steps += Parts(*halves, crossing, coefficient).steps()
        sums = ("telescoping", *AMPLIFICATION[selection.amplification])
        symbols += tuple(symbol for half in halves for symbol in own_symbols(half).values())
    steps += [degree, *ends]
    return Route(
        steps=supporting(steps, (*sums, *(end.name for end in ends))),
        given=symbols,
        increments={kind.name: ends[1] for kind in kinds},
        weights={kind.name: ends[0] for kind in kinds},
        sums=sums,
    )


def update_size(degree: Step, gradient: sp.Expr, size: sp.Expr) -> sp.Expr:
    """‖Δθ‖ of an update u with u(η, t·g, s·θ) = t^p s^q u(η, g, θ), u of unit arguments being η."""
    (unscaled,) = degree.rhs.atoms(AppliedUndef)
    _, gradient_factor, size_factor = (
        scaled / plain for scaled, plain in zip(degree.lhs.args, unscaled.args, strict=True)
    )
    factor = degree.rhs / unscaled
    return eta * factor.xreplace({gradient_factor: gradient, size_factor: size})


def increment(coefficient: Step, degree: Step, optimizer: Optimizer, law: PlacementLaw) -> Step:
    """What a sublayer adds, from the steps that give D and the degrees."""
    response = coefficient.rhs.xreplace(EQUAL_GAINS)
    size = parameter_size.xreplace(EQUAL_GAINS)
    moved = response * update_size(degree, loss_gradient * response, size)

    def is_run(_: Step) -> Iterator[Point]:
        """Explicit gradients and parameters of the sizes in question, stepped by the expression."""
        for residual, gain in ((sp.Rational(7, 3), sp.Rational(2, 5)), (sp.Integer(9), sp.S.Half)):
            at = {alpha: residual, beta: gain, loss_gradient: 1, eta: 1}
            joined = mpmath.sqrt(2) * number(gain)  # of two matrices with one gain
            through = joined * number(law.response, {alpha: residual, P: number(gain) ** 2})
            yield at, through * number(step_length(optimizer, through, joined))

    return UPDATE.bound(
        "moment-increment",
        moved,
        moved.xreplace({loss_gradient: sp.S.One}),
        f"the coefficient {response} of ‖Δθ‖ times ‖Δθ‖ = "
        f"{update_size(degree, sp.Symbol('|g|'), sp.Symbol('|θ|'))} at v = w = β, ‖g‖ at "
        "most ‖∂L/∂F‖ times the same coefficient, ‖∂L/∂F‖ of order one; the update moves "
        "the output by |g||Δθ|, as aligned updates do",
        uses=(coefficient.name, degree.name),
        assumptions=(
            "bounded-loss-gradient",
            "independent-signs",
            "equal-gains",
            "aligned-updates",
        ),
        establishes=(loss_gradient,),
        bounded=(loss_gradient,),
        checks=(BOUNDED, at_points("the optimizer run behind the placement's own law", is_run)),
    )


def weight(every: tuple[Moments, ...], law: PlacementLaw) -> Step:
    """r at v = w = β, from the mean squares of branch over path, one for each kind."""

    def is_of_every_kind(step: Step) -> bool:
        squares = (one.weight.xreplace(EQUAL_GAINS) for one in every)
        return step.rhs.is_positive and all(vanishes(step.rhs**2 - square) for square in squares)

    def is_as_the_equation_reads(step: Step) -> bool:
        return bool(sp.powsimp(step.rhs / law.weight.xreplace({P: beta**2})) == 1)

    square = every[0].weight.xreplace(EQUAL_GAINS)
    return WEIGHT.equal(
        "moment-weight",
        sp.sqrt(square),
        sp.sqrt(sp.factor(square)),
        "the root mean square of the branch against that of the identity path",
        uses=tuple(one.names[0] for one in every),
        assumptions=("equal-gains", "unit-activations"),
        checks=(
            IDENTITY,
            Check("of every kind of sublayer", is_of_every_kind),
            Check("as the placement's equation reads", is_as_the_equation_reads),
        ),
    )
