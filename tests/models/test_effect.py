"""What an audit measures of a fault: one step of the model as it is, and of a fixed copy."""

from functools import cache
from statistics import fmean

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from written_models import GPT, VOCAB, Stack

import deepnet_theory as dt
from deepnet_theory.models import effect

IDS = torch.randint(VOCAB, (2, 16), generator=torch.Generator().manual_seed(0))


def test_an_audit_passes_forward_a_few_times_however_much_differs():
    model, passes = GPT(3), []
    model.register_forward_pre_hook(lambda *_: passes.append(1))  # of its copies, too
    found = dt.audit(model, IDS, optimizer="adamw")
    assert len(found.differences) >= 4 and found.effect_low < found.effect < found.effect_high
    assert 10 < len(passes) <= 40


def test_a_model_that_cannot_be_copied_is_judged_without_a_number(monkeypatch):
    def alone(*_):
        raise TypeError("cannot pickle '_thread.lock' object")

    monkeypatch.setattr(GPT, "__deepcopy__", alone, raising=False)
    found = dt.audit(GPT(3), IDS, optimizer="adamw")
    assert found.verdict == "REFUTED" and found.differences and found.effect is None


def test_an_error_of_ours_in_a_measured_step_is_no_missing_number(monkeypatch):
    def fails(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr(effect, "_update", fails)
    with pytest.raises(RuntimeError, match="ours"):
        dt.audit(GPT(3), IDS, optimizer="adamw")


DEPTH = 3
X = torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(1))


def one_step(net):
    """‖ΔF‖ of one sign step, as its derivative, over tokens of random targets."""
    generator = torch.Generator().manual_seed(2)
    sizes = []
    for _ in range(4):
        x, target = (torch.randn(1, 32, 64, generator=generator).double() for _ in range(2))
        net.zero_grad()
        out = net(x)
        (out * target).sum().backward()
        steps = {n: p - 1e-6 * p.grad.sign() for n, p in net.named_parameters()}
        change = torch.func.functional_call(net, steps, (x,)) - out
        sizes.append(change.norm(dim=-1).mean().item())
    return fmean(sizes)


@cache
def constants():
    rule = dt.Selection("adam", placement="pre-ln", stack="decoder")
    return dt.export(rule, DEPTH, width=64, heads=4, vocab=61)


def net():
    torch.manual_seed(0)
    model = Stack(DEPTH, d=64)
    dt.apply_(model, constants(), inputs=X)
    return model.double()


TIMES = st.lists(st.sampled_from((0.0, 0.5, 1.0, 2.0, 4.0)), min_size=DEPTH, max_size=DEPTH)


@settings(max_examples=1)
@example(times=[4.0] * DEPTH)
@example(times=[0.0] * DEPTH)
@given(TIMES.filter(lambda times: set(times) != {1.0}))
def test_an_effect_is_that_of_a_real_step(times):
    right, wrong = net(), net()
    with torch.no_grad():
        for block, by in zip(wrong.h, times, strict=True):
            block.mlp.c_proj.weight.mul_(by)
    audit = dt.audit(wrong, X.double(), optimizer="adam")
    assert audit.verdict == "REFUTED"
    assert audit.effect == pytest.approx(one_step(wrong) / one_step(right), rel=0.1)
