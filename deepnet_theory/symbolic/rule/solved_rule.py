"""The rule that solved balances amount to, with SymPy expressions for α and β."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import present, text
from deepnet_theory.symbolic.rule.balance import Problem, eta_factor


@dataclass(frozen=True)
class SolvedRule(Rule):
    """A rule whose ``alpha`` and ``beta`` are SymPy expressions in N and M.

    Where parts or kinds of sublayers differ they are mappings with keys such as
    ``"encoder"``, ``"ffn"`` or ``"encoder/ffn"``.
    """

    @cached_property
    def alpha(self) -> Any:
        """α."""
        return self._expressions(0)

    @cached_property
    def beta(self) -> Any:
        """β."""
        return self._expressions(1)

    @cached_property
    def eta_expression(self) -> Any:
        """The factor on the learning rate."""
        return depth_expression(self.eta)

    def _expressions(self, which: int) -> Any:
        parts = {e.part for e in self.entries}
        kinds = {e.sublayer for e in self.entries}
        values: Mapping[str, Any] = {
            "/".join(
                ([e.part] if len(parts) > 1 else [])
                + ([e.sublayer] if kinds != {"*"} and e.sublayer != "*" else [])
            ): present(depth_expression(e.expressions[which]))
            for e in self.entries
        }
        return next(iter(values.values())) if len(values) == 1 else values


def rule_of(problem: Problem) -> SolvedRule:
    """The rule of a problem; raises :class:`Refusal` where there is none."""
    entries = []
    factor = "1"
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            entries.append(
                RuleEntry(
                    balanced.part.name,
                    kind.name,
                    text(balanced.value(kind.alpha)),
                    text(balanced.value(kind.beta)),
                )
            )
        if eta_factor in balanced.solution.values:
            factor = text(balanced.value(eta_factor))
    selection = problem.selection
    return SolvedRule(
        name=selection.optimizer or "custom",
        entries=tuple(entries),
        eta=factor,
        meaning=(
            "the powers of the depth are derived orders; the constant in front is the convention "
            f"of the balance '= 1' and of the closure '{problem.closure.name}'"
        ),
    )


@cache
def solve_rule(selection: Selection) -> SolvedRule:
    """The rule of a selection without its derivation; cached, for tables of many rules."""
    return rule_of(Problem(selection))
