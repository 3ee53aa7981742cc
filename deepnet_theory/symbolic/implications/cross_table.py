"""The cross table: the predicted exponent of ‖ΔF‖ of every rule under every optimizer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.implications.exponents import exponents_of
from deepnet_theory.symbolic.rule.solved_rule import SolvedRule, solve_rule


@dataclass(frozen=True)
class Cell:
    """The exponents of one optimizer's rule under another optimizer, by depth symbol."""

    rule: str
    optimizer: str
    exponents: dict[str, Fraction]

    @property
    def balanced(self) -> bool:
        """Whether the update stays of order η at any depth."""
        return all(e == 0 for e in self.exponents.values())


@dataclass(frozen=True)
class CrossTable:
    """All pairs; ``refused`` holds the sentence where an optimizer has no rule here."""

    select: Selection
    rules: dict[str, SolvedRule]
    cells: tuple[Cell, ...]
    refused: dict[str, str]

    def cell(self, rule: str, optimizer: str) -> Cell:
        """The cell of a rule under an optimizer."""
        return next(c for c in self.cells if (c.rule, c.optimizer) == (rule, optimizer))


def cross_table(names: tuple[str, ...] | None = None, base: Selection | None = None) -> CrossTable:
    """Every rule under every optimizer, for the network of ``base`` (default: post-LN encoder)."""
    chosen = names or tuple(optimizers())
    start = base or Selection(optimizer=chosen[0])
    rules: dict[str, SolvedRule] = {}
    refused: dict[str, str] = {}
    selections = {n: replace(start, optimizer=n, update=None, regime=()) for n in chosen}
    for name, selection in selections.items():
        try:
            rules[name] = solve_rule(selection)
        except Refusal as refusal:
            refused[name] = str(refusal)
    cells = []
    for under in rules:
        # optimizers of one degree share their exponents, rules of one formula too
        known: dict[tuple[object, ...], dict[str, Fraction]] = {}
        for name, rule in rules.items():
            key = (rule.entries, rule.eta)
            if key not in known:
                found = exponents_of(selections[under], rule)
                known[key] = {v: e for (v, share), e in found.items() if share == "all"}
            cells.append(Cell(name, under, known[key]))
    return CrossTable(start, rules, tuple(cells), refused)
