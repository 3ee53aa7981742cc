r"""The increment of the loss: to first order, and with every gradient of order one.

.. math:: L(\theta + \Delta\theta) - L(\theta) \approx \langle\nabla L, \Delta\theta\rangle,
          \qquad \|x\|^2 = \sum_{i=1}^n x_i^2 = O(n), \qquad \Delta L = O(\eta N K) .

Source: Su, §Increment explosion; the retelling's §1 (bookstall, 2023-04-29).
"""

from __future__ import annotations

import random

import sympy as sp

from deepnet_theory.proof.algebra import N, eta
from deepnet_theory.proof.step import Check, Regime, Section, Step, equal_at_sizes
from paper_checks.shared.expectation import NamedQuantity

SECTION = Section("The increment")
SU, RETOLD = "Su, §Increment explosion", "bookstall's retelling of Su, §1 Increment explosion"

_t = sp.Symbol("t", positive=True)
_n = sp.Symbol("n", positive=True)
_c = sp.Symbol("c", positive=True)  # the size of an entry
_K = sp.Symbol("K", positive=True)
_i, _k, _l = sp.symbols("i k l", integer=True, positive=True)
change = NamedQuantity("Delta_L", r"L(\theta + t\,\Delta\theta) - L(\theta)", real=True)
slope = NamedQuantity("inner_gradient_step", r"\langle\nabla L,\Delta\theta\rangle", real=True)


def increment_steps() -> tuple[Step, ...]:
    """Taylor's first term, a norm of n entries, and NK gradients of order one."""
    total = sp.Sum(sp.Sum(eta * _c**2, (_k, 1, _K)), (_l, 1, N))
    return (
        SECTION.asymptotic(
            "first-order-increment",
            change,
            _t * slope,
            "Taylor: the loss changes by <gradient, step> up to terms of order t^2",
            source=f"{SU}, first equation",
            regime=Regime(_t, sp.S.Zero, "theta and the direction of the step fixed"),
            assumptions=("linear-step",),
            establishes=(change,),
            checks=(Check("polynomial losses expanded in t", _taylor),),
        ),
        SECTION.equal(
            "norm-of-n-entries",
            sp.Sum(_c**2, (_i, 1, _n)),
            _n * _c**2,
            "|x|^2 is the sum of n squares, here of n entries of size c",
            source=f"{RETOLD}, third equation",
            checks=(equal_at_sizes(_n),),
        ),
        SECTION.equal(
            "increment-of-every-matrix",
            total,
            _K * N * eta * _c**2,
            (
                "one step of SGD, eta*|gradient|^2 for each of K matrices in each of N layers, "
                "every gradient of norm c"
            ),
            source=SU,
            uses=("first-order-increment", "norm-of-n-entries"),
            checks=(Check("matrices listed one by one, N, K = 1, 2, 3", _listed),),
        ),
        SECTION.bound(
            "increment-of-unit-gradients",
            _K * N * eta * _c**2,
            eta * N * _K,
            "every gradient of order one: the increment explosion, linear in the depth",
            source=f"{RETOLD}, second equation; {SU}",
            uses=("increment-of-every-matrix",),
            bounded=(_c,),
        ),
    )


def given() -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    return (_t, _n, _c, _K, N, eta, slope)


def _taylor(step: Step) -> bool:
    """Δ of a polynomial loss, divided by t, at t = 0, against the step's right side."""
    generator = random.Random(22)
    variables = sp.symbols("p:3")
    for _ in range(3):
        loss = sum(
            sp.Rational(generator.randint(-9, 9), 5)
            * sp.Mul(*(generator.choice(variables) for _ in range(degree)))
            for degree in (1, 2, 3, 3)
        )
        at = {p: sp.Rational(generator.randint(-9, 9), 4) for p in variables}
        along = [sp.Rational(generator.randint(1, 9), 7) for _ in variables]
        moved = {p: at[p] + _t * step_ for p, step_ in zip(variables, along, strict=True)}
        delta = sp.Poly(sp.expand(loss.xreplace(moved) - loss.xreplace(at)), _t)
        gradient = [sp.diff(loss, p).xreplace(at) for p in variables]
        inner = sum(g * step_ for g, step_ in zip(gradient, along, strict=True))
        claimed = sp.Poly(step.rhs.xreplace({slope: inner}), _t)
        if inner == 0 or delta.coeff_monomial(1) != 0 or claimed.coeff_monomial(1) != 0:
            return False
        if delta.coeff_monomial(_t) != claimed.coeff_monomial(_t):
            return False
    return bool(step.lhs == change)


def _listed(step: Step) -> bool:
    for layers in (1, 2, 3):
        for matrices in (1, 2, 3):
            at = {N: layers, _K: matrices}
            one_by_one = sum(eta * _c**2 for _ in range(layers * matrices))
            sides = (step.lhs.subs(at).doit(), step.rhs.subs(at))
            if any(sp.expand(side - one_by_one) != 0 for side in sides):
                return False
    return True
