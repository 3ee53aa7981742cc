r"""What the worst case makes of the telescoping bound: all branches along their inputs.

.. math:: J \le e^r, \qquad \|\Delta F\| \le e^{S r} \sum_{i=1}^S D_i\,\|\Delta\theta_i\|

The published form, every J = 1, holds up to a constant in the worst case only where S·r stays
bounded; random signs, not small r, are what makes it hold.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.algebra.rational import vanishes
from deepnet_theory.symbolic.algebra.symbols import S, alpha, i, r, v, w
from deepnet_theory.symbolic.proof.checks import at_most_at_sizes, equal_at_sizes
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.routes.lemma.jacobians import jacobian
from deepnet_theory.symbolic.routes.lemma.scalar import x
from deepnet_theory.symbolic.routes.lemma.telescoping import SECTION, telescoped, total

c = sp.Symbol("c", positive=True)  # S·r held fixed


def aligned_steps() -> tuple[Step, ...]:
    """The bound with all signs positive, the geometric series, and the paper's own stack."""
    return (_worst_case(), *_equal_sublayers(), *_aligned_stack())


def _worst_case() -> Step:
    return SECTION.at_most(
        "telescoping-worst-case",
        telescoped(sp.exp(r)),
        sp.exp(S * r) * total,
        (
            "with all branches along their inputs J ≤ e^r, so the published form holds up "
            "to the constant e^(S·r), which is one only where S·r is bounded"
        ),
        uses=("telescoping", "aligned-at-most-exponential"),
        checks=(at_most_at_sizes(S, sizes=(3,), rewrite=_growth_above_one),),
    )


def _growth_above_one(expression: sp.Expr) -> sp.Expr:
    """e^r written 1 + t with t > 0."""
    t = sp.Symbol("t", positive=True)
    return sp.expand(sp.powdenest(expression, force=True).subs(sp.exp(r), 1 + t))


def _equal_sublayers() -> tuple[Step, ...]:
    growth = sp.Symbol("G", positive=True)
    series = SECTION.equal(
        "aligned-sum",
        sp.Sum(growth ** (S - i), (i, 1, S)),
        (growth**S - 1) / (growth - 1),
        "equal sublayers, every Jacobian the same: a geometric series",
        uses=("telescoping", "jacobian-all-positive"),
        checks=(equal_at_sizes(S, rewrite=sp.cancel),),
        establishes=(growth,),
    )
    amplified = SECTION.asymptotic(
        "aligned-amplification",
        (series.rhs / S).subs(growth, jacobian),
        (sp.exp(S * r) - 1) / (S * r),
        (
            "how much the worst case exceeds the published sum: (e^c − 1)/c at S·r = c, "
            "and without bound where S·r grows"
        ),
        uses=("aligned-sum", "jacobian-all-positive-leading"),
        regime=Regime(r, sp.Integer(0), "S*r fixed"),
        checks=(Check("both sides at S = c/r, as r → 0", _amplification),),
    )
    return series, amplified


def _amplification(step: Step) -> bool:
    """The limits of both sides at S = c/r, from first derivatives at r = 0."""
    left, right = (_at_fixed_product(side) for side in (step.lhs, step.rhs))
    return bool(left.is_finite is not False and sp.expand(left - right) == 0)


def _at_fixed_product(side: sp.Expr) -> sp.Expr:
    """A power b^S with b = 1 + r + … tends to e^c; what is left is r over an analytic function."""
    for power in {p for p in side.atoms(sp.Pow, sp.exp) if p.as_base_exp()[1].has(S)}:
        base, _ = power.as_base_exp()
        exponent = power.exp * sp.log(base) if base != sp.E else power.exp
        slope = sp.diff(exponent / S, r).subs(r, 0)
        if (exponent / S).subs(r, 0) != 0:
            raise ValueError(f"{power} has no limit at a fixed S·r")
        side = side.subs(power, sp.exp(slope * c))
    inverse = r / side.subs(S, c / r)
    if inverse.subs(r, 0) != 0:
        raise ValueError(f"{side} has no limit at a fixed S·r")
    return 1 / sp.diff(inverse, r).subs(r, 0)


def _aligned_stack() -> tuple[Step, ...]:
    """The paper's own scalar stack, differentiated as a whole: it exceeds the published sum."""
    weight = v * w / alpha
    one = (1 + weight) / sp.sqrt(1 + weight**2)
    output = x * one**S
    published = S * w * x / alpha
    excess = jacobian ** (S - 1) * (1 - r) / (1 + r**2) ** sp.Rational(3, 2)
    whole = SECTION.equal(
        "aligned-stack-derivative",
        sp.Derivative(output, v),
        published * excess.subs(r, weight),
        (
            "S scalar sublayers of one v and one w, moved together: the published sum S·w/α "
            "times what the Jacobians in between make of it"
        ),
        uses=("telescoping", "derivative-v", "jacobian-all-positive"),
        checks=(Check("logarithmic derivative, and a central difference", _stack_differentiated),),
    )
    grown = SECTION.asymptotic(
        "aligned-stack-excess",
        excess,
        sp.exp(S * r),
        (
            "so with unit Jacobians the bound fails in the paper's own scalar model wherever "
            "S·r grows; random signs, not small r, are what makes it hold"
        ),
        uses=("aligned-stack-derivative", "jacobian-all-positive-leading"),
        regime=Regime(r, sp.Integer(0), "S*r fixed"),
        checks=(Check("Taylor terms of the logarithm, S apart", _excess_taylor),),
    )
    return whole, grown


def _stack_differentiated(step: Step) -> bool:
    """F'/F = (log F)', the logarithm being rational in its derivative; then one number."""
    function, (variable, _) = step.lhs.args
    logarithm = sp.expand_log(sp.log(function), force=True)
    if not vanishes(sp.powsimp(step.rhs / function) - sp.diff(logarithm, variable)):
        return False
    point = {symbol: sp.Rational(7 + at, 5) for at, symbol in enumerate((alpha, w, x))}
    point[S] = sp.Integer(3)
    h, at = sp.Rational(1, 10**15), sp.Rational(2, 3)
    ahead, behind = (function.xreplace({**point, variable: at + shift}) for shift in (h, -h))
    quotient = sp.N((ahead - behind) / (2 * h), 30, maxn=200)
    expected = sp.N(step.rhs.xreplace({**point, variable: at}), 40)
    return bool(abs(quotient - expected) < sp.Float("1e-20"))


def _excess_taylor(step: Step) -> bool:
    """log lhs − log rhs = S·h + g with h = O(r²) and g = O(r), so it vanishes at S = c/r."""
    gap = sp.expand(sp.expand_log(sp.log(step.lhs) - sp.log(step.rhs), force=True))
    h = gap.coeff(S, 1)
    g = sp.expand(gap - S * h)
    return bool(
        not g.has(S)
        and h.free_symbols | g.free_symbols <= {r}
        and h.subs(r, 0) == g.subs(r, 0) == sp.diff(h, r).subs(r, 0) == 0
    )
