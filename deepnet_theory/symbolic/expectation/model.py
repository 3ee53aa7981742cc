"""Named quantities, and the check that both sides agree in explicit models.

A statement about norms and inner products of matrices is checked where the matrices are
written out: a model gives each named quantity an exact value computed from explicit entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import sympy as sp
from sympy.printing.printer import Printer

from deepnet_theory.symbolic.proof.step import Check, Relation, Step

Model = Mapping[sp.Expr, sp.Expr]


class NamedQuantity(sp.Symbol):  # type: ignore[misc]
    """A named real quantity, positive unless told otherwise, with its own LaTeX."""

    latex: str

    def __new__(cls, name: str, latex: str = "", **assumptions: bool) -> NamedQuantity:
        quantity = super().__new__(cls, name, **(assumptions or {"positive": True}))
        quantity.latex = latex or sp.latex(sp.Symbol(name))
        return quantity  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[str, str], dict[str, bool]]:
        return (self.name, self.latex), self._assumptions_orig

    def _latex(self, printer: Printer) -> str:
        return self.latex


def norm_of(name: str, latex: str = "") -> NamedQuantity:
    """The norm of the named vector or matrix."""
    return NamedQuantity(f"norm_{name}", rf"\|{latex or name}\|")


def in_models(name: str, models: Callable[[], Iterable[Model]]) -> Check:
    """The step's relation (EQUAL or AT_MOST) holds in every explicit model."""

    def holds(step: Step) -> bool:
        seen = False
        for model in models():
            seen = True
            at = {quantity: sp.sympify(value) for quantity, value in model.items()}
            difference = sp.sympify(step.rhs - step.lhs).xreplace(at)
            if difference.free_symbols:
                return False
            if step.relation is Relation.EQUAL:
                if not _vanishes(difference):
                    return False
            elif step.relation is Relation.AT_MOST:
                if sp.N(difference, 40) < -1e-30:
                    return False
            else:
                return False
        return seen

    return Check(name, holds)


def _vanishes(value: sp.Expr) -> bool:
    if value.is_Rational:
        return bool(value == 0)
    return bool(abs(sp.N(value, 50)) < 1e-40)
