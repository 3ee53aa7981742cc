"""A gradient step of the second matrix: hidden vectors of tokens, against an independent update."""

from __future__ import annotations

import random

import sympy as sp

from deepnet_theory.symbolic.asides.moments.aligned import ALIGNED, aligned_step, p, q, unit_tokens
from deepnet_theory.symbolic.expectation import (
    Expectation,
    IndexSum,
    RectifiedGaussian,
    Tensor,
    enumerate_expectation,
    expect,
)
from deepnet_theory.symbolic.expectation.exact import exact, is_zero
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    GaussianBranch,
    d,
    i,
    j,
    k,
    m,
    n,
    v,
    w,
)

s = sp.Symbol("s", positive=True)  # standard deviation of a hidden unit's input


def second_matrix_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """E‖h_qΔV‖²/E‖ΔV‖² for ΔV = Σ_p h_pᵀδ_p."""
    return _rectified() if branch.rectified else _linear(branch)


def _linear(branch: GaussianBranch) -> tuple[Step, ...]:
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
        aligned_step(
            f"aligned-{branch.name}-second-matrix",
            of_inner,
            first,
            "h_qΔV = Σ_p⟨h_q, h_p⟩δ_p for ΔV = Σ_p h_pᵀδ_p, uncorrelated tokens of norm √d",
            assumptions=("fresh-weights", "independent-signal"),
            checks=(_small_sums((1, 2), (1, 2), (1, 2)),),
        ),
        aligned_step(
            f"aligned-{branch.name}-second-matrix-size",
            of_size,
            second,
            "a hidden vector has the second moment w² in each of its m entries",
            assumptions=("fresh-weights",),
        ),
        aligned_step(
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
        aligned_step(
            "aligned-relu-own",
            of_own,
            own_square,
            "one token with itself; s² is the variance of a hidden unit's input",
            assumptions=("fresh-weights",),
            establishes=(s,),
        ),
        aligned_step(
            "aligned-relu-cross",
            of_cross,
            cross,
            "two orthogonal tokens have independent hidden inputs, yet both are rectified: the "
            "inner product has the mean m s²/2π",
            assumptions=("fresh-weights",),
        ),
        aligned_step(
            "aligned-relu-factor",
            (of_own + (n - 1) * of_cross) / (n * of_size),
            sp.expand(one / n + (n - 1) * many / n),
            "E‖h_qΔV‖²/E‖ΔV‖² for n orthogonal tokens",
            uses=("aligned-relu-own", "aligned-relu-cross"),
            assumptions=("independent-signal",),
        ),
        ALIGNED.asymptotic(
            "aligned-relu-many-tokens",
            many / one,
            1 / sp.pi**2,
            (
                "however many orthogonal tokens, 1/π² of the single token's factor remains: behind "
                "ReLU averaging over tokens does not make the update independent"
            ),
            uses=("aligned-relu-factor",),
            regime=at_many,
        ),
    )
