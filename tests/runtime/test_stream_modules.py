"""Stacks of several streams against the same written by hand."""

import pytest
import torch

from deepnet_theory.runtime import build
from deepnet_theory.spec.placement import Placement, placement

F64 = torch.float64


def written(name, model, x):
    sublayers, end = list(model.residuals()), model.parts["encoder"].final_norm
    y = x
    for s in sublayers:
        if name == "residual-dual":  # as its Algorithm 1, the branch divided by alpha
            f = s.branch(x) / s.alpha
            x, y = s.norms[0](x + f), y + f
        else:
            f = s.branch(s.norms[0](x))
            x, y = x + f, y + f
    return x + end(y) if name == "residual-dual" else end(x + y)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("name", ["hyper-connections", "residual-dual"])
def test_a_stack_is_the_one_written_by_hand(constants, name, checkpoint):
    torch.manual_seed(0)
    model = build(constants(placement=name), dtype=F64)
    model.checkpoint_(checkpoint)
    x = torch.randn(2, 5, 16, dtype=F64)
    torch.testing.assert_close(model.body(x), written(name, model, x), rtol=0, atol=1e-12)
    gradients = []
    for output in (model.body(x), written(name, model, x)):
        model.zero_grad()
        output.square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parts.parameters()]))
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)
    where = placement(name)
    first = where.equation.split(";")[0]  # planted: the second stream is written to no more
    planted = Placement("planted", f"{first}; y", where.final_norm, output=where.output)
    right = written(name, model, x)
    for residual in model.residuals():
        residual.streams = planted.streams
    assert not torch.allclose(model.body(x), right)
