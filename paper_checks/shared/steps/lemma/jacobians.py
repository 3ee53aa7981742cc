r"""The product of Q Jacobians of the scalar sublayer, whose branches have random signs.

.. math:: J = \frac{1 + \xi r}{\sqrt{1 + r^2}}, \qquad
          \Bigl(\tfrac{1 - r^2}{1 + r^2}\Bigr)^{Q/2} < (1 + r^2)^{-Q/2} < 1
          < \Bigl(\tfrac{1 + r}{\sqrt{1 + r^2}}\Bigr)^Q .

From left to right: the geometric mean (what a typical path shows), the mean, the root mean
square (exactly 1: what independent directions of a wide layer show, at every r and Q), and
the product with all signs positive (the worst case). The layer cake prints the first and
calls it exponentially decaying; it decays with Q·r², so what it does is a matter of the rule:
at Q = S sublayers and r = S^(−κ) it tends to 1 for κ > 1/2, and only below κ = 1/2 to 0.
The worst case grows with Q·r and stays bounded only for κ ≥ 1.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import S, is_nonnegative, r, vanishes
from deepnet_theory.proof.lemma import (
    JACOBIANS,
    JACOBIANS_SOURCE,
    THIRD,
    Q,
    by_patterns,
    expectation,
    j,
    jacobian,
    opposite,
    patterns,
)
from deepnet_theory.proof.step import Check, Regime, Step, written_out

kappa = sp.Symbol("kappa", positive=True)  # the exponent of r = S^(−κ)
geometric = ((1 - r**2) / (1 + r**2)) ** (Q / 2)
mean = (1 + r**2) ** (-Q / 2)
aligned = jacobian**Q


def product_steps() -> tuple[Step, ...]:
    """Three products, their order, and their leading behaviour in Q and r."""
    return (*_three(), *_order(), *_leading(), *_at_power())


def _three() -> tuple[Step, ...]:
    return (
        JACOBIANS.equal(
            "jacobian-geometric-mean",
            jacobian ** (Q / 2) * opposite ** (Q / 2),
            geometric,
            "exp E log|J| to the power Q: half of the signs positive, half negative",
            source=JACOBIANS_SOURCE,
            uses=("derivative-x-signed", "branch-weight"),
            assumptions=("independent-signs",),
            checks=(Check("all sign patterns multiplied, Q = 1, 2", _geometric_by_patterns),),
        ),
        JACOBIANS.equal(
            "jacobian-mean",
            expectation(1),
            mean,
            "independent signs: E J to the power Q, by the binomial theorem",
            uses=("derivative-x-signed", "branch-weight"),
            assumptions=("independent-signs",),
            checks=(by_patterns(1),),
        ),
        JACOBIANS.equal(
            "jacobian-all-positive",
            sp.Product(jacobian, (j, 1, Q)),
            aligned,
            "every branch along its input, as in the paper's own scalar sublayer",
            source="layer cake, §4.2",
            uses=("derivative-x", "branch-weight"),
            checks=(Check("the one sign pattern multiplied, Q = 1, 2, 3", _aligned_by_pattern),),
        ),
    )


def _geometric_by_patterns(step: Step) -> bool:
    """To the power 2·2^Q a geometric mean is the squared product of all 2^Q patterns."""
    for count in (1, 2):
        squared = sp.Mul(*(p**2 for p in patterns(count)))
        for side in (step.lhs, step.rhs):
            written = side.xreplace({Q: sp.Integer(count)})
            if not written.xreplace({r: THIRD}) > 0:
                return False
            if not vanishes(written ** (2 * 2**count) - squared):
                return False
    return True


def _aligned_by_pattern(step: Step) -> bool:
    return all(
        vanishes(step.rhs.xreplace({Q: sp.Integer(count)}) - patterns(count)[0])
        and vanishes(written_out(step.lhs.xreplace({Q: sp.Integer(count)})) - patterns(count)[0])
        for count in (1, 2, 3)
    )


def _log_gap(step: Step) -> bool:
    """log rhs − log lhs is Q times a function of r, 0 at 0, that does not decrease on (0, 1)."""
    gap = sp.expand_log(sp.log(step.rhs) - sp.log(step.lhs), force=True)
    rate = sp.expand(gap / Q)
    if rate.has(Q) or rate.subs(r, 0) != 0:
        return False
    t = sp.Symbol("t", positive=True)  # r = 1/(1 + t) covers (0, 1)
    return is_nonnegative(sp.diff(rate, r).xreplace({r: 1 / (1 + t)}))


GROWING_GAP = Check("the gap of logarithms vanishes at r = 0 and grows with r", _log_gap)


def _order() -> tuple[Step, ...]:
    def at_most(
        name: str, left: sp.Expr, right: sp.Expr, because: str, uses: tuple[str, ...]
    ) -> Step:
        return JACOBIANS.at_most(
            name,
            left,
            right,
            because,
            uses=uses,
            checks=(GROWING_GAP,),
        )

    return (
        at_most(
            "geometric-at-most-mean",
            geometric,
            mean,
            "Jensen: below one for every r in (0, 1), which says nothing yet of how far below",
            ("jacobian-geometric-mean", "jacobian-mean"),
        ),
        at_most(
            "mean-at-most-root-mean-square",
            mean,
            sp.Integer(1),
            "Jensen again; the root mean square is 1",
            ("jacobian-mean", "jacobian-root-mean-square"),
        ),
        at_most(
            "aligned-at-most-exponential",
            aligned,
            sp.exp(Q * r),
            "log(1 + r) ≤ r and √(1 + r²) ≥ 1",
            ("jacobian-all-positive",),
        ),
    )


def _leading() -> tuple[Step, ...]:
    def leading(name: str, product_: sp.Expr, order: int, exponent: sp.Expr, because: str) -> Step:
        return JACOBIANS.asymptotic(
            f"{name}-leading",
            product_,
            sp.exp(exponent),
            because,
            uses=(name,),
            regime=Regime(r, sp.Integer(0), f"{Q * r**order} fixed"),
            checks=(_log_ratio(order),),
        )

    return (
        leading(
            "jacobian-geometric-mean",
            geometric,
            2,
            -Q * r**2,
            "within a constant of 1 exactly where Q·r² stays bounded",
        ),
        leading("jacobian-mean", mean, 2, -Q * r**2 / 2, "half of the geometric mean's exponent"),
        leading(
            "jacobian-all-positive",
            aligned,
            1,
            Q * r,
            "within a constant of 1 exactly where Q·r stays bounded",
        ),
    )


def _log_ratio(order: int) -> Check:
    """Both logarithms are Q times a function of r with the same first Taylor term, r^order.

    So at Q = c/r^order, r → 0, both sides tend to the same limit.
    """

    def holds(step: Step) -> bool:
        rates = [
            sp.expand(sp.expand_log(sp.log(side), force=True) / Q) for side in (step.lhs, step.rhs)
        ]
        if any(rate.has(Q) or rate.free_symbols - {r} for rate in rates):
            return False
        if any(rate.xreplace({r: sp.S.Zero}) != 0 for rate in rates):
            return False
        # the derivative is rational and the logarithm gone: what is left once r^(order-1) is
        # divided out is the Taylor coefficient, times the order
        slopes = [sp.cancel(sp.together(sp.diff(rate, r)) / r ** (order - 1)) for rate in rates]
        left, right = (slope.subs(r, 0) for slope in slopes)
        return bool(left == right and left != 0 and left.is_finite)

    return Check(f"Taylor terms of both logarithms up to r^{order}", holds)


def _at_power() -> tuple[Step, ...]:
    at = {Q: S, r: S**-kappa}
    return (
        JACOBIANS.equal(
            "geometric-product-of-the-stack",
            sp.exp(-Q * r**2).subs(at),
            sp.exp(-(S ** (1 - 2 * kappa))),
            (
                "all S Jacobians at r = S^(−κ): tends to 1 for κ > 1/2, to a constant at 1/2, "
                "to 0 below; 'smaller than one, decaying exponentially' holds of every κ and "
                "decides nothing"
            ),
            source="derived here, against the layer cake, §4.3, supplement",
            uses=("jacobian-geometric-mean-leading",),
            establishes=(S, kappa),
        ),
        JACOBIANS.equal(
            "aligned-product-of-the-stack",
            sp.exp(Q * r).subs(at),
            sp.exp(S ** (1 - kappa)),
            "the worst case at r = S^(−κ): bounded for κ ≥ 1 alone",
            uses=("jacobian-all-positive-leading",),
        ),
    )
