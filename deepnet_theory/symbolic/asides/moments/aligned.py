r"""The update that a gradient step really makes, beside the independent one of the source.

One SGD step on n tokens makes :math:`\Delta W = -\eta\sum_p x_p^\top\delta_p` and
:math:`\Delta V = -\eta\sum_p h_p^\top\delta_p`: outer products of exactly the inputs that they
are multiplied with in the next forward pass. The terms of §5.1 are then larger by a factor of
the widths and of n; the factors hold no depth, so they change a rule's constant and not its
exponent. The factor −η is left out below: every statement is a ratio.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.symbolic.expectation import (
    ENUMERATED,
    Expectation,
    Gaussian,
    Index,
    IndexSum,
    Known,
    Polynomial,
    Rademacher,
    Tensor,
    enumerate_expectation,
    expect,
)
from deepnet_theory.symbolic.expectation.exact import exact, is_zero
from deepnet_theory.symbolic.expectation.model import norm_of
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    d,
    i,
    j,
    k,
    m,
    n,
    norm_x,
    x,
)

ALIGNED = Section("Gradient-aligned update")

p, q = Index("p", n), Index("q", n)
tau = sp.Symbol("tau", positive=True)  # variance of the back-propagated signal's entries
rho = sp.Symbol("rho", positive=True)  # correlation of two tokens' inputs
s = sp.Symbol("s", positive=True)  # standard deviation of a hidden unit's input
norm_b = norm_of("b")

b = Tensor("b", (m,))  # back-propagated signal at the hidden units, one token
KNOWN_X = Known(norm_x, (x[i] * x[i]).sum(i), 2)
KNOWN_B = Known(norm_b, (b[k] * b[k]).sum(k), 2)

signal = Tensor("D", (n, m), Gaussian(tau))
unit_tokens = Tensor("X", (n, d), Rademacher())  # ‖x_p‖ = √d exactly, E x_pi x_pj = δ_ij
common = Tensor("C", (d,), Gaussian(sp.S.One))
own = Tensor("Y", (n, d), Gaussian(sp.S.One))


def _correlated(token: Index, entry: Index) -> Polynomial:
    shared: Polynomial = common[entry] * sp.sqrt(rho)
    both: Polynomial = shared + own[token, entry] * sp.sqrt(1 - rho)
    return both


def _independent(token: Index, entry: Index) -> Polynomial:
    return unit_tokens[token, entry]


Inputs = Callable[[Index, Index], Polynomial]


def first_matrix(inputs: Inputs) -> tuple[Polynomial, Polynomial]:
    """(x_q ΔW)_k² and (ΔW)_jk² for ΔW = Σ_p x_pᵀ D_p."""
    change = (inputs(p, j) * signal[p, k]).sum(p)
    moved = (inputs(q, j) * change).sum(j)
    return moved * moved, change * change


def aligned_steps() -> tuple[Step, ...]:
    """The term of the first matrix for an update made of its inputs, and the factor over §5.1's."""
    return (*_one_token(), *_many_tokens())


def aligned_step(
    name: str,
    lhs: sp.Expr,
    rhs: sp.Expr,
    because: str,
    *,
    uses: tuple[str, ...] = (),
    assumptions: tuple[str, ...] = (),
    establishes: tuple[sp.Symbol, ...] = (),
    checks: tuple[Check, ...] = (ENUMERATED,),
) -> Step:
    return ALIGNED.equal(
        name,
        lhs,
        rhs,
        because,
        uses=uses,
        assumptions=assumptions,
        establishes=establishes,
        checks=checks,
    )


def _one_token() -> tuple[Step, ...]:
    change = x[j] * b[k]
    moved = (x[j] * change).sum(j)
    square, size = (moved * moved).sum(k), (change * change).sum(j, k)
    known = (KNOWN_X, KNOWN_B)
    first, second = expect(square, known), expect(size, known)
    ratio = sp.cancel(first / second)
    of_square = IndexSum(square, "||x dW||^2", r"\|x\Delta W\|^2", known)
    of_size = IndexSum(size, "||dW||^2", r"\|\Delta W\|^2", known)
    return (
        aligned_step(
            "aligned-one-token",
            of_square,
            first,
            "ΔW = xᵀb, b the back-propagated signal: no expectation is needed",
            establishes=(norm_b,),
        ),
        aligned_step(
            "aligned-one-token-size",
            of_size,
            second,
            "the Frobenius norm of an outer product is the product of the norms",
        ),
        aligned_step(
            "aligned-one-token-factor",
            of_square / of_size,
            ratio,
            "‖x‖² = d times the 1 of an update that is independent of x: ‖xΔW‖ is √d larger",
            uses=("aligned-one-token", "aligned-one-token-size"),
        ),
    )


def _many_tokens() -> tuple[Step, ...]:
    steps: list[Step] = []
    premises = ("independent-signal",)
    for what, inputs, said in (
        ("tokens", _independent, "n uncorrelated tokens of norm √d"),
        ("correlated-tokens", _correlated, "n Gaussian tokens of correlation ρ"),
    ):
        moved, size = first_matrix(inputs)
        first, second = sp.factor(expect(moved)), sp.factor(expect(size))
        # per hidden unit k; ‖ΔW‖² has d such entries
        ratio = sp.factor(first / (d * second))
        of_moved = Expectation(moved, "(x_q dW)_k^2", r"(x_q\Delta W)_k^2")
        of_size = Expectation(size, "(dW)_jk^2", r"(\Delta W)_{jk}^2")
        steps += [
            aligned_step(
                f"aligned-{what}",
                of_moved,
                first,
                f"ΔW = Σ_p x_pᵀδ_p over {said}: p = q gives the fourth moment of a token, p ≠ q "
                "the squared inner product of two",
                assumptions=premises,
                establishes=(tau, rho),
            ),
            aligned_step(
                f"aligned-{what}-size",
                of_size,
                second,
                "n outer products in independent directions",
                assumptions=premises,
                establishes=(tau,),
            ),
            aligned_step(
                f"aligned-{what}-factor",
                of_moved / (d * of_size),
                ratio,
                "E‖x_qΔW‖²/E‖ΔW‖², where independence of ΔW and x has 1"
                + (
                    ": 1 + (d − 1)/n, d for a single token and 1 only for n ≫ d"
                    if inputs is _independent
                    else ": with n → ∞ it tends to 1 + (d + 1)ρ² and not to 1, since correlated "
                    "tokens share a direction"
                ),
                uses=(f"aligned-{what}", f"aligned-{what}-size"),
                checks=(_recounted(inputs),),
            ),
        ]
    return tuple(steps)


def _recounted(inputs: Inputs) -> Check:
    """The ratio again from explicit sums at (d, n), without the contraction."""

    def holds(step: Step) -> bool:
        moved, size = first_matrix(inputs)
        for width, tokens in ((1, 2), (2, 1), (2, 2)):
            point = {d: sp.Integer(width), n: sp.Integer(tokens), m: sp.S.One,
                     tau: sp.Rational(3, 5), rho: sp.Rational(9, 25)}  # fmt: skip
            at = {"q": 1, "k": 1, "j": 1}
            first = enumerate_expectation(moved, point, at=at)
            second = width * enumerate_expectation(size, point, at=at)
            for node in step.lhs.atoms(IndexSum):
                point[node] = enumerate_expectation(node.polynomial, point, at=at)
            for side in (step.lhs, step.rhs):
                if not is_zero(exact(side, point) - first / second):
                    return False
        return True

    return Check("explicit sums at small d and n", holds)
