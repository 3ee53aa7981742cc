"""The optimizer's expression on stacked weights is each seed's own update."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.numeric.stepping import norm, numel, polar, rms, update
from deepnet_theory.spec.expression import UPDATE
from deepnet_theory.spec.optimizer import optimizers

SHAPES = [(3, 4, 7), (2, 7, 4), (3, 5)]


def drawn(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", sorted(optimizers()))
def test_each_seed_is_updated_by_itself(name, shape):
    expression = optimizers()[name].expression
    g, theta = drawn(shape), drawn(shape, 1)
    together = update(expression, 0.1, g, theta)
    for k in range(shape[0]):
        alone = update(expression, 0.1, g[k : k + 1], theta[k : k + 1])
        torch.testing.assert_close(together[k : k + 1], alone)


def test_a_norm_over_the_whole_stack_would_be_seen():
    # the error that library optimizers make on stacked weights
    g, theta = drawn((3, 4, 7)), drawn((3, 4, 7), 1)
    right = update(UPDATE.parse("-eta*norm(theta)*g/norm(g)"), 1.0, g, theta)
    wrong = -theta.norm() * g / g.norm()
    assert not torch.allclose(right, wrong)
    assert torch.allclose(norm(right), norm(theta))


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("-eta*g", lambda e, g, t: -e * g),
        ("-eta*sign(g)", lambda e, g, t: -e * torch.sign(g)),
        ("eta*sqrt(abs(g))*rms(theta)", lambda e, g, t: e * g.abs().sqrt() * rms(t)),
        ("eta*numel(theta)*g**3", lambda e, g, t: e * numel(t) * g**3),
        ("eta*max(g, theta, 0)", lambda e, g, t: e * torch.maximum(g, t).clamp(min=0)),
        ("eta*min(g, 1/2)", lambda e, g, t: e * g.clamp(max=0.5)),
        ("eta*clip(g, -1/2, rms(theta))", lambda e, g, t: e * g.clamp(min=-0.5).minimum(rms(t))),
        ("eta*log(abs(g) + 1)", lambda e, g, t: e * torch.log(g.abs() + 1)),
        ("eta*norm(2)*g", lambda e, g, t: e * 2 * numel(t) ** 0.5 * g),
    ],
)
def test_functions(text, law):
    g, theta = drawn((2, 3, 5)), drawn((2, 3, 5), 1)
    torch.testing.assert_close(update(UPDATE.parse(text), 0.3, g, theta), law(0.3, g, theta))


def test_one_learning_rate_per_seed():
    g, theta = drawn((3, 4, 7)), drawn((3, 4, 7), 1)
    eta = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(
        update(UPDATE.parse("-eta*g"), eta, g, theta), -eta[:, None, None] * g
    )


@given(
    rank=st.integers(1, 4),
    rows=st.integers(4, 8),
    columns=st.integers(4, 8),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_polar_of_any_rank(rank, rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(2, rows, rank, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(2, columns, rank, generator=generator)).Q
    sizes = torch.rand(2, 1, rank, generator=generator) + 0.1
    torch.testing.assert_close(
        polar((left * sizes) @ right.mT), left @ right.mT, atol=3e-5, rtol=0.0
    )


def test_polar_keeps_to_its_seed_and_lets_nan_through():
    g = drawn((3, 4, 6))
    clean = polar(g)
    g[1, 0, 0] = torch.nan
    hurt = polar(g)
    assert hurt[1].isnan().all()
    torch.testing.assert_close(hurt[[0, 2]], clean[[0, 2]])
    assert (polar(torch.zeros(1, 3, 3)) == 0).all()


def test_polar_of_a_large_matrix_of_low_rank_is_that_of_its_singular_vectors():
    left, right = (drawn((2, n, 5), n).float() for n in (300, 400))
    g = left @ right.mT
    u, s, v = torch.linalg.svd(g.double(), full_matrices=False)
    assert (s[:, 5] < 1e-5 * s[:, 0]).all()
    torch.testing.assert_close(polar(g).double(), u[..., :5] @ v[:, :5], atol=1e-5, rtol=0.0)
