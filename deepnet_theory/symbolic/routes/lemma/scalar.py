r"""The scalar sublayer: a branch of gains v, w beside an identity path of weight α.

.. math:: f = \frac{\alpha + \xi P}{\sqrt{\alpha^2 + P^2}}\,x, \qquad P = v w,\ \xi = \pm1.

With ξ = 1 this is the paper's sublayer, with a random sign the layer cake's.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import alpha, r
from deepnet_theory.symbolic.proof.checks import DERIVATIVE, EXACT, defines
from deepnet_theory.symbolic.proof.step import Section, Step

SOURCE = "DeepNet, arXiv 2203.00555, §4.1; layer cake, §4.2"
SECTION = Section("Scalar sublayer", SOURCE)
SIGNED_SOURCE = "layer cake, §4.3, the random variable I"

Gains = tuple[sp.Symbol, ...]

x = sp.Symbol("x", positive=True)
xi = sp.Symbol("xi", real=True)  # the source's random sign I = ±1


def sublayer(gains: Gains, sign: sp.Expr = sp.S.One) -> sp.Expr:
    """f = (α + ξP) x/√(α² + P²) with P the product of the gains."""
    weight = sp.Mul(*gains)
    return (alpha + sign * weight) * x / sp.sqrt(alpha**2 + weight**2)


def scalar_steps(gains: Gains) -> tuple[Step, ...]:
    """The normaliser of the random sign, the branch's weight, and one Jacobian."""
    weight = sp.Mul(*gains)
    return (
        SECTION.equal(
            "variance-with-random-sign",
            mean_over_signs((alpha + xi * weight) ** 2),
            alpha**2 + weight**2,
            "over both signs of the branch var(αx + G) is α²·var x + var G exactly",
            source=SIGNED_SOURCE,
            assumptions=("independent-signs",),
        ),
        SECTION.equal(
            "scalar-sublayer",
            (alpha * x + weight * x) / sp.sqrt(alpha**2 * x**2 + weight**2 * x**2) * x,
            sublayer(gains),
            "αx + G over its deviation, at the scale of x",
            uses=("variance-with-random-sign",),
            checks=EXACT,
            establishes=(x,),
        ),
        SECTION.equal(
            "branch-weight",
            r,
            weight / alpha,
            "the branch against the identity path",
            uses=("scalar-sublayer",),
            checks=(
                defines(
                    "the two terms of the sublayer's numerator, divided",
                    lambda: _terms_divided(sublayer(gains)),
                ),
            ),
            establishes=(r,),
        ),
        derivative("x", gains, x, xi, uses=("scalar-sublayer",)),
    )


def mean_over_signs(expression: sp.Expr) -> sp.Expr:
    """The mean over ξ = ±1."""
    both = (expression.xreplace({xi: sign}) for sign in (sp.S.One, sp.S.NegativeOne))
    return sp.Add(*both) / 2


def _terms_divided(output: sp.Expr) -> sp.Expr:
    numerator = sp.expand(sp.numer(output))
    path = numerator.coeff(alpha, 1) * alpha
    return (numerator - path) / path


def derivative(
    name: str,
    gains: Gains,
    variable: sp.Symbol,
    sign: sp.Expr = sp.S.One,
    uses: tuple[str, ...] = (),
) -> Step:
    """∂f/∂variable of the scalar sublayer with one sign, or a random one."""
    signed = sign == xi
    function = sublayer(gains, sign)
    return SECTION.equal(
        f"derivative-{name}" + ("-signed" if signed else ""),
        sp.Derivative(function, variable),
        without_minus(sp.factor(sp.diff(function, variable))),
        f"differentiated in {variable} and factored",
        source=SIGNED_SOURCE if signed else SOURCE,
        uses=uses,
        checks=DERIVATIVE[1:] if signed else DERIVATIVE,
        establishes=(xi,) if signed else (),
    )


def without_minus(product: sp.Expr) -> sp.Expr:
    """A product −(b − a)·… written (a − b)·…, as the source prints it."""
    factors = list(sp.Mul.make_args(product))
    sums = [factor for factor in factors if factor.is_Add]
    if sp.S.NegativeOne not in factors or not sums:
        return product
    factors.remove(sp.S.NegativeOne)
    factors[factors.index(sums[0])] = -sums[0]
    return sp.Mul(*factors)
