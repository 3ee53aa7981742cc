"""The first step with epsilon and weight decay, beside the libraries' own."""

from __future__ import annotations

import inspect

import pytest
import torch

from deepnet_theory.numeric.reference import library_optimizer
from deepnet_theory.numeric.stepping import UpdateAlgebra, update
from deepnet_theory.spec.errors import MissingExtraError
from deepnet_theory.spec.expression import fold
from deepnet_theory.spec.optimizer import optimizers

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
