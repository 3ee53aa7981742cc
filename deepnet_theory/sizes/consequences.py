"""What a rule implies, named and in words: the quantities that Su argues with, and every share.

Values are monomials of the table; None stands for 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.rule import Rule as Solved
from deepnet_theory.sizes.rule import closure_of, solve_rule
from deepnet_theory.sizes.table import (
    DEPTHS,
    ParameterRow,
    SublayerRow,
    Table,
    texts,
)
from deepnet_theory.spec.closure import closures
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


def consequences(of: Table) -> Iterator[Consequence]:
    for row in of.sublayers:
        yield from of_sublayer(of, row)


def of_sublayer(of: Table, row: SublayerRow) -> Iterator[Consequence]:
    scaled = next(
        p
        for p in of.parameters
        if p.part == row.part and p.sublayer in row.members and p.role is Role.SCALED
    )

    sums = "S*r, S sublayers: branches aligned with the stream amplify by exp(S*r)"
    part = next(at.part for at in of.rule.parts if at.part.name == row.part)
    squares = f"{part.squares}: bounded where independent branches stay near the identity"
    if part.uses != "1":
        squares += f"; the n_u = {part.uses} uses of one layer add alike"
    found = [
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
        found.append((f"order-{order}", meaning, size))
    for name, meaning, value in found:
        yield Consequence(name, meaning, value, row.part, row.sublayer)
    meaning = "how the largest stable learning rate scales with depth (worst case)"
    yield Consequence("failing-rate", meaning, row.failing, row.part, row.sublayer, row.state)


def share_consequences(rows: tuple[ParameterRow, ...]) -> Iterator[Consequence]:
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
        yield Consequence(
            name=f"share-{row.parameter}",
            meaning=f"{row.parameter}'s share of the output change (scaled matrices = 1)",
            value=row.share,
            part=row.part,
            sublayer=row.sublayer,
            remark=remark,
        )


# ---- what a rule is in depth, in words ----


def power_of(size: Monomial) -> str:
    """The powers of the depths, in words."""
    found = [f"{depth}^({p})" for depth in sorted(DEPTHS) if (p := size.exponent(depth))]
    return "*".join(found) or "1"


def row_in_words(row: SublayerRow) -> str:
    """The state of a kind of sublayer, and the powers that say so."""
    of = f"rho scales as {power_of(row.rho)}"
    match row.state:
        case "unstable":
            return (
                f"{of}, and with it the higher orders; the largest stable learning rate scales as "
                + power_of(row.failing)
            )
        case "lazy":
            return (
                f"{of}, and with it the higher orders, so that the matrices of a branch no "
                "longer learn together"
            )
        case _ if any(row.rho.exponent(depth) for depth in DEPTHS):
            return f"{of}, which one matrix a branch does not feel"
        case _:
            return "rho and every order are of order one"


def in_depth(of: Table) -> str:
    """The state of a rule in one sentence, with the powers that say so."""
    own = [row for row in of.sublayers if row.state == of.state]
    words: dict[str, list[str]] = {}
    for row in own:
        name = row.part if row.sublayer == "*" else f"{row.part}, {row.sublayer}"
        words.setdefault(row_in_words(row), []).append(name)
    parts = "; ".join(
        sentence if len(of.sublayers) == len(names) else f"{sentence} ({' and '.join(names)})"
        for sentence, names in words.items()
    )
    return f"{of.state} in depth: {parts}"


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
        depth = dict(self.values)
        rows: list[dict[str, Any]] = []
        for name, rule in self.rules.items():
            entries = [entry.to_dict(**depth) for entry in rule.entries]
            implied: dict[str, Any] = {}
            for c in self.consequences[name]:
                kind = implied.setdefault(c.part, {}).setdefault(c.sublayer, {})
                kind[c.name] = {"value": c.text, "meaning": c.meaning}
            row = {"closure": name, "rule": entries, "eta": rule.eta, "consequences": implied}
            rows.append({**row, "class": self.classes[name]})
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
    found: dict[str, tuple[Consequence, ...]] = {}
    refused: dict[str, str] = {}
    for name in closures():
        try:
            solved: Solved = solve_rule(replace(selection, closure=name))
            rules[name] = texts(solved)
        except Refusal as refusal:
            refused[name] = str(refusal)
        else:
            found[name] = tuple(consequences(Table(solved)))
    if not rules:
        solve_rule(replace(selection, closure=None))  # says why
    default = closure_of(replace(selection, closure=None))
    return Comparison(selection, default.name, rules, found, refused)
