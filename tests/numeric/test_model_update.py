"""‖ΔF‖/η: against the definition, against JVPs, against a plain loop, and where it breaks."""

import math
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from published_rules import SMALL, rule
from torch import nn

from deepnet_theory.numeric import model_update as module
from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import (
    LINEAR,
    ModelUpdate,
    find_linear_step,
    measure_draw,
    measure_model_update,
)
from deepnet_theory.numeric.one_sublayer import change_along, directions_of
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.runtime import math_attention, unstack
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection

EXACT = Settings(width=16, heads=2, tokens=8, seeds=3, dtype="float64")


@pytest.mark.parametrize("name", sorted(optimizers()))
def test_the_measured_step_is_the_directional_derivative(name):
    """By forward-mode derivatives along the update: another route to the same ‖ΔF‖/η."""
    case = Case(Selection(optimizer=name), rule("adam"), {"N": 3}, EXACT)
    measured = measure_model_update(case)
    assert measured.second_order < LINEAR
    # the twin is an extra seed, so its draws are part of the trial that was measured
    trial = Trial(case, twin=True)
    with math_attention():
        change = change_along(trial, directions_of(trial, trial.parameters()))
    expected = change.norm(dim=-1).flatten(1).mean(1)[:-1]
    assert measured.values == pytest.approx(expected.tolist(), rel=0.01)


def test_repeatable_bit_for_bit(adam):
    first = measure_model_update(Case(adam, rule("adam"), {"N": 4}, SMALL), draws=2)
    assert measure_model_update(Case(adam, rule("adam"), {"N": 4}, SMALL), draws=2) == first
    other = Settings(width=16, heads=2, tokens=8, seeds=3, seed=1)
    assert measure_model_update(Case(adam, rule("adam"), {"N": 4}, other)).values != first.values


def test_draws_average(adam):
    one = measure_model_update(Case(adam, rule("adam"), {"N": 4}, SMALL))
    many = measure_model_update(Case(adam, rule("adam"), {"N": 4}, SMALL), draws=4)
    assert many.first_draw == one.values == one.first_draw
    assert many.values != one.values
    # the first has the twin, by which a step is seen to be linear; each draw counts once
    case = Case(adam, rule("adam"), {"N": 4}, SMALL)
    drawn = [measure_draw(case, many.eta, draw) for draw in range(4)]
    assert [d.second_order > 0 for d in drawn] == [True, False, False, False]
    assert many.second_order == drawn[0].second_order
    values = zip(*(d.values for d in drawn), strict=True)
    assert many.values == pytest.approx([fmean(of_a_seed) for of_a_seed in values])


def test_gradient_is_freed_and_first_order_predicts_the_loss(adam):
    found = measure_model_update(Case(adam, rule("adam"), {"N": 4}, EXACT))
    for change, first in zip(found.loss_changes, found.first_order, strict=True):
        assert change < 0
        assert change == pytest.approx(first, rel=0.02)


def test_share_of_nothing_and_share_of_all(adam):
    nothing = measure_model_update(
        Case(adam, rule("adam"), {"N": 2}, SMALL), chosen=lambda d: False
    )
    assert nothing.values == (0.0,) * 3
    whole = measure_model_update(Case(adam, rule("adam"), {"N": 2}, SMALL), chosen=lambda d: True)
    assert whole.values == measure_model_update(Case(adam, rule("adam"), {"N": 2}, SMALL)).values


def test_a_step_that_cannot_be_linear_says_so():
    def step(eta):
        return ModelUpdate(
            {"N": 1}, eta, (1.0,), 0.5, min(eta, 1.0), (1.0,), (0.0,), (0.0,), (0.0,)
        )

    assert find_linear_step(step, 1.0).second_order == 0.5


@pytest.mark.parametrize("start", [1e-12, 1.0, 1e6])
def test_a_linear_step_is_found_from_anywhere(adam, start):
    found = measure_model_update(Case(adam, rule("adam"), {"N": 4}, SMALL), eta=start)
    assert found.second_order < LINEAR
    assert math.log2(found.eta).is_integer()
    usual = measure_model_update(Case(adam, rule("adam"), {"N": 4}, SMALL))
    assert found.values == pytest.approx(usual.values, rel=0.02)


@pytest.mark.slow
def test_a_thousand_layers_take_one_step(monkeypatch):
    """Its size is not that of shallow stacks, at which rounding is more than is allowed."""
    case = Case(
        Selection(optimizer="adam"), rule("adam"), {"N": 1000}, replace(SMALL, width=32, tokens=32)
    )
    tried = []

    def counted(*given):
        tried.append(measure_draw(*given))
        return tried[-1]

    monkeypatch.setattr(module, "measure_draw", counted)
    found = measure_model_update(case)
    assert [u.depth["N"] for u in tried] == [1, 1000] and found.second_order < LINEAR
    shallow = measure_draw(case, found.eta / 2, 0)
    assert shallow.second_order > found.second_order
    assert shallow.values == pytest.approx(found.values, rel=0.01)
    double = replace(case, settings=replace(case.settings, dtype="float64"))
    assert module._eta_to_begin_with(double) == module._eta_of_one_layer(double)


SETTINGS = Settings(width=32, heads=4, tokens=16, seeds=3)
LAYERS = 6


def torchs_encoder(norm_first):
    layer = nn.TransformerEncoderLayer(
        32, 4, 128, dropout=0.0, activation="relu", batch_first=True, norm_first=norm_first
    )
    final = nn.LayerNorm(32) if norm_first else None
    encoder = nn.TransformerEncoder(layer, LAYERS, norm=final, enable_nested_tensor=False)
    for name, p in encoder.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(p)  # as in the papers; torch's own draws are uniform
    for p in encoder.parameters():  # the packed query, key, value is three matrices
        p.requires_grad_(p.dim() == 2)
        for chunk in p.data.chunk(3) if p.shape == (96, 32) else [p.data]:
            if p.dim() == 2:
                nn.init.xavier_normal_(chunk)
    return encoder


def copy_weights(encoder, model):
    for theirs, ours in zip(encoder.layers, model.parts["encoder"].layers, strict=True):
        attention, ffn = (residual.branch for residual in ours)
        packed = [attention.query.weight, attention.key.weight, attention.value.weight]
        theirs.self_attn.in_proj_weight.data.copy_(torch.cat(packed))
        theirs.self_attn.out_proj.weight.data.copy_(attention.output.weight)
        theirs.linear1.weight.data.copy_(ffn.fc1.weight)
        theirs.linear2.weight.data.copy_(ffn.fc2.weight)


def one_step(encoder, trial, k, eta):
    """As a user would write it: torch's encoder, torch's Adam, ‖ΔF‖/η of one seed."""
    matrices = [p for p in encoder.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(matrices, lr=eta)
    x = trial.inputs[0][k]
    before = encoder(x)
    logits = before @ trial.model.head.weight[k].T
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), trial.batch.targets[k].flatten())
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        return ((encoder(x) - before).norm(dim=-1).mean() / eta).item()


@pytest.mark.parametrize(("placement", "norm_first"), [("post-ln", False), ("pre-ln", True)])
def test_torchs_encoder_with_our_weights_gives_our_numbers(placement, norm_first):
    selection = Selection(optimizer="adam", placement=placement)
    vanilla = own_rule(("encoder",), "1", "1")
    ours = measure_model_update(Case(selection, vanilla, {"N": LAYERS}, SETTINGS))
    trial = Trial(Case(selection, vanilla, {"N": LAYERS}, SETTINGS), twin=True)
    for k in range(3):
        encoder = torchs_encoder(norm_first)
        copy_weights(encoder, unstack(trial.model, k))
        theirs = one_step(encoder, trial, k, ours.eta)
        assert theirs == pytest.approx(ours.values[k], rel=1e-3)
