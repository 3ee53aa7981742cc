"""Each measurement against its definition on a stack small enough to write out."""

import math

import pytest
import torch
from published_rules import SMALL
from torch import nn

from deepnet_theory.definitions.assumption import assumptions
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.trace import (
    QUANTITIES,
    correlation,
    quantity,
    take_trace,
)
from deepnet_theory.laboratory.trial import Trial
from deepnet_theory.runtime import unstack

EXACT = Settings(width=16, heads=2, tokens=8, seeds=3, dtype="float64")


def test_every_assumption_names_a_measurement_that_exists():
    for assumption in assumptions().values():
        if assumption.measurement is not None:
            quantity(assumption.measurement)
    with pytest.raises(InputError, match="branch_weight"):
        quantity("branch_wait")
    assert correlation(torch.ones(2, 1, 5, 4)).tolist() == pytest.approx([1, 1])
    assert correlation(torch.eye(4).reshape(1, 1, 4, 4)).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("placement", ["post-ln", "pre-ln", "res-post-ln", "sandwich-ln"])
@pytest.mark.parametrize("stack", ["encoder", "encoder-decoder"])
def test_all_measurements_on_all_placements(placement, stack):
    selection = Selection(optimizer="adam", placement=placement, stack=stack)
    parts = tuple(p.name for p in selection.the_stack.parts)
    depth = {p.depth: 2 for p in selection.the_stack.parts}
    trace = take_trace(Trial(Case(selection, own_rule(parts, "1", "1/2"), depth, SMALL)))
    for key, found in QUANTITIES.items():
        values = found(trace)
        assert values.shape == (3,), key
        assert values.isfinite().all(), key


def test_post_ln_quantities_written_out():
    """One post-LN layer by hand: x -> a1 = LN(αx + G(x)) -> a2, and the gradients at both."""
    selection, own = Selection(optimizer="adam"), own_rule(("encoder",), "3", "1/2")
    trial = Trial(Case(selection, own, {"N": 1}, EXACT))
    trace = take_trace(trial)
    first, second = trace.sublayers
    for k in range(trial.seeds):
        attention, ffn = (r.branch for r in unstack(trial.model, k).residuals())
        x0 = trial.inputs[0][k]
        g1 = attention(x0)
        x1 = nn.functional.layer_norm(3 * x0 + g1, (16,)).detach().requires_grad_()
        g2 = ffn(x1)
        x2 = nn.functional.layer_norm(3 * x1 + g2, (16,))
        logits = x2 @ trial.model.head.weight[k].T
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), trial.batch.targets[k].flatten())
        at_x1, at_x2 = torch.autograd.grad(loss, (x1, x2))

        def rms(x):
            return x.square().sum(-1).mean().sqrt().item()

        n = 8  # tokens
        assert first.upstream_gradient[k].item() == pytest.approx(n * rms(at_x1))
        assert second.upstream_gradient[k].item() == pytest.approx(n * rms(at_x2))
        assert trace.loss_gradient[k].item() == pytest.approx(n * rms(at_x2))
        assert first.branch_weight[k].item() == pytest.approx(rms(g1) / (3 * rms(x0)))
        assert second.branch_weight[k].item() == pytest.approx(rms(g2) / (3 * rms(x1)))
        weights = _weights(attention, x0)
        averaged = weights @ x0[:, None]
        assert first.attention_average[k].item() == pytest.approx(rms(averaged) / rms(x0), rel=1e-6)


def _weights(attention, x):
    q, k = attention.queries(x), attention.keys(x)
    return (q @ k.mT / math.sqrt(8)).softmax(-1)


def test_causal_attention_averages_only_the_past():
    selection = Selection(optimizer="adam", stack="decoder")
    settings = Settings(width=16, heads=2, tokens=1, seeds=3)
    single = take_trace(
        Trial(Case(selection, own_rule(("decoder",), "1", "1"), {"M": 1}, settings))
    )
    # one token can only attend to itself
    torch.testing.assert_close(
        single.sublayers[0].attention_average, torch.ones(3, dtype=torch.float64)
    )
