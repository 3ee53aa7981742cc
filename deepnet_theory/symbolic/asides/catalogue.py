"""Which asides belong to a selection: told before or after its route where one asks for them."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.asides import (
    initialisation,
    loss_increment,
    loss_of_one_update,
    magnitude,
    query_and_key,
    unrolled,
)
from deepnet_theory.symbolic.proof.step import Step


@dataclass(frozen=True)
class Asides:
    """What a route rests on (before it), what uses its steps (after), and the setting's symbols."""

    before: tuple[Step, ...]
    after: tuple[Step, ...]
    given: tuple[sp.Symbol, ...]


def asides_of(selection: Selection) -> Asides:
    """What the sources write around the route of a selection.

    Every route begins with the magnitude of a matrix and the probe. Then the probe route has
    the gradient in every magnitude of a sublayer by itself, the others what the layer cake
    writes out of initialisation and chain rule; Pre-Norm has its stream as one sum. The lemma
    and moment routes are followed by what the sources say beside their rules.
    """
    before, given = list(magnitude.magnitude_steps()), list(magnitude.given())
    after: list[Step] = []
    if selection.method == "probe":
        from deepnet_theory.symbolic.asides import sublayer_gradient

        before += loss_increment.increment_steps()
        before += sublayer_gradient.gradient_steps(selection)
        before.append(loss_of_one_update.loss_increment(selection.the_optimizer))
        after += query_and_key.unscaled_steps(selection)
        given += [*loss_increment.given(), *sublayer_gradient.given(selection)]
    else:
        before += initialisation.initialisation_steps()
        given += initialisation.given()
    if selection.method == "lemma":
        from deepnet_theory.symbolic.asides import lemma

        before += lemma.before_steps()
        after += lemma.following_steps(selection)
        given += lemma.given()
    if selection.method == "moments":
        from deepnet_theory.symbolic.asides import moments, sublayer_change

        before += sublayer_change.change_steps()
        after += moments.moment_asides(selection)
        given += sublayer_change.given()
    if unrolled.applies(selection.the_placement):
        before += unrolled.unrolled_steps()
        given += unrolled.given()
    return Asides(tuple(before), tuple(after), tuple(dict.fromkeys(given)))
