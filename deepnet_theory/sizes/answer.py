"""The answer to a selection: its rule, the rule to train with, and all that follows, as plain data.

Everything but the proof: ``export``, ``audit`` and ``train`` ask for it and never wait for SymPy. A
derivation is an answer with the steps that lead to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.rule import COMPLETE, FIRST, TO_TRAIN_WITH, Row, Rule, closures
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.norm_epsilon import in_words
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import (
    DEPTHS,
    LAZY,
    STABLE,
    UNSTABLE,
    ParameterRow,
    SublayerRow,
    Table,
    table,
    texts,
)


def to_train_with(selection: Selection) -> Table:
    """The table of the rule that keeps every order of an update the same at every depth.

    It is that of the closure ``complete``; where this one has none, the selection's own rule if
    it is stable. Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where neither is
    there.
    """
    try:
        chosen = table(replace(selection, closure=COMPLETE.name))
    except Refusal:
        chosen = table(selection)
        if chosen.state != STABLE:
            raise
    return chosen


def for_training(selection: Selection) -> Selection:
    """The selection to train with: as it is where it names a closure or there is no such rule."""
    if selection.closure is not None:
        return selection
    try:
        return replace(selection, closure=to_train_with(selection).rule.closure.name)
    except Refusal:
        return selection


@dataclass(frozen=True, repr=False)
class Answer(Displayed):
    """What the algebra of sizes says of a selection.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where no rule exists or a law is
    missing.
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

    @property
    def parameters(self) -> tuple[ParameterRow, ...]:
        return self.table.parameters

    @cached_property
    def _training(self) -> Table | str:
        try:
            return to_train_with(self.selection)
        except Refusal as refusal:
            return str(refusal)

    @property
    def to_train_with(self) -> Table | None:
        """The table of the rule to train with; None where there is none."""
        return None if isinstance(self._training, str) else self._training

    @property
    def training_refused(self) -> str:
        """Why there is no rule to train with; empty where there is one."""
        return self._training if isinstance(self._training, str) else ""

    @cached_property
    def training(self) -> Rule | None:
        return texts(self.to_train_with.rule) if self.to_train_with else None

    @property
    def training_closure(self) -> str | None:
        return self.to_train_with.rule.closure.name if self.to_train_with else None

    @property
    def trains(self) -> bool:
        rule, training = self.rule, self.training
        return training is not None and (rule.entries, rule.eta) == (training.entries, training.eta)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rule and the one to train with, under their names; one row where they agree."""
        named, training = self.selection.closure is not None, self.training
        first = f"closure {self.closure}" if named else f"{FIRST} ({self.closure})"
        if training is None:
            return (Row(first, self.rule),)
        other = f"{TO_TRAIN_WITH} ({self.training_closure})"
        if not self.trains:
            return Row(first, self.rule), Row(other, training)
        if named and self.closure == self.training_closure:
            return (Row(other, self.rule),)
        return (Row(f"{first}, and {TO_TRAIN_WITH}", self.rule),)

    @property
    def training_condition(self) -> str:
        """What training needs beside the rule to train with; empty where nothing is known."""
        return self.selection.the_placement.training_condition if self.to_train_with else ""

    @property
    def advice(self) -> str:
        """Which rule to train with, what training needs beside it, and by what law."""
        if self.to_train_with is None:
            return f"No closure is complete here: {self.training_refused}."
        sentence = (
            "One learning rate serves every depth: train with this rule."
            if self.trains
            else f"For training take the closure {self.training_closure}."
        )
        return f"{sentence} {self.training_condition}".rstrip()

    @property
    def in_depth(self) -> str:
        """Whether the rule is stable, lazy or unstable in depth, and which rule to train with."""
        state = in_depth(self.table)
        named = self.selection.closure is not None
        used = self.rule if named or self.training is None else self.training
        epsilon = in_words(used.entries, **dict(self.values))
        return f"{state[0].upper()}{state[1:]}. {self.advice} {epsilon}".rstrip()

    @property
    def warning(self) -> str:
        """What to know before training with the rule; empty where no order grows."""
        return self.in_depth if self.table.state == UNSTABLE else ""

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        return (
            *self.table.far_from_identity(),
            *self._of_premises(),
            *self._of_other_parameters(),
        )

    def _of_premises(self) -> Iterator[str]:
        optimizer = self.selection.the_optimizer
        if optimizer.floors:
            yield f"holds where rms(theta) > {max(optimizer.floors)}"
        if optimizer.mind:
            yield f"{optimizer.name}: {optimizer.mind}"

    def _of_other_parameters(self) -> Iterator[str]:
        """One sentence for all roles that need the same multiplier."""
        dominant: dict[tuple[str, Monomial], dict[str, None]] = {}
        for row in self.table.parameters:
            if row.standing == "dominant":
                dominant.setdefault((row.place.part, row.balancing), {})[row.place.kind.value] = (
                    None
                )
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
            "training_closure": self.training_closure,
            "training_refused": self.training_refused or None,
            "training_condition": self.training_condition or None,
            "meaning": self.rule.meaning,
            "consequences": by_kind(self.consequences, "meaning", "remark"),
            "parameters": [row.to_dict() for row in self.parameters],
            "in_depth": self.in_depth,
            "remarks": list(self.remarks),
        }
        if depth:
            data |= {"depth": depth, "eta_value": self.rule.eta_at(**depth)}
        return data


# ---- what a rule implies, named and in words ----


@dataclass(frozen=True)
class Consequence:
    """A quantity that follows from the rule, as a power of the depth; None is 0."""

    name: str
    meaning: str
    value: Monomial | None
    part: str
    sublayer: str = "*"
    remark: str = ""

    @property
    def text(self) -> str:
        return "0" if self.value is None else str(self.value)


def consequences(table: Table) -> Iterator[Consequence]:
    """The quantities that Su argues with, of every kind of sublayer."""
    for row in table.sublayers:
        yield from of_sublayer(table, row)


def of_sublayer(table: Table, row: SublayerRow) -> Iterator[Consequence]:
    part, kind = row.of.part, row.kind
    where = [(part.name, name, Role.SCALED) for name in kind.members]
    places = ((p, p.place) for p in table.parameters)
    scaled = next(p for p, at in places if (at.part, at.sublayer, at.kind) in where)
    squares = "S*r^2: bounded where independent branches stay near the identity"
    sums = "S*r, S sublayers: branches aligned with the stream amplify by exp(S*r)"
    quantities = [
        ("initial-weight", "size of a scaled matrix at initialisation", kind.beta),
        ("gradient", "size of a scaled matrix's gradient", scaled.gradient),
        ("update", "size of a scaled matrix's first update, in units of eta", scaled.update),
        ("relative-update", "rho, update over weight, in units of eta", kind.relative),
        ("branch-weight", "r, the branch against the identity path", kind.weight),
        ("aligned-sum", sums, row.aligned),
        ("self-consistency", squares, row.of.squares(kind)),
    ]
    for order, size in enumerate(row.orders, start=1):
        meaning = f"what order {order} of an update moves the output by, in units of eta^{order}"
        quantities.append((f"order-{order}", meaning, size))
    for name, meaning, value in quantities:
        yield Consequence(name, meaning, value, part.name, kind.name)
    meaning = "how the largest stable learning rate scales with depth (worst case)"
    yield Consequence("failing-rate", meaning, row.failing, part.name, kind.name, row.state)


def share_consequences(rows: Iterable[ParameterRow]) -> Iterator[Consequence]:
    """The shares as consequences, one for each kind of parameter besides the scaled matrices."""
    for row in rows:
        if row.place.kind is Role.SCALED:
            continue
        at = row.place
        meaning = f"{at.parameter}'s share of the output change (scaled matrices = 1)"
        name = f"share-{at.parameter}"
        yield Consequence(name, meaning, row.share, at.part, at.sublayer, row.standing)


def by_kind(rows: Iterable[Consequence], *fields: str) -> dict[str, Any]:
    """Plain data by part, sublayer and name: the value, and some fields beside it."""
    data: dict[str, Any] = {}
    for c in rows:
        kind = data.setdefault(c.part, {}).setdefault(c.sublayer, {})
        kind[c.name] = {"value": c.text, **{field: getattr(c, field) for field in fields}}
    return data


def power_of(size: Monomial) -> str:
    """The powers of the depths, in words."""
    powers = [f"{depth}^({p})" for depth in sorted(DEPTHS) if (p := size.exponent(depth))]
    return "*".join(powers) or "1"


def in_depth(table: Table) -> str:
    """The state of a rule in one sentence, with the powers that say so."""
    rows = [row for row in table.sublayers if row.state == table.state]
    words: dict[str, list[str]] = {}
    for row in rows:
        part, kind = row.of.part.name, row.kind.name
        name = part if kind == "*" else f"{part}, {kind}"
        words.setdefault(_in_words(row), []).append(name)
    clauses = (
        sentence if len(table.sublayers) == len(names) else f"{sentence} ({' and '.join(names)})"
        for sentence, names in words.items()
    )
    return f"{table.state} in depth: {'; '.join(clauses)}"


def _in_words(row: SublayerRow) -> str:
    rho = row.kind.relative
    scales = f"rho scales as {power_of(rho)}"
    if row.state == UNSTABLE:
        fails = power_of(row.failing)
        return (
            f"{scales}, and with it the higher orders; the largest stable learning rate scales as "
            f"{fails}"
        )
    if row.state == LAZY:
        return (
            f"{scales}, and with it the higher orders, so that the matrices of a branch no longer "
            "learn together"
        )
    if any(rho.exponent(depth) for depth in DEPTHS):
        return f"{scales}, which one matrix a branch does not feel"
    return "rho and every order are of order one"


# ---- the closures of a selection, side by side ----


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """The answer of every closure that balances, at a depth; the sentence that refuses another."""

    selection: Selection
    closures: dict[str, Answer | str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; of each closure what ``derive --closure`` says, without its proof."""
        rows = [
            {"closure": name, "refused": one} if isinstance(one, str) else one.to_dict()
            for name, one in self.closures.items()
        ]
        select = self.selection.to_dict()
        return {"schema": "deepnet-theory/closures/1", "select": select, "closures": rows}


def compare_closures(selection: Selection, values: tuple[tuple[str, int], ...] = ()) -> Comparison:
    """Every closure's answer side by side.

    Raises :class:`InputError` for a selection that names one, and
    :class:`~deepnet_theory.definitions.outcome.Refusal` where no closure balances.

    Source: Su, §First conclusions, where two alternatives are weighed against the symmetric one.
    """
    if selection.closure is not None:
        raise InputError(
            f"the closure {selection.closure!r} was given, but all closures are compared; "
            "leave it out"
        )
    found = dict[str, Answer | str]()
    for name in closures():
        found[name] = answer = Answer(replace(selection, closure=name), values)
        try:
            _ = answer.rule
        except Refusal as refusal:
            found[name] = str(refusal)
    if all(isinstance(answer, str) for answer in found.values()):
        solve_rule(selection)  # says why
    return Comparison(selection, found)
