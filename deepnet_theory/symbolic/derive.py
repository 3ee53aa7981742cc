"""Derive: from a selection to a derivation whose conclusion is the rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import sympy as sp

from deepnet_theory.spec.assumption import Assumption, assumption
from deepnet_theory.spec.closures.complete import COMPLETE
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.rule import Row, Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import present, simplified
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.derivation import Derivation, ToTrainWith, rows_of
from deepnet_theory.symbolic.implications.beyond import beyond_steps
from deepnet_theory.symbolic.implications.consequences import consequences, share_consequences
from deepnet_theory.symbolic.implications.end_of_regime import crossings
from deepnet_theory.symbolic.implications.equivalence import equivalence_steps
from deepnet_theory.symbolic.implications.exponents import predictions
from deepnet_theory.symbolic.implications.multipliers import parameter_rules
from deepnet_theory.symbolic.implications.orders import STABLE, orders, state_of
from deepnet_theory.symbolic.implications.shares import Share, shares
from deepnet_theory.symbolic.laws.descent import descends
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.route import supporting
from deepnet_theory.symbolic.rule.problem import Problem
from deepnet_theory.symbolic.rule.self_consistency import self_consistency_steps
from deepnet_theory.symbolic.rule.solved_rule import rule_of


@dataclass(frozen=True)
class Chain:
    """The steps behind a route's, and the names of those that nothing else may leave out."""

    steps: tuple[Step, ...]
    conclusion: tuple[str, ...]
    ends: tuple[str, ...]


def chain(problem: Problem) -> Chain:
    """From the route's increments to the rule, and what follows from it."""
    steps: list[Step] = []
    conclusion: list[str] = []
    ends: list[str] = []
    for balanced in reversed(problem.balanced):
        after = [*self_consistency_steps(problem, balanced), *beyond_steps(problem, balanced)]
        steps += [*balanced.steps, *after]
        conclusion += balanced.conclusion
        ends += [step.name for step in after]
    alike = tuple(equivalence_steps(problem))
    return Chain((*steps, *alike), tuple(conclusion), (*ends, *(step.name for step in alike)))


def derive(selection: Selection) -> Derivation:
    """Derive the rule of a selection, with the steps that the rule rests on and no others.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where no rule exists or a law is missing.
    """
    problem = Problem(selection)
    made = chain(problem)
    steps = supporting([*problem.route.steps, *made.steps], [*made.conclusion, *made.ends])
    given = (*DEPTHS.values(), *problem.route.given)
    found = tuple(shares(problem))
    beyond = tuple(orders(problem))
    rule = rule_of(problem)
    training, refused = None, ""
    try:
        training = to_train_with(selection)
    except Refusal as refusal:
        refused = str(refusal)
    require_stated(rule, [step for step in steps if step.name in made.conclusion])
    expected = predictions(selection, rule)
    derivation = Derivation(
        selection=selection,
        steps=tuple(steps),
        given=tuple(dict.fromkeys(given)),
        rule=rule,
        conclusion=made.conclusion,
        consequences=(*consequences(problem), *share_consequences(found)),
        predictions=expected,
        shares=found,
        parameters=tuple(parameter_rules(problem, found)),
        remarks=_remarks(problem, found, expected.warnings),
        orders=beyond,
        closure=problem.closure.name,
        to_train_with=training,
        training_refused=refused,
    )
    premises = (*derivation.assumptions, *_of_the_optimizer(problem))
    return replace(
        derivation, predictions=replace(expected, assumptions=tuple(dict.fromkeys(premises)))
    )


def to_train_with(selection: Selection) -> ToTrainWith:
    """The rule under which no order of an update changes with the depth.

    It is that of the closure ``complete``; where this one has none, the selection's own rule if
    it is stable. Raises :class:`~deepnet_theory.spec.errors.Refusal` where neither is there.
    """
    try:
        return ToTrainWith(
            COMPLETE.name, rule_of(Problem(replace(selection, closure=COMPLETE.name)))
        )
    except Refusal:
        problem = Problem(selection)
        if state_of(tuple(orders(problem))) != STABLE:
            raise
        return ToTrainWith(problem.closure.name, rule_of(problem))


def for_training(selection: Selection) -> Selection:
    """The selection to train with: as it is where it names a closure or there is no such rule."""
    if selection.closure is not None:
        return selection
    try:
        return replace(selection, closure=to_train_with(selection).closure)
    except Refusal:
        return selection


def named_rules(selection: Selection) -> tuple[Row, ...]:
    """The rule of a selection and the one to train with, without the steps that lead to them.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where the selection has none.
    """
    problem = Problem(selection)
    rule, training = rule_of(problem), None
    with suppress(Refusal):
        training = to_train_with(selection)
    return rows_of(selection, problem.closure.name, rule, training)


def require_stated(rule: Rule, conclusion: Iterable[Step]) -> None:
    """Raise ``TypeError`` where a rule holds an α, β or κ that no step of the conclusion states."""
    stated = {(step.name, str(step.lhs)): step.rhs for step in conclusion}
    for entry in rule.entries:
        wanted = {"alpha": entry.alpha, "beta": entry.beta}
        if entry.rate != "1":
            wanted["kappa"] = entry.rate
        for knob, written in wanted.items():
            values = [
                rhs
                for (name, lhs), rhs in stated.items()
                if name.startswith(f"solution-{entry.part}-") and lhs.startswith(knob)
            ]
            if not any(simplified(depth_expression(written) / rhs) == 1 for rhs in values):
                raise TypeError(f"the rule's {knob} of the {entry.part} is not what the steps say")


def _of_the_optimizer(problem: Problem) -> tuple[Assumption, ...]:
    # a degree 0 in g comes from dividing by the gradient's size, which libraries do with an ε
    return (assumption("gradient-above-epsilon"),) if problem.degrees.p == 0 else ()


def _remarks(
    problem: Problem, found: tuple[Share, ...], warnings: tuple[str, ...]
) -> tuple[str, ...]:
    return (*warnings, *_of_premises(problem), *_of_other_parameters(found))


def _of_premises(problem: Problem) -> Iterator[str]:
    optimizer = problem.selection.the_optimizer
    if problem.degrees.regime:
        yield f"holds where {' and '.join(problem.degrees.regime)}"
    if problem.selection.allow_ascent and not descends(problem.degrees):
        yield "the loss does not fall under this update: <g, update> is not negative"
    if optimizer.mind:
        yield f"{optimizer.name}: {optimizer.mind}"
    for balanced in problem.balanced:
        if balanced.amplification is not None:
            others = ", ".join(f"{n}: {f}" for n, f in balanced.amplification.alternatives)
            yield (
                f"amplification of the {balanced.part.name} '{balanced.amplification.form}'; the "
                f"factors in its balance would be {others}"
            )
    for crossing in crossings(problem):
        yield (
            f"the regime ends for {crossing.matrix} of the {crossing.part} at a depth of "
            f"{crossing.depth} layers, d the width and m the hidden width"
        )


def _of_other_parameters(found: tuple[Share, ...]) -> Iterator[str]:
    """One sentence for all roles that need the same multiplier."""
    dominant: dict[tuple[str, sp.Expr], list[str]] = {}
    for share in found:
        if share.standing == "dominant":
            kinds = dominant.setdefault((share.part, share.balancing), [])
            kinds += [share.role.value] * (share.role.value not in kinds)
    for (part, balancing), kinds in dominant.items():
        roles = ", ".join(kinds)
        yield (
            f"stepped at the same learning rate, the {roles} parameters of the {part} move the "
            f"output by {present(1 / balancing)} in units of eta, more than the matrices that "
            f"the rule balances: give them the multiplier {balancing}"
        )
