"""A derivation: from a selection to a chain of checked steps that ends in its rule.

.. code-block:: text

   Selection → a route       probe or lemma: the steps of one sublayer, which end in its
                             increment and its weight
             → rule          part by part, the last first: sublayers counted and added up, what a
                             later part amplifies; balance and closure imposed; the table's values
                             satisfy them; every further order of an update in depth at them
             → Derivation    the steps that all this rests on; its verdict checks each, and holds
                             every printed leaf against explicit sublayers
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from deepnet_theory.definitions.assumption import Assumption, assumption
from deepnet_theory.definitions.measurement import Predictions
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.facts import Fact
from deepnet_theory.proof.rule import SolvedRule, balances, route_of, rule_of, supporting
from deepnet_theory.proof.seen import facts
from deepnet_theory.proof.step import Relation, Step, join
from deepnet_theory.sizes.answer import Answer

SCHEMA = "deepnet-theory/derivation/1"


@dataclass(frozen=True, repr=False)
class Derivation(Answer):
    """An answer with the steps that end in its rule, each checked, and what was measured beside.

    ``conclusion`` names the steps whose right-hand sides are the rule.
    """

    steps: tuple[Step, ...] = ()
    conclusion: tuple[str, ...] = ()

    def step(self, name: str) -> Step:
        """The step called ``name``."""
        return next(s for s in self.steps if s.name == name)

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of every step, by name; computed once."""
        return {step.name: step.check() for step in self.steps}

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The premises used, in order of first use."""
        names = dict.fromkeys(name for step in self.steps for name in step.assumptions)
        return tuple(map(assumption, names))

    @cached_property
    def support(self) -> tuple[Step, ...]:
        """The steps that the conclusion rests on, in order."""
        return supporting(self.steps, self.conclusion)

    @cached_property
    def relation(self) -> Relation:
        """How strongly the conclusion holds: the join of the steps it rests on."""
        return join(step.relation for step in self.support)

    @cached_property
    def rule(self) -> SolvedRule:  # type: ignore[override]
        """The rule that the steps end in, α and β as SymPy expressions."""
        return rule_of(self.selection)

    @cached_property
    def published(self) -> SolvedRule | None:
        """The source's rule where ``rule`` is the recommended one."""
        return rule_of(self.source.selection) if self.source else None

    @cached_property
    def predictions(self) -> Predictions:
        """The predicted exponents, with the premises that they rest on."""
        from deepnet_theory.sizes.exponents import predictions

        # a degree 0 in g comes from dividing by the gradient's size, which libraries do with an ε
        of_optimizer = ("gradient-above-epsilon",) if self.table.rule.update.p == 0 else ()
        premises = dict.fromkeys((*self.assumptions, *map(assumption, of_optimizer)))
        return replace(predictions(self.selection, self.rule), assumptions=tuple(premises))

    @cached_property
    def measured(self) -> tuple[Fact, ...]:
        """A fact for every number and sentence that the answer prints."""
        return facts(self.selection, Answer.to_dict(self))

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where every step checks and no fact differs."""
        verdicts = (*self.verdicts.values(), *(fact.verdict for fact in self.measured))
        return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.PROVED

    def at(self, layers: int | None = None, **depth: int) -> Derivation:
        """The same derivation with a depth, whose values are printed too."""
        return replace(self, values=tuple(self.rule.depth_of(layers, depth).items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        return {
            "schema": SCHEMA,
            **super().to_dict(),
            "relation": self.relation.name,
            "steps": [
                {
                    "name": step.name,
                    "section": step.section,
                    "relation": step.relation.name,
                    "lhs": str(step.lhs),
                    "rhs": str(step.rhs),
                    "because": step.because,
                    "source": step.source,
                    "uses": list(step.uses),
                    "assumptions": list(step.assumptions),
                    "verdict": self.verdicts[step.name].value,
                }
                for step in self.steps
            ],
            "assumptions": [{"name": a.name, "statement": a.statement} for a in self.assumptions],
            "measured": [row.to_dict() for row in self.measured],
            "verdict": self.verdict.value,
            "verdict_of": ["rule", "steps", "measured"],
        }


@lru_cache(maxsize=32)  # a notebook and a report ask for one several times, with all its checks
def derive(selection: Selection) -> Derivation:
    """Derive the rule of a selection, with the steps that the rule rests on and no others.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where no rule exists or a law is
    missing.
    """
    parts = [step for part in balances(selection) for step in part.steps]
    steps = (*(route := route_of(selection)).steps, *parts)
    conclusion = tuple(s.name for s in steps if s.name.startswith("solution-"))
    weights = (one.name for one in route.weights.values())
    orders = (s.name for s in steps if s.name.startswith("order-"))
    return Derivation(
        selection=selection,
        # the branch's weight is the other size of a sublayer, which the sources judge a rule by;
        # the orders of an update beyond the first are what it is recommended by
        steps=supporting(steps, (*conclusion, *weights, *orders)),
        conclusion=conclusion,
    )
