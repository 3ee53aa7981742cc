"""Each measurement against its definition on a stack small enough to write out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from published_rules import SMALL, rule
from torch import nn
from translated import unstack

from deepnet_theory.definitions.assumption import ASSUMPTIONS
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.judging import judge_assumption
from deepnet_theory.laboratory.model_update import directions_of, size_along
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.trace import (
    QUANTITIES,
    measure_draws,
    quantity,
    sample_layers,
    take_trace,
)
from deepnet_theory.laboratory.trial import Case, Trial
from deepnet_theory.runtime.branches import ACTIVATIONS

EXACT = Settings(width=16, heads=2, tokens=8, seeds=3, dtype="float64")


@pytest.mark.parametrize("placement", ["post-ln", "pre-ln", "res-post-ln", "sandwich-ln"])
def test_all_measurements_on_all_placements(placement):
    selection = Selection(optimizer="adam", placement=placement, stack="encoder-decoder")
    rule_of_both = own_rule(("encoder", "decoder"), "1", "1/2")
    trace = take_trace(Trial(Case(selection, rule_of_both, {"N": 2, "M": 2}, SMALL)))
    asked = {premise.measurement for premise in ASSUMPTIONS.values()} - {None}
    for key in asked | {*QUANTITIES}:
        values = quantity(key)(trace)
        assert values.shape == (3,) and values.isfinite().all(), key
    with pytest.raises(InputError, match="branch_weight"):
        quantity("branch_wait")


def test_post_ln_quantities_written_out():
    """One post-LN layer by hand: x -> a1 = LN(αx + G(x)) -> a2, and the gradients at both."""
    selection, own = Selection("adam", stack="decoder"), own_rule(("decoder",), "3", "1/2")
    trial = Trial(Case(selection, own, {"M": 1}, EXACT))
    trace = take_trace(trial)
    found = trace.each
    for k in range(trial.seeds):
        attention, ffn = (r.branch for r in unstack(trial.model, k).residuals())
        x0 = trial.inputs[0][k]
        g1 = attention(x0)
        x1 = nn.functional.layer_norm(3 * x0 + g1, (16,)).detach().requires_grad_()
        g2 = ffn(x1)
        z2 = 3 * x1 + g2
        x2 = nn.functional.layer_norm(z2, (16,))
        logits = x2 @ trial.model.head.weight[k].T
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), trial.batch.targets[k].flatten())
        at_x1, at_x2 = torch.autograd.grad(loss, (x1, x2))

        def rms(x):
            return x.square().sum(-1).mean().sqrt().item()

        n = 8  # tokens
        assert found("upstream_gradient")[0][k].item() == pytest.approx(n * rms(at_x1))
        assert found("upstream_gradient")[1][k].item() == pytest.approx(n * rms(at_x2))
        assert found("loss_gradient")[0][k].item() == pytest.approx(n * rms(at_x2))
        assert found("branch_weight")[0][k].item() == pytest.approx(rms(g1) / (3 * rms(x0)))
        assert found("branch_weight")[1][k].item() == pytest.approx(rms(g2) / (3 * rms(x1)))
        assert found("branch_response")[1][k].item() == pytest.approx(rms(g2) / (4 * 0.25))
        assert found("norm_output")[1][k].item() == pytest.approx(rms(x2) / 4)
        centred = z2 - z2.mean(-1, keepdim=True)
        by_token = 3 * 4 / centred.norm(dim=-1)  # z in units of x
        worst = by_token.square().mean().sqrt().item()
        assert found("norm_jacobian")[1][k].item() == pytest.approx(worst)
        query, key, _ = attention.heads(x0)
        later = torch.ones(8, 8, dtype=torch.bool).triu(1)  # a decoder averages only the past
        scores = (query @ key.mT / math.sqrt(8)).masked_fill(later, -math.inf)
        averaged = rms(scores.softmax(-1) @ x0[:, None]) / rms(x0)
        assert found("attention_average")[0][k].item() == pytest.approx(averaged)


@pytest.mark.parametrize(
    ("layer", "activation", "phi"),
    [
        ("attention,ffn", "relu", nn.functional.relu),
        ("attention,ffn", "gelu", nn.functional.gelu),
        ("attention,ffn:swiglu", "relu", nn.functional.silu),  # its gate has one of its own
    ],
)
def test_how_homogeneous_an_activation_is(layer, activation, phi):
    selection = Selection("adam", placement="pre-ln", layer=layer)
    settings = replace(EXACT, activation=activation)
    trial = Trial(Case(selection, own_rule(("encoder",), "1", "1"), {"N": 1}, settings))
    seen = []
    ffn = list(trial.model.residuals())[1].branch
    with ffn.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach())):
        (found,) = take_trace(trial).each("homogeneity")
    z = (ffn.gate if phi is nn.functional.silu else ffn.fc1)(seen[0]).detach()
    off = [
        (phi(c * z) / c - phi(z)).square().mean((1, 2, 3)) / phi(z).square().mean((1, 2, 3))
        for c in (1 / 2, 2)
    ]
    expected = 1 - torch.stack(off).amax(0).sqrt()
    torch.testing.assert_close(found, expected)
    assert (expected < 0.95).all() == (phi is not nn.functional.relu)


def test_layers_that_are_stepped_alone_are_spread():
    assert [sample_layers(n) for n in (3, 8)] == [{0, 1, 2}, {1, 3, 5, 7}]
    assert sample_layers(1000) == {125, 375, 625, 875}


@pytest.mark.parametrize("stack", ["encoder", "encoder-decoder"])
def test_alignment_is_exact_where_every_layer_is_sampled(stack):
    selection = Selection(optimizer="adam", stack=stack)
    parts = tuple(part.name for part in selection.the_stack.parts)
    depth = dict.fromkeys(selection.the_stack.depths, 2)
    case = Case(selection, own_rule(parts, "2", "1/2"), depth, EXACT)
    steps = directions_of(trial := Trial(case))
    own = {}
    for step in steps:
        own.setdefault((step[1].part, step[1].layer, step[1].sublayer), []).append(step)
    single = np.sum([size_along(trial, some) for some in own.values()], axis=0)
    (found,) = measure_draws(case, [0], (), ["aligned_updates"])[0].values()
    assert found == pytest.approx(size_along(trial, steps) / single)
    assert max(found) <= 1.01


# ---- every premise on a stack that has it, and on one that has not ----

LAB = Settings(width=16, heads=2, tokens=16, seeds=32)
TINY = Selection("adam", placement="res-post-ln"), "N**(-2)"  # the norm's ε is larger
PLANTED = {
    "aligned-updates": (Selection(update="-eta*theta"), "(2*N)**(-1/2)"),  # blind to the gradient
    "bounded-norm-jacobian": (Selection("adam"), "N**(1/2)"),
    "homogeneous-activation": (Selection("adam"), "1"),
    "unit-activations": TINY,
    "unit-branch": (Selection("adam", placement="res-post-ln"), "1"),  # reads what has grown
}


def verdicts(names, selection, given):
    places = [{"N": n} for n in (4, 8, 16)]
    asked = {ASSUMPTIONS[name].measurement: ASSUMPTIONS[name] for name in names}
    found = [measure_draws(Case(selection, given, at, LAB), [0], (), [*asked])[0] for at in places]
    return [
        judge_assumption(premise, places, np.array([one[what] for one in found]).T).verdict
        for what, premise in asked.items()
    ]


def test_premises_are_supported_where_they_hold(adam):
    assert verdicts(PLANTED, adam, rule("adam")) == [Verdict.SUPPORTED] * len(PLANTED)


@pytest.mark.parametrize("name", PLANTED)
def test_a_premise_is_refuted_where_it_is_broken(name, monkeypatch):
    selection, beta = PLANTED[name]
    if name == "homogeneous-activation":
        monkeypatch.setitem(ACTIVATIONS, "relu", torch.square)
    assert verdicts([name], selection, own_rule(("encoder",), "1", beta)) == [Verdict.REFUTED]
