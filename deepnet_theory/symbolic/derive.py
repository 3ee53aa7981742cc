"""Derive: from a selection to a derivation whose conclusion is the rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, depth_expression, simplified
from deepnet_theory.symbolic.derivation import Derivation
from deepnet_theory.symbolic.implications.equivalence import equivalence_steps
from deepnet_theory.symbolic.implications.many_steps import beyond_steps, self_consistency_steps
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.route import supporting
from deepnet_theory.symbolic.rule.problem import Problem, rule_of


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
    rule = rule_of(problem)
    require_stated(rule, [step for step in steps if step.name in made.conclusion])
    return Derivation(
        selection=selection,
        steps=tuple(steps),
        given=tuple(dict.fromkeys((*DEPTHS.values(), *problem.route.given))),
        conclusion=made.conclusion,
        proved=rule,
    )


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
