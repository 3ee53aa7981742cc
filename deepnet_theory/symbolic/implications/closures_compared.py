"""What every closure makes of a selection, side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.implications.consequences import Consequence, consequences
from deepnet_theory.symbolic.implications.orders import powers
from deepnet_theory.symbolic.rule.problem import Problem
from deepnet_theory.symbolic.rule.solved_rule import SolvedRule, rule_of


@dataclass(frozen=True)
class Comparison(Result):
    """The rule and the consequences of every closure that balances; why the others do not."""

    selection: Selection
    default: str  # the closure that is taken where none is asked for
    rules: dict[str, SolvedRule]
    consequences: dict[str, tuple[Consequence, ...]]
    refused: dict[str, str]
    training: str | None = None  # the closure to train with, where there is one
    values: tuple[tuple[str, int], ...] = ()  # a depth at which to print numbers

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
                    (c.part, c.sublayer, c.name, *sorted(map(str, powers(c.value).items())))
                    for c in implied
                    if c.name in ("aligned-sum", "relative-update")
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
                kind[c.name] = {"value": str(c.value), "meaning": c.meaning}
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
    rules: dict[str, SolvedRule] = {}
    found: dict[str, tuple[Consequence, ...]] = {}
    refused: dict[str, str] = {}
    for name in closures():
        problem = Problem(replace(selection, closure=name))
        try:
            rules[name] = rule_of(problem)
        except Refusal as refusal:
            refused[name] = str(refusal)
        else:
            found[name] = tuple(consequences(problem))
    if not rules:
        raise Refusal(refused[Problem(selection).closure.name])
    chosen = Problem(replace(selection, closure=None)).closure.name
    return Comparison(selection, chosen, rules, found, refused)
