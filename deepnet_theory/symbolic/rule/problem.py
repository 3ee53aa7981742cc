"""Every part of a stack balanced: the rule as the value of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import sympy as sp

from deepnet_theory.sizes.norm_epsilon import with_norm_epsilon
from deepnet_theory.sizes.rule import written
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.monomial import plain, present
from deepnet_theory.symbolic.rule.balance import balance
from deepnet_theory.symbolic.rule.kinds import Balanced, Setting


@dataclass(frozen=True)
class Problem(Setting):
    """A setting, and its parts balanced by the increments that its route proves."""

    @cached_property
    def balanced(self) -> tuple[Balanced, ...]:
        """Every part with its steps, solved from the last on: nothing amplifies the last.

        Raises :class:`Refusal` where there is no rule, or where a law is missing.
        """
        solved: list[Balanced] = []
        for part in reversed(self.sized.parts):
            solved.insert(0, balance(self, part, solved[0] if solved else None))
        return tuple(solved)


# ---- The rule that solved balances amount to, with SymPy expressions for α and β ----


@dataclass(frozen=True)
class SolvedRule(Rule):
    """A rule whose ``alpha`` and ``beta`` are SymPy expressions in N and M.

    Where parts or kinds of sublayers differ they are mappings, as :meth:`keyed` says. The symbols
    are SymPy's positive ones, ``Symbol("N", positive=True)``, which ``subs("N", 100)`` does not
    reach: :meth:`alpha_at` and :meth:`beta_at` give the numbers.
    """

    solved: tuple[tuple[sp.Expr, sp.Expr], ...] = ()  # α and β of every entry

    @cached_property
    def alpha(self) -> sp.Expr | dict[str, sp.Expr]:
        return self.keyed([present(alpha) for alpha, _ in self.solved])

    @cached_property
    def beta(self) -> sp.Expr | dict[str, sp.Expr]:
        return self.keyed([present(beta) for _, beta in self.solved])


def rule_of(problem: Problem) -> SolvedRule:
    """The rule of a problem; raises :class:`Refusal` where there is none."""
    selection = problem.selection
    entries, solved = [], []
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            values = (balanced.values[kind.alpha], balanced.values[kind.beta])
            multiplied = (balanced.rate_of(kind), balanced.relative_update(kind))
            texts = (written(plain(value), selection) for value in (*values, *multiplied))
            entries.append(RuleEntry(balanced.part.name, kind.name, *texts))
            solved.append(values)
    solved_rule = SolvedRule(
        name=selection.optimizer or "custom",
        entries=tuple(entries),
        eta=written(plain(problem.balanced[-1].rate), selection),
        meaning=(
            "the powers of the depth are derived orders; the constant in front is the convention "
            f"of the balance '= 1' and of the closure '{problem.sized.closure.name}'"
        ),
        solved=tuple(solved),
    )
    return with_norm_epsilon(selection, solved_rule)


def solve_rule(selection: Selection) -> SolvedRule:
    """The rule of a selection without its derivation; cached, for tables of many rules."""
    return _solved(selection, selection.named)


@cache
def _solved(selection: Selection, _named: tuple[object, ...]) -> SolvedRule:
    return rule_of(Problem(selection))
