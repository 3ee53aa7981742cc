r"""Pre-Norm's stream written as one sum, and two of its sublayers as one wider layer.

.. math:: x_{T+1} = x_0 + \sum_{t=0}^{T} F_t(\mathrm{Norm}(x_t)), \qquad
          F_t(u) + F_{t+1}(u) = (F_t \oplus F_{t+1})(u) .

With branches independent of the stream, of weight r at unit stream, the stream's mean square
is 1 + t r², so that neighbouring streams point the same way for t → ∞.

Source: Pre/Post norm note, §1; Su Jianlin, kexue.fm/archives/9009.
"""

from __future__ import annotations

from itertools import product as patterns
from typing import Any

import numpy as np
import sympy as sp

from deepnet_theory.definitions.placement import Placement
from deepnet_theory.proof.algebra import Activation, Branch, Normalise, r
from deepnet_theory.proof.placement import P, residual, value_of, x
from deepnet_theory.proof.step import Check, Regime, Section, Step, written_out
from deepnet_theory.proof.witness import TOLERANCE, distance, normal
from paper_checks.shared.expectation import NamedQuantity
from paper_checks.shared.steps.checks import squares_meet
from paper_checks.shared.steps.nodes import ON_MATRICES, Above, Beside

SECTION = Section("The stream unrolled")
NOTE = "Pre/Post norm note, §1"

_T = sp.Symbol("T", integer=True, nonnegative=True)
_t = sp.Symbol("t", positive=True)
_j = sp.Symbol("j", integer=True, nonnegative=True)
stream = sp.Function("x", real=True)  # x_t
cosine = NamedQuantity("cos_t", r"\cos\angle(x_t, x_{t+1})")
term = sp.Function("F", real=True)  # F_t(Norm(x_t))
_u = sp.Symbol("x", commutative=False)
_A, _B, _C, _D = sp.symbols("W_1 W_2 W_3 W_4", commutative=False)


def applies(placement: Placement) -> bool:
    """Whether the sublayer is x + F(Norm(x))."""
    return bool(residual(placement, lambda y: P * Branch(y)) == x + P * Branch(Normalise(x)))


def unrolled_steps() -> tuple[Step, ...]:
    """The sum, the neighbours' angle, and the wider layer."""
    size = 1 + _t * r**2
    between = sp.sqrt(size / (size + r**2))
    return (
        SECTION.equal(
            "stream-unrolled",
            stream(_T + 1),
            stream(0) + sp.Sum(term(_j), (_j, 0, _T)),
            "x_{t+1} = x_t + F_t(Norm(x_t)) put into itself down to x_0",
            source=f"{NOTE}, the displayed recursion",
            checks=(Check("the recursion run at T = 0, 1, 2, 3", _recursion),),
        ),
        SECTION.equal(
            "neighbouring-cosine",
            cosine,
            between,
            (
                "E<x_t, x_{t+1}> over the root of both mean squares: for branches of weight r "
                "independent of the stream it is E|x_t|^2 = 1 + t*r^2 over the root of it and of "
                "1 + (t + 1)*r^2"
            ),
            uses=("stream-unrolled",),
            assumptions=("independent-signs",),
            establishes=(cosine,),
            checks=(Check("fair signs listed, t = 1, 2, 3", _signs_listed),),
        ),
        SECTION.asymptotic(
            "neighbouring-streams",
            between,
            sp.S.One,
            (
                "so Norm(x_{t+1}) is nearly Norm(x_t) at great t, the sine being of order "
                "t^(-1/2): the next branch reads nearly the same input"
            ),
            source=f"{NOTE}, 'Reason', second displayed equation",
            uses=("neighbouring-cosine",),
            regime=Regime(_t, sp.oo, "r fixed"),
            checks=(squares_meet("squares at t = 1/s, s = 0", lambda s: {_t: 1 / s}),),
        ),
        SECTION.equal(
            "two-layers-as-one",
            Activation(_u * _A) * _B + Activation(_u * _C) * _D,
            Activation(_u * Beside(_A, _C)) * Above(_B, _D),
            (
                "two branches that read one input are one of twice the hidden width, whose halves "
                "are the two; the note prints F_t twice and applies it to F_t(Norm(x_t))"
            ),
            source=f"{NOTE}, 'Reason', second displayed equation, corrected",
            uses=("neighbouring-streams",),
            checks=(Check("explicit matrices side by side", _side_by_side),),
        ),
    )


def given() -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    return (_T, _t, r, _u, _A, _B, _C, _D)


def _recursion(step: Step) -> bool:
    for last in (0, 1, 2, 3):
        value: sp.Expr = stream(0)
        for t in range(last + 1):
            value += term(t)
        if sp.expand(written_out(step.rhs.subs(_T, last)) - value) != 0:
            return False
        if step.lhs.subs(_T, last) != stream(last + 1):
            return False
    return True


def _signs_listed(step: Step) -> bool:
    """The cosine in mean over every pattern of signs ±r added to 1."""
    for count in (1, 2, 3):
        inner: sp.Expr = sp.S.Zero
        near: sp.Expr = sp.S.Zero
        far: sp.Expr = sp.S.Zero
        for signs in patterns((1, -1), repeat=count + 1):
            before = 1 + sum(s * r for s in signs[:-1])
            after = before + signs[-1] * r
            inner, near, far = inner + before * after, near + before**2, far + after**2
        square = sp.cancel(sp.expand(inner) ** 2 / (sp.expand(near) * sp.expand(far)))
        claimed = step.rhs.subs(_t, count)
        if not claimed.is_positive or sp.cancel(claimed**2 - square) != 0:
            return False
    return bool(step.lhs == cosine)


def _side_by_side(step: Step) -> bool:
    """Both sides on explicit matrices, the right one with the matrices put side by side."""
    generator = np.random.default_rng(23)
    values: dict[sp.Symbol, Any] = {_u: normal(generator, 2)}
    values |= {matrix: normal(generator) for matrix in (_A, _B, _C, _D)}
    sides = (value_of(side, values, ON_MATRICES) for side in (step.lhs, step.rhs))
    return distance(*sides) < TOLERANCE
