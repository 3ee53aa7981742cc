"""What an audit judges by: no rule where none has a law, and effects that a real step has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepnet_theory as dt
from deepnet_theory.runtime import apply_
from deepnet_theory.spec.errors import Refusal

LAYERS = 3
IDS = torch.arange(16).view(2, 8)


def plain(gpt: Any) -> Any:
    return gpt(LAYERS)


def layer_scale(gpt: Any) -> Any:
    """Every branch times a learnt vector that starts small."""
    model = gpt(LAYERS, lambda x, f, norm: x + f(norm(x)) * f.scale)
    for block in model.h:
        for branch in (block.attn, block.mlp):
            branch.scale = nn.Parameter(torch.full((32,), 0.1))
    return model


def inner_norm(gpt: Any) -> Any:
    """Sub-LN's: one more norm before the last matrix of a branch."""
    model = gpt(LAYERS)
    for block in model.h:
        block.attn.c_proj = nn.Sequential(nn.LayerNorm(32), block.attn.c_proj)
        block.mlp.c_proj = nn.Sequential(nn.LayerNorm(128), block.mlp.c_proj)
    return model


def parallel(gpt: Any) -> Any:
    """GPT-J's: attention and feed-forward of one stream."""
    model = gpt(LAYERS)

    def forward(block: Any, x: Tensor) -> Tensor:
        y = block.ln_1(x)
        return x + block.attn(y) + block.mlp(y)  # type: ignore[no-any-return]

    kind = type("Parallel", (type(model.h[0]),), {"forward": forward})
    for block in model.h:
        block.__class__ = kind
    return model


def switched_off(gpt: Any) -> Any:
    return gpt(LAYERS, lambda x, f, norm: x + 0.0 * f(norm(x)))


WITHOUT_LAW = {
    "a learnt multiplier": (layer_scale, "which is learnt"),
    "norms inside": (inner_norm, "a norm within its branch"),
    "parallel branches": (parallel, "in parallel with another"),
    "multiplied by 0": (switched_off, "is multiplied by 0"),
}


@pytest.fixture(scope="module")
def constants() -> dt.Constants:
    rule = dt.derive("adamw", placement="pre-ln", stack="decoder")
    return dt.export(rule, LAYERS, width=32, vocab=61)


@pytest.mark.parametrize("name", WITHOUT_LAW)
def test_an_audit_judges_by_no_rule_that_apply_refuses(
    name: str, gpt: Any, constants: dt.Constants
) -> None:
    make, why = WITHOUT_LAW[name]
    model = make(gpt)
    with pytest.raises(Refusal) as refused:
        apply_(model, constants, inputs=IDS)
    for given in ({"optimizer": "adamw"}, {"constants": constants}):
        audit = dt.audit(model, IDS, **given)
        assert (audit.verdict, audit.findings, audit.effect) == ("UNDECIDED", (), None)
        told = " ".join(str(audit).split())
        assert why in told and str(refused.value) in told


def test_shared_layers_are_said_once(gpt: Any, constants: dt.Constants) -> None:
    model = plain(gpt)
    model.h = nn.ModuleList([model.h[0]] * LAYERS)
    apply_(model, constants, inputs=IDS)
    audit = dt.audit(model, IDS, constants=constants)
    assert audit.verdict == "SUPPORTED"
    assert ["serves 3 of them" in remark for remark in audit.remarks].count(True) == 1


def test_a_printed_audit_is_the_report(gpt: Any, constants: dt.Constants) -> None:
    model = plain(gpt)
    apply_(model, constants, inputs=IDS)
    with torch.no_grad():
        model.h[0].mlp.c_fc.weight.mul_(3.0)
    audit = dt.audit(model, IDS, constants=constants)
    assert "REFUTED" in str(audit) and "To derive for it" in str(audit)
    assert repr(audit) == "Audit(REFUTED, against adamw, 1 finding)"
