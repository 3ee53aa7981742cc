"""What an audit judges by: no rule where none has a law, and effects that a real step has."""

from dataclasses import replace
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import InputError, Refusal

LAYERS = 3
IDS = torch.arange(16).view(2, 8)


def before_activations():
    """A norm between the first matrix of a feed-forward and its activation."""
    model = GPT(LAYERS)
    for block in model.h:
        block.mlp.c_fc = nn.Sequential(block.mlp.c_fc, nn.LayerNorm(4 * 32))
    return model


WITHOUT_LAW = {
    "norms inside": (before_activations, "a norm within its branch"),
    "multiplied by 0": (
        lambda: GPT(LAYERS, lambda x, f, n: x + 0.0 * f(n(x))),
        "is multiplied by 0",
    ),
}


@pytest.fixture(scope="module")
def constants():
    rule = dt.Selection("adamw", placement="pre-ln", stack="decoder")
    return dt.export(rule, LAYERS, width=32, vocab=61)


@pytest.mark.parametrize("name", WITHOUT_LAW)
def test_an_audit_judges_by_no_rule_that_apply_refuses(name, constants):
    make, why = WITHOUT_LAW[name]
    model = make()
    with pytest.raises(Refusal) as refused:
        apply_(model, constants, inputs=IDS)
    for given in ({"optimizer": "adamw"}, {"constants": constants}):
        audit = dt.audit(model, IDS, **given)
        assert (audit.verdict, audit.findings, audit.effect) == ("UNDECIDED", (), None)
        told = " ".join(str(audit).split())
        assert why in told and str(refused.value) in told


def with_parts(c, **changed):
    return replace(c, parts=tuple(replace(part, **changed) for part in c.parts))


OF_ANOTHER = {  # the model, the constants, and what both say
    "of a norm": (
        lambda: GPT(LAYERS, norm=nn.RMSNorm),
        lambda c: c,
        "has RMS norm, the constants are for the norm 'layer'",
    ),
    "of residual gains": (
        lambda: GPT(LAYERS),
        lambda c: replace(c, architecture=replace(c.architecture, residual_gain=0.5)),
        "the constants ask for residual gains",
    ),
    "of other layers": (
        lambda: GPT(LAYERS),
        lambda c: with_parts(c, sublayers=c.parts[0].sublayers[:1]),
        "a layer of the decoder is attention, ffn, the constants are for attention",
    ),
}


@pytest.mark.parametrize("name", OF_ANOTHER)
def test_audit_and_apply_refuse_constants_of_another_model_in_the_same_words(name, constants):
    make, change, why = OF_ANOTHER[name]
    model, other = make(), change(constants)
    with pytest.raises(Refusal, match=why) as refused:
        apply_(model, other, inputs=IDS)
    with pytest.raises(InputError) as told:
        dt.audit(model, IDS, constants=other)
    assert str(told.value) == str(refused.value)


class Net(nn.Module):
    """Feed-forward sublayers on vectors: pre-LN, at the gains that constants ask for."""

    def __init__(self, constants):
        super().__init__()
        torch.manual_seed(0)
        gains = constants.parts[0].sublayers[0]
        self.up = nn.ModuleList(nn.Linear(64, 256, bias=False) for _ in range(DEPTH))
        self.down = nn.ModuleList(nn.Linear(256, 64, bias=False) for _ in range(DEPTH))
        for name, maps in (("fc1", self.up), ("fc2", self.down)):
            for own in maps:
                nn.init.xavier_normal_(own.weight, gains.gain(name))

    def forward(self, x):
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(F.relu(up(F.layer_norm(x, (64,)))))
        return F.layer_norm(x, (64,))


DEPTH = 6
X = torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(1))


def one_forgotten(net):
    net.down[-1].weight.mul_(4)


def zero_outputs(net):
    for own in net.down:
        own.weight.zero_()


def every_second_zero(net):
    for own in net.down[::2]:
        own.weight.zero_()


def graded(net):
    for index, own in enumerate(net.down):
        own.weight.mul_(0.5 * 1.4**index)


def far(net):
    for own in (*net.up, *net.down[:-1]):
        own.weight.mul_(6)


CHANGED = {
    "one layer forgotten": one_forgotten,
    "outputs of zero": zero_outputs,
    "every second output of zero": every_second_zero,
    "gains that grow with the layer": graded,
    "far from the identity": far,
}


def one_step(net):
    """‖ΔF‖ of one sign step, as its derivative, over tokens of random targets."""
    generator = torch.Generator().manual_seed(2)
    sizes = []
    for _ in range(4):
        x, target = (torch.randn(1, 32, 64, generator=generator) for _ in range(2))
        net.zero_grad()
        out = net(x)
        (out * target).sum().backward()
        steps = {n: p - 1e-6 * p.grad.sign() for n, p in net.named_parameters()}
        change = torch.func.functional_call(net, steps, (x,)) - out
        sizes.append(change.norm(dim=-1).mean().item())
    return fmean(sizes)


@pytest.fixture(scope="module")
def of_ffn():
    rule = dt.Selection("adam", placement="pre-ln", layer="ffn")
    return dt.export(rule, DEPTH, width=64, vocab=61)


@pytest.mark.parametrize("name", CHANGED)
def test_an_effect_is_that_of_a_real_step(name, of_ffn):
    torch.set_default_dtype(torch.float64)
    try:
        right, wrong = Net(of_ffn), Net(of_ffn)
        with torch.no_grad():
            CHANGED[name](wrong)
        audit = dt.audit(wrong, X.double(), optimizer="adam")
        assert audit.verdict == "REFUTED"
        assert audit.effect == pytest.approx(one_step(wrong) / one_step(right), rel=0.3)
    finally:
        torch.set_default_dtype(torch.float32)
