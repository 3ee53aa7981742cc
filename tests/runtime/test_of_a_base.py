"""Models of constants that are relative to a base: what a step does at every width."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from translated import unstack

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.runtime import build

HIDDEN = {"query", "key", "value", "output", "fc1", "fc2"}


def constants(optimizer, width, base=64, **given):
    sizes = {"width": width, "heads": width // 32, "vocab": 32, "ffn_ratio": 2.0, **given}
    return dt.export(optimizer, 2, base=base, **sizes)


X = torch.randint(32, (1, 5), generator=torch.Generator().manual_seed(100))


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
    c = constants("adamw", 64, 32, heads=4, base_heads=4, tied_head=False)
    stacked = build(c, seeds=2)
    one, bare = unstack(stacked, 1), build(replace(c, head_multiplier=1.0))
    torch.testing.assert_close(one(X), stacked(X)[1])
    bare.load_state_dict(one.state_dict())
    torch.testing.assert_close(one(X), bare(X) / 2)
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
