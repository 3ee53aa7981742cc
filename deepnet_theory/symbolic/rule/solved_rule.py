"""The rule that solved balances amount to, with SymPy expressions for α and β."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from deepnet_theory.spec.errors import InputError, Refusal, shown
from deepnet_theory.spec.expression import DEPTH, MAX_EXPONENT
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import present, text
from deepnet_theory.symbolic.rule.problem import Problem


@dataclass(frozen=True)
class SolvedRule(Rule):
    """A rule whose ``alpha`` and ``beta`` are SymPy expressions in N and M.

    Where parts or kinds of sublayers differ they are mappings, as :meth:`keyed` says. The symbols
    are SymPy's positive ones, ``Symbol("N", positive=True)``, which ``subs("N", 100)`` does not
    reach: :meth:`alpha_at` and :meth:`beta_at` give the numbers.
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
        return self.keyed([present(depth_expression(e.expressions[which])) for e in self.entries])


def rule_of(problem: Problem) -> SolvedRule:
    """The rule of a problem; raises :class:`Refusal` where there is none."""
    entries = []
    factor = "1"
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            written = (_written(problem, balanced.value(k)) for k in (kind.alpha, kind.beta))
            entries.append(RuleEntry(balanced.part.name, kind.name, *written))
        factor = _written(problem, balanced.rate)
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


def _written(problem: Problem, value: Any) -> str:
    """A solved value in the grammar of depths, whose exponents are bounded."""
    written = text(value)
    try:
        DEPTH.parse(written)
    except InputError:
        raise Refusal(
            f"the rule of the update {shown(problem.selection.the_optimizer.update)} would be "
            f"{shown(written)}, and no rule is written with an exponent whose numerator or "
            f"denominator is beyond {MAX_EXPONENT}; give the update powers of smaller denominators"
        ) from None
    return written


@cache
def solve_rule(selection: Selection) -> SolvedRule:
    """The rule of a selection without its derivation; cached, for tables of many rules."""
    return rule_of(Problem(selection))
