"""Latent attention, gated shared experts and dense first layers: read, judged, mended, measured."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import (
    GPT,
    HEADS,
    VOCAB,
    Block,
    Experts,
    branch_step,
    heads,
    joined,
    started,
)

import deepnet_theory as dt
from deepnet_theory.models import read
from deepnet_theory.runtime import apply_, parameter_groups
from deepnet_theory.sizes.wanted import selection_of
from deepnet_theory.spec.errors import Refusal

IDS = torch.randint(VOCAB, (2, 32), generator=torch.Generator().manual_seed(0))


class Latent(nn.Module):
    """Queries of a latent vector, keys and values of another, and a key past its norm."""

    def __init__(self, d, rank=None, own=4):
        super().__init__()
        rank, wide = rank or d, d // HEADS
        self.q_a, self.q_b = (
            nn.Linear(d, rank, bias=False),
            nn.Linear(rank, d + HEADS * own, bias=False),
        )
        self.kv_a, self.kv_b = (
            nn.Linear(d, rank + own, bias=False),
            nn.Linear(rank, 2 * d, bias=False),
        )
        self.q_norm, self.kv_norm = nn.RMSNorm(rank), nn.RMSNorm(rank)
        self.o, self.parts, self.wide = nn.Linear(d, d, bias=False), (rank, own), wide

    def forward(self, x):
        latent, own = self.kv_a(x).split(self.parts, -1)
        k, v = heads(self.kv_b(self.kv_norm(latent))).split(self.wide, -1)
        q = heads(self.q_b(self.q_norm(self.q_a(x))))
        k = torch.cat([k, own[:, None].expand(-1, HEADS, -1, -1)], -1)
        return self.o(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class SwiGLU(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gate, self.up = (nn.Linear(d, 2 * d, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * d, d, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Opened(SwiGLU):
    """Times one number a token."""

    def __init__(self, d):
        super().__init__(d)
        self.open = nn.Linear(d, 1, bias=False)

    def forward(self, x):
        return torch.sigmoid(self.open(x)) * super().forward(x)


class DeepSeek(Block):
    def __init__(self, line, d, shared=SwiGLU, attention=Latent):
        super().__init__(line, d, nn.RMSNorm)
        self.attn, self.mlp, self.moe = attention(d), shared(d), Experts(d)
        for i in range(len(self.moe.experts)):
            self.moe.experts[i] = SwiGLU(d)

    def both(self, x):
        return self.mlp(x) + self.moe(x) if self.moe is not None else self.mlp(x)

    def forward(self, x):
        x = self.line(x, self.attn, self.ln_1)
        return self.line(x, self.both, self.ln_2)


def made(layers, dense=1, d=32, **options):
    """A GPT whose first layers have no experts."""
    torch.manual_seed(0)
    model = GPT(layers, block=DeepSeek, d=d, **options)
    model.ln_f = nn.RMSNorm(d)
    for block in model.h[:dense]:
        block.moe = None
    return model


def exported(model, optimizer="adamw", d=32):
    found = read(model, IDS)
    assert found.understood
    select = {key: value for key, value in found.select.items() if key != "norm"}
    rule = dt.Selection(optimizer, norm=found.select["norm"], **select)
    return dt.export(rule, len(model.h), width=d, heads=HEADS, vocab=VOCAB)


KINDS = {
    "dense, then experts": (made, "attention-latent,ffn-swiglu,2/3*ffn-swiglu@2/4"),
    "opened": (
        lambda layers, **more: made(layers, 0, shared=Opened, **more),
        "attention-latent,ffn-swiglu-gated+ffn-swiglu@2/4",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_read_judged_and_mended(kind, unpredicted):
    make, layer = KINDS[kind]
    model = make(3)
    assert read(model, IDS).select["layer"] == layer
    constants = exported(model)
    assert dt.audit(model, IDS, constants=constants).verdict == "REFUTED"
    apply_(model, constants, inputs=IDS)
    audit = dt.audit(model, IDS, constants=constants)
    assert (audit.verdict, audit.findings) == ("SUPPORTED", ())
    assert apply_(model, constants, inputs=IDS).changes == ()


def test_a_norm_on_sums_of_several_branches_in_some_layers_is_refused():
    model = made(3)
    for block in model.h:
        block.line = lambda x, branch, norm: norm(x + branch(x))
    with pytest.raises(Refusal, match="in some layers alone under one norm"):
        selection_of(read(model, IDS), "adamw")


def scales(model):
    """The rule's learning rates, so small that no token is sent to another expert."""
    named = {p: n for n, p in model.named_parameters() if n.startswith("h.") and p.dim() > 1}
    with warnings.catch_warnings(action="ignore"):
        groups = parameter_groups(model, 1e-10)
    return {named[p]: g["lr"] for g in groups for p in g["params"] if p in named}


@pytest.mark.slow
@pytest.mark.parametrize("words", ["attn.o", "mlp.down", "experts down"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_predicted_effect_is_that_of_a_real_step(kind, words):
    right = started(KINDS[kind][0](8, d=64))
    apply_(right, exported(right, "adam", d=64), inputs=IDS)
    wrong = copy.deepcopy(right)
    with torch.no_grad():
        for own, p in wrong.named_parameters():
            if all(word in own for word in words.split()):
                p.mul_(3)
    audit = dt.audit(wrong, IDS, optimizer="adam")
    rates = scales(right)
    real = branch_step(wrong, rates, batches=4) / branch_step(right, rates, batches=4)
    assert audit.predicted
    assert audit.effect == pytest.approx(real, rel=0.3)
