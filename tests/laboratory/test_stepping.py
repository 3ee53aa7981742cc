"""The optimizer's expression on stacked weights: one update, with ε and decay, and many steps."""

import inspect
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.expression import UPDATE
from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import MissingExtraError, Refusal
from deepnet_theory.laboratory.stepping import Expressed, stepping
from deepnet_theory.models.step import library_optimizer, polar, update

LIBRARIES = {name: o for name, o in OPTIMIZERS.items() if o.reference is not None}


def drawn(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def library(reference):
    try:
        return library_optimizer(reference)
    except MissingExtraError as missing:
        pytest.skip(str(missing))


def numel(x):
    return x[0].numel()


def rms(x):
    return x.square().mean((1, 2), keepdim=True).sqrt()


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_each_seed_is_updated_by_itself(name):
    expression = OPTIMIZERS[name].expression
    for shape in ((3, 4, 7), (2, 7, 4), (3, 5)):
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


@given(st.integers(1, 4), st.integers(4, 8), st.integers(4, 8), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_polar_of_any_rank(rank, rows, columns, seed):
    left, right = (torch.linalg.qr(drawn((2, n, rank), seed + n)).Q for n in (rows, columns))
    sizes = drawn((2, 1, rank), seed).abs() + 0.1
    g = ((left * sizes) @ right.mT).float()
    torch.testing.assert_close(polar(g), (left @ right.mT).float(), atol=3e-5, rtol=0.0)


def test_polar_of_nothing_is_nothing_and_of_nan_it_is_nan():
    g = drawn((2, 4, 6))
    g[1, 0, 0] = torch.nan
    assert (polar(torch.zeros(1, 3, 3)) == 0).all()
    assert polar(g).isnan().all((1, 2)).tolist() == [False, True]


# ---- one step with ε and weight decay, beside the libraries ----

RATE, EPSILON, DECAY = 1e-3, 0.05, 0.2
# Adafactor is exact at rank one
MATRICES = torch.outer(drawn(4, 1), drawn(5, 2))[None], drawn((1, 4, 5), 3)


def practised(o, epsilon, decay):
    return update(o.practised, RATE, *MATRICES, epsilon=epsilon, decay=decay)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_without_them_it_is_the_update(name):
    o = OPTIMIZERS[name]
    if name == "muon" and hasattr(torch.optim, "Muon"):  # no library has its polar factor
        assert inspect.signature(torch.optim.Muon).parameters["eps"].default == o.epsilon
    torch.testing.assert_close(practised(o, 0.0, 0.0), update(o.expression, RATE, *MATRICES))


@pytest.mark.parametrize("name", LIBRARIES)
def test_with_them_it_is_the_librarys_first_step(name):
    o, make = LIBRARIES[name], library(LIBRARIES[name].reference)
    has_epsilon = "epsilon" in o.practised.names
    g, theta = (one[0] for one in MATRICES)
    parameter = torch.nn.Parameter(theta.clone())
    parameter.grad = g.clone()
    options = {"eps": EPSILON} if has_epsilon else {}
    make([parameter], **{"lr": RATE, "weight_decay": DECAY, **options}).step()
    theirs = parameter.detach() - theta
    off = (practised(o, EPSILON, DECAY)[0] - theirs).norm()
    # LAMB adds its epsilon to the denominator of its ratio too, 2 % of it here
    assert off < (0.03 if name == "lamb" else 1e-6) * theirs.norm()
    if has_epsilon:
        assert inspect.signature(make.func).parameters["eps"].default == o.epsilon
        assert name == "muon" or (practised(o, EPSILON / 2, DECAY)[0] - theirs).norm() > 2 * off
    assert (practised(o, EPSILON, -DECAY)[0] - theirs).norm() > 2 * off


# ---- many steps ----


WEIGHTS = drawn((5, 5), 9)
STEPS = [drawn((2, 7, 5), step) for step in range(12)]


def moved(make):
    """What twelve steps change in a linear map."""
    weight = torch.nn.Parameter(WEIGHTS.clone())
    optimizer = make([weight], lr=0.01)
    for x, y in STEPS:
        weight.grad = None
        ((x @ weight.mT).tanh() - y).square().sum().backward()
        optimizer.step()
    return weight.detach() - WEIGHTS


@pytest.mark.parametrize("name", ["sgd", "signsgd", "lars", "momentum"])
def test_the_expression_goes_on_as_the_library_does(name):
    o, planted = LIBRARIES[name], {"momentum": 0.7} if name == "momentum" else {}
    ours = moved(stepping(replace(o, reference=None, momentum=planted.get("momentum", 0.0))))
    theirs = moved(partial(library(o.reference), **planted))
    assert theirs.norm() > 1e-5 and (ours - theirs).norm() < 1e-4 * theirs.norm()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_many_steps_are_the_librarys_where_there_is_one(name):
    o = OPTIMIZERS[name]
    if o.reference is not None:
        assert stepping(o).func is library(o.reference).func
    elif o.momentum is not None:
        assert stepping(o).func is Expressed and moved(stepping(o)).isfinite().all()
    else:
        with pytest.raises(Refusal, match=rf"'{name}'.*first step alone.*adam.*muon"):
            moved(stepping(o))
