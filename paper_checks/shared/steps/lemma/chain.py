r"""What the layer cake writes out on the way: attention, first order, chain rule, random sign.

.. math:: \frac{\partial F}{\partial\theta_i}
          = \Bigl(\prod_{l=i+1}^{S}\frac{\partial x_{l+1}}{\partial x_l}\Bigr)
            \frac{\partial x_{i+1}}{\partial\theta_i} .

Source: layer cake, §4, §4.2 and §4.3.
"""

from __future__ import annotations

import math
import random

import numpy as np
import sympy as sp

from deepnet_theory.proof.algebra import S, Softmax, Transpose, alpha, i, l, v, w
from deepnet_theory.proof.lemma import JACOBIANS, TELESCOPING, sublayer, x, xi
from deepnet_theory.proof.placement import value_of
from deepnet_theory.proof.step import Check, Regime, Step, written_out
from deepnet_theory.proof.witness import TOLERANCE, normal
from paper_checks.shared.steps.lemma.softmax import SECTION as SOFTMAX

_t = sp.Symbol("t", positive=True)
_d_k = sp.Symbol("d_k", positive=True)
_moves = sp.symbols("Delta_x Delta_v Delta_w", real=True)
_Q, _K, _V = sp.symbols("Q K V", commutative=False)
_WQ, _WK, _WV, _WO = sp.symbols("W_Q W_K W_V W_O", commutative=False)
_attention = sp.Symbol("Attn", commutative=False)
_gradient = sp.Function("dF_dtheta")  # ∂F/∂θ_i
_J = sp.Function("dx_dx")  # ∂x_{l+1}/∂x_l
_D = sp.Function("dx_dtheta")  # ∂x_{l+1}/∂θ_l


def chain_steps() -> tuple[Step, ...]:
    """Attention defined, the chain rule, Taylor's first term."""
    return (_attention_step(), _chain(), _first_order())


def given() -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    return (
        *(_t, _d_k, *_moves, _Q, _K, _V, _WQ, _WK, _WV, _WO, _attention),
        *(S, alpha, v, w, x, xi),
    )


def _attention_step() -> Step:
    scores = _Q * _WQ * Transpose(_K * _WK) / sp.sqrt(_d_k)
    return SOFTMAX.equal(
        "attention",
        _attention,
        Softmax(scores) * _V * _WV * _WO,
        (
            "one head; row p is the average of the rows of VW_VW_O with weights "
            "exp(q_pj)/sum_j exp(q_pj). Q = K = V = x is self-attention, and 1/sqrt(d_k) a "
            "constant factor of the query's magnitude"
        ),
        source="layer cake, §4, displayed definition; DeepNet, arXiv 2203.00555, §4.1",
        checks=(Check("row by row, as weighted averages", _row_by_row),),
    )


def _row_by_row(step: Step) -> bool:
    generator = np.random.default_rng(24)
    size = 3
    q, k, values = (normal(generator, rows, size) for rows in (2, 4, 4))
    wq, wk, wv, wo = (normal(generator, size, size) for _ in range(4))
    named = dict(zip((_Q, _K, _V, _WQ, _WK, _WV, _WO), (q, k, values, wq, wk, wv, wo), strict=True))
    outputs, keys = values @ wv @ wo, k @ wk
    for row, query in zip(value_of(step.rhs, {**named, _d_k: size}), q @ wq, strict=True):
        weights = [math.exp(query @ key / math.sqrt(size)) for key in keys]
        mean = sum(p * o for p, o in zip(weights, outputs, strict=True)) / sum(weights)
        if np.max(np.abs(row - mean)) > TOLERANCE:
            return False
    return bool(step.lhs == _attention)


def _first_order() -> Step:
    """f at moved input and parameters, less f, to first order in the move."""
    f = sublayer((v, w))
    moved = {s: s + _t * m for s, m in zip((x, v, w), _moves, strict=True)}
    slope = sp.Add(*(sp.factor(sp.diff(f, s)) * m for s, m in zip((x, v, w), _moves, strict=True)))
    return TELESCOPING.asymptotic(
        "output-change-first-order",
        f.xreplace(moved) - f,
        _t * slope,
        (
            "Taylor's first term of the last sublayer in its input and its parameters, "
            "the step being t times a direction"
        ),
        source="layer cake, §4.2, proof of the lemma, first two lines",
        assumptions=("linear-step",),
        regime=Regime(_t, sp.S.Zero, "the direction of the move fixed"),
        checks=(Check("the error falls as t^2 at exact points", _error_quadratic),),
    )


def _error_quadratic(step: Step) -> bool:
    """(lhs − rhs)/t² has a limit: it hardly changes from t = 10⁻⁶ to 10⁻⁷."""
    generator = random.Random(step.name)
    for _ in range(3):
        point = {
            s: sp.Rational(generator.randint(5, 40), generator.randint(7, 19))
            for s in sorted(step.free_symbols - {_t}, key=str)
        }
        quotients = []
        for power in (6, 7):
            t = sp.Rational(1, 10**power)
            error = (step.lhs - step.rhs).xreplace({**point, _t: t})
            quotients.append(sp.N(error / t**2, 30, maxn=200))
        if abs(quotients[0] - quotients[1]) > 1e-3 * (1 + abs(quotients[1])):
            return False
    return True


def _chain() -> Step:
    return JACOBIANS.equal(
        "chain-through-the-stack",
        _gradient(i),
        sp.Product(_J(l), (l, i + 1, S)) * _D(i),
        "the chain rule through the sublayers above the i-th, S of them in all",
        source="layer cake, §4.3, supplement, first displayed equation",
        establishes=(i,),
        checks=(Check("stacks of 1, 2, 3 sublayers differentiated as a whole", _whole),),
    )


def _whole(step: Step) -> bool:
    """Nested polynomial sublayers: the whole's derivative beside the product of the parts'.

    f_k(y, θ) = (2 + k) y + θ y² − θ²/(3 + k), with every θ but one a number.
    """
    moving = sp.Symbol("theta")
    numbers = [sp.Rational(3 + 2 * k, 7 + k) for k in range(3)]
    for size in (1, 2, 3):
        inputs = [sp.Rational(4, 5)]
        for k in range(size):
            inputs.append(_sublayer(k, inputs[-1], numbers[k]))
        known = {}
        for k in range(size):
            known[_J(k + 1)] = 2 + k + 2 * numbers[k] * inputs[k]
            known[_D(k + 1)] = inputs[k] ** 2 - 2 * numbers[k] / (3 + k)
        for one in range(size):
            output: sp.Expr = sp.Poly(inputs[0], moving)
            for k in range(size):
                theta = sp.Poly(moving if k == one else numbers[k], moving)
                output = _sublayer(k, output, theta)
            product_ = written_out(step.rhs.subs({S: size, i: one + 1})).xreplace(known)
            if output.diff(moving)(numbers[one]) != product_:
                return False
    return bool(step.lhs == _gradient(i))


def _sublayer(k: int, signal: sp.Expr, theta: sp.Expr) -> sp.Expr:
    return (2 + k) * signal + theta * signal**2 - sp.Rational(1, 3 + k) * theta**2
