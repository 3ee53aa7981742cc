"""The optimizer's expression on stacked weights, alone and with epsilon and weight decay."""

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.numeric.reference import library_optimizer
from deepnet_theory.numeric.stepping import UpdateAlgebra, numel, polar, rms, update
from deepnet_theory.spec.errors import MissingExtraError
from deepnet_theory.spec.expression import UPDATE, fold
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
    eta = torch.tensor([1.0, 2.0], dtype=torch.float64)  # a learning rate for each seed
    each = update(UPDATE.parse(text), eta, g, theta)
    torch.testing.assert_close(each, law(eta[:, None, None], g, theta))


@pytest.mark.parametrize("shape", [(2, 7, 5), (2, 3, 5), (2, 7)])
def test_blocks_are_stepped_by_themselves(shape):
    g, theta = drawn(shape), drawn(shape, 1)
    text = "-eta*norm(theta)*{}"
    whole = update(
        UPDATE.parse(text.format("blocks(g/norm(g) + polar(g)/rows(g), 3)")), 0.3, g, theta
    )
    inner = UPDATE.parse("-eta*(g/norm(g) + polar(g)/rows(g))")
    own = [update(inner, 0.3, *both) for both in zip(g.split(3, 1), theta.split(3, 1), strict=True)]
    sizes = theta.flatten(1).norm(dim=1).reshape(-1, *[1] * (len(shape) - 1))
    torch.testing.assert_close(whole, sizes * torch.cat(own, 1))


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


RATE, EPSILON, DECAY = 1e-3, 0.05, 0.2
LIBRARIES = {name: o for name, o in optimizers().items() if o.reference is not None}


def matrices():
    generator = torch.Generator().manual_seed(1)
    left, right, theta = (torch.randn(n, generator=generator).double() for n in (4, 5, 20))
    return torch.outer(left, right)[None], theta.view(1, 4, 5)  # Adafactor is exact at rank one


def practised(o, epsilon, decay):
    g, theta = matrices()
    algebra = UpdateAlgebra(RATE, g, theta)
    algebra.values |= {"epsilon": epsilon, "decay": decay}
    return fold(o.practised.root, algebra)


def library(o, **options):
    try:
        make = library_optimizer(o.reference)
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    g, theta = matrices()
    parameter = torch.nn.Parameter(theta[0].clone())
    parameter.grad = g[0].clone()
    make([parameter], **{"lr": RATE, **options}).step()
    return parameter.detach() - theta[0], make.func


@pytest.mark.parametrize("name", optimizers())
def test_without_them_it_is_the_update(name):
    o = optimizers()[name]
    if name == "muon" and hasattr(torch.optim, "Muon"):  # no library has its polar factor
        assert inspect.signature(torch.optim.Muon).parameters["eps"].default == o.epsilon
    torch.testing.assert_close(practised(o, 0.0, 0.0), update(o.expression, RATE, *matrices()))


@pytest.mark.parametrize("name", LIBRARIES)
def test_with_them_it_is_the_librarys_first_step(name):
    o = LIBRARIES[name]
    has_epsilon = "epsilon" in o.practised.names
    options = {"weight_decay": DECAY, **({"eps": EPSILON} if has_epsilon else {})}
    theirs, kind = library(o, **options)
    ours = practised(o, EPSILON, DECAY)[0]
    # LAMB adds its epsilon to the denominator of its ratio too, 2 % of it here
    close = 0.03 if name == "lamb" else 1e-6
    assert (ours - theirs).norm() < close * theirs.norm()
    if has_epsilon:
        assert inspect.signature(kind).parameters["eps"].default == o.epsilon
        wrong = practised(o, EPSILON / 2, DECAY)[0]
        assert name == "muon" or (wrong - theirs).norm() > 2 * (ours - theirs).norm()
    assert (practised(o, EPSILON, -DECAY)[0] - theirs).norm() > 2 * (ours - theirs).norm()
