"""What a rule implies, named and in words, and the closures of a selection side by side.

Values are monomials of the table; None stands for 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.rule import closure_of, solve_rule
from deepnet_theory.sizes.table import (
    DEPTHS,
    LAZY,
    UNSTABLE,
    ParameterRow,
    SublayerRow,
    Table,
    by_closure,
    texts,
)
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.results.measurement import Result
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role


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
    (part,) = (b.part for b in table.rule.parts if b.part.name == row.part)
    kind = (p for p in table.parameters if p.part == row.part and p.sublayer in row.members)
    scaled = next(p for p in kind if p.role is Role.SCALED)
    squares = f"{part.squares}: bounded where independent branches stay near the identity"
    if part.uses != "1":
        squares += f"; the n_u = {part.uses} uses of one layer add alike"
    sums = "S*r, S sublayers: branches aligned with the stream amplify by exp(S*r)"
    quantities = [
        ("initial-weight", "size of a scaled matrix at initialisation", row.beta),
        ("gradient", "size of a scaled matrix's gradient", scaled.gradient),
        ("update", "size of a scaled matrix's first update, in units of eta", scaled.update),
        ("relative-update", "rho, update over weight, in units of eta", row.rho),
        ("branch-weight", "r, the branch against the identity path", row.weight),
        ("aligned-sum", sums, row.aligned),
        ("self-consistency", squares, row.independent),
    ]
    for order, size in enumerate(row.orders, start=1):
        meaning = f"what order {order} of an update moves the output by, in units of eta^{order}"
        quantities.append((f"order-{order}", meaning, size))
    for name, meaning, value in quantities:
        yield Consequence(name, meaning, value, row.part, row.sublayer)
    meaning = "how the largest stable learning rate scales with depth (worst case)"
    yield Consequence("failing-rate", meaning, row.failing, row.part, row.sublayer, row.state)


def share_consequences(rows: Iterable[ParameterRow]) -> Iterator[Consequence]:
    """The shares as consequences, one for each kind of parameter besides the scaled matrices."""
    for row in rows:
        if row.role is Role.SCALED:
            continue
        remark = row.standing
        if row.standing == "dominant":
            remark += f"; the learning-rate multiplier {row.balancing} balances it"
        elif row.share is None:
            remark += ": its gradient is exactly zero, and no learning rate makes it learn"
        elif row.standing == "negligible":
            remark += f"; the learning-rate multiplier {row.balancing} would balance it"
        meaning = f"{row.parameter}'s share of the output change (scaled matrices = 1)"
        name = f"share-{row.parameter}"
        yield Consequence(name, meaning, row.share, row.part, row.sublayer, remark)


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
        name = row.part if row.sublayer == "*" else f"{row.part}, {row.sublayer}"
        words.setdefault(_in_words(row), []).append(name)
    clauses = (
        sentence if len(table.sublayers) == len(names) else f"{sentence} ({' and '.join(names)})"
        for sentence, names in words.items()
    )
    return f"{table.state} in depth: {'; '.join(clauses)}"


def _in_words(row: SublayerRow) -> str:
    scales = f"rho scales as {power_of(row.rho)}"
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
    if any(row.rho.exponent(depth) for depth in DEPTHS):
        return f"{scales}, which one matrix a branch does not feel"
    return "rho and every order are of order one"


# ---- the closures side by side ----


@dataclass(frozen=True)
class Comparison(Result):
    """The rule and the consequences of every closure that balances; why the others do not."""

    selection: Selection
    default: str  # the closure that is taken where none is asked for
    rules: dict[str, Rule]
    consequences: dict[str, tuple[Consequence, ...]]
    refused: dict[str, str]
    training: str | None = None  # the closure to train with, where there is one
    values: tuple[tuple[str, int], ...] = ()  # print numbers at this depth

    def __getitem__(self, closure: str) -> tuple[Consequence, ...] | str:
        """The consequences of a closure, or the sentence that refuses it."""
        return self.consequences.get(closure) or self.refused[closure]

    @property
    def classes(self) -> dict[str, str]:
        """The first closure whose S·r and ηρ go with the depth as a closure's own do."""
        first: dict[object, str] = {}
        return {
            name: first.setdefault(
                tuple(
                    (c.part, c.sublayer, c.name, power_of(c.value))
                    for c in implied
                    if c.name in ("aligned-sum", "relative-update") and c.value is not None
                ),
                name,
            )
            for name, implied in self.consequences.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data; values only where a depth was asked for."""
        rows: list[dict[str, Any]] = [
            {
                "closure": name,
                "rule": [entry.to_dict(**dict(self.values)) for entry in rule.entries],
                "eta": rule.eta,
                "consequences": by_kind(self.consequences[name], "meaning"),
                "class": self.classes[name],
            }
            for name, rule in self.rules.items()
        ]
        rows += [{"closure": name, "refused": why} for name, why in self.refused.items()]
        return {
            "schema": "deepnet-theory/closures/1",
            "select": self.selection.to_dict(),
            "default": self.default,
            "training": self.training,
            "closures": rows,
        }


def compare_closures(selection: Selection) -> Comparison:
    """The rule and the consequences of every closure side by side; a refusal is its sentence.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where no closure balances.

    Source: Su, §First conclusions, where two alternatives are weighed against the symmetric one.
    """
    rules: dict[str, Rule] = {}
    implied: dict[str, tuple[Consequence, ...]] = {}
    refused: dict[str, str] = {}
    for name, solved in by_closure(selection):
        try:
            if isinstance(solved, Refusal):
                raise solved
            rules[name] = texts(solved.rule)
            implied[name] = tuple(consequences(solved))
        except Refusal as refusal:
            refused[name] = str(refusal)
    plain = replace(selection, closure=None)
    if not rules:
        solve_rule(plain)  # says why
    return Comparison(selection, closure_of(plain).name, rules, implied, refused)
