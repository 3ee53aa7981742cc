"""What a route rests on and the sources write out: told before the route where one asks for it."""

from __future__ import annotations

from typing import Any

from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.asides import initialisation, loss_increment, magnitude, unrolled
from deepnet_theory.symbolic.proof.step import Step


def background(selection: Selection) -> tuple[list[Step], tuple[Any, ...]]:
    """The steps before a route, and the symbols of their setting.

    Every route begins with the magnitude of a matrix and the probe. Then the probe route has
    the gradient in every magnitude of a sublayer by itself, the others what the layer cake
    writes out of initialisation and chain rule; Pre-Norm has its stream as one sum.
    """
    steps = list(magnitude.magnitude_steps())
    given = [*magnitude.given()]
    if selection.method == "probe":
        from deepnet_theory.symbolic.asides import sublayer_gradient

        steps += loss_increment.increment_steps()
        steps += sublayer_gradient.gradient_steps(selection)
        given += [*loss_increment.given(), *sublayer_gradient.given(selection)]
    else:
        steps += initialisation.initialisation_steps()
        given += initialisation.given()
    if selection.method == "lemma":
        from deepnet_theory.symbolic.asides import lemma

        steps += lemma.background_steps()
        given += lemma.given()
    if selection.method == "moments":
        from deepnet_theory.symbolic.asides import sublayer_change

        steps += sublayer_change.change_steps()
        given += sublayer_change.given()
    if unrolled.applies(selection.the_placement):
        steps += unrolled.unrolled_steps()
        given += unrolled.given()
    return steps, tuple(dict.fromkeys(given))
