"""A derivation: a chain of checked steps that ends in a rule."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import sympy as sp

from deepnet_theory.spec.assumption import Assumption, assumption
from deepnet_theory.spec.parameter import ParameterRule
from deepnet_theory.spec.results.prediction import Predictions
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.rule import FIRST, TO_TRAIN_WITH, Row, Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.meanings import meaning, named
from deepnet_theory.symbolic.implications.beyond.norm_epsilon import Sinking, sinking
from deepnet_theory.symbolic.implications.beyond.norm_epsilon import told as sinking_told
from deepnet_theory.symbolic.implications.consequences import Consequence
from deepnet_theory.symbolic.implications.equivalence import equivalent_closures
from deepnet_theory.symbolic.implications.orders import UNSTABLE, Orders, in_depth, state_of
from deepnet_theory.symbolic.implications.shares import Share
from deepnet_theory.symbolic.proof.relation import Relation, join
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.route import supporting
from deepnet_theory.symbolic.rule.problem import Problem

SCHEMA = "deepnet-theory/derivation/1"
# keys of the JSON that no step states; a verdict says nothing of them
NOT_PROVED = (
    "training", "consequences", "predictions", "parameters", "orders", "in_depth", "norm_epsilon",
    "equivalent", "remarks",
)  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    """What a symbol stands for, empty where nobody has said it, and the step it first stands in."""

    shown: sp.Expr
    words: str
    step: str


@dataclass(frozen=True)
class ToTrainWith:
    """The rule to train with, and the closure that it comes from."""

    closure: str
    rule: Rule


def same(one: Rule, other: Rule) -> bool:
    """Whether two rules set the same constants."""
    return (one.entries, one.eta) == (other.entries, other.eta)


def rows_of(
    selection: Selection, closure: str, rule: Rule, training: ToTrainWith | None
) -> tuple[Row, ...]:
    """A selection's rule and the one to train with, under their names; one row where they agree."""
    named = selection.closure is not None
    own = f"closure {closure}" if named else f"{FIRST} ({closure})"
    if training is None:
        return (Row(own, rule),)
    other = f"{TO_TRAIN_WITH} ({training.closure})"
    if not same(rule, training.rule):
        return Row(own, rule), Row(other, training.rule)
    if named and closure == training.closure:
        return (Row(other, rule),)
    return (Row(f"{own}, and {TO_TRAIN_WITH}", rule),)


@dataclass(frozen=True)
class Derivation(Result):
    """Steps in order, the rule they end in, and what the rule rests on and implies.

    Construction fails where a step uses a step or a symbol before it is established.
    ``given`` are the symbols of the setting, known before the first step.
    ``conclusion`` names the steps whose right-hand sides are the rule.
    """

    selection: Selection
    steps: tuple[Step, ...]
    given: tuple[sp.Symbol, ...]
    rule: Rule
    conclusion: tuple[str, ...]
    consequences: tuple[Consequence, ...] = ()
    predictions: Predictions = field(default_factory=lambda: Predictions(()))
    shares: tuple[Share, ...] = ()
    parameters: tuple[ParameterRule, ...] = ()  # what each kind starts with and steps with
    remarks: tuple[str, ...] = ()
    orders: tuple[Orders, ...] = ()  # what every order of an update does in depth
    closure: str = ""  # the rule's own, named or taken
    to_train_with: ToTrainWith | None = None
    training_refused: str = ""  # why there is none
    values: tuple[tuple[str, int], ...] = ()  # a depth at which to print numbers

    def __post_init__(self) -> None:
        known: set[sp.Symbol] = set(self.given)
        names: set[str] = set()
        for step in self.steps:
            if step.name in names:
                raise TypeError(f"two steps are called {step.name!r}")
            for used in step.uses:
                if used not in names:
                    raise TypeError(f"step {step.name!r} uses {used!r} before it is established")
            known |= set(step.establishes)
            unknown = {s for s in step.free_symbols if s not in known}
            if unknown:
                raise TypeError(
                    f"step {step.name!r} holds {sorted(map(str, unknown))} "
                    "before they are established"
                )
            names.add(step.name)
        missing = set(self.conclusion) - names
        if missing or not self.conclusion:
            raise TypeError(f"the conclusion {sorted(missing)} is not among the steps")

    def step(self, name: str) -> Step:
        """The step called ``name``."""
        return next(s for s in self.steps if s.name == name)

    @cached_property
    def symbols(self) -> dict[str, Meaning]:
        """Every symbol and function of the steps, by name, in the order in which they stand."""
        found: dict[str, Meaning] = {}
        for step in self.steps:
            for name, shown in sorted((named(step.lhs) | named(step.rhs)).items()):
                said = meaning(name, self.selection.method or "") or ""
                found.setdefault(name, Meaning(shown, said, step.name))
        return found

    @cached_property
    def support(self) -> tuple[Step, ...]:
        """The steps that the conclusion rests on, in order."""
        return supporting(self.steps, self.conclusion)

    @cached_property
    def relation(self) -> Relation:
        """How strongly the conclusion holds: the join of the steps it rests on."""
        return join(step.relation for step in self.support)

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The premises used, in order of first use."""
        names: dict[str, None] = {}
        for step in self.steps:
            names.update(dict.fromkeys(step.assumptions))
        return tuple(assumption(name) for name in names)

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of every step, by name; computed once."""
        return {step.name: step.check() for step in self.steps}

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where every step checks, else REFUTED."""
        refuted = any(v is Verdict.REFUTED for v in self.verdicts.values())
        return Verdict.REFUTED if refuted else Verdict.PROVED

    @property
    def in_depth(self) -> str:
        """Whether the rule is stable, lazy or unstable in depth, and which rule to train with."""
        if not self.orders:
            return ""
        told = in_depth(self.orders)
        epsilon = sinking_told(self.sinking, dict(self.values))
        return f"{told[0].upper()}{told[1:]}. {self.advice} {epsilon}".rstrip()

    @cached_property
    def sinking(self) -> tuple[Sinking, ...]:
        """The norms whose epsilon must fall with the depth, under the rule to train with."""
        return tuple(sinking(self.selection, self.training or self.rule))

    @property
    def training(self) -> Rule | None:
        """The rule to train with; None where there is none."""
        return None if self.to_train_with is None else self.to_train_with.rule

    @property
    def trains(self) -> bool:
        """Whether the rule is the one to train with."""
        return self.training is not None and same(self.rule, self.training)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rule and the one to train with, under their names; one row where they agree."""
        return rows_of(self.selection, self.closure, self.rule, self.to_train_with)

    @property
    def advice(self) -> str:
        """Which rule to train with, and what training needs beside it."""
        if self.to_train_with is None:
            return f"No closure is complete here: {self.training_refused}."
        told = (
            "One learning rate serves every depth: train with this rule."
            if self.trains
            else f"For training take the closure {self.to_train_with.closure}."
        )
        return f"{told} {self.training_condition}".rstrip()

    @property
    def training_condition(self) -> str:
        """What training needs beside the rule to train with; empty where nothing is known."""
        return self.selection.the_placement.training_condition if self.to_train_with else ""

    @property
    def warning(self) -> str:
        """What to know before training with the rule; empty where no order grows."""
        unstable = self.orders and state_of(self.orders) == UNSTABLE
        return self.in_depth if unstable else ""

    @cached_property
    def equivalent(self) -> tuple[tuple[str, bool], ...]:
        """The other closures whose rule is this one in other scales, and whether exactly."""
        return equivalent_closures(Problem(self.selection))

    def at(self, layers: int | None = None, **depth: int) -> Derivation:
        """The same derivation with a depth at which the rule's values are printed too."""
        return replace(self, values=tuple(self.rule.depth_of(layers, depth).items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        depth = dict(self.values)
        result: dict[str, Any] = {
            "schema": SCHEMA,
            "select": self.selection.to_dict(),
            "rule": [entry.to_dict(**depth) for entry in self.rule.entries],
            "eta": self.rule.eta,
            "closure": self.closure,
            "training": self.training
            and [entry.to_dict(**depth) for entry in self.training.entries],
            "training_closure": self.to_train_with and self.to_train_with.closure,
            "training_refused": self.training_refused or None,
            "training_condition": self.training_condition or None,
            "meaning": self.rule.meaning,
            "relation": self.relation.name,
            "steps": [
                {
                    "name": s.name,
                    "section": s.section,
                    "relation": s.relation.name,
                    "lhs": str(s.lhs),
                    "rhs": str(s.rhs),
                    "regime": None if s.regime is None else str(s.regime),
                    "because": s.because,
                    "source": s.source,
                    "uses": list(s.uses),
                    "assumptions": list(s.assumptions),
                    "verdict": self.verdicts[s.name].value,
                }
                for s in self.steps
            ],
            "assumptions": [{"name": a.name, "statement": a.statement} for a in self.assumptions],
            "symbols": [
                {"name": name, "meaning": m.words, "step": m.step}
                for name, m in self.symbols.items()
            ],
            "consequences": self._consequences(),
            "predictions": [
                {
                    "in": p.variable,
                    "share": p.share,
                    "exponent": None if p.exponent is None else str(p.exponent),
                    "rivals": {name: str(e) for name, e in p.rivals},
                }
                for p in self.predictions.exponents
            ],
            "parameters": [asdict(parameter) for parameter in self.parameters],
            "orders": [kind.to_dict() for kind in self.orders],
            "in_depth": self.in_depth,
            "norm_epsilon": [norm.to_dict() for norm in self.sinking],
            "equivalent": [{"closure": name, "exact": exact} for name, exact in self.equivalent],
            "remarks": list(self.remarks),
            "verdict": self.verdict.value,
            "verdict_of": ["rule", "steps"],
            "computed_not_proved": list(NOT_PROVED),
        }
        if depth:
            result["depth"] = depth
            result["eta_value"] = self.rule.eta_at(**depth)
        return result

    def _repr_html_(self) -> str:
        from deepnet_theory.report.notebook import derivation_html

        return derivation_html(self)

    def _repr_latex_(self) -> str:
        from deepnet_theory.report.notebook import rule_latex

        return rule_latex(self)

    def __repr__(self) -> str:
        from deepnet_theory.report.composing.of_derivation import one_line

        return one_line(self)

    def _consequences(self) -> dict[str, Any]:
        """The consequences by part, kind of sublayer and name."""
        result: dict[str, Any] = {}
        for c in self.consequences:
            kind = result.setdefault(c.part, {}).setdefault(c.sublayer, {})
            kind[c.name] = {"value": str(c.value), "meaning": c.meaning, "remark": c.remark}
        return result
