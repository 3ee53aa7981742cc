"""The answer to a selection: its rule, the rule to train with, and all that follows, as plain data.

Everything but the proof: ``export``, ``audit`` and ``train`` ask for it and never wait for SymPy. A
derivation is an answer with the steps that lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from deepnet_theory.sizes.consequences import (
    Consequence,
    by_kind,
    consequences,
    in_depth,
    share_consequences,
)
from deepnet_theory.sizes.exponents import predictions
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.norm_epsilon import Sinking, in_words, sinking
from deepnet_theory.sizes.rule import amplifications
from deepnet_theory.sizes.table import (
    STABLE,
    UNSTABLE,
    ParameterRow,
    SublayerRow,
    Table,
    crossings,
    equivalent_closures,
    parameter_rules,
    table,
    texts,
)
from deepnet_theory.spec.closures.complete import COMPLETE
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.results.measurement import Predictions, Result
from deepnet_theory.spec.rule import FIRST, TO_TRAIN_WITH, ParameterRule, Row, Rule
from deepnet_theory.spec.selection import Selection


@dataclass(frozen=True)
class ToTrainWith:
    """The rule to train with, and the closure that it comes from."""

    closure: str
    rule: Rule


def to_train_with(selection: Selection) -> ToTrainWith:
    """The rule that keeps every order of an update the same at every depth.

    It is that of the closure ``complete``; where this one has none, the selection's own rule if
    it is stable. Raises :class:`~deepnet_theory.spec.errors.Refusal` where neither is there.
    """
    try:
        chosen = table(replace(selection, closure=COMPLETE.name))
    except Refusal:
        chosen = table(selection)
        if chosen.state != STABLE:
            raise
    return ToTrainWith(chosen.rule.closure.name, texts(chosen.rule))


def for_training(selection: Selection) -> Selection:
    """The selection to train with: as it is where it names a closure or there is no such rule."""
    if selection.closure is not None:
        return selection
    try:
        return replace(selection, closure=to_train_with(selection).closure)
    except Refusal:
        return selection


def _same(one: Rule, other: Rule) -> bool:
    """Whether two rules set the same constants."""
    return (one.entries, one.eta) == (other.entries, other.eta)


@dataclass(frozen=True)
class Answer(Result):
    """What the algebra of sizes says of a selection.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where no rule exists or a law is missing.
    ``values`` is a depth; numbers are printed there too.
    """

    selection: Selection
    values: tuple[tuple[str, int], ...] = ()

    @cached_property
    def table(self) -> Table:
        return table(self.selection)

    @cached_property
    def rule(self) -> Rule:
        return texts(self.table.rule)

    @property
    def closure(self) -> str:
        """The rule's own closure, named or taken."""
        return self.table.rule.closure.name

    @cached_property
    def consequences(self) -> tuple[Consequence, ...]:
        return (*consequences(self.table), *share_consequences(self.table.parameters))

    @cached_property
    def predictions(self) -> Predictions:
        return predictions(self.selection, self.rule)

    @property
    def shares(self) -> tuple[ParameterRow, ...]:
        return self.table.parameters

    @property
    def orders(self) -> tuple[SublayerRow, ...]:
        return self.table.sublayers

    @cached_property
    def parameters(self) -> tuple[ParameterRule, ...]:
        return parameter_rules(self.table)

    @cached_property
    def equivalent(self) -> tuple[tuple[str, bool], ...]:
        """The other closures whose rule is this one in other scales, and whether exactly."""
        return equivalent_closures(self.table)

    @cached_property
    def _training(self) -> ToTrainWith | str:
        try:
            return to_train_with(self.selection)
        except Refusal as refusal:
            return str(refusal)

    @property
    def to_train_with(self) -> ToTrainWith | None:
        """The rule to train with and its closure; None where there is none."""
        return None if isinstance(self._training, str) else self._training

    @property
    def training_refused(self) -> str:
        """Why there is no rule to train with; empty where there is one."""
        return self._training if isinstance(self._training, str) else ""

    @property
    def training(self) -> Rule | None:
        return self.to_train_with.rule if self.to_train_with else None

    @property
    def trains(self) -> bool:
        return self.training is not None and _same(self.rule, self.training)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rule and the one to train with, under their names; one row where they agree."""
        named, training = self.selection.closure is not None, self.to_train_with
        first = f"closure {self.closure}" if named else f"{FIRST} ({self.closure})"
        if training is None:
            return (Row(first, self.rule),)
        other = f"{TO_TRAIN_WITH} ({training.closure})"
        if not self.trains:
            return Row(first, self.rule), Row(other, training.rule)
        if named and self.closure == training.closure:
            return (Row(other, self.rule),)
        return (Row(f"{first}, and {TO_TRAIN_WITH}", self.rule),)

    @property
    def training_condition(self) -> str:
        """What training needs beside the rule to train with; empty where nothing is known."""
        return self.selection.training_condition if self.to_train_with else ""

    @property
    def advice(self) -> str:
        """Which rule to train with, what training needs beside it, and by what law."""
        if self.to_train_with is None:
            return f"No closure is complete here: {self.training_refused}."
        sentence = (
            "One learning rate serves every depth: train with this rule."
            if self.trains
            else f"For training take the closure {self.to_train_with.closure}."
        )
        return f"{sentence} {self.training_condition}".rstrip()

    @cached_property
    def sinking(self) -> tuple[Sinking, ...]:
        """The norms whose epsilon must fall with the depth.

        Under the rule to train with, or that of the closure which was asked for.
        """
        named = self.selection.closure is not None
        used = self.rule if named or self.training is None else self.training
        return tuple(sinking(self.selection, used))

    @property
    def in_depth(self) -> str:
        """Whether the rule is stable, lazy or unstable in depth, and which rule to train with."""
        state = in_depth(self.table)
        epsilon = in_words(self.sinking, dict(self.values))
        return f"{state[0].upper()}{state[1:]}. {self.advice} {epsilon}".rstrip()

    @property
    def warning(self) -> str:
        """What to know before training with the rule; empty where no order grows."""
        return self.in_depth if self.table.state == UNSTABLE else ""

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        return (*self.predictions.warnings, *self._of_premises(), *self._of_other_parameters())

    def _of_premises(self) -> Iterator[str]:
        optimizer, update = self.selection.the_optimizer, self.table.rule.update
        if update.regimes:
            yield f"holds where {' and '.join(map(str, update.regimes))}"
        if self.selection.allow_ascent and not update.descends:
            yield "the loss does not fall under this update: <g, update> is not negative"
        if optimizer.mind:
            yield f"{optimizer.name}: {optimizer.mind}"
        for part in self.table.rule.parts:
            if part.amplification.form:
                others = ", ".join(f"{n}: {f}" for n, f in amplifications(self.table.rule))
                yield (
                    f"amplification of the {part.part.name} '{part.amplification.form}'; the "
                    f"factors in its balance would be {others}"
                )
        for crossing in crossings(self.table):
            yield (
                f"the regime ends for {crossing.matrix} of {crossing.sublayer} of the "
                f"{crossing.part} at a depth of {crossing.formula} layers, d the width and m the "
                "hidden width"
            )

    def _of_other_parameters(self) -> Iterator[str]:
        """One sentence for all roles that need the same multiplier."""
        dominant: dict[tuple[str, Monomial], dict[str, None]] = {}
        for row in self.table.parameters:
            if row.standing == "dominant":
                dominant.setdefault((row.part, row.balancing), {})[row.role.value] = None
        for (part, balancing), roles in dominant.items():
            yield (
                f"stepped at the same learning rate, the {', '.join(roles)} parameters of the "
                f"{part} move the output by {ONE / balancing} in units of eta, more than the "
                f"matrices that the rule balances: give them the multiplier {balancing}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON, without steps."""
        depth, training = dict(self.values), self.training
        data: dict[str, Any] = {
            "select": self.selection.to_dict(),
            "rule": [entry.to_dict(**depth) for entry in self.rule.entries],
            "eta": self.rule.eta,
            "closure": self.closure,
            "training": training and [entry.to_dict(**depth) for entry in training.entries],
            "training_closure": self.to_train_with and self.to_train_with.closure,
            "training_refused": self.training_refused or None,
            "training_condition": self.training_condition or None,
            "meaning": self.rule.meaning,
            "consequences": by_kind(self.consequences, "meaning", "remark"),
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
            "orders": [
                {
                    "stack": row.part,
                    "sublayer": row.sublayer,
                    "state": row.state,
                    "rho": str(row.rho),
                    "orders": [str(size) for size in row.orders],
                    "failing_rate": str(row.failing),
                }
                for row in self.orders
            ],
            "in_depth": self.in_depth,
            "norm_epsilon": [norm.to_dict() for norm in self.sinking],
            "equivalent": [{"closure": name, "exact": exact} for name, exact in self.equivalent],
            "remarks": list(self.remarks),
        }
        if depth:
            data |= {"depth": depth, "eta_value": self.rule.eta_at(**depth)}
        return data
