"""Every part of a stack balanced: the rule as the value of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.symbolic.rule.balance import balance
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.kinds import kinds
from deepnet_theory.symbolic.rule.setting import Setting


@dataclass(frozen=True)
class Problem(Setting):
    """A setting, and its parts balanced by the increments that its route proves."""

    @cached_property
    def balanced(self) -> tuple[Balanced, ...]:
        """Every part with its steps, solved from the last on: nothing amplifies the last.

        Raises :class:`Refusal` where there is no rule, or where a law is missing.
        """
        sized, parts = self.sized, self.selection.the_stack.parts
        solved: list[Balanced] = []
        for part in reversed(parts):
            of = kinds(part, len(parts), self.route, self.selection)
            solved.append(balance(self, sized.part(part.name), of, solved[-1] if solved else None))
        return tuple(reversed(solved))
