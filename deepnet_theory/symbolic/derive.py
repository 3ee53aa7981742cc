"""Derive: from a selection to a derivation whose conclusion is the rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import sympy as sp

from deepnet_theory.spec.assumption import assumption
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.monomial import present
from deepnet_theory.symbolic.algebra.nodes import ONES
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha, beta, eta
from deepnet_theory.symbolic.derivation import Derivation
from deepnet_theory.symbolic.laws.branch import delta, direction, gain, memory, transverse, x
from deepnet_theory.symbolic.laws.descent import descends
from deepnet_theory.symbolic.laws.optimizer import homogeneity_step
from deepnet_theory.symbolic.laws.placement import scale_step
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.probe import (
    derivative_steps,
    forward_step,
    increment_step,
    jacobian,
    loss_increment,
    order_steps,
    unit,
    upstream,
)
from deepnet_theory.symbolic.rule.balance import Balanced, Problem
from deepnet_theory.symbolic.rule.conclusion import conclusion_steps
from deepnet_theory.symbolic.rule.consequences import consequences, share_consequences
from deepnet_theory.symbolic.rule.end_of_regime import crossings
from deepnet_theory.symbolic.rule.exponents import predictions
from deepnet_theory.symbolic.rule.shares import Share, shares
from deepnet_theory.symbolic.rule.solved_rule import rule_of

Increments = dict[tuple[str, str], tuple[str, ...]]


def derive(selection: Selection, background: bool = False) -> Derivation:
    """Derive the rule of a selection.

    ``background`` puts before it what the route rests on: the magnitude of a matrix, how far a
    Xavier matrix is from orthogonal, the identity ∂L/∂λ = ⟨∂L/∂W, U⟩, and around it what the
    sources write out on the way (:mod:`deepnet_theory.symbolic.asides.catalogue`).

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where no rule exists or a law is missing.
    """
    problem = Problem(selection)
    problem.balanced  # noqa: B018  a refusal comes before any work on steps
    route = {"probe": _probe_route, "lemma": _lemma_route, "moments": _moment_route}
    steps, increments, given = route[selection.method](problem)
    after: tuple[Step, ...] = ()
    if background:
        from deepnet_theory.symbolic.asides.catalogue import asides_of

        told = asides_of(selection)
        steps, after = [*told.before, *steps], told.after
        given = (*given, *told.given)
    ending, conclusion = conclusion_steps(problem, increments)
    found = tuple(shares(problem))
    rule = rule_of(problem)
    expected = predictions(selection, rule)
    derivation = Derivation(
        selection=selection,
        steps=(*steps, *ending, *after),
        given=given,
        rule=rule,
        conclusion=conclusion,
        consequences=(*consequences(problem), *share_consequences(found)),
        predictions=expected,
        shares=found,
        remarks=_remarks(problem, found, expected.warnings),
    )
    premises = (*derivation.assumptions, *_of_the_optimizer(problem))
    return replace(
        derivation, predictions=replace(expected, assumptions=tuple(dict.fromkeys(premises)))
    )


def _of_the_optimizer(problem: Problem) -> tuple[Any, ...]:
    # a degree 0 in g comes from dividing by the gradient's size, which libraries do with an ε
    return (assumption("gradient-above-epsilon"),) if problem.degrees.p == 0 else ()


def _given(problem: Problem) -> tuple[sp.Symbol, ...]:
    symbols: dict[sp.Symbol, None] = dict.fromkeys(
        (*DEPTHS.values(), alpha, beta, eta, delta, x, memory, ONES, upstream, jacobian, unit)
    )
    for part in problem.selection.the_stack.parts:
        for sublayer in part.layer:
            for matrix in sublayer.matrices:
                symbols.update(
                    dict.fromkeys(
                        (gain(matrix.name), direction(matrix.name), transverse(matrix.name))
                    )
                )
    return tuple(symbols)


def _probe_route(problem: Problem) -> tuple[list[Step], Increments, tuple[sp.Symbol, ...]]:
    """Su's route, one block of steps for each distinct sublayer of the stack."""
    selection = problem.selection
    placement, optimizer = selection.the_placement, selection.the_optimizer
    scaling = scale_step(placement)
    steps = [
        homogeneity_step(optimizer, problem.degrees),
        loss_increment(optimizer),
        *(() if scaling is None else (scaling,)),
    ]
    by_sublayer: dict[str, tuple[str, ...]] = {}
    distinct: dict[str, Sublayer] = {
        s.name: s for part in selection.the_stack.parts for s in part.layer
    }
    endings: list[Step] = []
    for sublayer in distinct.values():
        steps.append(forward_step(sublayer, placement))
        steps.extend(derivative_steps(sublayer, placement))
        names = []
        for term, step in order_steps(sublayer, placement, problem.law):
            steps.append(step)
            if term.role is Role.SCALED:
                name = f"increment-{sublayer.name}-{term.name}"
                endings.append(increment_step(sublayer, term, problem.degrees, name))
                names.append(name)
        by_sublayer[sublayer.name] = tuple(names)
    increments: Increments = {}
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            members = (
                Counter(s.name for s in balanced.part.layer)
                if kind.name == "*"
                else {kind.sublayer.name: 1}
            )
            increments[(balanced.part.name, kind.name)] = tuple(
                name for member in members for name in by_sublayer[member]
            )
    return [*steps, *endings], increments, _given(problem)


def _lemma_route(problem: Problem) -> tuple[list[Step], Increments, tuple[sp.Symbol, ...]]:
    """DeepNet's route as the layer cake completes it."""
    from deepnet_theory.symbolic.routes.lemma import given_symbols, lemma_steps

    steps = list(lemma_steps(problem.selection))
    names = {step.name for step in steps}
    increments: Increments = {}
    for balanced in problem.balanced:
        part, whole = balanced.part.name, f"increment-{_at_output(balanced)}"
        for kind in balanced.kinds:
            mixed = f"share-{part}-{kind.name}"
            increments[(part, kind.name)] = (mixed if mixed in names else whole,)
    return steps, increments, given_symbols(problem.selection)


def _moment_route(problem: Problem) -> tuple[list[Step], Increments, tuple[sp.Symbol, ...]]:
    """The layer cake's matrix version."""
    from deepnet_theory.symbolic.routes.moments import moment_route

    route = moment_route(problem.selection)
    increments: Increments = {}
    for balanced in problem.balanced:
        ends = dict.fromkeys(route.increments[s.name].name for s in balanced.part.layer)
        for kind in balanced.kinds:
            increments[(balanced.part.name, kind.name)] = (*ends, *route.sums)
    return list(route.steps), increments, route.given


def _at_output(balanced: Balanced) -> str:
    """The part, with "-own" where it is balanced at its own output: A does not grow there."""
    amplification = balanced.amplification
    own = amplification is not None and amplification.factor == 1
    return balanced.part.name + ("-own" if own else "")


def _remarks(
    problem: Problem, found: tuple[Share, ...], warnings: tuple[str, ...]
) -> tuple[str, ...]:
    remarks = list(warnings)
    optimizer = problem.selection.the_optimizer
    if problem.degrees.regime:
        remarks.append(f"holds where {' and '.join(problem.degrees.regime)}")
    if problem.selection.allow_ascent and not descends(problem.degrees):
        remarks.append("the loss does not fall under this update: <g, update> is not negative")
    if optimizer.mind:
        remarks.append(f"{optimizer.name}: {optimizer.mind}")
    for balanced in problem.balanced:
        amplification = balanced.amplification
        if amplification is not None:
            others = ", ".join(f"{n}: {f}" for n, f in amplification.alternatives)
            remarks.append(
                f"amplification of the {balanced.part.name} '{amplification.form}'; the factors in "
                f"its balance would be {others}"
            )
    for crossing in crossings(problem):
        remarks.append(
            f"the regime ends for {crossing.matrix} of the {crossing.part} at a depth of "
            f"{crossing.depth} layers, d the width and m the hidden width"
        )
    dominant: dict[tuple[str, Role], Share] = {}
    for share in found:
        if share.standing == "dominant":
            dominant.setdefault((share.part, share.role), share)
    for (part, role), share in dominant.items():
        remarks.append(
            f"stepped at the same learning rate, the {role.value} parameters of the {part} move "
            f"the output by {present(share.total)} in units of eta, more than the matrices that "
            f"the rule balances: give them the multiplier {share.balancing}"
        )
    return tuple(remarks)
