"""Groups in people's loops: schedules, wrappers, adapters, checkpoints."""

import copy
import warnings
from functools import cache

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules
from written_models import GPT, HEADS, VOCAB, train

import deepnet_theory as dt
from deepnet_theory import apply_, guard, parameter_groups

LR, STEPS, BASE = {"muon": 0.02, "adamw": 3e-3}, 12, 16
IDS = torch.randint(VOCAB, (STEPS, 2, 9), generator=torch.Generator().manual_seed(0))
FLATTENED = "the schedule has flattened the learning rates: decoder/"


def constants():
    rule = dt.Selection(
        optimizer="adamw", placement="pre-ln", stack="decoder", closure="complete"
    )  # fmt: skip
    return dt.export(rule, 2, width=32, heads=HEADS, vocab=VOCAB, base=(BASE, 1))


@cache
def applied():
    torch.manual_seed(0)
    model = GPT(2, bias=True)
    apply_(model, constants(), inputs=IDS[0])
    return model


@pytest.fixture
def model():
    return copy.deepcopy(applied())


def groups(model):
    by = {"hidden": "muon", "*": "adamw"}
    with warnings.catch_warnings(action="ignore"):  # packed queries, keys and values
        return parameter_groups(model, LR, weight_decay=0.1, optimizers=by)


def optimizers(model):
    found = groups(model)
    muon, adamw = ([g for g in found if g["optimizer"] == name] for name in LR)
    return torch.optim.Muon(muon), torch.optim.AdamW(adamw)


# ------------------------------------------------------------------ schedules


def warmed(one):
    warm = schedules.LinearLR(one, 1e-3, total_iters=3)
    cosine = schedules.CosineAnnealingLR(one, STEPS - 3)
    return schedules.SequentialLR(one, [warm, cosine], milestones=[3])


def in_one_cycle(one):
    return schedules.OneCycleLR(one, [g["lr"] for g in one.param_groups], total_steps=STEPS + 1)


KEEP = {
    "LambdaLR": lambda one: schedules.LambdaLR(one, lambda step: min(1, step / 6)),
    "CosineAnnealingLR": lambda one: schedules.CosineAnnealingLR(one, STEPS),
    "SequentialLR": warmed,
    "OneCycleLR": in_one_cycle,
}
FLATTEN = {
    "OneCycleLR": lambda one: schedules.OneCycleLR(one, 0.1, total_steps=STEPS + 1),
    "CosineAnnealingLR": lambda one: schedules.CosineAnnealingLR(one, STEPS, eta_min=1e-3),
}


@pytest.mark.parametrize("name", KEEP)
def test_groups_survive_torchs_schedulers(model, name):
    both = optimizers(model)
    guard(*both)
    schedulers = [KEEP[name](one) for one in both]
    seen = []

    def after():
        for scheduler in schedulers:
            scheduler.step()
        for one in both:
            rates = [g["lr"] / g["lr_scale"] for g in one.param_groups]
            assert rates == pytest.approx([rates[0]] * len(rates), rel=1e-9)
        seen.append(rates[0])

    with warnings.catch_warnings(action="error"):
        train(model, both, IDS, after)
    assert len(set(seen)) > 3, "it is a schedule"


@pytest.mark.parametrize("name", FLATTEN)
def test_a_scheduler_that_flattens_is_seen(model, name):
    (_, adamw) = both = optimizers(model)
    guard(adamw)
    scheduler = FLATTEN[name](adamw)
    with pytest.warns(UserWarning, match=FLATTENED) as caught:
        train(model, both, IDS, scheduler.step)
    assert len([w for w in caught if FLATTENED in str(w.message)]) == 1, "once"


def scaled(both):
    for g in (g for one in both for g in one.param_groups):
        g["lr"] = 0.5 * LR[g["optimizer"]] * g["lr_scale"]


@pytest.mark.parametrize("flattened", ["all", "muon", "adamw"])
def test_a_loop_that_sets_one_rate_is_warned_of_once(model, flattened):
    """The matrices that Muon steps all have one multiplier: beside AdamW's groups it is missed."""
    muon, _ = both = optimizers(model)
    assert len({g["lr_scale"] for g in muon.param_groups}) == 1 != muon.param_groups[0]["lr_scale"]
    handle = guard(*both)

    def flat():
        scaled(both)
        for g in (g for one in both for g in one.param_groups):
            if flattened in ("all", g["optimizer"]):
                g["lr"] = 0.5 * LR[g["optimizer"]]

    with pytest.warns(UserWarning, match=FLATTENED) as caught:
        train(model, both, IDS, flat)
    said = [str(w.message) for w in caught if FLATTENED in str(w.message)]
    assert len(said) == 1 and 'write g["lr"] = lr * g["lr_scale"]' in said[0]
    assert caught[0].filename == __file__, "it is said of the loop"
    handle.remove()
    silent = optimizers(model)
    guard(*silent).remove()
    with warnings.catch_warnings(action="error"):
        train(model, silent, IDS[:2], flat)


# ------------------------------------------------------------------ checkpoints


class LowRank(nn.Module):
    """LoRA: W x + B A x, W frozen, B zero at the start."""

    def __init__(self, of, rank=2):
        super().__init__()
        self.of = of.requires_grad_(False)
        self.a = nn.Linear(of.in_features, rank, bias=False)
        self.b = nn.Linear(rank, of.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.of(x) + self.b(self.a(x))


def test_adapters_are_other_and_what_is_frozen_stays(model):
    """Wrapped after apply_: the rule of what is still learnt is kept, and none is of adapters."""
    for block in model.h:
        block.mlp.c_fc = LowRank(block.mlp.c_fc)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    found = groups(model)
    (other,) = (g for g in found if g["role"] == "other")
    adapters = [p for block in model.h for p in (block.mlp.c_fc.a.weight, block.mlp.c_fc.b.weight)]
    assert sorted(map(id, other["params"])) == sorted(map(id, adapters))
    assert (other["optimizer"], other["lr"], other["lr_scale"]) == ("adamw", LR["adamw"], 1.0)
    train(model, optimizers(model), IDS[:2])
    still = {n for n, p in model.named_parameters() if torch.equal(p, before[n])}
    assert still == {f"h.{i}.mlp.c_fc.of.{of}" for i in range(2) for of in ("weight", "bias")}


def test_a_trainers_own_optimizer_after_apply_is_warned_of_at_its_first_step():
    """It makes one group of all parameters: the rule's multiples are lost."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 64, 0.0, batch_first=True)
    constants = dt.export(dt.Selection("adamw", closure="unit-init"), 6, width=16, heads=2)
    for groups, warned in ((None, True), (parameter_groups, False)):
        model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        apply_(model, constants, initialise=True)
        with warnings.catch_warnings(record=True, action="always"):
            given = model.parameters() if groups is None else groups(model, 1e-3)
        optimizer = torch.optim.AdamW(given, lr=1e-3)
        for first in (True, False):
            with warnings.catch_warnings(record=True, action="always") as told:
                model(torch.randn(1, 4, 16)).square().sum().backward()
                optimizer.step()
            lost = [w for w in told if "at one learning rate" in str(w.message)]
            assert bool(lost) is (warned and first)
