"""What a route hands over: its steps, and the last of them, whose values the rule is made of.

Balance takes the right-hand side of the increment's step, and no other formula: a route that
derives something else ends in another rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part, Stack
from deepnet_theory.symbolic.algebra.monomial import DEPTHS
from deepnet_theory.symbolic.proof.step import Step


@dataclass(frozen=True)
class Route:
    """The steps of a route, and those that say what it proves of each distinct sublayer, by name.

    The right-hand sides of ``increments`` (what one optimizer step makes a sublayer add to the
    output of its part) and of ``weights`` (r, the branch's weight against the identity path) are in
    the symbols α and β of one sublayer; the parts' own are put in where parts are balanced.
    ``sums`` names the steps that say how the sublayers' changes add up (the telescoping, say).
    """

    steps: tuple[Step, ...]
    given: tuple[sp.Symbol, ...]
    increments: Mapping[str, Step]
    weights: Mapping[str, Step]
    sums: tuple[str, ...] = ()


# By name, since the moment route alone doubles what an import of the package costs.
_ROUTES = {
    "probe": ("deepnet_theory.symbolic.routes.probe", "probe_route"),
    "lemma": ("deepnet_theory.symbolic.routes.lemma.route", "lemma_route"),
    "moments": ("deepnet_theory.symbolic.routes.moments.route", "moment_route"),
}


def route_of(selection: Selection) -> Route:
    """The route that the selection's method names; no route knows a closure.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where the route has no law for it.
    """
    open_ = replace(selection, closure=None)
    return _route(open_, open_.named)


@cache
def _route(selection: Selection, _named: tuple[object, ...]) -> Route:
    module, name = _ROUTES[selection.method]
    route: Callable[[Selection], Route] = getattr(import_module(module), name)
    return route(selection)


def supporting(steps: Iterable[Step], ends: Iterable[str]) -> tuple[Step, ...]:
    """The steps that the named ones rest on, themselves included, in the order given."""
    needed, ordered = set(ends), tuple(steps)
    for step in reversed(ordered):
        if step.name in needed:
            needed.update(step.uses)
    return tuple(step for step in ordered if step.name in needed)


# ---- two parts: the decoder's cross-attentions read the encoder's output ----


def encoder_and_decoder(stack: Stack) -> tuple[Part, Part]:
    """Both parts of a stack.

    Raises :class:`Refusal` where the decoder never attends to the encoder.
    """
    encoder, decoder = stack.parts
    if decoder.crossings == 0:
        raise Refusal(
            "the decoder's layer has no cross-attention, so the encoder does not reach the "
            "output and no rule follows for it; use the stack decoder"
        )
    return encoder, decoder


def sublayers(part: Part) -> sp.Expr:
    """S, the residual sublayers of all layers of a part."""
    return sp.Rational(part.sublayers_per_layer) * DEPTHS[part.depth]


def crossings(part: Part) -> sp.Expr:
    """K, the cross-attentions of all layers of a part."""
    return sp.Rational(part.crossings) * DEPTHS[part.depth]


def added_up(part: Part, layers: int, own: Callable[[int], sp.Expr], crossing: sp.Expr) -> sp.Expr:
    """Every sublayer's own term, and every cross-attention's, one by one, layer after layer."""
    total: sp.Expr = sp.S.Zero
    for number, sublayer in enumerate(part.layer * layers, start=1):
        total += own(number)
        if sublayer.reads_memory:
            total += crossing
    return total
