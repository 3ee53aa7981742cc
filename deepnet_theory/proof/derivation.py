"""A derivation: a selection's answer, its numbers measured, and the checked steps that end in it.

SymPy is imported with the steps, which are made when they are asked for.

.. code-block:: text

   Selection → Answer        the table: rule, consequences, parameters
             → measured      every printed leaf, held against explicit sublayers
             → a route       probe or lemma: the steps of one sublayer, which end in its
                             increment and its weight
             → narration     part by part, the last first: sublayers counted and added up, what a
                             later part amplifies; balance and closure imposed; the table's values
                             satisfy them; every further order of an update in depth at them
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.assumption import Assumption, assumption
from deepnet_theory.definitions.measurement import Predictions
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.rule import Rule
from deepnet_theory.definitions.selection import METHODS, Selection
from deepnet_theory.proof.facts import Fact
from deepnet_theory.proof.seen import facts
from deepnet_theory.sizes.answer import Answer
from deepnet_theory.sizes.table import texts

if TYPE_CHECKING:
    from sympy import Expr

    from deepnet_theory.proof.step import Relation, Step

SCHEMA = "deepnet-theory/derivation/1"


@dataclass(frozen=True)
class SolvedRule(Rule):
    """A rule whose ``alpha`` and ``beta`` are SymPy expressions in N and M.

    Where parts or kinds of sublayers differ they are mappings, as :meth:`keyed` says. The symbols
    are SymPy's positive ones, ``Symbol("N", positive=True)``, which ``subs("N", 100)`` does not
    reach: :meth:`alpha_at` and :meth:`beta_at` give the numbers.
    """

    @cached_property
    def alpha(self) -> Expr | dict[str, Expr]:
        return self._rooted("alpha")

    @cached_property
    def beta(self) -> Expr | dict[str, Expr]:
        return self._rooted("beta")

    def _rooted(self, name: str) -> Expr | dict[str, Expr]:
        from deepnet_theory.proof.algebra import rooted

        return self.keyed([rooted(getattr(entry, name)) for entry in self.entries])


@dataclass(frozen=True, repr=False)
class Derivation(Answer):
    """An answer with what was measured beside it, and the steps that end in its rule."""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps that the rule rests on and no others; raises :class:`Refusal` as a route does.

        The weight of a branch is among them, the other size that the sources judge a rule by, and
        the further orders of an update, which the rule is recommended by.
        """
        from deepnet_theory.proof.rule import narration

        return narration(self.selection)

    @property
    def conclusion(self) -> tuple[str, ...]:
        """The steps whose right-hand sides are the rule, by name."""
        return tuple(s.name for s in self.steps if s.name.startswith("solution-"))

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
        from deepnet_theory.proof.rule import supporting

        return supporting(self.steps, self.conclusion)

    @cached_property
    def relation(self) -> Relation:
        """How strongly the conclusion holds: the join of the steps it rests on."""
        from deepnet_theory.proof.step import join

        return join(step.relation for step in self.support)

    @cached_property
    def rule(self) -> SolvedRule:
        """The rule that the steps end in, α and β as SymPy expressions."""
        return SolvedRule(**vars(texts(self.table.rule)))

    @cached_property
    def published(self) -> SolvedRule | None:
        """The source's rule where ``rule`` is the recommended one."""
        return SolvedRule(**vars(self.source.rule)) if self.source else None

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

    @property
    def agreed(self) -> Verdict:
        """MEASURED where no number or sentence was measured otherwise, without a step."""
        wrong = any(fact.holds is False for fact in self.measured)
        return Verdict.REFUTED if wrong else Verdict.MEASURED

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where every step checks and no fact differs."""
        verdicts = (*self.verdicts.values(), self.agreed)
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
    """The derivation of a selection.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where no rule exists or a law is
    missing.
    """
    derivation = Derivation(selection)
    # who names a route other than the first asks for its laws
    _ = derivation.table if selection.method == METHODS[0] else derivation.steps
    return derivation
