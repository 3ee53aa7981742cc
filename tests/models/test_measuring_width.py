"""Models against the width: no share grows under the rule, and without it each by its power."""

from dataclasses import replace
from functools import cache, partial

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory.measuring import measure
from deepnet_theory.laboratory.model_steps import ANSWER
from deepnet_theory.runtime import build

IDS = torch.arange(24).view(2, 12)
WIDTHS = [32, 64, 128]
NEAR = 0.25  # of an exponent; a role out of the rule is off by 1/2 or more
HIDDEN = {"query", "key", "value", "output", "fc1", "fc2"}
OUTSIDE = {"embed.weight", "head.weight"}


@cache
def constants(width, optimizer, base):
    bias = optimizer == "sgd"  # of the others these steps have one size at all widths
    return dt.export(optimizer, 1, base=base, width=width, heads=width // 16, vocab=32, bias=bias)


def stepped(name, model):
    """The library's optimizer of the model's groups, Muon of hidden matrices alone."""
    groups = parameter_groups(model, 1e-3)
    match name:
        case "adamw":
            return torch.optim.AdamW(groups, lr=1.0, weight_decay=0.0)
        case "sgd":
            return torch.optim.SGD(groups, lr=1.0)
    return torch.optim.Muon([g for g in groups if g["role"] in HIDDEN], weight_decay=0.0)


@cache
def grown(optimizer, base=WIDTHS[0], bare=False, hooked=None):
    """The exponent of every share in the width by its role, and the roles that are refuted."""

    def make(depth, width):
        c = constants(width, optimizer, base)
        model = build(replace(c, head_multiplier=1.0) if bare else c)
        if hooked is not None:
            hooked(model.head, WIDTHS[0] / width)
        return model, IDS

    m = measure(make, widths=WIDTHS, optimizer=partial(stepped, optimizer), seeds=3)
    role = {e.share: e.share.partition("branch.")[2].removesuffix(".weight") for e in m.exponents}
    off = {role[e.share] or e.share for e in m.exponents if e.verdict is Verdict.REFUTED}
    return {role[e.share] or e.share: e.estimate for e in m.exponents}, off


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon"])
def test_under_the_rule_no_share_grows_with_the_width(optimizer):
    found, off = grown(optimizer)
    assert off <= {"key.bias"}  # whose gradient is rounding
    assert abs(found[ANSWER]) < NEAR
    if optimizer != "muon":  # whose queries and keys settle at larger widths
        assert all(abs(found[share]) < NEAR for share in HIDDEN | OUTSIDE), found


def test_without_the_rule_what_is_off_is_told_by_its_power():
    found, off = grown("adamw", base=None)
    wanted = dict.fromkeys(HIDDEN, 1) | {"head.weight": 1, "embed.weight": 0.5}
    assert {share: found[share] for share in wanted} == pytest.approx(wanted, abs=NEAR)
    assert found[ANSWER] > NEAR and not any("norms" in share for share in off)


def test_a_multiplier_of_the_head_counts_however_it_is_written():
    def within(head, times):
        head.register_forward_pre_hook(lambda _, x: (times * x[0],))

    assert grown("adamw", bare=True)[1] >= {"head.weight"}
    written, found = grown("adamw"), grown("adamw", bare=True, hooked=within)
    assert found[1] == set() and found[0] == pytest.approx(written[0], abs=0.01)
