"""What the package derives, as SymPy expressions in positive N and M."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.rule import PUBLISHED
from deepnet_theory.definitions.selection import Selection
from paper_checks.shared.later import sp, symbolic

if TYPE_CHECKING:
    from deepnet_theory.proof.derivation import Derivation


def derive(**chosen: Any) -> Derivation:
    """The derivation of ``Selection(**chosen)``, with the source's closure unless one is chosen."""
    return derive_selection(Selection(**{"closure": PUBLISHED, **chosen}))


def derive_selection(selection: Selection) -> Derivation:
    """The derivation of a selection."""
    return symbolic.derive(selection)


def across_batch(optimizer: str) -> list[dict[str, Any]]:
    """What the package derives in the batch size for an optimizer, a row a role, noise dominant.

    A row whose gradient is 0 in every sample is left out: the keys' bias.
    """
    roles = symbolic.derive_across(optimizer, across="batch").to_dict()["batch"]["roles"]
    return [row for row in roles if row["refused"] is None and row["role"] != "key-bias"]


def across(
    shape: str, optimizer: str, alignment: str = "full", layer: str | None = None
) -> list[dict[str, Any]]:
    """What the package derives for an optimizer as a shape grows, a row a role."""
    asked = {"across": shape, "alignment": alignment, "layer": layer}
    found: Any = symbolic.derive_across(optimizer, **asked)
    return [symbolic.texts(row) for row in found.table.rows]


def formula(text: str) -> sp.Expr:
    """A text in N and M as an expression of positive depths."""
    return sp.sympify(text, locals={name: sp.Symbol(name, positive=True) for name in "NM"})


def equal(one: sp.Expr, other: sp.Expr) -> bool:
    """Whether two positive expressions are one: their quotient simplifies to 1."""
    return bool(sp.simplify(one / other) == 1)


def gaussian_moment(p: int, above: sp.Expr | int = 0) -> sp.Expr:
    """E t^p over t > ``above`` for a standard normal t, integrated."""
    t = sp.Symbol("t", real=True)
    density = sp.exp(-(t**2) / 2) / sp.sqrt(2 * sp.pi)
    return sp.integrate(t**p * density, (t, above, sp.oo))
