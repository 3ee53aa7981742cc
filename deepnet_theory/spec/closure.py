"""Closures: the extra condition that picks one point of the balanced curve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.spec.discovery import builtin, choose
from deepnet_theory.spec.expression import Expression, Grammar

CLOSURE = Grammar(
    purpose="one side of a closure",
    symbols=("alpha", "beta", "m", "rho"),
    functions={"sqrt": (1, 1)},
)


@dataclass(frozen=True)
class Closure:
    """Conditions that hold beside the balance, as ``(left, right)`` sides of equations.

    Sides are monomials in alpha, beta, m, the number of scaled matrices of the branch, and rho,
    the relative update ‖ΔW‖/(η‖W‖) of one of them. ``knobs`` are the unknowns that balance and
    conditions together must determine: ``eta``, one factor on the learning rate, ``rate``, a
    multiplier for the scaled matrices of each kind, which is taken only where α and β cannot do.
    """

    name: str
    conditions: tuple[tuple[str, str], ...]
    knobs: tuple[str, ...] = ("alpha", "beta")
    summary: str = ""
    source: str = ""

    @cached_property
    def expressions(self) -> tuple[tuple[Expression, Expression], ...]:
        return tuple((CLOSURE.parse(a), CLOSURE.parse(b)) for a, b in self.conditions)

    def __post_init__(self) -> None:
        _ = self.expressions


def closures() -> dict[str, Closure]:
    return builtin("closures", Closure)


def closure(name: str) -> Closure:
    return choose("closure", name, closures())
