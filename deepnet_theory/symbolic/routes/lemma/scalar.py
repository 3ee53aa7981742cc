r"""The scalar stack: a branch of gains v, w beside an identity path of weight α, S times.

.. math:: f = \frac{\alpha + \xi P}{\sqrt{\alpha^2 + P^2}}\,x, \qquad P = v w,\ \xi = \pm1, \qquad
          J = \frac{1 + \xi r}{\sqrt{1 + r^2}}, \quad \mathbb E J^2 = 1 .

With ξ = 1 this is the paper's sublayer, with a random sign the layer cake's. In mean square, which
is what independent directions of a wide layer show, nothing decays and nothing grows. So

.. math:: \|\Delta F\| \le \sum_{i=1}^S \Bigl(\prod_{l=i+1}^S J_l\Bigr) D_i\,\|\Delta\theta_i\|,

exact to first order in Δθ (triangle inequality), has every J = 1 in its published form.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import S, alpha, i, l, r, vanishes
from deepnet_theory.symbolic.proof.step import (
    DERIVATIVE,
    Check,
    Point,
    Section,
    Step,
    defines,
    equal_at_sizes,
    written_at,
    written_out,
)

SOURCE = "DeepNet, arXiv 2203.00555, §4.1; layer cake, §4.2"
SECTION = Section("Scalar sublayer", SOURCE)
SIGNED_SOURCE = "layer cake, §4.3, the random variable I"
JACOBIANS_SOURCE = "layer cake, §4.3, supplement"
JACOBIANS = Section("Products of Jacobians", JACOBIANS_SOURCE)
TELESCOPING = Section(
    "Telescoping bound", "DeepNet, arXiv 2203.00555, Theorem 4.2; layer cake, §4.2"
)

Gains = tuple[sp.Symbol, ...]

x = sp.Symbol("x", positive=True)
xi = sp.Symbol("xi", real=True)  # the source's random sign I = ±1


def sublayer(gains: Gains, sign: sp.Expr = sp.S.One) -> sp.Expr:
    """f = (α + ξP) x/√(α² + P²) with P the product of the gains."""
    weight = sp.Mul(*gains)
    return (alpha + sign * weight) * x / sp.sqrt(alpha**2 + weight**2)


def scalar_steps(gains: Gains) -> tuple[Step, ...]:
    """The normaliser of the random sign, the branch's weight, one Jacobian, and their product."""
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
        JACOBIANS.equal(
            "jacobian-root-mean-square",
            sp.sqrt(expectation(2)),
            sp.Integer(1),
            "E J² = ((1 + r)² + (1 − r)²)/(2(1 + r²)) = 1: in mean square nothing decays "
            "and nothing grows, at any depth and branch weight",
            uses=("derivative-x-signed", "branch-weight"),
            assumptions=("independent-signs",),
            checks=(by_patterns(2),),
            establishes=(Q,),
            source="derived here",
        ),
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


# ---- the product of Q Jacobians; typical product, mean and worst case stand in the claims ----

Q = sp.Symbol("Q", positive=True)  # number of Jacobians in a product
j = sp.Symbol("j", integer=True, nonnegative=True)  # how many of their signs are positive
jacobian = (1 + r) / sp.sqrt(1 + r**2)
opposite = (1 - r) / sp.sqrt(1 + r**2)
THIRD = sp.Rational(1, 3)  # a branch weight to look at signs with, which squares lose


def expectation(power: int) -> sp.Expr:
    """E J₁^p…J_Q^p as a sum over the number of positive signs."""
    weight = sp.binomial(Q, j) / 2**Q
    return sp.Sum(weight * (jacobian**j * opposite ** (Q - j)) ** power, (j, 0, Q))


def patterns(count: int) -> list[sp.Expr]:
    """The derivative of ``count`` sublayers in x for each of the 2^count sign patterns."""
    # gains of product r and α = 1: the Jacobian knows the branch weight alone
    one = {s: sp.diff(sublayer((r,), sp.Integer(s)), x).xreplace({alpha: 1}) for s in (1, -1)}
    return [sp.Mul(*(one[s] for s in signs)) for signs in product((1, -1), repeat=count)]


def by_patterns(power: int) -> Check:
    """Both sides (to the power) against the mean over every sign pattern, listed one by one."""

    def holds(step: Step) -> bool:
        for count in (1, 2, 3):  # at 1 and 2 alone 2^Q is 2Q
            truth = sp.Add(*(p**power for p in patterns(count))) / 2**count
            for side in (step.lhs, step.rhs):
                written = written_out(side.xreplace({Q: sp.Integer(count)}))
                if not (vanishes(written**power - truth) and written.xreplace({r: THIRD}) > 0):
                    return False
        return True

    return Check("every sign pattern listed, Q = 1, 2, 3", holds)


# ---- telescoping: the change of the output as a sum over the sublayers ----

X = sp.Function("X", nonnegative=True)  # ‖Δx_l‖
J = sp.Function("J", positive=True)  # ‖∂f_l/∂x_l‖
D = sp.Function("D", positive=True)  # ‖∂f_l/∂θ_l‖
T = sp.Function("T", positive=True)  # ‖Δθ_l‖


def telescoped(factor: sp.Expr) -> sp.Expr:
    """Σ_i (Π_{l>i} factor) D_i T_i for a Jacobian ``factor`` in l."""
    return sp.Sum(sp.Product(factor, (l, i + 1, S)) * D(i) * T(i), (i, 1, S))


def telescoping_steps(*, normalised: bool) -> Iterator[Step]:
    """One sublayer, all of them, and all of them without the Jacobians in between.

    The last where every sublayer normalises the stream, as the published form has it.
    """
    jacobian_, change, gradient, update = sp.symbols("J_l X_l D_l T_l", real=True)
    yield TELESCOPING.at_most(
        "one-sublayer",
        sp.Abs(jacobian_ * change + gradient * update),
        sp.Abs(jacobian_) * sp.Abs(change) + sp.Abs(gradient) * sp.Abs(update),
        "first order in the changes of input and parameters, and the triangle inequality",
        assumptions=("linear-step",),
        checks=(Check("squares compared for every choice of signs", _triangle),),
        establishes=(jacobian_, change, gradient, update),
    )
    yield TELESCOPING.at_most(
        "telescoping",
        X(S + 1),
        telescoped(J(l)),
        "the recursion of one sublayer, unrolled from Δx = 0 at the input",
        uses=("one-sublayer",),
        assumptions=("linear-step",),
        checks=(written_at("the recursion unrolled at S = 1 … 4", _unrolled),),
        establishes=(S,),
    )
    if normalised:
        listed = ({S: 3}, sp.Add(*(D(n) * T(n) for n in (1, 2, 3))))
        yield TELESCOPING.equal(
            "telescoping-unit-jacobians",
            telescoped(sp.Integer(1)),
            sp.Sum(D(i) * T(i), (i, 1, S)),
            "in mean square over independent signs every product of Jacobians is exactly 1: "
            "the published form; a typical path has it up to a constant where S·r² is bounded",
            uses=("telescoping", "jacobian-root-mean-square"),
            assumptions=("independent-signs", "near-identity"),
            checks=(
                equal_at_sizes(S),
                written_at("the sublayers' own terms, listed", lambda: [listed]),
            ),
        )


def _triangle(step: Step) -> bool:
    """rhs² − lhs² ≥ 0 with each symbol made positive or negative."""
    symbols = sorted(step.free_symbols, key=str)
    sizes = [sp.Symbol(f"p_{index}", positive=True) for index in range(len(symbols))]
    for signs in product((1, -1), repeat=len(symbols)):
        at = dict(zip(symbols, (s * p for s, p in zip(signs, sizes, strict=True)), strict=True))
        difference = sp.expand((step.rhs**2 - step.lhs**2).xreplace(at))
        if not difference.is_nonnegative or not step.rhs.xreplace(at).is_nonnegative:
            return False
    return True


def _unrolled() -> Iterator[Point]:
    change: sp.Expr = sp.S.Zero
    for layer in (1, 2, 3, 4):
        change = J(layer) * change + D(layer) * T(layer)
        yield {S: layer}, (X(layer + 1), change)
