"""Models of constants that are relative to a base: what a step does at every width."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional
from translated import unstack

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.models.step import update
from deepnet_theory.runtime import build

WIDTHS, BASE, SEEDS = (64, 256), 64, 6
MUON = optimizer("muon").expression
NEAR = 0.15  # of an exponent; a role out of the rule is off by 1/2 or more
HIDDEN = {"query", "key", "value", "output", "fc1", "fc2"}


class OfAnUpdate:
    """One step of an update's expression."""

    def __init__(self, groups):
        self.groups = groups

    @torch.no_grad()
    def step(self):
        for group in self.groups:
            for p in group["params"]:
                p += update(MUON, group["lr"], p.grad[None], p[None].clone())[0]


OPTIMIZERS = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=1.0, weight_decay=0.0),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1.0),
    "muon": OfAnUpdate,
}


def constants(optimizer, width, base=BASE, **given):
    sizes = {"width": width, "heads": width // 32, "vocab": 32, "ffn_ratio": 2.0, **given}
    return dt.export(optimizer, 2, base=base, **sizes)


def batch(seed):
    tokens = torch.randint(32, (1, 5), generator=torch.Generator().manual_seed(100 + seed))
    return tokens[:, :-1], tokens[:, 1:]


def step(model, optimizer, seed=0, lr=1e-3, only=None):
    """One step: the logits before and after, and -<g, update> of each group by its role."""
    x, y = batch(seed)
    before = model(x)
    functional.cross_entropy(before.flatten(0, 1), y.flatten()).backward()
    groups = [g for g in parameter_groups(model, lr) if only is None or g["role"] in only]
    members = [(g["role"], [(p, p.detach().clone()) for p in g["params"]]) for g in groups]
    OPTIMIZERS[optimizer](groups).step()
    work: dict[str, float] = {}
    for role, own in members:
        done = -sum(float((p.grad * (p.detach() - old)).sum()) for p, old in own)
        work[role] = work.get(role, 0.0) + done
    with torch.no_grad():
        return before.detach(), model(x), work


def measured(optimizer, changed=lambda c: c, only=None, widths=WIDTHS, **given):
    """The exponent in the width of the change of the logits, and of -<g, update> by role."""
    sizes = []
    for width in widths:
        c, found = changed(constants(optimizer, width, **given)), []
        for seed in range(SEEDS):
            model = build(c, generator=torch.Generator().manual_seed(seed))
            before, after, work = step(model, optimizer, seed, only=only)
            found.append({"logits": float((after - before).square().mean().sqrt()), **work})
        sizes.append({k: sum(f[k] for f in found) for k in found[0] if k != "key-bias"})
    at = np.log(widths)
    return {k: np.polyfit(at, np.log([s[k] for s in sizes]), 1)[0] for k in sizes[0]}


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon"])
def test_under_the_rule_no_role_moves_more_at_another_width(optimizer):
    found = measured(optimizer, **({"only": HIDDEN} if optimizer == "muon" else {}))
    assert found.keys() >= HIDDEN | {"logits"}
    assert all(abs(exponent) < NEAR for exponent in found.values()), found


def test_without_the_rule_they_do():
    """Planted: no base; no multiplier on the head; the hidden matrices' rates left at 1."""
    far = partial(measured, "adamw")
    plain = far(base=None)
    assert plain["logits"] > 1 and plain["token-embedding"] > 0.4
    unmultiplied = far(lambda c: replace(c, head_multiplier=1.0))
    del unmultiplied["logits"]
    assert all(exponent > 0.8 for exponent in unmultiplied.values())

    def at_rate_one(c):
        inside = ((at, row) for at, row in c.rows.items() if at[1] is not None)
        return c.with_rows({at: replace(row, rate=1.0) for at, row in inside})

    stepped = far(at_rate_one)
    assert all(stepped[role] > 0.8 for role in HIDDEN) and abs(stepped["head"]) < NEAR


def test_scores_fall_with_the_head_size_where_the_heads_stay():
    c = constants("adamw", 128, 32, heads=4, base_heads=4)
    assert c.scores == pytest.approx(math.sqrt(8 / 32))
    unaligned = constants("adamw", 128, 32, heads=4, base_heads=4, alignment="none")
    assert unaligned.scores == 1  # a sum of k terms that do not align grows as its root
    (attention, _), x = [r.branch for r in build(c).residuals()][:2], torch.randn(1, 5, 128)
    q, k, v = attention.heads(x)
    weights = (q @ k.mT * math.sqrt(8) / 32).softmax(-1)  # 1/k, and as ever at the base
    own = attention.output((weights @ v).transpose(1, 2).reshape(x.shape))
    torch.testing.assert_close(attention(x), own)


def test_the_heads_multiplier_is_in_the_forward_pass_of_each_seed():
    c, (x, _) = constants("adamw", 64, 32, heads=4, base_heads=4, tied_head=False), batch(0)
    stacked = build(c, seeds=2)
    one, bare = unstack(stacked, 1), build(replace(c, head_multiplier=1.0))
    torch.testing.assert_close(one(x), stacked(x)[1])
    bare.load_state_dict(one.state_dict())
    torch.testing.assert_close(one(x), bare(x) / 2)
    xavier = math.sqrt(2 / (32 + 32))  # of the base's head
    assert one.head.weight.std().item() == pytest.approx(xavier, rel=0.1)


def test_groups_name_their_role_and_know_their_base():
    c = constants("adamw", 128, (32, 1))
    model = build(c)
    groups = parameter_groups(model, 1.0, weight_decay=0.1, base=(32, 1))
    assert groups == parameter_groups(model, 1.0, weight_decay=0.1)
    rates = {g["role"]: (g["lr"], g["weight_decay"]) for g in groups}
    assert {rates[role] for role in HIDDEN} == {(0.25, 0.4)}
    assert rates["token-embedding"] == (0.5, 0.2) and rates["head"] == (1.0, 0.1)
    assert sum(p.numel() for g in groups for p in g["params"]) == sum(
        p.numel() for p in model.parameters()
    )
    for base in (64, (32, 2), 32):
        with pytest.raises(InputError, match="relative to a base of width 32 and depth"):
            parameter_groups(model, 1.0, base=base)
    plain = build(constants("adamw", 128, None))
    with pytest.warns(UserWarning, match="constants have not this base"):
        again = parameter_groups(plain, 1.0, weight_decay=0.1, base=(32, 1))
    assert {g["role"]: (g["lr"], g["weight_decay"]) for g in again} == rates
    with pytest.raises(InputError, match="not those of a derived rule"):
        parameter_groups(model, 1.0, constants=replace(plain.constants, origin={}), base=32)
    named = {g["name"]: g["role"] for g in parameter_groups(plain, 1.0)}
    assert named["encoder/scaled"] == "value+output+fc1+fc2"
    assert named["embedding/embedding"] == "token-embedding"


def test_a_coupled_decay_that_has_no_law_is_refused_where_it_is_asked_for():
    model = build(constants("adam", 128))
    assert {g["weight_decay"] for g in parameter_groups(model, 1.0)} == {0.0}
    with pytest.raises(Refusal, match="query: a coupled weight decay cannot keep both"):
        parameter_groups(model, 1.0, weight_decay=0.1)
    sgd = parameter_groups(build(constants("sgd", 128)), 1.0, weight_decay=0.1)
    assert {g["weight_decay"] for g in sgd if g["role"] in HIDDEN} == {0.1}


class Mine(torch.nn.Module):
    """A model of your own: its embedding has no multiplier but that of its rows' size."""

    def __init__(self, width=64, times=1.0):
        super().__init__()
        self.times, self.embedding = times, torch.nn.Embedding(32, width)
        layer = torch.nn.TransformerEncoderLayer(
            width, width // 32, 2 * width, dropout=0.0, batch_first=True
        )
        self.body = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, 32, bias=False)

    def forward(self, x):
        return self.times * self.head(self.body(self.embedding(x)))


def test_a_model_of_ones_own_steps_its_embedding_in_its_own_gauge():
    torch.manual_seed(0)
    c, (x, _) = constants("adamw", 64, 32), batch(0)
    bare = apply_(Mine(), c, inputs=x, outer=False)
    assert bare.lines == ("logits = logits * 0.5  # before the loss, as the base asks",)
    model, small = Mine(times=0.5), Mine(32)
    assert apply_(model, c, inputs=x).lines == ()
    apply_(small, constants("adamw", 32, None), inputs=x)  # the base's head is as large
    sizes = [m.head.weight.std().item() for m in (model, small)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.1)
    assert sizes[1] < 0.8 * math.sqrt(2 / (32 + 32))  # less than Xavier's, for 32 tokens
    rates = {g["role"]: g["lr"] for g in parameter_groups(model, 1.0, base=32)}
    assert rates["token-embedding"] == rates["head"] == 1.0 and rates["query"] == 0.5
