"""Learnt multipliers of other people's models: LayerScale, scalars of the stream, ReZero."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import Refusal

pytestmark = pytest.mark.usefixtures("unmeasured")

IDS = torch.arange(16).view(2, 8)
V = 61


def scaled(line, layers=3, value=0.1, shape=(32,), **options):
    """A GPT whose residual line multiplies by a parameter of each branch."""
    model = GPT(layers, line, **options)
    for block in model.h:
        for branch in (block.attn, block.mlp):
            branch.scale = nn.Parameter(torch.full(shape, value))
    return model


def layer_scale(x, f, norm):
    return x + f.scale * f(norm(x))


def exported(layers=3, optimizer="adamw", closure="complete", placement="layer-scale", **sizes):
    rule = dt.Selection(optimizer, placement=placement, stack="decoder", closure=closure)
    return dt.export(rule, layers, **{"width": 32, "heads": 4, "vocab": V, **sizes})


def test_a_multiplier_beside_other_norms_has_no_law_and_is_named():
    model = scaled(lambda x, f, norm: norm(x + f.scale * f(x)), final=False)
    audit = dt.audit(model, IDS)
    assert audit.verdict == "UNDECIDED"
    assert "multiplied by h.0.attn.scale, which is learnt" in audit.refusal
    with pytest.raises(Refusal, match="is learnt, the constants are for"):
        apply_(scaled(layer_scale), exported(placement="pre-ln"), inputs=IDS)


# ---- a real step ----


# ---- models of libraries, and as they are written ----


# ---- what adds nothing at the start ----


def zero_outputs(model):
    with torch.no_grad():
        for block in model.h:
            block.attn.c_proj.weight.zero_()
            block.mlp.c_proj.weight.zero_()
    return model


def remarks(model, under):
    said = dt.audit(model, IDS, optimizer=under).remarks
    return [remark for remark in said if "add nothing at the start" in remark]


def test_the_first_steps_of_branches_of_zero_are_said():
    (output,) = remarks(zero_outputs(GPT(3)), "adamw")
    assert output.startswith("6 of 6 branches") and "h.0.attn.c_proj.weight is 0" in output
    assert output.endswith("by order eta^(2)")
    (gate,) = remarks(scaled(layer_scale, value=0.0), "sgd")
    assert "h.0.attn.scale is 0" in gate and gate.endswith("by order eta^(3)")
    (both,) = remarks(zero_outputs(scaled(layer_scale, value=0.0)), "adamw")
    assert "and never do" in both
    (ratio,) = remarks(zero_outputs(GPT(3)), "lamb")
    assert "leaves it there" in ratio
    assert remarks(GPT(3), "adamw") == []
    audit = dt.audit(scaled(layer_scale, value=0.0), IDS, optimizer="adamw")
    assert audit.effect is None  # and not 0: the multipliers move the output


def through_others(model, zero, step, eta):
    """What a second step moves the output by through what was not 0, all else as after it."""
    model = copy.deepcopy(model).double()
    parameters = {
        n: p for n, p in model.named_parameters() if n.startswith("h.") and ".ln" not in n
    }

    def stepped():
        model.zero_grad()
        loss = F.cross_entropy(model(IDS).flatten(0, 1), IDS.flatten())
        loss.backward()
        return {n: p - eta * step(p.grad) for n, p in parameters.items()}

    first = stepped()
    assert all(torch.equal(first[n], parameters[n]) for n in first if zero not in n)
    assert not any(torch.equal(first[n], parameters[n]) for n in first if zero in n)
    with torch.no_grad():
        for name, value in first.items():
            parameters[name].copy_(value)
    second = stepped()
    alone = {n: second[n] if zero in n else p for n, p in parameters.items()}
    call = torch.func.functional_call
    with torch.no_grad():
        return float((call(model, second, (IDS,)) - call(model, alone, (IDS,))).norm())


@pytest.mark.parametrize(
    ("step", "order", "eta"), [(torch.sign, 2.0, 1e-5), (lambda g: g, 3.0, 1e-2)]
)
@pytest.mark.parametrize("zero", ["c_proj", "scale"])
def test_two_real_steps_from_zero_move_the_output_by_the_order_that_is_said(zero, step, order, eta):
    """No gradient but that of what is 0 in the first step; eta^(2 + p) through all else next."""
    torch.manual_seed(0)
    line = scaled(layer_scale, value=0.0) if zero == "scale" else zero_outputs(GPT(3))
    sizes = [through_others(line, zero, step, eta) for eta in (eta, 4 * eta)]
    assert math.log(sizes[1] / sizes[0], 4) == pytest.approx(order, abs=0.1)
