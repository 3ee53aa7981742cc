r"""The magnitude of a matrix in closed form, by completing the square.

.. math:: \lambda(W) = \operatorname*{argmin}_{\kappa>0} \|WW^\top/\kappa^2 - I\|_F
          = \|WW^\top\|_F / \|W\|_F .

Source: Su, §Magnitude analysis (the definition); the rest is derived here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import sympy as sp

from deepnet_theory.proof.step import IDENTITY, SAMPLED, Check, Section, Step
from paper_checks.shared.expectation import Model, NamedQuantity, in_models

SU = "Su, §Magnitude analysis"
DISTANCE = Section("Magnitude of a matrix")

d = sp.Symbol("d", positive=True)
m = sp.Symbol("m", positive=True)
kappa = sp.Symbol("kappa", positive=True)
u = sp.Symbol("u", positive=True)  # 1/κ²
t1 = NamedQuantity("t_1", r"\operatorname{tr}WW^\top")
t2 = NamedQuantity("t_2", r"\operatorname{tr}(WW^\top)^2")
distance = NamedQuantity("distance", r"\|WW^\top/\kappa^2-I\|_F", nonnegative=True)
magnitude = NamedQuantity("lambda_W", r"\lambda(W)")
least = NamedQuantity("least_distance", r"\min_\kappa\|WW^\top/\kappa^2-I\|_F", nonnegative=True)


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

        def at(value: sp.Expr, model: Model = model) -> sp.Expr:
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
    start = DISTANCE.equal(
        "distance",
        distance**2,
        squared,
        "‖A/κ² − I‖² = tr A²/κ⁴ − 2 tr A/κ² + d for the symmetric d×d matrix A = WWᵀ",
        source=SU,
        establishes=(distance,),
        checks=(in_models("written out for explicit matrices", _explicit),),
    )
    square = DISTANCE.equal(
        "completed-square",
        in_u,
        t2 * (u - minimiser) ** 2 + sp.expand(remainder),
        (
            "in u = 1/κ² the squared distance is a quadratic with leading coefficient "
            "tr(WWᵀ)² > 0 for W ≠ 0: one minimum, and κ ↦ 1/κ² is one to one"
        ),
        uses=("distance",),
        checks=(IDENTITY, SAMPLED, Check("the square is a square, the rest holds no u", _squared)),
    )
    closed = DISTANCE.equal(
        "magnitude",
        magnitude,
        sp.sqrt(1 / minimiser),
        "the square vanishes at u = tr WWᵀ / tr(WWᵀ)², that is κ = ‖WWᵀ‖_F / ‖W‖_F",
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
    rest = DISTANCE.equal(
        "least-distance",
        least**2,
        sp.expand(remainder),
        "what the completed square leaves over",
        uses=("completed-square",),
        establishes=(least,),
        checks=(in_models("written out for explicit matrices", _explicit),),
    )
    cauchy = DISTANCE.at_most(
        "orthogonal-only-if-equal-singular-values",
        t1**2,
        d * t2,
        (
            "d tr A² − (tr A)² = Σ_{i<j} (a_i − a_j)² over the eigenvalues of A = WWᵀ (Lagrange): "
            "the least distance is 0 only where all singular values are equal"
        ),
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
