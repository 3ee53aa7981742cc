r"""A softmax average of tokens: never longer than the longest, and how much shorter it may be.

.. math:: \|\sum_i s_i x_i\| \le \sum_i s_i \|x_i\| \le \max_i \|x_i\|,
          \qquad \mathbb E\|\tfrac1n\sum_i x_i\|^2/d = \rho + (1-\rho)/n.

Only the first line is convexity. That the average is of the *same* magnitude as a token needs
tokens of correlation ρ > 0, or weights that stay concentrated.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.algebra.symbols import i, j, k, l, v, w
from deepnet_theory.symbolic.proof.checks import at_most_at_sizes, equal_at_sizes
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Regime, Step
from deepnet_theory.symbolic.routes.lemma.scalar import x

SECTION = "Softmax lemma"
SOURCE = "layer cake, §4.1"

n, d = sp.symbols("n d", integer=True, positive=True)  # tokens, width
rho = sp.Symbol("rho", positive=True)  # correlation of two tokens, at most 1
a = sp.Symbol("a", positive=True)  # magnitude of a softmax average, relative to a token's
ell = sp.Symbol("L_max", positive=True)  # the largest token norm
_q = sp.Function("q", real=True)  # attention scores
_s = sp.Function("s", positive=True)  # weights, where only their sign matters
_length = sp.Function("L", positive=True)  # ‖x_i‖
_gap = sp.Function("g", positive=True)  # L_max − ‖x_i‖
_cosine = sp.Function("c", real=True)  # cosine of the angle between two tokens
_x = sp.Function("x", real=True)
_y = sp.Function("y", real=True)
_total = sp.Sum(sp.exp(_q(j)), (j, 1, n))
# a form that is quadratic in the weights and treats all tokens alike is known from two of them
_PAIR = (2,)


def softmax_steps() -> tuple[Step, ...]:
    """The lemma by convexity, its proof's parts, and what equality of magnitude needs."""
    return (*_convexity(), _token_norm(), *_correlation(), _branch())


def _convexity() -> tuple[Step, ...]:
    weights = Step(
        name="softmax-weights",
        section=SECTION,
        lhs=sp.Sum(sp.exp(_q(i)) / _total, (i, 1, n)),
        rhs=sp.Integer(1),
        relation=Relation.EQUAL,
        because="the normaliser does not depend on the summation index",
        source=SOURCE,
        checks=(equal_at_sizes(n, sizes=(1, 3), rewrite=_scores_as_logarithms),),
        establishes=(n,),
    )
    cauchy_schwarz = Step(
        name="cauchy-schwarz",
        section=SECTION,
        lhs=sp.Sum(_x(k) ** 2, (k, 1, d)) * sp.Sum(_y(k) ** 2, (k, 1, d))
        - sp.Sum(_x(k) * _y(k), (k, 1, d)) ** 2,
        rhs=sp.Sum((_x(k) * _y(l) - _x(l) * _y(k)) ** 2, (k, 1, d), (l, 1, d)) / 2,
        relation=Relation.EQUAL,
        because="Lagrange's identity: the gap is a sum of squares, so |cos| ≤ 1",
        checks=(equal_at_sizes(d, sizes=(1, 2)),),
        establishes=(d,),
    )
    triangle = Step(
        name="softmax-triangle",
        section=SECTION,
        lhs=sp.Sum(_s(i) * _s(j) * _cosine(i, j) * _length(i) * _length(j), (i, 1, n), (j, 1, n)),
        rhs=sp.Sum(_s(i) * _length(i), (i, 1, n)) ** 2,
        relation=Relation.AT_MOST,
        because="squared length of the average: every cosine is at most 1 (Jensen for the norm)",
        source=SOURCE,
        uses=("cauchy-schwarz",),
        checks=(at_most_at_sizes(n, sizes=_PAIR, rewrite=_cosines_at_most_one),),
    )
    convex = Step(
        name="softmax-convexity",
        section=SECTION,
        lhs=sp.Sum(sp.exp(_q(i)) * (ell - _gap(i)), (i, 1, n)) / _total,
        rhs=ell,
        relation=Relation.AT_MOST,
        because="a weighted mean of lengths L_max − g_i is at most the greatest length",
        source=SOURCE,
        uses=("softmax-weights",),
        checks=(at_most_at_sizes(n, sizes=(1, 3), rewrite=_scores_as_logarithms),),
        establishes=(ell,),
    )
    return weights, cauchy_schwarz, triangle, convex


def _cosines_at_most_one(expression: sp.Expr) -> sp.Expr:
    """Cosines written 1 − t with t > 0 off the diagonal, and 1 on it."""
    gaps = {
        cosine: 1
        if cosine.args[0] == cosine.args[1]
        else 1 - sp.Symbol(f"t_{min(cosine.args)}_{max(cosine.args)}", positive=True)
        for cosine in expression.atoms(_cosine)
    }
    return sp.expand(expression.subs(gaps))


def _token_norm() -> Step:
    mean_square = sp.Sum(_x(l) ** 2, (l, 1, d)) / d
    return Step(
        name="token-norm",
        section=SECTION,
        lhs=sp.sqrt(sp.Sum(_x(k) ** 2 / mean_square, (k, 1, d))),
        rhs=sp.sqrt(d),
        relation=Relation.EQUAL,
        because=(
            "d entries divided by their root mean square, which at mean 0 is their deviation: "
            "variance 1 makes a length of √d, not d"
        ),
        source="layer cake, §4.1, correcting DeepNet",
        checks=(equal_at_sizes(d, sizes=(2, 3), rewrite=sp.together),),
    )


def _correlation() -> tuple[Step, ...]:
    pair = rho + (1 - rho) * sp.KroneckerDelta(i, j)
    concentration = sp.Sum(sp.exp(2 * _q(i)), (i, 1, n)) / _total**2
    weighted = Step(
        name="average-of-correlated-tokens",
        section=SECTION,
        lhs=sp.Sum(sp.exp(_q(i)) * sp.exp(_q(j)) * pair, (i, 1, n), (j, 1, n)) / _total**2,
        rhs=rho + (1 - rho) * concentration,
        relation=Relation.EQUAL,
        because="E‖Σ s_i x_i‖²/d for tokens with E x_i·x_j = ρd off the diagonal and d on it",
        uses=("softmax-weights", "token-norm"),
        checks=(equal_at_sizes(n, sizes=_PAIR, rewrite=_scores_as_logarithms),),
        establishes=(rho,),
    )
    above = Step(
        name="average-at-least-correlation",
        section=SECTION,
        lhs=rho,
        rhs=weighted.rhs,
        relation=Relation.AT_MOST,
        because="whatever the scores, the mean square of the average is at least ρ",
        uses=("average-of-correlated-tokens",),
        checks=(at_most_at_sizes(n, sizes=_PAIR, rewrite=_correlation_at_most_one),),
    )
    below = Step(
        name="average-at-most-one",
        section=SECTION,
        lhs=weighted.rhs,
        rhs=sp.Integer(1),
        relation=Relation.AT_MOST,
        because="and at most 1, the convexity bound again",
        uses=("average-of-correlated-tokens", "softmax-convexity"),
        checks=(at_most_at_sizes(n, sizes=_PAIR, rewrite=_correlation_at_most_one),),
    )
    uniform = Step(
        name="average-with-uniform-weights",
        section=SECTION,
        lhs=sp.Sum(pair, (i, 1, n), (j, 1, n)) / n**2,
        rhs=rho + (1 - rho) / n,
        relation=Relation.EQUAL,
        because=(
            "equal scores; n² times either side is a polynomial of degree 2 in n, "
            "so agreement at three n is agreement at all"
        ),
        uses=("average-of-correlated-tokens",),
        checks=(equal_at_sizes(n),),
    )
    long = Step(
        name="average-over-many-tokens",
        section=SECTION,
        lhs=uniform.rhs,
        rhs=rho,
        relation=Relation.ASYMPTOTIC,
        because=(
            "only correlated tokens (ρ > 0) keep their magnitude √ρ in a long uniform average; "
            "at ρ = 0 it shrinks to 1/√n, so the lemma's bound is not an equality of magnitude"
        ),
        uses=("average-with-uniform-weights",),
        regime=Regime(n, sp.oo, "rho > 0 fixed"),
    )
    return weighted, above, below, uniform, long


def _scores_as_logarithms(expression: sp.Expr) -> sp.Expr:
    """Each score q_i written log e_i with e_i > 0, so that a softmax is a rational function."""
    scores = sorted(expression.atoms(_q), key=str)
    return expression.subs(
        {score: sp.log(sp.Symbol(f"e_{score.args[0]}", positive=True)) for score in scores}
    )


def _correlation_at_most_one(expression: sp.Expr) -> sp.Expr:
    """ρ written 1/(1 + t) with t > 0: any correlation strictly between 0 and 1."""
    t = sp.Symbol("t", positive=True)
    return sp.together(_scores_as_logarithms(expression).subs(rho, 1 / (1 + t)))


def _branch() -> Step:
    return Step(
        name="attention-branch",
        section=SECTION,
        lhs=a * v * w * x,
        rhs=v * w * x,
        relation=Relation.ORDER,
        because=(
            "query and key leave the branch's magnitude at that of xW_VW_O, "
            "up to the factor a of the average, which lies between √ρ and 1"
        ),
        source="layer cake, §4.1",
        uses=("average-at-least-correlation", "average-at-most-one"),
        assumptions=("attention-keeps-magnitude",),
        bounded=(a,),
        establishes=(a,),
    )
