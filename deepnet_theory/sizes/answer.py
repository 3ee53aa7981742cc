"""The answer to a selection: its rule, the source's, and all that follows, as plain data.

Everything but the proof: ``export``, ``audit`` and ``train`` ask for it and never wait for SymPy. A
derivation is an answer with the steps that lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.rule import (
    CLOSURES,
    COMPLETE,
    FIRST,
    PUBLISHED,
    TO_TRAIN_WITH,
    Row,
    Rule,
    number,
)
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.sizes.laws import DEPTHS
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import (
    LAZY,
    STABLE,
    UNSTABLE,
    ParameterRow,
    SublayerRow,
    Table,
    table,
    texts,
)


@dataclass(frozen=True, repr=False)
class Answer(Displayed):
    """What the algebra of sizes says of a selection.

    Numbers are printed too at the depth ``values``. Raises
    :class:`~deepnet_theory.definitions.outcome.Refusal` where there is no rule.
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
        """The quantities of Su's argument by kind of sublayer, and shares of other parameters."""
        found = list[Consequence]()
        rows = [row for row in self.parameters if row.place.kind is Role.SCALED]
        for row in self.table.sublayers:
            kind, part = row.kind, row.of.part.name
            place = part, kind.members[0]
            one = next(r for r in rows if (r.place.part, r.place.sublayer) == place)
            squares = "S*r^2: bounded where independent branches stay near the identity"
            sums = "S*r, S sublayers: branches aligned with the stream amplify by exp(S*r)"
            fails = "how the largest stable learning rate scales with depth (worst case)"
            quantities = [
                ("initial-weight", "size of a scaled matrix at initialisation", kind.beta),
                ("gradient", "size of a scaled matrix's gradient", one.gradient),
                ("update", "size of a scaled matrix's first update, in units of eta", one.update),
                ("relative-update", "rho, update over weight, in units of eta", kind.relative),
                ("branch-weight", "r, the branch against the identity path", kind.weight),
                ("aligned-sum", sums, row.aligned),
                ("self-consistency", squares, row.of.squares(kind)),
            ]
            for order, size in enumerate(row.orders, start=1):
                unit = f"eta^{order}" if order > 1 else "eta"
                meaning = f"output change of order {order} of an update, in units of {unit}"
                quantities.append((f"order-{order}", meaning, size))
            found += [Consequence(*quantity, part, kind.name) for quantity in quantities]
            failing = row.failing, part, kind.name, row.state
            found.append(Consequence("failing-rate", fails, *failing))
        for other in (row for row in self.parameters if row not in rows):
            at, name = other.place, other.place.parameter
            meaning = f"{name}'s output change relative to the scaled matrices"
            where = (at.part, at.sublayer, other.standing)
            found.append(Consequence(f"share-{name}", meaning, other.share, *where))
        return tuple(found)

    @property
    def parameters(self) -> tuple[ParameterRow, ...]:
        return self.table.parameters

    @cached_property
    def source(self) -> Answer | None:
        """What the source answers; None where a closure is named."""
        if self.selection.closure is not None:
            return None
        return Answer(replace(self.selection, closure=PUBLISHED), self.values)

    @cached_property
    def refused_for_training(self) -> str:
        """Why no rule is recommended for training; empty where one is, or a closure is named."""
        if self.selection.closure is None and self.table.state != STABLE:
            try:
                solve_rule(replace(self.selection, closure=COMPLETE.name))
            except Refusal as refusal:
                return str(refusal)
        return ""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rule, and below the recommended one the source's where its closure is another."""
        named, source = self.selection.closure, self.source
        chosen = TO_TRAIN_WITH if named in (None, COMPLETE.name) else "as asked"
        if named == PUBLISHED or self.refused_for_training:
            chosen = FIRST
        whose = self.table.rule.closure.source.partition(",")[0].partition(";")[0]
        first = Row(chosen, self.closure, whose, self.rule)
        return first, *(source.rows if source and source.closure != self.closure else ())

    @property
    def condition(self) -> str:
        """What training with the rule needs besides; empty where nothing is known."""
        stable = self.table.state == STABLE
        return self.selection.the_placement.training_condition if stable else ""

    @property
    def advice(self) -> str:
        """Whether to train with the rule, what training needs besides, and by what law."""
        if self.table.state == STABLE:
            return f"One learning rate works at every depth. {self.condition}".rstrip()
        if self.refused_for_training:
            return f"No rule is recommended for training: {self.refused_for_training}."
        return "To train, name no closure: the recommended rule is the default."

    @property
    def in_depth(self) -> str:
        """Whether the rule is stable, lazy or unstable in depth, and whether to train with it."""
        state = in_depth(self.table)
        epsilon = " ".join(_of_norms(self.rule, **dict(self.values)))
        return f"{state[0].upper()}{state[1:]}. {self.advice} {epsilon}".rstrip()

    @property
    def warning(self) -> str:
        """What to know before training with the rule; empty where no order grows."""
        return self.in_depth if self.table.state == UNSTABLE else ""

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        by = self.selection.the_optimizer
        floor = [f"holds where rms(theta) > {max(by.floors)}"] if by.floors else []
        mind = [f"{by.name}: {by.mind}"] if by.mind else []
        return (*self.table.far_from_identity(), *floor, *mind, *self._of_other_parameters())

    def _of_other_parameters(self) -> Iterator[str]:
        """One sentence for all roles that need the same multiplier."""
        dominant: dict[tuple[str, Monomial], dict[str, None]] = {}
        for row in self.table.parameters:
            if row.standing == "dominant":
                roles = dominant.setdefault((row.place.part, row.balancing), {})
                roles[row.place.kind.value] = None
        for (part, balancing), roles in dominant.items():
            yield (
                f"At the learning rate of the matrices, the {', '.join(roles)} parameters of the "
                f"{part} change the output {ONE / balancing} times as much as the matrices do. "
                f"Give them the multiplier {balancing}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON, without steps."""
        depth, source, told = dict(self.values), self.source, dict[str, Any]()
        for c in self.consequences:
            own = {"value": c.text, "meaning": c.meaning, "remark": c.remark}
            told.setdefault(c.part, {}).setdefault(c.sublayer, {})[c.name] = own
        data: dict[str, Any] = {
            "select": self.selection.to_dict(),
            "rule": [entry.to_dict(**depth) for entry in self.rule.entries],
            "eta": self.rule.eta,
            "closure": self.closure,
            "meaning": self.rule.meaning,
            "consequences": told,
            "parameters": [row.to_dict() for row in self.parameters],
            "in_depth": self.in_depth,
            "remarks": list(self.remarks),
        }
        if source:
            entries = source.rule.entries
            data["published"] = [e.to_dict(**depth) | {"closure": source.closure} for e in entries]
        if self.refused_for_training:
            data["refused_for_training"] = self.refused_for_training
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
        return f"{scales}, which changes nothing with one matrix a branch"
    return "rho and the output change of every order do not grow with depth"


WHERE = {
    "output": "the norm on the branch's output",
    "sum": "the norm on the residual sum",
    "input": "the norm on the branch's input",
    "stream": "the norm on the stream",
}


def _of_norms(rule: Rule, **depth: int) -> Iterator[str]:
    """What the ε of each norm needs that divides what falls with the depth, a sentence each."""
    for entry in rule.entries:
        whose = entry.part if entry.sublayer == "*" else f"{entry.part}, {entry.sublayer}"
        for place, epsilon in entry.norm_epsilon.items():
            shown = f" = {number(epsilon, **depth):.4g}" if depth else ""
            yield (
                f"{WHERE[place].capitalize()} ({whose}) divides what falls with the depth: "
                f"multiply its epsilon by {epsilon}{shown}."
            )


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
    for name in CLOSURES:
        found[name] = answer = Answer(replace(selection, closure=name), values)
        try:
            _ = answer.rule
        except Refusal as refusal:
            found[name] = str(refusal)
    if all(isinstance(answer, str) for answer in found.values()):
        solve_rule(selection)  # says why
    return Comparison(selection, found)
