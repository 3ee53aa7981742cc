"""An update on a 1 × 2 matrix, entry by entry: on symbols, or on numbers of every sign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import TypeAlias

import mpmath
import sympy as sp

from deepnet_theory.sizes.update import DIGITS, SIZES, OnEntries, Regime, law, pair
from deepnet_theory.spec.expression import Node, fold
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.symbolic.algebra.monomial import eta, rational
from deepnet_theory.symbolic.proof.step import Check, Section, Step

Scalar: TypeAlias = sp.Expr | mpmath.mpf
Entries: TypeAlias = tuple[Scalar, Scalar]
Value: TypeAlias = Scalar | Entries

# SymPy would compare the arguments of a maximum, each with each, which nesting makes exponential
_SYMBOLIC: dict[str, Callable[..., sp.Expr]] = {
    "sign": sp.sign,
    "abs": sp.Abs,
    "sqrt": sp.sqrt,
    "log": sp.log,
    "max": lambda *of: sp.Max(*of, evaluate=False),
    "min": lambda *of: sp.Min(*of, evaluate=False),
}
_NUMERIC: dict[str, Callable[..., mpmath.mpf]] = {
    "sign": mpmath.sign,
    "abs": abs,
    "sqrt": mpmath.sqrt,
    "log": mpmath.log,
    "max": max,
    "min": min,
}


def on_symbols(update: Node, rate: sp.Expr, g: Entries, theta: Entries) -> Entries:
    """The two entries of an update as SymPy expressions."""
    values = {"eta": rate, "g": g, "theta": theta}
    return pair(fold(update, OnEntries(values, _SYMBOLIC, rational)))


def _mpf(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


_SIGNS = tuple(product((1, -1), repeat=4))


@dataclass(frozen=True)
class Sample:
    """The update at one point: its entries, those of g, and which of the sizes the point has."""

    size: int
    g: Entries
    value: Entries


@lru_cache(maxsize=64)
def samples(
    update: Node, scale_g: int = 1, scale_theta: int = 1, sizes: int = len(SIZES)
) -> tuple[Sample, ...]:
    """The update at entries of every sign and of several sizes, to ``DIGITS`` digits.

    What is below the digits of its terms is 0. Raises ``ArithmeticError`` where it is not finite,
    ``ValueError`` where it is not real.
    """
    found = []
    for (size, magnitudes), signs in product(enumerate(SIZES[:sizes]), _SIGNS):
        exact = [s * Fraction(m) for s, m in zip(signs, magnitudes, strict=True)]
        g, theta = [scale_g * e for e in exact[:2]], [scale_theta * e for e in exact[2:]]
        # rounding differs between two precisions, a value does not
        coarse, fine = (_value(update, g, theta, d) for d in (DIGITS + 20, 2 * DIGITS + 40))
        with mpmath.workdps(2 * DIGITS):
            first, second = (
                f if abs(c - f) <= mpmath.mpf(10) ** -DIGITS * abs(f) else mpmath.mpf(0)
                for c, f in zip(coarse, fine, strict=True)
            )
            found.append(Sample(size, (_mpf(g[0]), _mpf(g[1])), (first, second)))
    return tuple(found)


def _value(update: Node, g: list[Fraction], theta: list[Fraction], digits: int) -> Entries:
    with mpmath.workdps(digits):
        return on_numbers(
            update,
            {
                "eta": _mpf(Fraction(1, 3)),
                "g": (_mpf(g[0]), _mpf(g[1])),
                "theta": (_mpf(theta[0]), _mpf(theta[1])),
            },
        )


def on_numbers(update: Node, values: Mapping[str, Value]) -> Entries:
    """The two entries of an update at numbers, to mpmath's precision.

    Raises ``ArithmeticError`` where one is not finite, ``ValueError`` where it is not real.
    """
    result = pair(fold(update, OnEntries(values, _NUMERIC, _mpf)))
    for entry in result:
        if not isinstance(entry, mpmath.mpf):
            raise ValueError(f"{entry} is not real")
        if not mpmath.isfinite(entry):
            raise ArithmeticError(f"{entry} is not finite")
    return result


# ---- The degrees of an update, which the algebra of sizes counts and the steps check ----


@dataclass(frozen=True)
class Degrees:
    """p and q of :math:`|\\Delta\\theta| \\sim \\eta\\,|g|^p |\\theta|^q`."""

    p: sp.Rational
    q: sp.Rational
    regimes: tuple[Regime, ...]
    reduced: Node  # the update with only its winning terms

    @property
    def regime(self) -> tuple[str, ...]:
        """The stated regimes that were needed, in words."""
        return tuple(map(str, self.regimes))


@cache
def degrees(optimizer: Optimizer) -> Degrees:
    """p and q of the optimizer's first step, as the algebra of sizes counts them.

    :func:`homogeneity_step` holds them against exact entries. Raises :class:`Refusal` where the
    update is not homogeneous, not proportional to η, or vanishes identically.
    """
    found = law(optimizer)
    return Degrees(rational(found.p), rational(found.q), found.regimes, found.reduced)


def entrywise(
    optimizer: Optimizer, rate: sp.Expr, g: Sequence[sp.Expr], theta: Sequence[sp.Expr]
) -> Entries:
    """The update of a 1 × 2 matrix with the given symbolic entries, winning terms only."""
    root = degrees(optimizer).reduced
    return on_symbols(root, rate, tuple(g), tuple(theta))


def step_length(optimizer: Optimizer, gradient: sp.Expr, size: sp.Expr) -> sp.Expr:
    """‖Δθ‖ of one 1 × 2 matrix at η = 1, of exact entries whose norms ‖g‖ and ‖θ‖ are given.

    Their signs are such that the update is not 0, as max(-theta, 0)*g is at some.
    """
    return _length(optimizer, gradient, size, _telling_signs(optimizer))


@cache
def _telling_signs(optimizer: Optimizer) -> tuple[int, ...]:
    one = sp.Integer(1)
    every = product((1, -1), repeat=4)
    return next(s for s in every if sp.N(_length(optimizer, one, one, s), DIGITS) > 0)


def _length(
    optimizer: Optimizer, gradient: sp.Expr, size: sp.Expr, signs: tuple[int, ...]
) -> sp.Expr:
    directions = sp.Rational(3, 5), sp.Rational(-4, 5), sp.Rational(5, 13), sp.Rational(12, 13)
    first, second, *parameter = (s * e for s, e in zip(signs, directions, strict=True))
    g, theta = (gradient * first, gradient * second), [size * e for e in parameter]
    update = entrywise(optimizer, sp.Integer(1), g, theta)
    return sp.sqrt(sum(entry**2 for entry in update)).doit()  # its maxima are still to be taken


def _scaled(update: Node, scale_g: int, scale_theta: int, times: sp.Expr) -> bool:
    """Whether the update of scaled g and θ is ``times`` that of g and θ."""
    with mpmath.workdps(2 * DIGITS):
        least, factor = mpmath.mpf(10) ** (5 - DIGITS), mpmath.mpf(times)
        return all(
            abs(other - factor * one) <= least * abs(other)
            for before, after in zip(
                samples(update), samples(update, scale_g, scale_theta, sizes=1), strict=False
            )
            for one, other in zip(before.value, after.value, strict=True)
        )


def homogeneity_step(optimizer: Optimizer, found: Degrees) -> Step:
    """The step that states the degrees, checked on exact entries at several scales."""
    t, s, g, theta = sp.symbols("t s g theta", positive=True)
    update = sp.Function("u")
    because = f"degrees of {optimizer.update} counted from its expression"
    if found.regime:
        because += f", in the regime {', '.join(found.regime)}"

    def scales(step: Step) -> bool:
        if step.lhs != update(eta, t * g, s * theta):
            return False
        factor = sp.simplify(step.rhs / update(eta, g, theta))
        root = found.reduced
        if not factor.free_symbols <= {t, s}:
            return False
        return all(
            _scaled(root, a, b, sp.N(factor.subs({t: a, s: b}), 2 * DIGITS))
            for a, b in ((2, 3), (5, 7))  # primes: a wrong p cannot hide behind a wrong q
        )

    return Section("The optimizer").equal(
        "degrees",
        update(eta, t * g, s * theta),
        t**found.p * s**found.q * update(eta, g, theta),
        because,
        source=optimizer.source or "derived here",
        assumptions=("stated-regime",) if found.regime else (),
        checks=(Check("the update on exact entries, rescaled", scales),),
        establishes=(t, s, g, theta),
    )


def degrees_of(step: Step) -> tuple[sp.Rational, sp.Rational]:
    """p and q as the degrees' step states them."""
    t, s = sp.symbols("t s", positive=True)
    powers = step.rhs.as_powers_dict()
    return powers.get(t, sp.Integer(0)), powers.get(s, sp.Integer(0))
