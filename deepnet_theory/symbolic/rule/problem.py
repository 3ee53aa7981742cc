"""A selection with its laws, every part of its stack balanced: the rule as the steps' value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import sympy as sp

from deepnet_theory.sizes.norm_epsilon import with_norm_epsilon
from deepnet_theory.sizes.rule import Rule as Sized
from deepnet_theory.sizes.rule import solve_rule as sized_rule
from deepnet_theory.sizes.rule import written
from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import (
    alpha,
    beta,
    eta,
    part_symbol,
    plain,
    present,
)
from deepnet_theory.symbolic.laws.explicit import ExplicitStack
from deepnet_theory.symbolic.laws.placement import PlacementLaw, placement_law, relative_update
from deepnet_theory.symbolic.routes.route import Route, route_of
from deepnet_theory.symbolic.rule.amplification import Balanced, Kind
from deepnet_theory.symbolic.rule.balance import balance


@dataclass(frozen=True)
class Problem:
    """A selection with its laws, its route, and its parts balanced by what the route proves.

    ``sized`` is the rule by the algebra of sizes: it refuses where there is none, and says which
    closures' conditions pick it. What the rule is, the steps find by themselves.
    """

    selection: Selection

    @cached_property
    def sized(self) -> Sized:
        """The rule by sizes; raises :class:`Refusal` where there is none."""
        return sized_rule(self.selection)

    @cached_property
    def degrees(self) -> Update:
        return degrees(self.selection.the_optimizer)

    def law(self, of: Sublayer) -> PlacementLaw:
        return placement_law(self.selection.placed(of))

    @cached_property
    def route(self) -> Route:
        return route_of(self.selection)

    @cached_property
    def balanced(self) -> tuple[Balanced, ...]:
        """Every part with its steps, solved from the last on: nothing amplifies the last.

        Raises :class:`Refusal` where there is no rule, or where a law is missing.
        """
        solved: list[Balanced] = []
        for part in reversed(self.sized.parts):
            solved.insert(0, balance(self, part, solved[0] if solved else None))
        return tuple(solved)

    @cached_property
    def rule(self) -> SolvedRule:
        """The rule that the solved balances amount to."""
        return rule_of(self)

    @cached_property
    def stack(self) -> ExplicitStack:
        """Its sublayers at that rule, on matrices and entries."""
        return ExplicitStack(self.selection, self.rule)

    def kinds(self, part: Part) -> tuple[Kind, ...]:
        """The kinds of sublayers of a part; one kind ``"*"`` where all behave alike."""
        distinct = list({s.name: s for s in part.layer}.values())
        increments, weights = self.route.increments, self.route.weights
        proved = {
            (increments[s.name].rhs, weights[s.name].rhs, len(s.scaled), self.selection.placed(s))
            for s in distinct
        }
        if len(proved) == 1:
            return (self._kind(part, "*", distinct),)
        return tuple(self._kind(part, s.name, [s]) for s in distinct)

    def _kind(self, part: Part, name: str, group: list[Sublayer]) -> Kind:
        parts, first = len(self.selection.the_stack.parts), group[0]
        one = "*" if self.selection.has_one_alpha(part) else name
        own = {
            alpha: part_symbol("alpha", part.name, parts, one),
            beta: part_symbol("beta", part.name, parts, name),
        }
        increments = [self.route.increments[s.name] for s in group]
        return Kind(
            name=name,
            sublayer=first,
            own=own,
            increment=sp.powsimp(increments[0].rhs / eta).xreplace(own),
            weight=self.route.weights[first.name].rhs.xreplace(own),
            relative=relative_update(first, self.law(first), self.degrees).xreplace(own),
            rate=part_symbol("kappa", part.name, parts, name),
            rests_on=tuple(increment.name for increment in increments),
            members=tuple(s.name for s in group),
        )


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
