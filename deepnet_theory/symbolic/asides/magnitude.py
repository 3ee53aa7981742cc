r"""The magnitude of a matrix, and what a probe along the matrix sees of its gradient.

.. math:: \lambda(W) = \operatorname*{argmin}_{\kappa>0} \|WW^\top/\kappa^2 - I\|_F
          = \|WW^\top\|_F / \|W\|_F .

For W ∈ R^{d×m} with independent Gaussian entries the ratio of expectations of its square is
σ²(d + m + 1): a square Xavier matrix of gain 1 has magnitude √2, not 1. Such a matrix keeps
the norm of a vector that does not depend on it; it is not orthogonal, and no multiple of it
is.

Source: Su, §Magnitude analysis (definition of λ, probe); the rest is derived here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.algebra.symbols import beta
from deepnet_theory.symbolic.expectation import (
    ENUMERATED,
    Expectation,
    Gaussian,
    Index,
    Known,
    Tensor,
    expect,
)
from deepnet_theory.symbolic.expectation.model import Model, NamedQuantity, in_models, norm_of
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import IDENTITY, SAMPLED, Check, Regime, Step

SU = "Su, §Magnitude analysis"
DISTANCE, RANDOM, PROBE = "Magnitude of a matrix", "Magnitude of a Xavier matrix", "The probe"

d = sp.Symbol("d", positive=True)
m = sp.Symbol("m", positive=True)
sigma = sp.Symbol("sigma", positive=True)
kappa = sp.Symbol("kappa", positive=True)
u = sp.Symbol("u", positive=True)  # 1/κ²
t1 = NamedQuantity("t_1", r"\operatorname{tr}WW^\top")
t2 = NamedQuantity("t_2", r"\operatorname{tr}(WW^\top)^2")
distance = NamedQuantity("distance", r"\|WW^\top/\kappa^2-I\|_F", nonnegative=True)
magnitude = NamedQuantity("lambda_W", r"\lambda(W)")
least = NamedQuantity("least_distance", r"\min_\kappa\|WW^\top/\kappa^2-I\|_F", nonnegative=True)
probe = NamedQuantity("dL_dlambda", r"\partial L/\partial\lambda", real=True)
inner = NamedQuantity("inner_G_U", r"\langle\partial L/\partial W,U\rangle", real=True)
norm_g = norm_of("G", r"\partial L/\partial W")
norm_u = norm_of("U")
norm_x = norm_of("x")


def magnitude_steps() -> tuple[Step, ...]:
    """The closed form of λ(W), its value for a random matrix, and the probe identity."""
    return (*closed_form(), *gaussian_magnitude(), *probe_steps())


def given() -> tuple[Any, ...]:
    """The symbols of the setting."""
    return (d, m, sigma, kappa, u, t1, t2, beta, norm_g, norm_u, norm_x, inner)


def _explicit() -> Iterator[Model]:
    """W written out: traces, distance at a κ, and the least distance at the closed form."""
    generator = random.Random(20)
    for rows, columns in ((1, 2), (2, 2), (2, 3), (3, 2)):
        w = sp.Matrix(rows, columns, lambda *_: sp.Rational(generator.randint(-9, 9), 4))
        gram = w * w.T
        at = sp.Rational(generator.randint(3, 9), 5)
        best = (gram * gram).trace() / gram.trace()
        yield {
            d: rows,
            m: columns,
            t1: gram.trace(),
            t2: (gram * gram).trace(),
            kappa: at,
            distance: (gram / at**2 - sp.eye(rows)).norm(),
            least: (gram / best - sp.eye(rows)).norm(),
        }


def _is_the_minimum(step: Step) -> bool:
    """The squared distance grows on both sides of the claimed κ, at explicit matrices."""
    for model in _explicit():
        best = sp.sympify(step.rhs).subs({t1: model[t1], t2: model[t2]})

        def at(value: Any, model: Model = model) -> Any:
            return sp.N(model[t2] / value**4 - 2 * model[t1] / value**2 + model[d], 60)

        if any(at(best * (1 + shift)) <= at(best) for shift in _SHIFTS):
            return False
    return bool(step.lhs == magnitude)


_SHIFTS = tuple(sign * sp.Rational(1, 10**k) for k in (1, 4, 8) for sign in (-1, 1))


def _derivative_vanishes_only_there(step: Step) -> bool:
    """d/dκ of the squared distance is zero at the claimed κ and at no other κ > 0."""
    slope = sp.diff(t2 / kappa**4 - 2 * t1 / kappa**2 + d, kappa)
    quadratic = sp.Poly(sp.expand(slope * kappa**5), kappa)
    roots = [r for r in sp.roots(quadratic) if r.is_positive]
    return len(roots) == 1 and sp.simplify(roots[0] - step.rhs) == 0


def closed_form() -> tuple[Step, ...]:
    """λ(W) by completing the square in u = 1/κ²."""
    squared = t2 / kappa**4 - 2 * t1 / kappa**2 + d
    in_u = sp.expand(squared.subs(kappa, u ** sp.Rational(-1, 2)))
    slope = sp.diff(in_u, u)  # linear in u
    minimiser = -slope.coeff(u, 0) / slope.coeff(u, 1)
    remainder = in_u.subs(u, minimiser)
    start = Step(
        name="distance",
        section=DISTANCE,
        lhs=distance**2,
        rhs=squared,
        relation=Relation.EQUAL,
        because="‖A/κ² − I‖² = tr A²/κ⁴ − 2 tr A/κ² + d for the symmetric d×d matrix A = WWᵀ",
        source=SU,
        establishes=(distance,),
        checks=(in_models("written out for explicit matrices", _explicit),),
    )
    square = Step(
        name="completed-square",
        section=DISTANCE,
        lhs=in_u,
        rhs=t2 * (u - minimiser) ** 2 + sp.expand(remainder),
        relation=Relation.EQUAL,
        because=(
            "in u = 1/κ² the squared distance is a quadratic with leading coefficient "
            "tr(WWᵀ)² > 0 for W ≠ 0: one minimum, and κ ↦ 1/κ² is one to one"
        ),
        source="derived here",
        uses=("distance",),
        checks=(IDENTITY, SAMPLED, Check("the square is a square, the rest holds no u", _squared)),
    )
    closed = Step(
        name="magnitude",
        section=DISTANCE,
        lhs=magnitude,
        rhs=sp.sqrt(1 / minimiser),
        relation=Relation.EQUAL,
        because="the square vanishes at u = tr WWᵀ / tr(WWᵀ)², that is κ = ‖WWᵀ‖_F / ‖W‖_F",
        source=SU,
        uses=("completed-square",),
        establishes=(magnitude,),
        checks=(
            Check(
                "the derivative vanishes there and nowhere else", _derivative_vanishes_only_there
            ),
            Check("the distance grows on both sides", _is_the_minimum),
        ),
    )
    rest = Step(
        name="least-distance",
        section=DISTANCE,
        lhs=least**2,
        rhs=sp.expand(remainder),
        relation=Relation.EQUAL,
        because="what the completed square leaves over",
        source="derived here",
        uses=("completed-square",),
        establishes=(least,),
        checks=(in_models("written out for explicit matrices", _explicit),),
    )
    cauchy = Step(
        name="orthogonal-only-if-equal-singular-values",
        section=DISTANCE,
        lhs=t1**2,
        rhs=d * t2,
        relation=Relation.AT_MOST,
        because=(
            "d tr A² − (tr A)² = Σ_{i<j} (a_i − a_j)² over the eigenvalues of A = WWᵀ (Lagrange): "
            "the least distance is 0 only where all singular values are equal"
        ),
        source="derived here",
        uses=("least-distance",),
        checks=(
            Check("Lagrange's identity at d = 1, 2, 3, 4", _lagrange),
            in_models("at explicit matrices", _explicit),
        ),
    )
    return start, square, closed, rest, cauchy


def _squared(step: Step) -> bool:
    rest = sp.expand(step.rhs).coeff(u, 0)
    claimed = step.rhs.subs(u, t1 / t2)
    return sp.simplify(claimed - (d - t1**2 / t2)) == 0 and not rest.has(u)


def _lagrange(step: Step) -> bool:
    for size in (1, 2, 3, 4):
        a = sp.symbols(f"a:{size}", nonnegative=True)
        values = {d: size, t1: sum(a), t2: sum(x**2 for x in a)}
        squares = sum((x - y) ** 2 for x, y in combinations(a, 2))
        if sp.expand((step.rhs - step.lhs).subs(values) - squares) != 0:
            return False
    return True


# ---- a random matrix -----------------------------------------------------------------------

_i, _j, _k, _l = Index("i", d), Index("j", d), Index("k", m), Index("l", m)
W = Tensor("W", (d, m), Gaussian(sigma**2))
_x = Tensor("x", (d,))
_KNOWN = (Known(norm_x, (_x[_i] * _x[_i]).sum(_i), 2),)
_trace = (W[_i, _k] * W[_i, _k]).sum(_i, _k)
_trace_of_square = (W[_i, _k] * W[_j, _k] * W[_j, _l] * W[_i, _l]).sum(_i, _j, _k, _l)
_image = (_x[_i] * W[_i, _k]).sum(_i)


def gaussian_magnitude() -> tuple[Step, ...]:
    """The expectations of both traces, their ratio, and what nearly orthogonal can mean."""
    first = expect(_trace)
    second = sp.factor(expect(_trace_of_square))
    ratio = sp.factor(second / first)
    xavier = sp.factor(ratio.subs(sigma**2, beta**2 * 2 / (d + m)))
    left_over = sp.factor(1 - first**2 / (d * second))
    norm2 = expect((_image * _image).sum(_k), _KNOWN)
    of_trace = Expectation(_trace, "tr(W W^T)", r"\operatorname{tr}WW^\top")
    of_square = Expectation(_trace_of_square, "tr((W W^T)^2)", r"\operatorname{tr}(WW^\top)^2")
    xavier_w = Tensor("W", (d, m), Gaussian(2 * beta**2 / (d + m)))
    xavier_trace = Expectation(_trace.replaced(W, xavier_w), of_trace.label, of_trace.latex)
    xavier_square = Expectation(
        _trace_of_square.replaced(W, xavier_w), of_square.label, of_square.latex
    )
    xavier_image = (_image * _image).sum(_k).replaced(W, xavier_w)
    norm_square = Expectation((_image * _image).sum(_k), "||x W||^2", r"\|xW\|^2", _KNOWN)
    norm_fourth = Expectation((_image * _image).sum(_k) ** 2, "||x W||^4", r"\|xW\|^4", _KNOWN)
    norm4 = sp.factor(expect((_image * _image).sum(_k) ** 2, _KNOWN))
    spread = sp.cancel(norm4 / norm2**2 - 1)
    wide = Regime(d, sp.oo, "m = d")
    return (
        _enumerated("trace", of_trace, first,
                "σ² for each of the d·m entries"),
        _enumerated(
            "trace-of-square",
            of_square,
            second,
            "three pairings of W_ik W_jk W_jl W_il: i = j leaves d·m², k = l leaves d²·m, "
            "both leave d·m",
        ),
        _enumerated(
            "gaussian-ratio",
            of_square / of_trace, ratio,
            "the ratio of expectations: what κ² concentrates on",
            ("trace", "trace-of-square", "magnitude"),
        ),
        _enumerated(
            "xavier-ratio",
            xavier_square / xavier_trace, xavier,
            "Xavier normal: σ² = 2β²/(d + m)",
            ("gaussian-ratio",),
        ),
        Step(
            name="xavier-magnitude",
            section=RANDOM,
            lhs=sp.sqrt(xavier),
            rhs=sp.sqrt(2) * beta,
            relation=Relation.ASYMPTOTIC,
            because=(
                "(d + m + 1)/(d + m) tends to 1: the magnitude of a wide Xavier matrix is √2 times "
                "its gain, whatever m/d"
            ),
            source="derived here",
            regime=Regime(d, sp.oo, "m fixed or growing with d"),
            uses=("xavier-ratio",),
            checks=(Check("squares at d = 1/t, t = 0, m fixed and m = 3d", _squares_meet),),
        ),
        _enumerated(
            "xavier-residual",
            1 - of_trace**2 / (d * of_square), left_over,
            "the least squared distance to the identity per row, from the ratio of expectations: "
            "½ for a square matrix, small only for m ≫ d",
            ("least-distance", "trace", "trace-of-square"),
        ),
        Step(
            name="xavier-residual-square",
            section=RANDOM,
            lhs=left_over.subs(m, d),
            rhs=sp.limit(left_over.subs(m, d), d, sp.oo),
            relation=Relation.ASYMPTOTIC,
            because="a square Xavier matrix is half way between orthogonal and nothing",
            source="derived here",
            regime=wide,
            uses=("xavier-residual",),
        ),
        _enumerated(
            "image-norm", norm_square,
            norm2,
            "for an x that does not depend on W: it is in this sense, on average over W and at a "
            "given vector, that a Xavier matrix is nearly orthogonal",
        ),
        _enumerated(
            "image-norm-fourth",
            norm_fourth,
            norm4, "‖xW‖² is σ²‖x‖² times a χ² with m degrees of freedom",
        ),
        _enumerated(
            "image-norm-spread",
            norm_fourth / norm_square**2 - 1, spread,
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
    )  # fmt: skip


def _squares_meet(step: Step) -> bool:
    """Both sides are positive, and their squares' ratio, a rational function, is 1 at the limit."""
    t = sp.Symbol("t", positive=True)
    square = sp.cancel((step.lhs / step.rhs) ** 2)
    fixed, growing = (sp.cancel(square.subs(m, rows).subs(d, 1 / t)) for rows in (m, 3 * d))
    positive = step.lhs.is_positive and step.rhs.is_positive
    return bool(positive and fixed.subs(t, 0) == 1 and growing.subs(t, 0) == 1)


def _enumerated(name: str, lhs: Any, rhs: Any, because: str, uses: tuple[str, ...] = ()) -> Step:
    return Step(
        name=name,
        section=RANDOM,
        lhs=lhs,
        rhs=rhs,
        relation=Relation.EQUAL,
        because=because,
        source="derived here",
        uses=uses,
        checks=(ENUMERATED,),
    )


# ---- the probe -----------------------------------------------------------------------------

_U = Tensor("U", (d, m), Gaussian(sigma**2))
_G = Tensor("G", (d, m))
_KNOWN_G = (Known(norm_g, (_G[_i, _k] * _G[_i, _k]).sum(_i, _k), 2),)
_inner = (_G[_i, _k] * _U[_i, _k]).sum(_i, _k)
_size = (_U[_i, _k] * _U[_i, _k]).sum(_i, _k)


def _losses() -> Iterator[Model]:
    """Polynomial losses of a 2×3 matrix, differentiated in λ and in every entry."""
    generator = random.Random(21)
    lam = sp.Symbol("lam")
    entries = sp.Matrix(2, 3, sp.symbols("w:6"))
    for _ in range(3):
        loss = sum(
            sp.Rational(generator.randint(-9, 9), 5)
            * sp.Mul(*(generator.choice(list(entries)) for _ in range(degree)))
            for degree in (1, 2, 2, 3, 3, 4)
        )
        direction = sp.Matrix(2, 3, lambda *_: sp.Rational(generator.randint(-9, 9), 4))
        at = sp.Rational(generator.randint(1, 9), 4)
        along = sp.Poly(loss.xreplace(dict(zip(entries, lam * direction, strict=True))), lam)
        of_entries = sp.Poly(loss, *entries)
        gradient = sp.Matrix(2, 3, [of_entries.diff(w)(*(at * direction)) for w in entries])
        yield {
            probe: along.diff(lam)(at),
            inner: sum(g * w for g, w in zip(gradient, direction, strict=True)),
            norm_g: gradient.norm(),
            norm_u: direction.norm(),
        }


def probe_steps() -> tuple[Step, ...]:
    """∂L/∂λ = ⟨∂L/∂W, U⟩, its ceiling, and its size for independent directions."""
    square = expect(_inner * _inner, _KNOWN_G)
    size = expect(_size)
    share = sp.cancel(square / (norm_g**2 * size))
    of_square = Expectation(_inner * _inner, "<G,U>^2", r"\langle G,U\rangle^2", _KNOWN_G)
    of_size = Expectation(_size, "||U||^2", r"\|U\|^2")
    return (
        Step(
            name="probe-identity",
            section=PROBE,
            lhs=probe,
            rhs=inner,
            relation=Relation.EQUAL,
            because="the chain rule for W = λU: ∂W_ik/∂λ = U_ik",
            source=SU,
            establishes=(probe,),
            checks=(in_models("polynomial losses differentiated entry by entry", _losses),),
        ),
        Step(
            name="probe-ceiling",
            section=PROBE,
            lhs=sp.Abs(inner),
            rhs=norm_g * norm_u,
            relation=Relation.AT_MOST,
            because="Cauchy–Schwarz: the probe never exceeds the gradient's norm times ‖U‖",
            source=SU,
            uses=("probe-identity",),
            checks=(
                in_models("at polynomial losses", _losses),
                in_models("with equality where the gradient is along U", _parallel),
            ),
        ),
        Step(
            name="probe-square",
            section=PROBE,
            lhs=of_square,
            rhs=square,
            relation=Relation.EQUAL,
            because="a gradient G that does not depend on the Gaussian direction U",
            source="derived here",
            uses=("probe-identity",),
            checks=(ENUMERATED,),
        ),
        Step(
            name="direction-size",
            section=PROBE,
            lhs=of_size,
            rhs=size,
            relation=Relation.EQUAL,
            because="σ² for each of the d·m entries",
            source="derived here",
            checks=(ENUMERATED,),
        ),
        Step(
            name="probe-share",
            section=PROBE,
            lhs=of_square / (norm_g**2 * of_size),
            rhs=share,
            relation=Relation.EQUAL,
            because=(
                "for independent directions the probe is √(d·m) below its ceiling: of the "
                "gradient's order in depth, not in width"
            ),
            source="derived here",
            uses=("probe-square", "direction-size", "probe-ceiling"),
            checks=(ENUMERATED,),
        ),
    )


def _parallel() -> Iterator[Model]:
    # Where U is along G the ceiling is reached; a smaller one than the norms' product fails here.
    yield {inner: 6, norm_g: 2, norm_u: 3}
    yield {inner: -6, norm_g: 2, norm_u: 3}
