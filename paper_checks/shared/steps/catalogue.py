"""What the sources write around a selection's route, before it or behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.algebra import DEPTHS
from deepnet_theory.proof.derivation import Chain, Derivation, chain, derive
from deepnet_theory.proof.rule import Problem
from deepnet_theory.proof.step import Step
from paper_checks.shared.steps import (
    initialisation,
    loss_increment,
    loss_of_one_update,
    magnitude,
    query_and_key,
    unrolled,
)


def background(selection: Selection) -> Derivation:
    """The derivation of a selection, with all steps of its route and what sources write around."""
    problem, around = Problem(selection), asides_of(selection)
    made = derive(selection)
    steps = (*around.before, *problem.route.steps, *chain(problem), *around.after)
    given = (*DEPTHS.values(), *problem.route.given, *around.given)
    return replace(made, steps=steps, given=tuple(dict.fromkeys(given)))


@dataclass(frozen=True)
class Written(Chain):
    """A chain of steps that ends in no rule."""

    steps: tuple[Step, ...]


def layer_cake() -> Written:
    """The layer cake's §5: initialisation, change of a sublayer, its chain, what it says beside."""
    from paper_checks.shared.steps import moments, sublayer_change

    before = (*magnitude.magnitude_steps(), *initialisation.initialisation_steps())
    chained = (*sublayer_change.change_steps(), *moments.route_steps())
    return Written((*before, *chained, *moments.moment_asides()))


@dataclass(frozen=True)
class Asides:
    """What a route rests on (before it), what uses its steps (after), and the setting's symbols."""

    before: tuple[Step, ...]
    after: tuple[Step, ...]
    given: tuple[sp.Symbol, ...]


def asides_of(selection: Selection) -> Asides:
    """What the sources write around the route of a selection.

    Every route begins with the magnitude of a matrix and the probe. Then the probe route has
    the gradient in every magnitude of a sublayer by itself, the lemma route what the layer cake
    writes out of initialisation and chain rule; Pre-Norm has its stream as one sum. The lemma
    route is followed by what the sources say beside its rule.
    """
    before, given = list(magnitude.magnitude_steps()), list(magnitude.given())
    after: list[Step] = []
    if selection.method == "probe":
        from paper_checks.shared.steps import sublayer_gradient

        before += loss_increment.increment_steps()
        before += sublayer_gradient.gradient_steps(selection)
        before.append(loss_of_one_update.loss_increment(selection.the_optimizer))
        after += query_and_key.unscaled_steps(selection)
        given += [*loss_increment.given(), *sublayer_gradient.given(selection)]
    else:
        before += initialisation.initialisation_steps()
        given += initialisation.given()
    if selection.method == "lemma":
        from paper_checks.shared.steps import lemma

        before += lemma.before_steps()
        after += lemma.following_steps(selection)
        given += lemma.given()
    if unrolled.applies(selection.the_placement):
        before += unrolled.unrolled_steps()
        given += unrolled.given()
    return Asides(tuple(before), tuple(after), tuple(dict.fromkeys(given)))
