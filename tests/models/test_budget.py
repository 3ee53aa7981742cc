"""Another batch and another number of steps: what the constants, the file and the groups say."""

import json
import math
import warnings
from dataclasses import replace
from functools import partial

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from written_models import HEADS, VOCAB

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.cli import main
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.runtime import build
from deepnet_theory.runtime.building import schema
from deepnet_theory.sizes.width import role_table

pytestmark = pytest.mark.filterwarnings(
    "ignore::deepnet_theory.definitions.outcome.UnstableWarning"
)
SIZES = {"width": 32, "heads": HEADS, "vocab": VOCAB}
RATIOS = st.floats(1 / 64, 64)


def export(optimizer="adamw", placement="pre-ln", base=None, **run):
    selection = dt.Selection(optimizer=optimizer, placement=placement, stack="decoder")
    return dt.export(selection, 3, base=base, **SIZES, **run)


def numbers(c):
    """All that anything steps with, by its place."""
    model = build(c)
    names = {id(p): n for n, p in model.named_parameters()}
    return {
        names[id(p)]: (g["lr"], g.get("eps", 1.0), g["weight_decay"], c.eta)
        for g in parameter_groups(model, 1.0, eps=1.0, weight_decay=1.0)
        for p in g["params"]
    }


POWERS = {"adamw": 0.5, "sgd": 1.0, "lion": 0.5, "muon": 0.5}  # of the rate


@settings(max_examples=5)
@given(RATIOS, RATIOS, st.sampled_from(sorted(POWERS)), st.sampled_from(sorted(PLACEMENTS)),
       st.sampled_from((None, (16, 2))))  # fmt: skip
def test_each_parameter_steps_at_its_power_and_decays_alike_over_the_run(
    first, second, optimizer, placement, base
):
    """B0 to B1 and B1 to B2 multiply to B0 to B2; the same batch and steps change no bit."""
    stays = {"batch": 24, "base_batch": 24, "horizon": 1000, "base_horizon": 1000}
    same = export(optimizer, placement, base, **stays)
    assert replace(same, budget=None) == export(optimizer, placement, base)
    whole = {"batch": first * second, "base_batch": 1}
    plain, *found = (
        numbers(export(optimizer, placement, base, **run))
        for run in (
            {},
            {"batch": first, "base_batch": 1},
            {"batch": first * second, "base_batch": first},
            whole,
            whole | {"horizon": 500, "base_horizon": 1000},
        )
    )
    epsilon = role_table(dt.Selection(optimizer=optimizer), "batch").row("fc1").epsilon
    for name, before in plain.items():
        one, two, both, longer = (
            [b / a if a else 1.0 for a, b in zip(before, run[name], strict=True)] for run in found
        )
        assert [x * y for x, y in zip(one, two, strict=True)] == pytest.approx(both, rel=1e-9)
        assert one[0] == pytest.approx(first ** POWERS[optimizer])
        assert longer[:2] == both[:2]  # steps leave the rate and epsilon alone
        if epsilon is not None:
            assert one[1] == pytest.approx(first**-0.5)
        if before[2]:  # over the run as much: of as many samples, and of half the steps
            assert one[0] * one[2] == pytest.approx(first)
            assert longer[0] * longer[2] == pytest.approx(2)


def test_an_update_without_a_law_in_the_batch_has_one_in_the_steps():
    own = dt.Selection(update="-eta*abs(g)*sign(g)/(abs(g) + rms(g))", stack="decoder")
    assert dt.export(own, 2, horizon=20, base_horizon=10, **SIZES).budget.horizon == 20


def test_weights_start_as_without_it_and_files_hold_it():
    plain, c = export(), export(batch=64, base_batch=8)
    torch.manual_seed(0)
    before = build(plain).state_dict()
    torch.manual_seed(0)
    after = build(c).state_dict()
    assert all(torch.equal(one, after[name]) for name, one in before.items())
    data = json.loads(c.to_json())
    jsonschema.validate(data, schema())
    assert Constants.from_json(c.to_json()) == c and "budget" not in plain.to_dict()
    assert {p["memory"] for p in data["outer"].values()} == {8.0}
    for wrong in ({"batch": -1}, {"batch": 8}, {"size": 8}):
        with pytest.raises(InputError):
            Constants.from_dict({**data, "budget": wrong})


@pytest.mark.parametrize("base", [None, (16, 2)])
def test_groups_take_the_batch_as_the_file_does_and_each_optimizer_by_its_own_law(base):
    model, c = build(export(base=base)), export(base=base, batch=64, base_batch=8)
    asked = parameter_groups(model, 1e-3, weight_decay=0.1, batch=(64, 8))
    filed = parameter_groups(build(c), 1e-3, weight_decay=0.1)
    assert sorted(g["lr"] for g in asked) == pytest.approx(sorted(g["lr"] for g in filed))
    by = {"hidden": "sgd", "*": "adamw"}
    before, after = (
        parameter_groups(model, 1.0, optimizers=by, **run) for run in ({}, {"batch": (64, 8)})
    )
    assert [g["name"] for g in before] == [g["name"] for g in after]
    for one, other in zip(before, after, strict=True):
        times = 8 if one["optimizer"] == "sgd" else 8**0.5
        assert other["lr"] == pytest.approx(times * one["lr"]), one["name"]
    assert {g["optimizer"] for g in after} == set(by.values())
    # a file with a batch gives hybrids the same
    filed = parameter_groups(build(c), 1.0, optimizers=by)
    assert [g["lr"] for g in filed] == pytest.approx([g["lr"] for g in after])


def test_averages_span_as_much_and_one_that_ends_or_a_batch_above_the_noise_is_warned_of():
    longer = parameter_groups(
        build(export(horizon=4000, base_horizon=1000)), 1e-3, betas=(0.9, 0.98)
    )
    assert all(g["betas"] == pytest.approx((0.975, 0.995)) for g in longer)
    model = build(export())
    with pytest.warns(UserWarning, match=r"beta 0.9 leaves \(0, 1\) .* a batch of 80 or more"):
        groups = parameter_groups(model, 1e-3, batch=(96, 8), betas=(0.9, 0.999))
    assert groups[0]["betas"] == pytest.approx((0.0, 0.988))
    with pytest.warns(UserWarning, match="at 100 steps or fewer"):
        parameter_groups(model, 1e-3, horizon=(100, 1000), betas=(0.9,))
    with warnings.catch_warnings(action="error"):
        parameter_groups(model, 1e-3, batch=(72, 8), betas={"adamw": (0.9,), "muon": 0.5})
    c = export(batch=64, base_batch=8, b_noise=50)
    assert "above B_noise, 50" in c.warning and "0.875 or less" in c.condition
    assert not export(batch=64, base_batch=8, b_noise=65).warning


def test_what_is_no_batch_what_has_no_law_and_a_second_batch_are_refused(tmp_path, capsys):
    for run, said in (
        ({"batch": 64}, "batch 64 was given with the base's batch None"),
        ({"base_horizon": 64}, "horizon None was given with the base's horizon 64"),
        ({"batch": 0, "base_batch": 8}, "must be from"),
        ({"batch": "many", "base_batch": 8}, "must be"),
    ):
        with pytest.raises(InputError, match=said):
            export(**run)
    own = dt.Selection(update="-eta*norm(theta)*sign(g)", stack="decoder", placement="pre-ln")
    with pytest.raises(Refusal, match=r"bias: .* starts at 0 never leaves it"):
        dt.export(own, 2, batch=8, base_batch=4, **SIZES)
    assert dt.export(own, 2, batch=8, base_batch=4, bias=False, **SIZES).budget
    c = export(batch=64, base_batch=8)
    with pytest.raises(InputError, match="have a batch or a horizon already"):
        parameter_groups(build(c), 1e-3, batch=(8, 4))
    with pytest.raises(InputError, match="name no selection"):
        parameter_groups(build(replace(export(), origin={})), 1e-3, batch=(8, 4))
    file = tmp_path / "c.json"
    typed = ["export", "--optimizer", "adamw", "--depth", "4", "-o", str(file)]
    assert main([*typed, "--batch", "64", "--base-batch", "8"]) == 0
    assert Constants.load(file).parts[0].sublayers[0].parameters["query"].rate == math.sqrt(8)
    assert main([*typed, "--batch", "64"]) == 2


@pytest.mark.parametrize(("optimizer", "power"), [("lion", 0.5), ("momentum", 1), ("adamw", 0)])
def test_an_export_says_what_the_rates_take_where_betas_move_too(optimizer, power):
    c = export(optimizer, batch=64, base_batch=8)
    given = {"constants": export(optimizer), "weight_decay": 0.1}
    stay, move = (
        {g["role"]: g for g in parameter_groups(build(c), 1.0, batch=(64, 8), **given, **own)}
        for own in ({}, {"betas": 0.9 if optimizer == "momentum" else (0.9, 0.99)})
    )
    times = 8**power
    assert (f"another {times:.4g}." if power else "multiplied by 8.") in c.condition
    # of a decay inside the gradient its share of the gradient stays, of another the rate times it
    divided = "Divide the weight decays" in c.condition
    assert divided is (optimizer == "lion") and move.keys() == stay.keys()
    for role, group in stay.items():
        assert move[role]["lr"] == pytest.approx(times * group["lr"])
        decay = group["weight_decay"] / (times if divided else 1)
        assert move[role]["weight_decay"] == pytest.approx(decay)


def test_an_optimizer_with_one_average_takes_it_as_its_momentum():
    by, batch = {"hidden": "muon", "*": "adamw"}, (64, 8)
    asked = partial(parameter_groups, build(export()), 1.0, optimizers=by, batch=batch)
    groups = asked(betas={"muon": 0.95, "adamw": (0.9, 0.98)})
    muon = [{k: v for k, v in g.items() if k != "eps"} for g in groups if g["optimizer"] == "muon"]
    found = torch.optim.Muon([g for g in muon if g["params"][0].dim() == 2], lr=1.0)
    assert all(g["momentum"] == pytest.approx(0.6) for g in found.param_groups)
    stays = [g["lr"] for g in asked() if g["optimizer"] == "muon"]
    assert [g["lr"] for g in muon] == pytest.approx([8**0.5 * rate for rate in stays])
    for wrong, said in (((0.95, 0.99), "has a momentum"), ({"adamw": 0.9}, "has betas")):
        with pytest.raises(InputError, match=said):
            asked(betas=wrong)
    for wrong in (8, (8,), "64"):
        with pytest.raises(InputError, match=r"batch .* is no pair"):
            asked(**{"batch": wrong})
