"""Each map's law beside what the runtime samples."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.runtime import build
from deepnet_theory.runtime.linear import NORM_EPS, normalise
from deepnet_theory.spec.norm import norms

F64 = torch.float64


def branches(constants, kind, seeds, **options):
    model = build(
        constants(layers=1, **options),
        seeds=seeds,
        dtype=F64,
        generator=torch.Generator().manual_seed(0),
    )
    return next(r.branch for r in model.residuals() if r.site.kind == kind)


@pytest.mark.parametrize("ratio", [1, 4])
@pytest.mark.parametrize("kind", ["attention", "ffn"])
def test_the_second_moment_of_a_branch(constants, kind, ratio):
    """E G² = β⁴ for value and output on one token, 2dh/(d+h)² β⁴ for ReLU feed-forward.

    Xavier's variances are 2/(d+d) = 1/d for value and output and 2/(d+h) for fc1 and fc2; a
    ReLU keeps half of a symmetric second moment. Input of rms 1.
    """
    seeds, d, beta = 400, 16, 0.7
    h = ratio * d
    G = branches(constants, kind, seeds, width=d, beta=beta, ffn_ratio=float(ratio))
    x = torch.randn(d, dtype=F64, generator=torch.Generator().manual_seed(1))
    x = x / x.square().mean().sqrt()
    with torch.no_grad():
        y = G(x.expand(seeds, 1, 1, d))  # one token: softmax is 1
    moments = y.square().mean((1, 2, 3))  # one a seed
    law = beta**4 * (1.0 if kind == "attention" else 2 * d * h / (d + h) ** 2)
    error = moments.std().item() / math.sqrt(seeds)
    assert abs(moments.mean().item() - law) < 4 * error
    # planted errors: fans exchanged for the width, or the gain entering once only
    for wrong in (law / beta, law * 1.5):
        assert abs(moments.mean().item() - wrong) > 4 * error


@pytest.mark.parametrize("kind", ["attention", "ffn"])
@settings(max_examples=10, deadline=None)
@given(factor=st.floats(0.1, 10))
def test_a_branch_is_homogeneous_of_degree_one_in_each_scaled_matrix(constants, kind, factor):
    """Gain β·c gives c² G: two scaled matrices, and query and key untouched."""
    x = torch.randn(2, 1, 5, 16, dtype=F64, generator=torch.Generator().manual_seed(1))
    plain = branches(constants, kind, 2, beta=0.5)(x)
    scaled = branches(constants, kind, 2, beta=0.5 * factor)(x)
    torch.testing.assert_close(scaled, factor**2 * plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(norms()))
@given(scale=st.floats(0.5, 1e4), seed=st.integers(0, 99))
def test_a_norm_forgets_the_scale_and_gives_the_square_root_of_the_width(name, scale, seed):
    x = torch.randn(3, 64, dtype=F64, generator=torch.Generator().manual_seed(seed))
    y, z = normalise(x, norms()[name]), normalise(scale * x, norms()[name])
    # ε is added to a variance near 1
    torch.testing.assert_close(z, y, rtol=4 * NORM_EPS, atol=4 * NORM_EPS)
    size = torch.full((3,), 8.0, dtype=F64)
    torch.testing.assert_close(z.norm(dim=-1), size, rtol=4 * NORM_EPS, atol=0)


@pytest.mark.parametrize("placement", ["post-ln", "res-post-ln", "sandwich-ln"])
def test_what_alpha_does_to_a_layer(constants, placement):
    """norm(αx + G) is norm(x + G/α); in the others the branch's output is divided by α."""
    x = torch.randn(1, 5, 16, dtype=F64)
    x = normalise(x, norms()["layer"])
    size = {}
    for alpha in (8.0, 64.0):
        model = build(
            constants(placement=placement, alpha=alpha, layers=1),
            dtype=F64,
            generator=torch.Generator().manual_seed(0),
        )
        size[alpha] = (next(iter(model.residuals()))(x) - x).norm().item()
    # a change of order 1/α; norm's curvature is of the next order
    assert size[8.0] / size[64.0] == pytest.approx(8.0, rel=0.1)
