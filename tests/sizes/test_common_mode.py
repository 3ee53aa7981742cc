"""A part that all tokens share, beside explicit stacks with a planted direction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.sizes.common_mode import divisor, limit, own_part
from deepnet_theory.spec.placement import Placement, placement, placements

ALL = pytest.mark.parametrize("name", placements())


def planted(where: Placement, sublayers: int, weight: float, alpha: float) -> float:
    """The own part of 6 tokens' output, each sublayer adding the same vector to all of them."""
    rng = np.random.default_rng(0)
    tokens, width = 6, 512
    x = rng.standard_normal((tokens, width))
    direction = rng.standard_normal(width)
    x -= np.outer(x @ direction, direction) / (direction @ direction)  # own parts alone

    def norm(v):
        return v / np.sqrt((v**2).mean(-1, keepdims=True))

    x, direction = norm(x), norm(direction)
    stream, branch = where.coefficients(alpha)
    f = direction * weight / sublayers * stream / branch
    own = np.eye(width) - np.outer(direction, direction) / width
    for _ in range(sublayers):
        moved = stream * x + branch * f
        x = norm(moved) if where.normalises_sum else moved
    return float(np.sqrt(((norm(x) @ own) ** 2).mean()))


@ALL
@pytest.mark.parametrize("alpha", (1.0, 12.0))
def test_the_equation_is_what_explicit_stacks_do(name: str, alpha: float) -> None:
    where = placement(name)
    for weight in (0.5, 2.0, 5.0):
        assert own_part(where, 24, weight, alpha) == pytest.approx(
            planted(where, 24, weight, alpha), rel=1e-9
        )


@ALL
def test_a_deep_stack_reaches_the_limit(name: str) -> None:
    where = placement(name)
    for weight in (0.5, 2.0, 5.0):
        far, near = (own_part(where, s, weight) / limit(where, weight) - 1 for s in (100, 10_000))
        assert abs(near) < 2e-3, near
        assert abs(near) <= abs(far) + 1e-12
        # the other placement's law is not this one's
        wrong = math.hypot(1, weight) if where.normalises_sum else math.cosh(weight)
        assert abs(own_part(where, 10_000, weight) * wrong - 1) > 5e-3


def test_the_divided_part_at_five() -> None:
    post = [1 / own_part(placement("post-ln"), s, 5.0) for s in (16, 64, 1024)]
    assert post == pytest.approx([42.6, 63.2, 73.4], abs=0.1)
    assert 1 / own_part(placement("pre-ln"), 16, 5.0) == pytest.approx(math.sqrt(26))
    assert [divisor(placement(n)) for n in ("post-ln", "pre-ln")] == ["cosh(R)", "sqrt(1 + R**2)"]


@given(st.floats(0.01, 8), st.floats(0.01, 8))
def test_more_in_common_leaves_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    for where in placements().values():
        assert limit(where, high) <= limit(where, low) <= 1
        assert own_part(where, 12, high) <= own_part(where, 12, low) + 1e-12
