"""Groups in people's loops: schedules, wrappers, adapters, checkpoints."""

import copy
import re
import warnings
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules
from written_models import GPT, HEADS, VOCAB, train

import deepnet_theory as dt
from deepnet_theory import apply_, guard, parameter_groups
from deepnet_theory.definitions.outcome import InputError

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


def test_a_group_of_ones_own_is_not_compared_and_some_must_be(model):
    _, adamw = optimizers(model)
    extra = nn.Linear(2, 2)
    adamw.add_param_group({"params": extra.parameters(), "lr": 7.0})
    guard(adamw)
    with warnings.catch_warnings(action="error"):
        adamw.step()
    with pytest.raises(InputError, match="no group has an lr_scale"):
        guard(torch.optim.SGD(extra.parameters(), lr=1.0))


def test_the_loop_of_the_docs_keeps_them(model):
    page = (Path(__file__).parents[2] / "docs" / "apply.md").read_text(encoding="utf-8")
    (loop,) = re.findall(r"^## Muon for .*?^```python\n(.*?)^```", page, re.M | re.S)
    batches = [(ids, ids.roll(-1)) for ids in IDS]
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", ".* are (packed into one|one matrix)")
        exec(loop, {"model": model, "batches": batches})
    planted = loop.replace(' * g["lr_scale"]', "")
    assert planted != loop
    with pytest.warns(UserWarning, match=FLATTENED):
        exec(planted, {"model": model, "batches": batches})


# ------------------------------------------------------------------ checkpoints


def test_what_is_loaded_goes_on_as_if_never_interrupted(model, tmp_path):
    twin = copy.deepcopy(model)
    both = optimizers(model)
    scheduled = [warmed(one) for one in both]
    whole = train(model, both, IDS, lambda: [s.step() for s in scheduled])
    both = optimizers(twin)
    scheduled = [warmed(one) for one in both]
    first = train(twin, both, IDS[:5], lambda: [s.step() for s in scheduled])
    torch.save([x.state_dict() for x in (twin, *both, *scheduled)], tmp_path / "c.pt")

    torch.manual_seed(1)
    again = GPT(2, bias=True)
    apply_(again, constants(), inputs=IDS[0])
    both = optimizers(again)
    flat = copy.deepcopy(both)
    scheduled = [warmed(one) for one in both]
    states = torch.load(tmp_path / "c.pt")  # weights_only, torch's default
    for x, state in zip((again, *both, *scheduled), states, strict=True):
        x.load_state_dict(state)
    guard(*both)
    for one, fresh in zip(both, flat, strict=True):
        for g, h in zip(one.param_groups, fresh.param_groups, strict=True):
            kept = ("name", "role", "optimizer", "lr_scale", "eps", "weight_decay")
            assert [g[k] for k in kept] == [h[k] for k in kept]
    planted = copy.deepcopy(again), None
    with warnings.catch_warnings(action="error"):
        rest = train(again, both, IDS[5:], lambda: [s.step() for s in scheduled])
    assert first + rest == whole
    lost = optimizers(planted[0])  # planted: the optimizers' state is not loaded
    assert train(planted[0], lost, IDS[5:]) != rest


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


def test_a_compiled_model_has_the_groups_of_the_plain_one(model):
    told = ("name", "role", "optimizer", "lr", "lr_scale", "eps", "weight_decay")
    compiled, plain = ([[*(g[k] for k in told), *g["params"]] for g in groups(m)]
                       for m in (torch.compile(model, backend="eager"), model))  # fmt: skip
    assert all(a is b or a == b for x, y in zip(compiled, plain, strict=True)
               for a, b in zip(x, y, strict=True))  # fmt: skip


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
