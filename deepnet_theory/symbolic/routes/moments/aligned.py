r"""The update that a gradient step really makes, beside the independent one of the source.

One SGD step on n tokens makes :math:`\Delta W = -\eta\sum_p x_p^\top\delta_p` and
:math:`\Delta V = -\eta\sum_p h_p^\top\delta_p`: outer products of exactly the inputs that they
are multiplied with in the next forward pass. The terms of §5.1 are then larger by a factor of
the widths and of n; the factors hold no depth, so they change a rule's constant and not its
exponent. The factor −η is left out below: every statement is a ratio.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.expectation import (
    ENUMERATED,
    Bernoulli,
    Expectation,
    Gaussian,
    Index,
    IndexSum,
    Known,
    Polynomial,
    Rademacher,
    RectifiedGaussian,
    Tensor,
    constant,
    enumerate_expectation,
    expect,
)
from deepnet_theory.symbolic.expectation.exact import exact, is_zero
from deepnet_theory.symbolic.expectation.model import norm_of
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    HALF,
    Branch,
    d,
    i,
    j,
    k,
    m,
    n,
    norm_x,
    v,
    w,
    x,
)

ALIGNED = "Gradient-aligned update"

p, q = Index("p", n), Index("q", n)
tau = sp.Symbol("tau", positive=True)  # variance of the back-propagated signal's entries
rho = sp.Symbol("rho", positive=True)  # correlation of two tokens' inputs
s = sp.Symbol("s", positive=True)  # standard deviation of a hidden unit's input
norm_b = norm_of("b")

b = Tensor("b", (m,))  # back-propagated signal at the hidden units, one token
KNOWN_X = Known(norm_x, (x[i] * x[i]).sum(i), 2)
KNOWN_B = Known(norm_b, (b[k] * b[k]).sum(k), 2)

signal = Tensor("D", (n, m), Gaussian(tau))
unit_tokens = Tensor("X", (n, d), Rademacher())  # ‖x_p‖ = √d exactly, E x_pi x_pj = δ_ij
common = Tensor("C", (d,), Gaussian(sp.S.One))
own = Tensor("Y", (n, d), Gaussian(sp.S.One))


def _correlated(token: Index, entry: Index) -> Polynomial:
    shared: Polynomial = common[entry] * sp.sqrt(rho)
    both: Polynomial = shared + own[token, entry] * sp.sqrt(1 - rho)
    return both


def _independent(token: Index, entry: Index) -> Polynomial:
    return unit_tokens[token, entry]


Inputs = Callable[[Index, Index], Polynomial]


def first_matrix(inputs: Inputs) -> tuple[Polynomial, Polynomial]:
    """(x_q ΔW)_k² and (ΔW)_jk² for ΔW = Σ_p x_pᵀ D_p."""
    change = (inputs(p, j) * signal[p, k]).sum(p)
    moved = (inputs(q, j) * change).sum(j)
    return moved * moved, change * change


def aligned_steps(branches: tuple[Branch, ...]) -> tuple[Step, ...]:
    """Both matrix terms for an update made of the inputs, and the factors over §5.1's."""
    steps: list[Step] = [*_one_token(), *_many_tokens()]
    for branch in branches:
        steps.append(_mean_change(branch))
        steps.extend(_rectified() if branch.rectified else _linear(branch))
    return tuple(steps)


def _step(
    name: str,
    lhs: Any,
    rhs: Any,
    because: str,
    *,
    uses: tuple[str, ...] = (),
    assumptions: tuple[str, ...] = (),
    establishes: tuple[Any, ...] = (),
    checks: tuple[Check, ...] = (ENUMERATED,),
) -> Step:
    return Step(
        name=name,
        section=ALIGNED,
        lhs=lhs,
        rhs=rhs,
        relation=Relation.EQUAL,
        because=because,
        source="derived here",
        uses=uses,
        assumptions=assumptions,
        establishes=establishes,
        checks=checks,
    )


def _one_token() -> tuple[Step, ...]:
    change = x[j] * b[k]
    moved = (x[j] * change).sum(j)
    square, size = (moved * moved).sum(k), (change * change).sum(j, k)
    known = (KNOWN_X, KNOWN_B)
    first, second = expect(square, known), expect(size, known)
    ratio = sp.cancel(first / second)
    of_square = IndexSum(square, "||x dW||^2", r"\|x\Delta W\|^2", known)
    of_size = IndexSum(size, "||dW||^2", r"\|\Delta W\|^2", known)
    return (
        _step(
            "aligned-one-token",
            of_square,
            first,
            "ΔW = xᵀb, b the back-propagated signal: no expectation is needed",
            establishes=(norm_b,),
        ),
        _step(
            "aligned-one-token-size",
            of_size,
            second,
            "the Frobenius norm of an outer product is the product of the norms",
        ),
        _step(
            "aligned-one-token-factor",
            of_square / of_size,
            ratio,
            "‖x‖² = d times the 1 of an update that is independent of x: ‖xΔW‖ is √d larger",
            uses=("aligned-one-token", "aligned-one-token-size"),
        ),
    )


def _many_tokens() -> tuple[Step, ...]:
    steps: list[Step] = []
    premises = ("independent-signal",)
    for what, inputs, said in (
        ("tokens", _independent, "n uncorrelated tokens of norm √d"),
        ("correlated-tokens", _correlated, "n Gaussian tokens of correlation ρ"),
    ):
        moved, size = first_matrix(inputs)
        first, second = sp.factor(expect(moved)), sp.factor(expect(size))
        # per hidden unit k; ‖ΔW‖² has d such entries
        ratio = sp.factor(first / (d * second))
        of_moved = Expectation(moved, "(x_q dW)_k^2", r"(x_q\Delta W)_k^2")
        of_size = Expectation(size, "(dW)_jk^2", r"(\Delta W)_{jk}^2")
        steps += [
            _step(
                f"aligned-{what}",
                of_moved,
                first,
                f"ΔW = Σ_p x_pᵀδ_p over {said}: p = q gives the fourth moment of a token, p ≠ q "
                "the squared inner product of two",
                assumptions=premises,
                establishes=(tau, rho),
            ),
            _step(
                f"aligned-{what}-size",
                of_size,
                second,
                "n outer products in independent directions",
                assumptions=premises,
                establishes=(tau,),
            ),
            _step(
                f"aligned-{what}-factor",
                of_moved / (d * of_size),
                ratio,
                "E‖x_qΔW‖²/E‖ΔW‖², where independence of ΔW and x has 1"
                + (
                    ": 1 + (d − 1)/n, d for a single token and 1 only for n ≫ d"
                    if inputs is _independent
                    else ": with n → ∞ it tends to 1 + (d + 1)ρ² and not to 1, since correlated "
                    "tokens share a direction"
                ),
                uses=(f"aligned-{what}", f"aligned-{what}-size"),
                checks=(_recounted(inputs),),
            ),
        ]
    return tuple(steps)


def _recounted(inputs: Inputs) -> Check:
    """The ratio again from explicit sums at (d, n), without the contraction."""

    def holds(step: Step) -> bool:
        moved, size = first_matrix(inputs)
        for width, tokens in ((1, 2), (2, 1), (2, 2)):
            point = {d: sp.Integer(width), n: sp.Integer(tokens), m: sp.S.One,
                     tau: sp.Rational(3, 5), rho: sp.Rational(9, 25)}  # fmt: skip
            at = {"q": 1, "k": 1, "j": 1}
            first = enumerate_expectation(moved, point, at=at)
            second = width * enumerate_expectation(size, point, at=at)
            for node in step.lhs.atoms(IndexSum):
                point[node] = enumerate_expectation(node.polynomial, point, at=at)
            for side in (step.lhs, step.rhs):
                if not is_zero(exact(side, point) - first / second):
                    return False
        return True

    return Check("explicit sums at small d and n", holds)


# ---- the second matrix ---------------------------------------------------------------------


def _linear(branch: Branch) -> tuple[Step, ...]:
    """ΔV = Σ_p h_pᵀ D_p with h = XW: inner products of hidden vectors, fresh W."""
    w_ = branch.W
    h_p = (unit_tokens[p, i] * w_[i, k]).sum(i)
    h_q = (unit_tokens[q, j] * w_[j, k]).sum(j)
    inner = ((h_p * h_q).sum(k) ** 2).sum(p)
    size = (h_q * h_q).sum(k)
    first, second = sp.factor(expect(inner)), expect(size)
    ratio = sp.factor(first / (n * second))
    of_inner = Expectation(inner, "Sum_p <h_p,h_q>^2", r"\sum_p\langle h_p,h_q\rangle^2")
    of_size = Expectation(size, "||h_q||^2", r"\|h_q\|^2")
    return (
        _step(
            f"aligned-{branch.name}-second-matrix",
            of_inner,
            first,
            "h_qΔV = Σ_p⟨h_q, h_p⟩δ_p for ΔV = Σ_p h_pᵀδ_p, uncorrelated tokens of norm √d",
            assumptions=("fresh-weights", "independent-signal"),
            checks=(_small_sums((1, 2), (1, 2), (1, 2)),),
        ),
        _step(
            f"aligned-{branch.name}-second-matrix-size",
            of_size,
            second,
            "a hidden vector has the second moment w² in each of its m entries",
            assumptions=("fresh-weights",),
        ),
        _step(
            f"aligned-{branch.name}-second-matrix-factor",
            of_inner / (n * of_size),
            ratio,
            "E‖h_qΔV‖²/E‖ΔV‖², where independence of ΔV and h has w²: w²(m + 2) for one token, "
            "w²(d + m + 1)/d for n → ∞",
            uses=(
                f"aligned-{branch.name}-second-matrix",
                f"aligned-{branch.name}-second-matrix-size",
            ),
            checks=(_small_sums((1, 2), (1, 2), (1, 2)),),
        ),
    )


def _small_sums(*ranges: tuple[int, ...]) -> Check:
    """Explicit sums at small d, m, n: the sizes are too many to determine it, they refute it."""

    def holds(step: Step) -> bool:
        nodes = (step.lhs - step.rhs).atoms(IndexSum)
        generator = random.Random(step.name)
        for width in ranges[0]:
            for inner in ranges[1]:
                for tokens in ranges[2]:
                    point = {d: sp.Integer(width), m: sp.Integer(inner), n: sp.Integer(tokens),
                             w: sp.Rational(generator.randint(1, 9), 5),
                             v: sp.Rational(generator.randint(1, 9), 5)}  # fmt: skip
                    for node in nodes:
                        point[node] = enumerate_expectation(node.polynomial, point, at={"q": 1})
                    if not is_zero(exact(step.lhs - step.rhs, point)):
                        return False
        return bool(nodes)

    return Check("explicit sums at small d, m and n", holds)


def _rectified() -> tuple[Step, ...]:
    """The same behind ReLU, for orthogonal tokens: hidden vectors keep the cosine 1/π."""
    hidden = Tensor("r", (m,), RectifiedGaussian(s**2))
    other = Tensor("r'", (m,), RectifiedGaussian(s**2))
    size = (hidden[k] * hidden[k]).sum(k)
    inner = (hidden[k] * other[k]).sum(k)
    own_square, cross = sp.factor(expect(size * size)), sp.factor(expect(inner * inner))
    norm2 = expect(size)
    one, many = sp.cancel(own_square / norm2), sp.cancel(cross / norm2)
    of_own = Expectation(size * size, "||ReLU(h)||^4", r"\|\mathrm{ReLU}(h)\|^4")
    of_cross = Expectation(
        inner * inner,
        "<ReLU(h_p),ReLU(h_q)>^2",
        r"\langle\mathrm{ReLU}(h_p),\mathrm{ReLU}(h_q)\rangle^2",
    )
    of_size = Expectation(size, "||ReLU(h)||^2", r"\|\mathrm{ReLU}(h)\|^2")
    at_many = Regime(m, sp.oo, "after n → ∞")
    return (
        _step(
            "aligned-relu-own",
            of_own,
            own_square,
            "one token with itself; s² is the variance of a hidden unit's input",
            assumptions=("fresh-weights",),
            establishes=(s,),
        ),
        _step(
            "aligned-relu-cross",
            of_cross,
            cross,
            "two orthogonal tokens have independent hidden inputs, yet both are rectified: the "
            "inner product has the mean m s²/2π",
            assumptions=("fresh-weights",),
        ),
        _step(
            "aligned-relu-factor",
            (of_own + (n - 1) * of_cross) / (n * of_size),
            sp.expand(one / n + (n - 1) * many / n),
            "E‖h_qΔV‖²/E‖ΔV‖² for n orthogonal tokens",
            uses=("aligned-relu-own", "aligned-relu-cross"),
            assumptions=("independent-signal",),
        ),
        Step(
            name="aligned-relu-floor",
            section=ALIGNED,
            lhs=many / one,
            rhs=1 / sp.pi**2,
            relation=Relation.ASYMPTOTIC,
            because=(
                "however many orthogonal tokens, 1/π² of the single token's factor remains: behind "
                "ReLU averaging over tokens does not make the update independent"
            ),
            source="derived here",
            uses=("aligned-relu-factor",),
            regime=at_many,
        ),
    )


def _mean_change(branch: Branch) -> Step:
    """E(∂z/∂V ΔV + ∂z/∂W ΔW)_i for one token: a drift along δ, which independence has at 0."""
    delta = Tensor("delta", (d,))
    mask = Tensor("R", (m,), Bernoulli(HALF))
    e = Index("e", d)
    back = Index("g", d)

    def kept(unit: Index) -> Polynomial:
        return mask[unit] if branch.rectified else constant(1)

    hidden = (x[j] * branch.W[j, k]).sum(j) * kept(k)
    other = (x[e] * branch.W[e, k]).sum(e) * kept(k)
    through_v = (hidden * other).sum(k) * delta[i]
    signal_k = (branch.V[k, back] * delta[back]).sum(back) * kept(k)
    inner = Index("a", d)
    through_w = ((x[inner] * x[inner]).sum(inner) * signal_k * branch.V[k, i] * kept(k)).sum(k)
    total = through_v + through_w
    entry = sp.Symbol("delta_i", real=True)
    known = (KNOWN_X, Known(entry, delta[i]))
    node = Expectation(
        total,
        f"(dz/dV dV + dz/dW dW)_i[{branch.name}]",
        r"(\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W)_i",
        known,
    )
    return Step(
        name=f"aligned-{branch.name}-drift",
        section=ALIGNED,
        lhs=node,
        rhs=sp.factor(expect(total, known)),
        relation=Relation.EQUAL,
        because=(
            "ΔV = hᵀδ, ΔW = xᵀ(δVᵀ∘R) for one token: the output moves along δ itself by the kernel "
            "‖h‖² + ‖x‖²·V's part, while an independent update has mean 0"
        ),
        source="derived here",
        assumptions=(*branch.assumptions, "independent-signal"),
        establishes=(entry,),
        checks=(ENUMERATED,),
    )
