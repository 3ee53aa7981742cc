"""Attention behind a gate of its input (Qwen3-Next, AFMoE): read, judged, mended, measured."""

import copy
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from mended import audit_of_a_real_step, depth_exponents, put_right, times
from torch import nn
from written_models import GPT, HEADS, VOCAB, Block, branch_step, heads, joined, started

import deepnet_theory as dt
from deepnet_theory.models import read
from deepnet_theory.runtime import apply_
from deepnet_theory.spec.errors import Refusal

pytestmark = pytest.mark.usefixtures("unpredicted")

IDS = torch.randint(VOCAB, (2, 32), generator=torch.Generator().manual_seed(0))


class Gated(nn.Module):
    """What attention mixes, times ``opens`` of a map of the input: one entry each, or one a head.

    ``packed``: the gate's rows alternate with those of the queries, head by head.
    """

    def __init__(self, d, opens=torch.sigmoid, of_heads=False, packed=False, passes=1, times=1):
        super().__init__()
        self.times = times
        self.opens, self.packed, self.wide = opens, packed, 1 if of_heads else d // HEADS
        rows = d + HEADS * self.wide if packed else d
        self.q, self.k, self.v, self.o = (nn.Linear(d, r, bias=False) for r in (rows, d, d, d))
        self.g = nn.ModuleList(
            nn.Linear(d, HEADS * self.wide, bias=False) for _ in range(0 if packed else passes)
        )

    def forward(self, x):
        q = heads(self.q(x))
        if self.packed:
            q, gate = q.split((q.shape[-1] - self.wide, self.wide), -1)
        else:
            gate = math.prod(heads(g(x)) for g in self.g)
        k, v = heads(self.k(x)), heads(self.v(x))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(joined(self.opens(gate) * mixed * self.times))


class GatedBlock(Block):
    def __init__(self, line, d, **options):
        super().__init__(line, d)
        self.attn = Gated(d, **options)


def made(layers=3, d=32, **options):
    torch.manual_seed(0)
    return GPT(layers, d=d, block=partial(GatedBlock, **options))


def exported(layers=3, optimizer="adam", width=32):
    rule = dt.derive(optimizer, placement="pre-ln", stack="decoder", layer="attention-gated,ffn",
                     closure="complete")  # fmt: skip
    return dt.export(rule, layers, width=width, heads=HEADS, vocab=VOCAB)


FORMS = {"each entry": {}, "a head": {"of_heads": True}, "packed": {"packed": True}}


@pytest.mark.parametrize("form", FORMS)
def test_a_gate_of_what_attention_mixes_is_read_judged_and_mended(form):
    model = made(**FORMS[form])
    assert read(model, IDS).select["layer"] == "attention-gated,ffn"
    first = read(model, IDS).sublayers[0]
    parts = {m.role: m for m in first.matrices}
    assert list(parts) == ["query", "key", "value", "gate", "output"]
    assert parts["gate"].fan_out == (HEADS if form == "a head" else 32)
    assert parts["gate"].name == (
        "h.0.attn.q.weight" if form == "packed" else "h.0.attn.g.0.weight"
    )
    assert parts["query"].fan_out == 32
    assert dt.audit(model, IDS, optimizer="adam").verdict == "REFUTED"
    put_right(model, exported(), IDS)


@pytest.mark.parametrize(
    "options", [{"opens": F.silu}, {"opens": torch.tanh}, {"passes": 2}],
    ids=["unbounded", "of either sign", "of two maps"],
)  # fmt: skip
def test_another_gate_is_refused_by_its_matrix(options):
    audit = dt.audit(made(**options), IDS, optimizer="adam")
    assert audit.verdict == "UNDECIDED" and "h.0.attn.g.0.weight" in audit.refusal
    assert "no law here" in audit.refusal


def test_values_that_are_multiplied_behind_a_gate_are_still_refused():
    with pytest.raises(Refusal, match="multiplies its values by 2"):
        apply_(made(times=2), exported(), inputs=IDS)


class Sink(nn.Module):
    """One more logit in the softmax, whose weight meets no value (GPT-OSS, Granite)."""

    def __init__(self, d, times=1):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.sink, self.times = nn.Parameter(torch.zeros(HEADS, 1, 1)), times

    def forward(self, x):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        tokens = x.shape[1]
        ahead = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(ahead, -torch.inf)
        sinks = self.sink.expand(len(x), HEADS, tokens, 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
        return self.o(joined(weights @ v * self.times))


class SinkBlock(Block):
    def __init__(self, line, d, **options):
        super().__init__(line, d)
        self.attn = Sink(d, **options)


def test_what_a_sink_takes_of_the_weights_is_no_factor_of_the_values():
    torch.manual_seed(0)
    rule = dt.derive("adam", placement="pre-ln", stack="decoder", closure="complete")
    constants = dt.export(rule, 3, width=32, heads=HEADS, vocab=VOCAB)
    put_right(GPT(3, block=SinkBlock), constants, IDS)
    with pytest.raises(Refusal, match="multiplies its values by 2"):
        apply_(GPT(3, block=partial(SinkBlock, times=2)), constants, inputs=IDS)


@pytest.mark.parametrize(
    ("optimizer", "depths"),
    [("adam", (4, 16)), pytest.param("sgd", (8, 32), marks=pytest.mark.slow)],
)
def test_one_step_moves_a_mended_model_alike_at_every_depth(optimizer, depths):
    mended, plain = depth_exponents(made, lambda n: exported(n, optimizer), IDS, optimizer, depths)
    assert abs(mended) < 0.1 and plain > 0.5


@pytest.mark.usefixtures("predicted")
@pytest.mark.parametrize("path", [
    "attn.o.weight",
    *(pytest.param(f"attn.{p}.weight", marks=pytest.mark.slow) for p in ("v", "q")),
])  # fmt: skip
def test_a_predicted_effect_is_that_of_a_real_step(path):
    right = started(made(8, d=64))
    apply_(right, exported(8, width=64), inputs=IDS)
    audit = audit_of_a_real_step(right, times(3, path), IDS, branch_step, optimizer="adam")
    assert abs(math.log(audit.effect)) > 0.05


@pytest.mark.usefixtures("predicted")
def test_the_size_of_a_gate_is_a_remark_and_moves_a_real_step_as_little():
    right = started(made(8, d=64))
    apply_(right, exported(8, width=64), inputs=IDS)
    wrong = copy.deepcopy(right)
    with torch.no_grad():
        times(9, "attn.g.0.weight")(wrong)
    audit = dt.audit(wrong, IDS, optimizer="adam")
    (found,) = audit.findings
    assert (audit.verdict, found.severity) == ("SUPPORTED", "remark") and "gate" in found.where
    assert found.effect == pytest.approx(branch_step(wrong) / branch_step(right), abs=0.05)
