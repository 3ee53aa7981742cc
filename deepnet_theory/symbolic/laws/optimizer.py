"""An update on a 1 × 2 matrix of exact entries, and the step that states its degrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import Any

import sympy as sp

from deepnet_theory.sizes.entries import (
    DIGITS,
    SIZES,
    Entries,
    Value,
    entries,
    exactly,
    points,
)
from deepnet_theory.sizes.update import Update, law
from deepnet_theory.spec.expression import Node
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.symbolic.algebra import eta
from deepnet_theory.symbolic.proof.step import Check, Section, Step

PRECISION = DIGITS + 20
ZERO, ROUNDING = Decimal(0), Decimal(10) ** (10 - PRECISION)
_SIGNS = tuple(product((1, -1), repeat=4))
_DIRECTIONS = tuple(map(Fraction, ("3/5", "-4/5", "5/13", "12/13")))  # g and θ of norm 1


def decimal(value: Any) -> Decimal:
    """A number of any kind to ``PRECISION`` digits."""
    if isinstance(value, Fraction):
        return Decimal(value.numerator) / value.denominator
    if isinstance(value, sp.Basic):
        return Decimal(str(sp.N(value, PRECISION)))
    return Decimal(value if isinstance(value, int | float) else str(value))


def step_entries(update: Node, g: Value, theta: Value, **constants: Decimal) -> Entries:
    """Δθ at η = 1; raises ``ArithmeticError`` where it is not finite or not real."""
    return entries(update, {"eta": Decimal(1), "g": g, "theta": theta, **constants})


def length_of(vector: Iterable[Decimal]) -> Decimal:
    """The Euclidean norm."""
    return sum((entry * entry for entry in vector), Decimal(0)).sqrt()


def of_norms(update: Node, gradient: Decimal, size: Decimal) -> tuple[Entries, Entries]:
    """g and θ of two entries whose norms are given, in directions where the update is not 0."""
    return _of_norms(gradient, size, _telling_signs(update))


def _of_norms(gradient: Decimal, size: Decimal, signs: Sequence[int]) -> tuple[Entries, Entries]:
    a, b, c, d = (s * decimal(part) for s, part in zip(signs, _DIRECTIONS, strict=True))
    return (gradient * a, gradient * b), (size * c, size * d)


@cache
def _telling_signs(update: Node) -> tuple[int, ...]:
    """Signs of the entries where the update is not 0; max(-theta, 0)*g is at some."""
    one = Decimal(1)
    return next(s for s in _SIGNS if any(step_entries(update, *_of_norms(one, one, s))))


def step_length(optimizer: Optimizer, gradient: Any, size: Any) -> Decimal:
    """‖Δθ‖ where ‖g‖ and ‖θ‖ are given, over that where both are 1; winning terms only."""
    with localcontext(prec=PRECISION):
        one = Decimal(1)
        return _length(optimizer, decimal(gradient), decimal(size)) / _length(optimizer, one, one)


@lru_cache(maxsize=4096)
def _length(optimizer: Optimizer, gradient: Decimal, size: Decimal) -> Decimal:
    update = law(optimizer).reduced
    return length_of(step_entries(update, *of_norms(update, gradient, size)))


# ---- the update as a library takes it, with its epsilon and weight decay ----


@dataclass(frozen=True)
class Practised:
    """The update of a parameter, its gradient and itself of given norms, η = 1."""

    optimizer: Optimizer
    gradient: float
    size: float

    @cached_property
    def _start(self) -> tuple[Entries, Entries]:
        update = law(self.optimizer).reduced
        return of_norms(update, Decimal(self.gradient), Decimal(self.size))

    def _entries(
        self, epsilon: float = 0.0, decay: Decimal = ZERO, along: Decimal = ZERO
    ) -> Entries:
        """The update, ``along`` times the parameter added to the gradient."""
        g, theta = self._start
        moved = (g[0] + along * theta[0], g[1] + along * theta[1])
        root = self.optimizer.practised.root
        return step_entries(root, moved, theta, epsilon=Decimal(epsilon), decay=decay)

    def hidden(self, epsilon: float) -> float:
        """By how much of itself an ε changes the update as its library takes it."""
        with localcontext(prec=PRECISION):
            without = self._entries()
            share = _apart(self._entries(epsilon), without) / length_of(without)
            return float(share) if share > ROUNDING else 0.0

    @cached_property
    def shrinks(self) -> float:
        """The share of the parameter that a weight decay of 1 takes in one step.

        A decay in the gradient moves the parameter by as much of ‖Δθ‖ as λθ is of g. One beside
        the update is seen in the update; it is a part of it.
        """
        with localcontext(prec=PRECISION):
            still, gradient, size = self._entries(), Decimal(self.gradient), Decimal(self.size)
            length = length_of(still)
            # beside the gradient's size, and beside the update's: where either would show
            if all(self._in_gradient(lam) for lam in (gradient / size, length / size)):
                return float(length / gradient)
            tiny = Decimal("1e-9") * length / size
            return float(_apart(self._entries(decay=tiny), still) / tiny / size)

    def _in_gradient(self, lam: Decimal) -> bool:
        """Whether the decay acts as a part of the gradient: u(g, λ) = u(g + λθ, 0).

        In direction alone: a norm in a denominator may count the decay another way.
        """
        one, other = self._entries(decay=lam), self._entries(along=lam)
        cross = abs(one[0] * other[1] - one[1] * other[0])
        return cross <= Decimal("1e-9") * length_of(one) * length_of(other)


def _apart(one: Entries, other: Entries) -> Decimal:
    return length_of(a - b for a, b in zip(one, other, strict=True))


# ---- The degrees of an update, which the algebra of sizes counts and the step checks ----


def _scaled(update: Node, scale_g: int, scale_theta: int, times: Decimal) -> bool:
    """Whether the update of scaled g and θ is ``times`` that of g and θ."""
    with localcontext(prec=2 * DIGITS):
        least = Decimal(10) ** (5 - DIGITS)
        pairs = zip(points(SIZES[0]), points(SIZES[0], scale_g, scale_theta), strict=True)
        return all(
            abs(other - times * one) <= least * abs(other)
            for pair in pairs
            for one, other in zip(*(exactly(update, at) for at in pair), strict=True)
        )


def homogeneity_step(optimizer: Optimizer, found: Update) -> Step:
    """The step that states the degrees, checked on exact entries at several scales."""
    t, s, g, theta = sp.symbols("t s g theta", positive=True)
    update = sp.Function("u")
    because = f"degrees of {optimizer.update} counted from its expression"
    if found.regimes:
        because += f", in the regime {', '.join(map(str, found.regimes))}"

    def scales(step: Step) -> bool:
        factor = sp.simplify(step.rhs / update(eta, g, theta))
        return (
            step.lhs == update(eta, t * g, s * theta)
            and factor.free_symbols <= {t, s}
            and all(
                _scaled(found.reduced, a, b, decimal(factor.subs({t: a, s: b})))
                for a, b in ((2, 3), (5, 7))  # primes: a wrong p cannot hide behind a wrong q
            )
        )

    return Section("The optimizer").equal(
        "degrees",
        update(eta, t * g, s * theta),
        t**found.p * s**found.q * update(eta, g, theta),
        because,
        source=optimizer.source or "derived here",
        assumptions=("stated-regime",) if found.regimes else (),
        checks=(Check("the update on exact entries, rescaled", scales),),
        establishes=(t, s, g, theta),
    )


def degrees_of(step: Step) -> tuple[sp.Rational, sp.Rational]:
    """p and q as the degrees' step states them."""
    t, s = sp.symbols("t s", positive=True)
    powers = step.rhs.as_powers_dict()
    return powers.get(t, sp.Integer(0)), powers.get(s, sp.Integer(0))
