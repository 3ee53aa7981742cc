"""Derive: from a selection to a derivation whose conclusion is the rule.

.. code-block:: text

   Selection → a route       probe, lemma or moments: the steps of one sublayer, which end in its
                             increment and its weight
             → rule          part by part, the last first: sublayers counted and added up, what a
                             later part amplifies; balance and closure imposed; solved
             → beyond        S·r, ρ, every order, many steps; equivalent rules
             → Derivation    the steps that all this rests on; its verdict checks each, and holds
                             the table of sizes against the rule and against explicit sublayers
"""

from __future__ import annotations

from collections.abc import Iterable

from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra import DEPTHS, depth_expression, simplified
from deepnet_theory.symbolic.beyond import equivalence_steps, implied_steps
from deepnet_theory.symbolic.derivation import Derivation
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.rule import Problem, supporting


def chain(problem: Problem) -> tuple[list[Step], list[str]]:
    """From the route's increments to the rule and what follows: the steps, and those kept anyway.

    Nothing may leave out the steps that state the rule, and those that follow from it.
    """
    steps: list[Step] = []
    kept: list[str] = []
    for balanced in reversed(problem.balanced):
        implied = list(implied_steps(problem, balanced))
        steps += [*balanced.steps, *implied]
        kept += [*balanced.conclusion, *(step.name for step in implied)]
    alike = list(equivalence_steps(problem))
    return [*steps, *alike], [*kept, *(step.name for step in alike)]


def derive(selection: Selection) -> Derivation:
    """Derive the rule of a selection, with the steps that the rule rests on and no others.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where no rule exists or a law is missing.
    """
    problem = Problem(selection)
    steps, kept = chain(problem)
    rule = problem.rule
    conclusion = tuple(name for b in reversed(problem.balanced) for name in b.conclusion)
    require_stated(rule, [step for step in steps if step.name in conclusion])
    return Derivation(
        selection=selection,
        steps=supporting([*problem.route.steps, *steps], kept),
        given=tuple(dict.fromkeys((*DEPTHS.values(), *problem.route.given))),
        conclusion=conclusion,
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
