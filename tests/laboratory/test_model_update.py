"""‖ΔF‖ against its definition, derivatives, plain loops and libraries, after one update or many."""

import math
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from published_rules import SMALL, rule
from torch import nn

from deepnet_theory.definitions.measurement import Predictions
from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory import model_update as module
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.model_update import (
    FRESH,
    LINEAR,
    ModelUpdate,
    counts,
    find_linear_step,
    measure_draw,
    measure_model_update,
    measure_updates,
)
from deepnet_theory.laboratory.one_sublayer import change_along, directions_of
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.stepping import backward, only, stepping
from deepnet_theory.laboratory.trial import Trial, draw_batch
from deepnet_theory.laboratory.verify import verify
from deepnet_theory.runtime import math_attention, unstack
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts

EXACT = replace(SMALL, dtype="float64")
ADAM = Case(Selection(optimizer="adam"), rule("adam"), {"N": 4}, SMALL)


@pytest.fixture(scope="module")
def usual():
    return measure_model_update(ADAM)


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
    # the gradient is freed, and to first order it says what the loss does
    for loss_change, slope in zip(measured.loss_changes, measured.first_order, strict=True):
        assert loss_change < 0 and loss_change == pytest.approx(slope, rel=0.03)


def test_repeatable_bit_for_bit_and_the_mean_of_its_draws(usual):
    many = measure_model_update(ADAM, draws=4)
    assert measure_model_update(ADAM, draws=4) == many
    other = replace(ADAM, settings=replace(SMALL, seed=1))
    assert measure_model_update(other).values != usual.values
    assert many.first_draw == usual.values == usual.first_draw != many.values
    # the first has the twin, by which a step is seen to be linear; each draw counts once
    drawn = [measure_draw(ADAM, many.eta, draw) for draw in range(4)]
    assert [d.second_order > 0 for d in drawn] == [True, False, False, False]
    assert many.second_order == drawn[0].second_order
    values = zip(*(d.values for d in drawn), strict=True)
    assert many.values == pytest.approx([fmean(seed) for seed in values])


def test_share_of_nothing_and_share_of_all(usual):
    nothing = measure_model_update(ADAM, chosen=lambda d: False)
    assert nothing.values == (0.0,) * 3
    assert (nothing.second_order, nothing.relative_change) == (0.0, 0.0)
    assert measure_model_update(ADAM, chosen=lambda d: True).values == usual.values


def test_a_step_that_cannot_be_linear_says_so():
    def step(eta):
        nothing = (0.0,)
        return ModelUpdate(
            {"N": 1}, eta, (1.0,), 0.5, min(eta, 1.0), (1.0,), nothing, nothing, nothing
        )

    assert find_linear_step(step, 1.0).second_order == 0.5


@pytest.mark.parametrize("start", [1e-12, 1.0, 1e6])
def test_a_linear_step_is_found_from_anywhere(usual, start):
    found = measure_model_update(ADAM, eta=start)
    assert found.second_order < LINEAR and math.log2(found.eta).is_integer()
    assert found.values == pytest.approx(usual.values, rel=0.02)


@pytest.mark.slow
def test_a_thousand_layers_take_one_step(monkeypatch):
    """Its size is not that of shallow stacks, at which rounding is more than is allowed."""
    case = replace(ADAM, depth={"N": 1000}, settings=replace(SMALL, width=32, tokens=32))
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


LAYERS = 6


def torchs_encoder(model, norm_first):
    """torch's own encoder with the weights of a model of ours."""
    layer = nn.TransformerEncoderLayer(
        32, 4, 128, dropout=0.0, activation="relu", batch_first=True, norm_first=norm_first
    )
    final = nn.LayerNorm(32) if norm_first else None
    encoder = nn.TransformerEncoder(layer, LAYERS, norm=final, enable_nested_tensor=False)
    for name, p in encoder.named_parameters():
        p.requires_grad_(p.dim() == 2)
        if name.endswith("bias"):
            nn.init.zeros_(p)  # as in the papers; torch's own draws are uniform
    for theirs, ours in zip(encoder.layers, model.parts["encoder"].layers, strict=True):
        attention, ffn = (residual.branch for residual in ours)
        packed = [attention.query.weight, attention.key.weight, attention.value.weight]
        theirs.self_attn.in_proj_weight.data.copy_(torch.cat(packed))
        theirs.self_attn.out_proj.weight.data.copy_(attention.output.weight)
        theirs.linear1.weight.data.copy_(ffn.fc1.weight)
        theirs.linear2.weight.data.copy_(ffn.fc2.weight)
    return encoder


@pytest.mark.parametrize(("placement", "norm_first"), [("post-ln", False), ("pre-ln", True)])
def test_torchs_encoder_with_our_weights_gives_our_numbers(placement, norm_first):
    """As a user would write it: torch's encoder, torch's Adam, ‖ΔF‖/η of one seed."""
    selection = Selection(optimizer="adam", placement=placement)
    lab = Settings(width=32, heads=4, tokens=16, seeds=3)
    case = Case(selection, own_rule(("encoder",), "1", "1"), {"N": LAYERS}, lab)
    ours, trial = measure_model_update(case), Trial(case, twin=True)
    for k in range(3):
        encoder, x = torchs_encoder(unstack(trial.model, k), norm_first), trial.inputs[0][k]
        matrices = [p for p in encoder.parameters() if p.requires_grad]
        before = encoder(x)
        logits = before @ trial.model.head.weight[k].T
        targets = trial.batch.targets[k].flatten()
        nn.functional.cross_entropy(logits.flatten(0, 1), targets).backward()
        torch.optim.Adam(matrices, lr=ours.eta).step()
        with torch.no_grad():
            theirs = ((encoder(x) - before).norm(dim=-1).mean() / ours.eta).item()
        assert theirs == pytest.approx(ours.values[k], rel=1e-3)


# ---- many updates ----

FIVE = replace(EXACT, seeds=2, updates=5, eta=0.01, draws=1)


def test_five_updates_are_those_of_the_library():
    assert [list(counts(n)) for n in (1, 2, 5, 8)] == [[], [2], [2, 4, 5], [2, 4, 8]]
    case = replace(ADAM, depth={"N": 3}, settings=FIVE)
    found, trial = measure_updates(case), Trial(case)
    assert list(found) == [2, 4, 5]
    parameters = [p.requires_grad_(True) for p, _ in trial.parameters()]
    optimizer, start = torch.optim.Adam(parameters, lr=0.01), trial.output().detach()
    batches = [trial.batch, *(draw_batch(FIVE, 2, 1, FRESH + n) for n in range(1, 6))]
    for count in range(1, 6):
        optimizer.zero_grad()
        trial.loss(trial.output()).sum().backward()
        optimizer.step()
        if count in found:
            trial.see(batches[0])
            moved = (trial.output() - start).norm(dim=-1).flatten(1).mean(1)
            assert found[count] == pytest.approx(moved.tolist(), rel=1e-5)
        trial.see(batches[count])


def test_a_verification_has_an_exponent_for_each_number_of_updates_and_goes_on(cache):
    asked = (rule("adam"), Predictions(()), [{"N": 2}, {"N": 4}], FIVE)
    result = verify(ADAM.selection, *asked, cache=cache)
    assert [e.share for e in result.exponents] == ["all", "2 updates", "4 updates", "5 updates"]
    assert result.verdict is result.exponents[0].verdict
    assert verify(ADAM.selection, *asked, cache=cache).exponents == result.exponents
    with pytest.raises(Refusal, match="first step alone"):
        verify(Selection(optimizer="lion"), *asked)


def moved(closure, depth, steps=16, placement="post-ln"):
    """‖F_T − F_0‖ per token after T steps of Adam's expression on one batch."""
    selection = Selection(optimizer="adam", closure=closure, placement=placement)
    lab = replace(SMALL, width=32, tokens=16, seeds=2)
    trial = Trial(Case(selection, texts(solve_rule(selection)), {"N": depth}, lab))
    parameters = [p for p, _ in trial.parameters()]
    rates, expression = torch.full((2,), 2.0**-11), selection.the_optimizer.expression
    with torch.no_grad():
        first = trial.output().clone()
    for _ in range(steps):
        taken = stepping(parameters, expression, rates, rate=trial.rate)
        with only(trial.model, parameters), taken:
            backward(trial.loss(trial.output()))
    with torch.no_grad():
        return float((trial.output() - first).norm(dim=-1).mean())


def test_complete_moves_as_far_at_every_depth_and_symmetric_does_not():
    grown = {name: moved(name, 24) / moved(name, 6) for name in ("symmetric", "complete")}
    assert grown["complete"] == pytest.approx(1, abs=0.05)
    assert grown["symmetric"] > 1.2


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["pre-ln", "branch-multiplier"])
def test_complete_moves_as_far_wherever_the_norm_stands(placement):
    far = [moved("complete", depth, placement=placement) for depth in (8, 64)]
    assert far[1] / far[0] == pytest.approx(1, abs=0.1)
    one_step = moved("symmetric", 64, 1) / moved("symmetric", 8, 1)
    assert one_step == pytest.approx(1, abs=0.2)  # which does not show it


# ---- the search for a linear step, on a step that is a formula ----


def searched(start, change=1.0, curved=0.0, rounding=0.0, most=math.inf):
    """The step found where η moves F by ``change`` η, and every η that was tried."""
    tried = []

    def step(eta):
        tried.append(eta)
        moved = math.inf if eta > most else change * eta
        bent = curved * eta + (rounding / moved if moved else 0.0)
        return ModelUpdate({"N": 1}, eta, (1.0,), bent, moved, (1.0,), (), (), ())

    return find_linear_step(step, start), tried


def test_a_step_that_is_linear_where_it_begins_is_the_step():
    for change in (1.0, 0.05, 25.0):
        found, tried = searched(2.0**-10, change)
        assert tried == [found.eta] == [2.0**-10]
    assert searched(0.001)[0].eta == 2.0**-10  # a power of two


def test_a_step_of_another_size_is_scaled_to_the_change_that_is_aimed_at():
    for start in (1.0, 2.0**-30):
        found, tried = searched(start)
        assert found.eta == 2.0**-10 and len(tried) == 2
    found, tried = searched(1.0, most=2.0**-9)  # what is infinite is stepped back from by 1000
    assert tried == [1.0, 2.0**-10]
    found, tried = searched(2.0**-10, change=0.0)
    assert found.eta == tried[-1] == 2.0**40 and tried == [2.0**n for n in range(-10, 41, 10)]


def test_a_step_that_bends_is_tried_once_larger_and_once_smaller():
    found, tried = searched(2.0**-10, rounding=3e-5)  # a larger step drowns rounding
    assert tried == [2.0**-10, 2.0**-8] and found.eta == 2.0**-8
    found, tried = searched(2.0**-10, curved=20.0)  # a smaller one the curvature
    assert tried == [2.0**-10, 2.0**-8, 2.0**-12] and found.eta == 2.0**-12
    found, tried = searched(2.0**-6, curved=100.0)  # the best of all is said, linear or not
    assert tried == [2.0**-6, 2.0**-10, 2.0**-8, 2.0**-12] and found.eta == 2.0**-12
    found, tried = searched(2.0**-12, change=0.05, rounding=1.0)
    assert max(tried) == found.eta


def test_where_nothing_is_finite_nothing_more_is_tried():
    _, tried = searched(1.0, change=math.nan)
    assert tried == [1.0]
    found, tried = searched(1.0, most=0.0)
    assert found.relative_change == math.inf and len(tried) == 7
