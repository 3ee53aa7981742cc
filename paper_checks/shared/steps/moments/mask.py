"""ReLU's mask exactly: where the coin of the source is right, and where it is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import sympy as sp

from deepnet_theory.proof.algebra import alpha, v, w
from deepnet_theory.proof.step import Check, Section, Step
from paper_checks.shared.expectation import (
    Bernoulli,
    Entries,
    Expectation,
    Gaussian,
    Known,
    Law,
    Polynomial,
    Tensor,
    constant,
    enumerate_expectation,
    expect,
    moment,
    norm_of,
    random_entries,
)
from paper_checks.shared.steps.checks import QUADRATURE
from paper_checks.shared.steps.moments.parity import even_in_columns
from paper_checks.shared.steps.moments.setting import (
    CAKE,
    HALF,
    KNOWN_DV,
    KNOWN_DX,
    KNOWN_X,
    KNOWN_XDW,
    GaussianBranch,
    d,
    delta_v,
    delta_w,
    dx,
    i,
    k,
    l,
    m,
    mask,
    norm_dv,
    norm_x,
    x,
)

MASK = Section("ReLU's mask")

s = sp.Symbol("s", positive=True)  # standard deviation of a hidden unit's input
t = sp.Symbol("t", real=True)
phi = sp.Symbol("phi", real=True)
theta = sp.Symbol("theta", positive=True)  # angle between two tokens
norm_sum = norm_of("1dV", r"\mathbf 1^\top\Delta V")
KNOWN_SUM = Known(norm_sum, (delta_v[k, i] * delta_v[l, i]).sum(k, l, i), 2)

density = sp.exp(-(t**2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi))


@dataclass(frozen=True)
class RectifiedGaussian(Law):
    """max(h, 0) of a centred Gaussian h of the given variance: a hidden unit after ReLU."""

    variance: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """E max(h, 0)ʳ = sʳ 2^{r/2 − 1} Γ((r + 1)/2)/√π; half the Gaussian moment for even r."""
        half = sp.Rational(order, 2)
        size = self.variance**half * 2 ** (half - 1)
        return size * sp.gamma(half + sp.Rational(1, 2)) / sp.sqrt(sp.pi)


def half_gaussian(order: int) -> sp.Expr:
    """E[R hʳ] for h ~ N(0, s²) and R = 1 where h > 0."""
    return RectifiedGaussian(s**2).moment(order)


def coin(order: int) -> sp.Expr:
    """The same with R an independent fair coin."""
    h, r = Tensor("h", (), Gaussian(s**2)), Tensor("r", (), Bernoulli(HALF))
    value = constant(1)
    for _ in range(order):
        value = value * h[()] * r[()]
    return expect(value)


def _true_mask(branch: GaussianBranch, known: tuple[Known, ...]) -> Callable[[Step], bool]:
    """Every sign pattern of W, the mask computed from xW; V by its moments."""

    def holds(step: Step) -> bool:
        generator = random.Random(step.name)
        polynomial = step.lhs.polynomial
        for width, inner in ((2, 2), (3, 1)):
            size = Fraction(3, 2)  # |w_jk|, so that its square is the variance 2w²/d
            point = {
                d: sp.Integer(width),
                m: sp.Integer(inner),
                alpha: sp.Rational(7, 3),
                v: sp.Rational(4, 5),
                w: sp.Rational(3, 2) * sp.sqrt(sp.Rational(width, 2)),
            }
            values: dict[Tensor, Entries] = {
                tensor: random_entries(tensor, point, generator)
                for tensor in (dx, delta_v, delta_w)
            }
            values[x] = {(a,): Fraction((-2) ** a, 3) for a in range(1, width + 1)}  # no ties
            for item in known:
                number = enumerate_expectation(item.polynomial, point, values)
                point[item.symbol] = sp.sqrt(sp.sympify(number))
            places = list(product(range(1, width + 1), range(1, inner + 1)))
            total = sp.S.Zero
            for signs in product((-1, 1), repeat=len(places)):
                weights: Entries = {p: size * sign for p, sign in zip(places, signs, strict=True)}
                active: Entries = {
                    (b,): Fraction(
                        sum(values[x][a,] * weights[a, b] for a in range(1, width + 1)) > 0
                    )
                    for b in range(1, inner + 1)
                }
                held = {**values, branch.W: weights, mask: active}
                total += enumerate_expectation(polynomial, point, held)
            if sp.expand(total / 2 ** len(places) - step.rhs.xreplace(point)) != 0:
                return False
        return True

    return holds


def mask_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """The coin against the mask as a function of W; for a branch with a mask."""
    z = branch.z()
    change, first = z.along(x, dx), z.along(branch.W, delta_w)
    kernel = (sp.sin(theta) + (sp.pi - theta) * sp.cos(theta)) / (2 * sp.pi) * s**2
    angle = sp.cos(phi) * sp.cos(phi - theta) * s**2 / sp.pi
    return (
        _moment(2, "an even power: R and |h| are independent, so the coin is exact"),
        _moment(4, "again even: coin and mask agree"),
        MASK.equal(
            "mask-moment-1",
            sp.Integral(t * density, (t, 0, sp.oo)),
            half_gaussian(1),
            (
                "an odd power: hidden units have a mean. The coin gives "
                f"{coin(1)}: it misses what tokens have in common after ReLU"
            ),
            establishes=(s,),
            checks=(QUADRATURE,),
        ),
        _exact(branch, "norm", (z * z).sum(i), (KNOWN_X,), "||z||^2", r"\|z\|^2"),
        _exact(
            branch,
            "input-term",
            (change * change).sum(i),
            (KNOWN_DX,),
            "||dz/dx dx||^2",
            r"\|\tfrac{\partial z}{\partial x}\Delta x\|^2",
        ),
        _exact(
            branch,
            "first-matrix",
            (first * first).sum(i),
            (KNOWN_XDW,),
            "||dz/dW dW||^2",
            r"\|\tfrac{\partial z}{\partial W}\Delta W\|^2",
        ),
        _second_matrix(branch),
        MASK.equal(
            "mask-two-tokens",
            sp.Integral(angle, (phi, theta - sp.pi / 2, sp.pi / 2)),
            kernel,
            (
                "E[ReLU(h_p)ReLU(h_q)] for tokens of equal norm at angle θ, in polar coordinates "
                "(∫r³e^(−r²/2)dr = 2); two independent coins would give s²cosθ/4"
            ),
            source="derived here; Cho and Saul, 2009",
            establishes=(theta, s, phi),
            checks=(QUADRATURE,),
        ),
        MASK.equal(
            "mask-orthogonal-tokens",
            sp.Integral(angle.subs(theta, sp.pi / 2), (phi, 0, sp.pi / 2)) / half_gaussian(2),
            1 / sp.pi,
            (
                "the cosine of two hidden vectors whose tokens are orthogonal: not 0 but 1/π. This "
                "is where the coin fails; one token's second moments do not see it"
            ),
            uses=("mask-two-tokens", "mask-moment-2"),
            checks=(QUADRATURE,),
        ),
    )


_COUNTERPART = {"first-matrix": "parameter-fixed-input"}


def _moment(order: int, because: str) -> Step:
    return MASK.equal(
        f"mask-moment-{order}",
        sp.Integral(t**order * density, (t, 0, sp.oo)),
        coin(order),
        because,
        establishes=(s, t),
        checks=(
            QUADRATURE,
            Check(
                "half the Gaussian moment by the Gamma function",
                lambda step: sp.simplify(step.rhs - half_gaussian(order)) == 0,
            ),
        ),
    )


def _second_matrix(branch: GaussianBranch) -> Step:
    hidden = Tensor("r", (m,), RectifiedGaussian(s**2))
    moved = (hidden[k] * delta_v[k, i]).sum(k)
    known = (KNOWN_DV, KNOWN_SUM)
    of_input = branch.inner * norm_x**2
    square = (moved * moved).sum(i)
    return moment(
        MASK,
        f"{branch.name}-mask-second-matrix",
        square,
        ("||ReLU(xW) dV||^2", r"\|\mathrm{ReLU}(xW)\Delta V\|^2"),
        (
            "odd in each column of W: hidden units have a mean, so what the rows of ΔV have in "
            f"common (1ᵀΔV) counts by itself, up to m times. With s² = {of_input} the coin's value "
            "w²‖ΔV‖² is right only where ‖1ᵀΔV‖² = ‖ΔV‖², as for independent rows"
        ),
        known,
        sp.collect(sp.expand(expect(square, known)), (norm_dv, norm_sum)),
        uses=("mask-moment-1", "mask-moment-2", f"{branch.name}-parameter-fixed-input"),
        assumptions=("fresh-weights", "independent-update"),
        establishes=(norm_sum,),
    )


def _exact(
    branch: GaussianBranch,
    of: str,
    polynomial: Polynomial,
    known: tuple[Known, ...],
    text: str,
    tex: str,
) -> Step:
    return MASK.equal(
        f"{branch.name}-mask-{of}",
        Expectation(polynomial, f"{text}, R = [xW > 0]", rf"{tex},\ R=\mathbf 1[xW>0]", known),
        expect(polynomial, known),
        (
            "even in every column of W once V is contracted, so the mask that W itself makes gives "
            "exactly the coin's value: the independence of the mask is not needed here"
        ),
        source=CAKE,
        uses=(f"{branch.name}-{_COUNTERPART.get(of, of)}",),
        assumptions=("fresh-weights",),
        checks=(
            Check(
                "even in every column of W",
                lambda step: even_in_columns(step.lhs.polynomial, branch.W),
            ),
            Check("all sign patterns of W with the mask they make", _true_mask(branch, known)),
        ),
    )
