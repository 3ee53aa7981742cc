"""Learnt multipliers of other people's models: LayerScale, scalars of the stream, ReZero."""

import pytest
import torch
from torch import nn
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import Refusal

pytestmark = pytest.mark.usefixtures("unmeasured")

IDS = torch.arange(16).view(2, 8)
V = 61


def scaled(line, layers=3, value=0.1, shape=(32,), **options):
    """A GPT whose residual line multiplies by a parameter of each branch."""
    model = GPT(layers, line, **options)
    for block in model.h:
        for branch in (block.attn, block.mlp):
            branch.scale = nn.Parameter(torch.full(shape, value))
    return model


def layer_scale(x, f, norm):
    return x + f.scale * f(norm(x))


def exported(layers=3, optimizer="adamw", closure="complete", placement="layer-scale", **sizes):
    rule = dt.Selection(optimizer, placement=placement, stack="decoder", closure=closure)
    return dt.export(rule, layers, **{"width": 32, "heads": 4, "vocab": V, **sizes})


def test_a_multiplier_beside_other_norms_has_no_law_and_is_named():
    model = scaled(lambda x, f, norm: norm(x + f.scale * f(x)), final=False)
    audit = dt.audit(model, IDS)
    assert audit.verdict == "UNDECIDED"
    assert "multiplied by h.0.attn.scale, which is learnt" in audit.refusal
    with pytest.raises(Refusal, match="is learnt, the constants are for"):
        apply_(scaled(layer_scale), exported(placement="pre-ln"), inputs=IDS)


# ---- a real step ----


# ---- models of libraries, and as they are written ----
