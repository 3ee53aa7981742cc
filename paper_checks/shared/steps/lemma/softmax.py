r"""A softmax average of tokens: never longer than the longest, and how much shorter it may be.

.. math:: \|\sum_i s_i x_i\| \le \sum_i s_i \|x_i\| \le \max_i \|x_i\|,
          \qquad \mathbb E\|\tfrac1n\sum_i x_i\|^2/d = \rho + (1-\rho)/n.

Only the first line is convexity. That the average is of the *same* magnitude as a token needs
tokens of correlation ρ > 0, or weights that stay concentrated.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import i, j, k, l, v, w
from deepnet_theory.proof.lemma import x
from deepnet_theory.proof.step import (
    Regime,
    Section,
    Step,
    at_most_at_sizes,
    equal_at_sizes,
)

SOURCE = "layer cake, §4.1"
SECTION = Section("Softmax lemma", SOURCE)

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
    weights = SECTION.equal(
        "softmax-weights",
        sp.Sum(sp.exp(_q(i)) / _total, (i, 1, n)),
        sp.Integer(1),
        "the normaliser does not depend on the summation index",
        checks=(equal_at_sizes(n, sizes=(1, 3), rewrite=_scores_as_logarithms),),
        establishes=(n,),
    )
    cauchy_schwarz = SECTION.equal(
        "cauchy-schwarz",
        (
            sp.Sum(_x(k) ** 2, (k, 1, d)) * sp.Sum(_y(k) ** 2, (k, 1, d))
            - sp.Sum(_x(k) * _y(k), (k, 1, d)) ** 2
        ),
        sp.Sum((_x(k) * _y(l) - _x(l) * _y(k)) ** 2, (k, 1, d), (l, 1, d)) / 2,
        "Lagrange's identity: the gap is a sum of squares, so |cos| ≤ 1",
        checks=(equal_at_sizes(d, sizes=(1, 2)),),
        establishes=(d,),
        source="derived here",
    )
    triangle = SECTION.at_most(
        "softmax-triangle",
        sp.Sum(_s(i) * _s(j) * _cosine(i, j) * _length(i) * _length(j), (i, 1, n), (j, 1, n)),
        sp.Sum(_s(i) * _length(i), (i, 1, n)) ** 2,
        "squared length of the average: every cosine is at most 1 (Jensen for the norm)",
        uses=("cauchy-schwarz",),
        checks=(at_most_at_sizes(n, sizes=_PAIR, rewrite=_cosines_at_most_one),),
    )
    convex = SECTION.at_most(
        "softmax-convexity",
        sp.Sum(sp.exp(_q(i)) * (ell - _gap(i)), (i, 1, n)) / _total,
        ell,
        "a weighted mean of lengths L_max − g_i is at most the greatest length",
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
    return SECTION.equal(
        "token-norm",
        sp.sqrt(sp.Sum(_x(k) ** 2 / mean_square, (k, 1, d))),
        sp.sqrt(d),
        (
            "d entries divided by their root mean square, which at mean 0 is their deviation: "
            "variance 1 makes a length of √d, not d"
        ),
        source="layer cake, §4.1, correcting DeepNet",
        checks=(equal_at_sizes(d, sizes=(2, 3), rewrite=sp.together),),
    )


def _correlation() -> tuple[Step, ...]:
    pair = rho + (1 - rho) * sp.KroneckerDelta(i, j)
    concentration = sp.Sum(sp.exp(2 * _q(i)), (i, 1, n)) / _total**2
    weighted = SECTION.equal(
        "average-of-correlated-tokens",
        sp.Sum(sp.exp(_q(i)) * sp.exp(_q(j)) * pair, (i, 1, n), (j, 1, n)) / _total**2,
        rho + (1 - rho) * concentration,
        "E‖Σ s_i x_i‖²/d for tokens with E x_i·x_j = ρd off the diagonal and d on it",
        uses=("softmax-weights", "token-norm"),
        checks=(equal_at_sizes(n, sizes=_PAIR, rewrite=_scores_as_logarithms),),
        establishes=(rho,),
        source="derived here",
    )
    above = SECTION.at_most(
        "average-at-least-correlation",
        rho,
        weighted.rhs,
        "whatever the scores, the mean square of the average is at least ρ",
        uses=("average-of-correlated-tokens",),
        checks=(at_most_at_sizes(n, sizes=_PAIR, rewrite=_correlation_at_most_one),),
        source="derived here",
    )
    below = SECTION.at_most(
        "average-at-most-one",
        weighted.rhs,
        sp.Integer(1),
        "and at most 1, the convexity bound again",
        uses=("average-of-correlated-tokens", "softmax-convexity"),
        checks=(at_most_at_sizes(n, sizes=_PAIR, rewrite=_correlation_at_most_one),),
        source="derived here",
    )
    uniform = SECTION.equal(
        "average-with-uniform-weights",
        sp.Sum(pair, (i, 1, n), (j, 1, n)) / n**2,
        rho + (1 - rho) / n,
        (
            "equal scores; n² times either side is a polynomial of degree 2 in n, "
            "so agreement at three n is agreement at all"
        ),
        uses=("average-of-correlated-tokens",),
        checks=(equal_at_sizes(n),),
        source="derived here",
    )
    long = SECTION.asymptotic(
        "average-over-many-tokens",
        uniform.rhs,
        rho,
        (
            "only correlated tokens (ρ > 0) keep their magnitude √ρ in a long uniform average; "
            "at ρ = 0 it shrinks to 1/√n, so the lemma's bound is not an equality of magnitude"
        ),
        uses=("average-with-uniform-weights",),
        regime=Regime(n, sp.oo, "rho > 0 fixed"),
        source="derived here",
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
    return SECTION.order(
        "attention-branch",
        a * v * w * x,
        v * w * x,
        (
            "query and key leave the branch's magnitude at that of xW_VW_O, "
            "up to the factor a of the average, which lies between √ρ and 1"
        ),
        source="layer cake, §4.1",
        uses=("average-at-least-correlation", "average-at-most-one"),
        assumptions=("attention-keeps-magnitude",),
        bounded=(a,),
        establishes=(a,),
    )
