"""What the package derives, as SymPy expressions in positive N and M."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection
from paper_checks.shared.later import sp, symbolic

if TYPE_CHECKING:
    from deepnet_theory.proof.derivation import Chain, Derivation
    from deepnet_theory.proof.step import Step


def derive(**chosen: Any) -> Derivation:
    """The derivation of ``Selection(**chosen)``."""
    return derive_selection(Selection(**chosen))


def derive_selection(selection: Selection) -> Derivation:
    """The derivation of a selection."""
    return symbolic.derive(selection)


@cache
def told(method: str) -> Chain:
    """SGD's derivation by a method with what the sources write around it, made once.

    "moments" is the layer cake's §5, which ends in a bound and in no rule.
    """
    if method == "moments":
        return symbolic.layer_cake()
    return symbolic.background(Selection(optimizer="sgd", method=method))


def holds(method: str, *names: str) -> bool:
    """Whether the engine proves these steps of its derivation; their own checks are run again."""
    return all(told(method).step(name).check() is Verdict.PROVED for name in names)


def value(method: str, name: str) -> sp.Expr:
    """The right-hand side of a step of :func:`told`, in positive symbols of its own names."""
    found: sp.Expr = told(method).step(name).rhs
    return found.xreplace({s: sp.Symbol(s.name, positive=True) for s in found.free_symbols})


def unproved(steps: Iterable[Step]) -> tuple[str, ...]:
    """The names of the steps that are not PROVED."""
    return tuple(step.name for step in steps if step.check() is not Verdict.PROVED)


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
