r"""The magnitude of a Gaussian matrix, from the expectations of both of its traces.

For W ∈ R^{d×m} the ratio of expectations of λ² is σ²(d + m + 1): a square Xavier matrix of gain 1
has magnitude √2, not 1. Such a matrix keeps the norm of a vector that does not depend on it; it is
not orthogonal, and no multiple of it is. Derived here.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import beta
from deepnet_theory.proof.step import Regime, Section, Step
from paper_checks.shared.expectation import (
    ENUMERATED,
    Expectation,
    Gaussian,
    Index,
    Known,
    Polynomial,
    Tensor,
    expect,
    norm_of,
)
from paper_checks.shared.steps.checks import squares_meet
from paper_checks.shared.steps.magnitude.distance import d, m

RANDOM = Section("Magnitude of a Xavier matrix")

sigma = sp.Symbol("sigma", positive=True)
norm_x = norm_of("x")

_i, _j, _k, _l = Index("i", d), Index("j", d), Index("k", m), Index("l", m)
W = Tensor("W", (d, m), Gaussian(sigma**2))
_x = Tensor("x", (d,))
_KNOWN = (Known.norm(norm_x, _x),)


def _polynomials(w: Tensor) -> tuple[Polynomial, Polynomial, Polynomial]:
    """tr WWᵀ, tr (WWᵀ)² and ‖xW‖²."""
    image = (_x[_i] * w[_i, _k]).sum(_i)
    square = (w[_i, _k] * w[_j, _k] * w[_j, _l] * w[_i, _l]).sum(_i, _j, _k, _l)
    return (w[_i, _k] * w[_i, _k]).sum(_i, _k), square, (image * image).sum(_k)


_trace, _trace_of_square, _norm = _polynomials(W)


def gaussian_magnitude() -> tuple[Step, ...]:
    """The expectations of both traces, their ratio, and what nearly orthogonal can mean."""
    first = expect(_trace)
    second = sp.factor(expect(_trace_of_square))
    ratio = sp.factor(second / first)
    xavier = sp.factor(ratio.subs(sigma**2, beta**2 * 2 / (d + m)))
    left_over = sp.factor(1 - first**2 / (d * second))
    norm2 = expect(_norm, _KNOWN)
    of_trace = Expectation(_trace, "tr(W W^T)", r"\operatorname{tr}WW^\top")
    of_square = Expectation(_trace_of_square, "tr((W W^T)^2)", r"\operatorname{tr}(WW^\top)^2")
    xavier_w = Tensor("W", (d, m), Gaussian(2 * beta**2 / (d + m)))
    xavier_first, xavier_second, xavier_image = _polynomials(xavier_w)
    xavier_trace = Expectation(xavier_first, of_trace.label, of_trace.latex)
    xavier_square = Expectation(xavier_second, of_square.label, of_square.latex)
    norm_square = Expectation(_norm, "||x W||^2", r"\|xW\|^2", _KNOWN)
    norm_fourth = Expectation(_norm**2, "||x W||^4", r"\|xW\|^4", _KNOWN)
    norm4 = sp.factor(expect(_norm**2, _KNOWN))
    spread = sp.cancel(norm4 / norm2**2 - 1)
    wide = Regime(d, sp.oo, "m = d")
    return (
        _enumerated("trace", of_trace, first, "σ² for each of the d·m entries"),
        _enumerated(
            "trace-of-square",
            of_square,
            second,
            "three pairings of W_ik W_jk W_jl W_il: i = j leaves d·m², k = l leaves d²·m, "
            "both leave d·m",
        ),
        _enumerated(
            "gaussian-ratio",
            of_square / of_trace,
            ratio,
            "the ratio of expectations: what κ² concentrates on",
            ("trace", "trace-of-square", "magnitude"),
        ),
        _enumerated(
            "xavier-ratio",
            xavier_square / xavier_trace,
            xavier,
            "Xavier normal: σ² = 2β²/(d + m)",
            ("gaussian-ratio",),
        ),
        RANDOM.asymptotic(
            "xavier-magnitude",
            sp.sqrt(xavier),
            sp.sqrt(2) * beta,
            (
                "(d + m + 1)/(d + m) tends to 1: the magnitude of a wide Xavier matrix is √2 times "
                "its gain, whatever m/d"
            ),
            regime=Regime(d, sp.oo, "m fixed or growing with d"),
            uses=("xavier-ratio",),
            checks=(
                squares_meet(
                    "squares at d = 1/t, t = 0, m fixed and m = 3d",
                    lambda t: {d: 1 / t},
                    lambda t: {d: 1 / t, m: 3 / t},
                ),
            ),
        ),
        _enumerated(
            "xavier-residual",
            1 - of_trace**2 / (d * of_square),
            left_over,
            "the least squared distance to the identity per row, from the ratio of expectations: "
            "½ for a square matrix, small only for m ≫ d",
            ("least-distance", "trace", "trace-of-square"),
        ),
        RANDOM.asymptotic(
            "xavier-residual-square",
            left_over.subs(m, d),
            sp.limit(left_over.subs(m, d), d, sp.oo),
            "a square Xavier matrix is half way between orthogonal and nothing",
            regime=wide,
            uses=("xavier-residual",),
        ),
        _enumerated(
            "image-norm",
            norm_square,
            norm2,
            "for an x that does not depend on W: it is in this sense, on average over W and at a "
            "given vector, that a Xavier matrix is nearly orthogonal",
        ),
        _enumerated(
            "image-norm-fourth",
            norm_fourth,
            norm4,
            "‖xW‖² is σ²‖x‖² times a χ² with m degrees of freedom",
        ),
        _enumerated(
            "image-norm-spread",
            norm_fourth / norm_square**2 - 1,
            spread,
            "the relative variance of ‖xW‖² vanishes with the width",
            ("image-norm", "image-norm-fourth"),
        ),
        _enumerated(
            "norm-preserving-gain",
            Expectation(xavier_image, norm_square.label, norm_square.latex, _KNOWN) / norm_x**2,
            sp.factor(expect(xavier_image, _KNOWN) / norm_x**2),
            "the factor on ‖x‖² is β² exactly for m = d only, and is not the argmin's κ² even "
            "there: ‖xW‖ ≈ β‖x‖ while λ(W) ≈ √2 β",
            ("image-norm", "xavier-ratio"),
        ),
    )


def _enumerated(
    name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, uses: tuple[str, ...] = ()
) -> Step:
    return RANDOM.equal(
        name,
        lhs,
        rhs,
        because,
        uses=uses,
        checks=(ENUMERATED,),
    )
