r"""What a probe along a matrix sees of its gradient: ∂L/∂λ = ⟨∂L/∂W, U⟩ for W = λU.

Source: Su, §Magnitude analysis (the identity); the rest is derived here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import sympy as sp

from deepnet_theory.proof.step import Section, Step
from paper_checks.shared.expectation import (
    ENUMERATED,
    Gaussian,
    Index,
    Known,
    Model,
    NamedQuantity,
    Tensor,
    in_models,
    moment,
    norm_of,
)
from paper_checks.shared.steps.magnitude.distance import SU, d, m
from paper_checks.shared.steps.magnitude.random_matrix import sigma

PROBE = Section("The probe")

probe = NamedQuantity("dL_dlambda", r"\partial L/\partial\lambda", real=True)
inner = NamedQuantity("inner_G_U", r"\langle\partial L/\partial W,U\rangle", real=True)
norm_g = norm_of("G", r"\partial L/\partial W")
norm_u = norm_of("U")

_i, _k = Index("i", d), Index("k", m)
_U = Tensor("U", (d, m), Gaussian(sigma**2))
_G = Tensor("G", (d, m))
_KNOWN_G = (Known.norm(norm_g, _G),)
_inner = (_G[_i, _k] * _U[_i, _k]).sum(_i, _k)
_size = (_U[_i, _k] * _U[_i, _k]).sum(_i, _k)


def _losses() -> Iterator[Model]:
    """Polynomial losses of a 2×3 matrix, differentiated in λ and in every entry."""
    generator = random.Random(21)
    lam = sp.Symbol("lam")
    entries = sp.Matrix(2, 3, sp.symbols("w:6"))
    for _ in range(3):
        loss = sum(
            sp.Rational(generator.randint(-9, 9), 5)
            * sp.Mul(*(generator.choice(list(entries)) for _ in range(degree)))
            for degree in (1, 2, 2, 3, 3, 4)
        )
        direction = sp.Matrix(2, 3, lambda *_: sp.Rational(generator.randint(-9, 9), 4))
        at = sp.Rational(generator.randint(1, 9), 4)
        along = sp.Poly(loss.xreplace(dict(zip(entries, lam * direction, strict=True))), lam)
        of_entries = sp.Poly(loss, *entries)
        gradient = sp.Matrix(2, 3, [of_entries.diff(w)(*(at * direction)) for w in entries])
        yield {
            probe: along.diff(lam)(at),
            inner: sum(g * w for g, w in zip(gradient, direction, strict=True)),
            norm_g: gradient.norm(),
            norm_u: direction.norm(),
        }


def probe_steps() -> tuple[Step, ...]:
    """∂L/∂λ = ⟨∂L/∂W, U⟩, its ceiling, and its size for independent directions."""
    square = moment(
        PROBE,
        "probe-square",
        _inner * _inner,
        ("<G,U>^2", r"\langle G,U\rangle^2"),
        "a gradient G that does not depend on the Gaussian direction U",
        _KNOWN_G,
        uses=("probe-identity",),
    )
    size = moment(
        PROBE,
        "direction-size",
        _size,
        ("||U||^2", r"\|U\|^2"),
        "σ² for each of the d·m entries",
    )
    return (
        PROBE.equal(
            "probe-identity",
            probe,
            inner,
            "the chain rule for W = λU: ∂W_ik/∂λ = U_ik",
            source=SU,
            establishes=(probe,),
            checks=(in_models("polynomial losses differentiated entry by entry", _losses),),
        ),
        PROBE.at_most(
            "probe-ceiling",
            sp.Abs(inner),
            norm_g * norm_u,
            "Cauchy–Schwarz: the probe never exceeds the gradient's norm times ‖U‖",
            source=SU,
            uses=("probe-identity",),
            checks=(
                in_models("at polynomial losses", _losses),
                in_models("with equality where the gradient is along U", _parallel),
            ),
        ),
        square,
        size,
        PROBE.equal(
            "probe-share",
            square.lhs / (norm_g**2 * size.lhs),
            sp.cancel(square.rhs / (norm_g**2 * size.rhs)),
            (
                "for independent directions the probe is √(d·m) below its ceiling: of the "
                "gradient's order in depth, not in width"
            ),
            uses=(square.name, size.name, "probe-ceiling"),
            checks=(ENUMERATED,),
        ),
    )


def _parallel() -> Iterator[Model]:
    # Where U is along G the ceiling is reached; a smaller one than the norms' product fails here.
    yield {inner: 6, norm_g: 2, norm_u: 3}
    yield {inner: -6, norm_g: 2, norm_u: 3}
