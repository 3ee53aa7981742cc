r"""Every order of one update, and what the relative update ρ makes of it in depth.

One update moves all m matrices of a branch at once, each by ηρ of itself. S branches of weight r
change the output by

.. math:: S r\,\bigl((1+\eta\rho)^m - 1\bigr) = S r \sum_{k=1}^m \binom mk (\eta\rho)^k ,

and balance holds the first order, so that order k is a constant times :math:`\rho^{k-1}`.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import exponent_in, exponents, present, simplified
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.kinds import Kind
from deepnet_theory.symbolic.rule.problem import Problem

STABLE, LAZY, UNSTABLE = "stable", "lazy", "unstable"


@dataclass(frozen=True)
class Orders:
    """ρ and all that follows from it for one kind of sublayer, in the depth symbols.

    ``sizes`` are those of the orders 1 … m in units of η^k; ``failing`` is how the rate falls at
    which aligned steps break the model.
    """

    part: str
    sublayer: str
    depth: sp.Symbol
    rho: sp.Expr
    sizes: tuple[sp.Expr, ...]
    failing: sp.Expr

    @property
    def state(self) -> str:
        """``unstable`` where an order grows with the depth, ``lazy`` where one vanishes."""
        found = [power for size in self.sizes for power in powers(size).values()]
        if any(power > 0 for power in found):
            return UNSTABLE
        return LAZY if any(power < 0 for power in found) else STABLE

    @property
    def told(self) -> str:
        """The state, and the powers that it was found from, in words."""
        of = f"rho goes as {power_of(self.rho)}"
        match self.state:
            case "unstable":
                return f"{of}, and with it the higher orders; the failing rate goes as " + power_of(
                    self.failing
                )
            case "lazy":
                return (
                    f"{of}, and with it the higher orders, so that the matrices of a branch no "
                    "longer learn together"
                )
            case _ if powers(self.rho):
                return f"{of}, which one matrix a branch does not feel"
            case _:
                return "rho and every order are of order one"

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "stack": self.part,
            "sublayer": self.sublayer,
            "state": self.state,
            "rho": str(self.rho),
            "orders": [str(size) for size in self.sizes],
            "failing_rate": str(self.failing),
        }


def state_of(found: tuple[Orders, ...]) -> str:
    """The state of a rule: the worst of its kinds, growth before loss."""
    states = {kind.state for kind in found}
    return next(state for state in (UNSTABLE, LAZY, STABLE) if state in states)


def in_depth(found: tuple[Orders, ...]) -> str:
    """The state of a rule in one sentence, with the powers that say so."""
    state = state_of(found)
    own = [kind for kind in found if kind.state == state]
    told: dict[str, list[str]] = {}
    for kind in own:
        name = kind.part if kind.sublayer == "*" else f"{kind.part}, {kind.sublayer}"
        told.setdefault(kind.told, []).append(name)
    of = "; ".join(
        words if len(found) == len(names) else f"{words} ({' and '.join(names)})"
        for words, names in told.items()
    )
    return f"{state} in depth: {of}"


def powers(size: sp.Expr) -> dict[sp.Symbol, sp.Rational]:
    """The powers of the depths in a monomial."""
    return {base: power for base, power in exponents(size).items() if base.is_Symbol}


def power_of(size: sp.Expr) -> str:
    """The powers of the depths, in words."""
    found = powers(size)
    return "*".join(f"{base}^({found[base]})" for base in sorted(found, key=str)) or "1"


def orders(problem: Problem) -> Iterator[Orders]:
    """Of every kind of every part."""
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            yield of_kind(balanced, kind)


def of_kind(balanced: Balanced, kind: Kind) -> Orders:
    """ρ, the orders and the failing rate of one kind at the solution."""
    depth = DEPTHS[balanced.part.depth]
    rho = balanced.relative_update(kind)
    return Orders(
        part=balanced.part.name,
        sublayer=kind.name,
        depth=depth,
        rho=present(rho),
        sizes=tuple(
            present(order_size(balanced, kind, order)) for order in range(1, kind.matrices + 1)
        ),
        failing=failing_rate(rho, kind.matrices, depth),
    )


def order_size(balanced: Balanced, kind: Kind, order: int) -> sp.Expr:
    r""":math:`A S r \binom mk \rho^k` at the solution, A forward through the later part."""
    forward = balanced.factor / balanced.backward
    first = forward * balanced.self_consistency(kind, 1)
    several = sp.binomial(kind.matrices, order)
    return simplified(first * several * balanced.relative_update(kind) ** order)


def failing_rate(rho: sp.Expr, matrices: int, depth: sp.Symbol) -> sp.Expr:
    r"""The power of :math:`((1+\rho)^{1/m} - 1)/\rho`: where ρ grows :math:`\rho^{1/m-1}`, else 1.

    At this learning rate aligned steps have changed the output by one.
    """
    if exponent_in(rho, depth) <= 0:
        return sp.Integer(1)
    return present(simplified(rho ** (sp.Rational(1, matrices) - 1)))
