"""The moment route from a selection to the increment and the weight of its sublayers."""

from __future__ import annotations

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, S, alpha, beta, eta, v, w
from deepnet_theory.symbolic.laws.optimizer import degrees, homogeneity_step
from deepnet_theory.symbolic.laws.placement import placement_law
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.moments.increment import increment, weight
from deepnet_theory.symbolic.routes.moments.parts import AMPLIFICATION, Parts, own_symbols
from deepnet_theory.symbolic.routes.moments.recursion import (
    COEFFICIENT,
    Moments,
    norm_steps,
    recursion_steps,
)
from deepnet_theory.symbolic.routes.moments.sublayer import (
    SOURCES,
    Reading,
    Sublayer,
    d,
    m,
    norm_dx,
    norm_x,
)
from deepnet_theory.symbolic.routes.route import Route, supporting
from deepnet_theory.symbolic.routes.two_parts import encoder_and_decoder


def sublayers(selection: Selection) -> tuple[Sublayer, ...]:
    """The kinds of sublayers of the selection that the route has a law for.

    Raises :class:`Refusal` for every other placement or sublayer, naming the missing law.
    """
    reading, parts = Reading.of(selection.the_placement), selection.the_stack.parts
    names = dict.fromkeys(sublayer.name for part in parts for sublayer in part.layer)
    missing = [name for name in names if name not in SOURCES]
    if missing:
        raise Refusal(
            f"the moment route has no second moment of the branch {missing[0]!r}: it is no product "
            "of two matrices around a mask, so that a change of its input does not pass it by the "
            f"factor of its size (it has the moments of {', '.join(SOURCES)}); "
            "use the method probe or lemma"
        )
    # the feed-forward sublayer first, as in the source
    return tuple(Sublayer(name, reading) for name in SOURCES if name in names)


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
        sums = ("telescoping", *AMPLIFICATION[selection.amplification], "two-part-bound")
        symbols += tuple(symbol for half in halves for symbol in own_symbols(half).values())
    steps += [degree, *(end.step for end in ends)]
    return Route(
        steps=supporting(steps, (*sums, *(end.name for end in ends))),
        given=symbols,
        increments={kind.name: ends[1] for kind in kinds},
        weights={kind.name: ends[0] for kind in kinds},
        sums=sums,
    )
