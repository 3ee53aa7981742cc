"""A section of a derivation: steps that share a title and, unless they say otherwise, a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, Unpack

import sympy as sp

from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Regime, Step


class Options(TypedDict, total=False):
    """What a step says besides its two sides, as :class:`Step` describes it."""

    source: str
    uses: tuple[str, ...]
    assumptions: tuple[str, ...]
    establishes: tuple[sp.Symbol, ...]
    bounded: tuple[sp.Symbol, ...]
    regime: Regime | None
    imposed: bool
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Section:
    """Makes the steps of a section: ``section.equal(name, lhs, rhs, because, …)``."""

    title: str
    source: str = "derived here"

    def equal(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs = rhs."""
        return self.step(Relation.EQUAL, name, lhs, rhs, because, **more)

    def asymptotic(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs/rhs → 1 in a regime."""
        return self.step(Relation.ASYMPTOTIC, name, lhs, rhs, because, **more)

    def at_most(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs ≤ rhs."""
        return self.step(Relation.AT_MOST, name, lhs, rhs, because, **more)

    def order(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs = Θ(rhs)."""
        return self.step(Relation.ORDER, name, lhs, rhs, because, **more)

    def bound(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs = O(rhs)."""
        return self.step(Relation.BOUND, name, lhs, rhs, because, **more)

    def step(
        self,
        relation: Relation,
        name: str,
        lhs: sp.Expr,
        rhs: sp.Expr,
        because: str,
        **more: Unpack[Options],
    ) -> Step:
        """lhs relation rhs."""
        more.setdefault("source", self.source)
        return Step(name, lhs, rhs, relation, because, section=self.title, **more)
