"""Models whose attention and feed-forward stand in parallel: read, judged, mended, measured."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from mended import audit_of_a_real_step, depth_exponents, put_right, times
from torch import nn
from written_models import GPT, Block, Parallel, SwiGLU, heads, joined, pre, started

import deepnet_theory as dt
from deepnet_theory.models import read
from deepnet_theory.runtime import apply_
from deepnet_theory.spec.errors import Refusal

pytestmark = pytest.mark.usefixtures("unpredicted")

D, V, LAYERS = 32, 61, 3
IDS = torch.randint(V, (2, 16), generator=torch.Generator().manual_seed(0))


class GPTJ(Block):
    """One norm for both branches, the feed-forward added first."""

    def forward(self, x):
        h = self.ln_1(x)
        return self.mlp(h) + self.attn(h) + x


class MultiQuery(nn.Module):
    """Falcon's attention: all queries, one key and one value, packed."""

    def __init__(self, d, bias=False, kv=1):
        super().__init__()
        self.kv, self.k = kv, d // 4
        self.query_key_value = nn.Linear(d, d + 2 * kv * self.k, bias=bias)
        self.dense = nn.Linear(d, d, bias=bias)

    def forward(self, x):
        sizes = (4 * self.k, self.kv * self.k, self.kv * self.k)
        q, k, v = self.query_key_value(x).split(sizes, dim=-1)
        q, k, v = heads(q), *(heads(p, self.kv).repeat_interleave(4 // self.kv, 1) for p in (k, v))
        return self.dense(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class Falcon(GPTJ):
    """Multi-query attention beside a feed-forward."""

    def __init__(self, line=None, d=D, **options):
        super().__init__(line, d)
        self.attn = MultiQuery(d, **options)


class Cohere(Falcon):
    """Grouped queries beside a gated feed-forward."""

    def __init__(self, line=None, d=D):
        super().__init__(line, d, kv=2)
        self.mlp = SwiGLU(d)


class PaLM(nn.Module):
    """One product makes queries, keys, values and the hidden vector; one may take both results."""

    def __init__(self, line=None, d=D, one_output=False):
        super().__init__()
        self.norm, self.d = nn.LayerNorm(d), d
        self.into = nn.Linear(d, 7 * d, bias=False)
        widths = (5 * d,) if one_output else (d, 4 * d)
        self.out = nn.ModuleList(nn.Linear(width, d, bias=False) for width in widths)

    def forward(self, x):
        d = self.d
        *qkv, hidden = self.into(self.norm(x)).split((d, d, d, 4 * d), -1)
        mixed = F.scaled_dot_product_attention(*map(heads, qkv), is_causal=True)
        ends = joined(mixed), F.gelu(hidden)
        if len(self.out) == 1:
            return x + self.out[0](torch.cat(ends, -1))
        return x + self.out[0](ends[0]) + self.out[1](ends[1])


class Weighed(Block):
    """What attention mixes is multiplied by a gate without a bound before its output."""

    def __init__(self, line=pre, d=D):
        super().__init__(line, d)
        self.attn.gate = nn.Linear(d, d)
        self.attn.c_proj.register_forward_pre_hook(
            lambda _, given: given[0] * F.softplus(self.attn.gate(self.entered))
        )
        self.attn.register_forward_pre_hook(lambda _, given: setattr(self, "entered", given[0]))


PLAIN, GATED = "attention+ffn", "attention+ffn-swiglu"
KINDS = {
    "GPT-NeoX": (Parallel, PLAIN), "GPT-J": (GPTJ, PLAIN), "Falcon": (Falcon, PLAIN),
    "Cohere": (Cohere, GATED), "PaLM": (PaLM, PLAIN),
}  # fmt: skip


def made(kind, layers=LAYERS, **options):
    torch.manual_seed(layers)
    return GPT(layers, block=KINDS[kind][0], **options)


def exported(kind, layers=LAYERS, optimizer="adamw", d=D):
    rule = dt.derive(optimizer, placement="pre-ln", stack="decoder", layer=KINDS[kind][1])
    return dt.export(rule, layers, width=d, heads=4, vocab=V)


@pytest.mark.parametrize(
    "kind",
    [k if k in ("GPT-J", "PaLM") else pytest.param(k, marks=pytest.mark.slow) for k in KINDS],
)
def test_two_branches_of_one_sum_are_read_judged_and_mended(kind):
    model = made(kind)
    found = read(model, IDS)
    assert found.select["layer"] == KINDS[kind][1] and found.understood
    assert [s.sums for s in found.sublayers] == [0, 0, 1, 1, 2, 2]
    assert {s.equation for s in found.sublayers} == {"x + branch(norm(x))"}
    assert dt.audit(model, IDS, optimizer="adamw").verdict == "REFUTED"
    assert "\n+ ffn" in str(put_right(model, exported(kind), IDS)).replace("  ", "")


@pytest.mark.parametrize(
    ("block", "kind", "enters"),
    [(partial(PaLM, one_output=True), "GPT-J", "into"), (Weighed, "sequence", "attn.gate")],
)
def test_what_enters_an_output_beside_attention_is_said_to_have_no_law(block, kind, enters):
    why = f"values computed with h.0.{enters}.weight enter its output matrix beside those that"
    rule = dt.Selection("adamw", placement="pre-ln", stack="decoder")
    constants = (
        exported(kind) if kind in KINDS else dt.export(rule, LAYERS, width=D, heads=4, vocab=V)
    )
    model = GPT(LAYERS, block=block)
    with pytest.raises(Refusal, match=why):
        apply_(model, constants, inputs=IDS)
    audit = dt.audit(model, IDS, optimizer="adamw")
    assert (audit.verdict, audit.findings) == ("UNDECIDED", ()) and why in audit.refusal


def test_constants_of_a_sequence_are_those_of_another_model():
    rule = dt.derive("adamw", placement="pre-ln", stack="decoder")
    sequence = dt.export(rule, LAYERS, width=D, heads=4, vocab=V)
    with pytest.raises(Refusal, match=r"is attention\+ffn, the constants are for attention, ffn"):
        apply_(made("GPT-J"), sequence, inputs=IDS)
    with pytest.raises(Refusal, match=r"is attention, ffn, the constants are for attention\+ffn"):
        apply_(GPT(LAYERS), exported("GPT-J"), inputs=IDS)


def test_layers_that_share_a_norm_between_sums_have_no_law():
    model = made("GPT-J")
    model.h[1].ln_1 = model.h[0].ln_1
    with pytest.raises(Refusal, match=r"share h\.0\.ln_1\.weight"):
        apply_(model, exported("GPT-J"), inputs=IDS)


@pytest.mark.slow  # a real step of one depth is compared below
@pytest.mark.parametrize("kind", ["GPT-J", "Cohere"])
def test_one_step_moves_a_mended_model_alike_at_every_depth(kind):
    constants = partial(exported, kind, optimizer="adam")
    mended, plain = depth_exponents(partial(made, kind), constants, IDS)
    assert abs(mended) < 0.1 and plain > 0.2


LAST = [
    ("GPT-NeoX", "mlp.c_proj"), pytest.param("Falcon", "attn.dense", marks=pytest.mark.slow),
    pytest.param("Cohere", "mlp.down", marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.usefixtures("predicted")
@pytest.mark.parametrize(("kind", "last"), LAST)
def test_a_predicted_effect_is_that_of_a_real_step(kind, last):
    right = started(GPT(8, block=KINDS[kind][0], d=64))
    apply_(right, exported(kind, 8, "adam", d=64), inputs=IDS)
    audit = audit_of_a_real_step(right, times(3, f"{last}.weight"), IDS, optimizer="adam")
    assert audit.effect > 1.3


class PostLN(Block):
    """norm(x + attention(x) + feed-forward(x)): no code of this kind has a place for α."""

    def forward(self, x):
        return self.ln_1(x + self.attn(x) + self.mlp(x))


def test_a_normalised_sum_of_branches_takes_one_alpha_in_its_weights():
    rule = dt.derive("adamw", stack="decoder", layer=PLAIN, closure="complete")
    torch.manual_seed(0)
    model = GPT(LAYERS, block=PostLN, final=False)
    with torch.no_grad():
        model.wte.weight.mul_(0.5**0.5)
        model.wpe.weight.mul_(0.5**0.5)
    assert read(model, IDS).select["placement"] == "post-ln"
    sizes = {"width": D, "heads": 4, "vocab": V}
    with pytest.raises(Refusal, match="no place for alpha = 6"):
        apply_(model, dt.export(rule, LAYERS, **sizes), inputs=IDS)
    weights = dt.export(rule, LAYERS, **sizes, form="weights")
    apply_(model, weights, inputs=IDS)
    assert dt.audit(model, IDS, constants=weights).verdict == "SUPPORTED"
