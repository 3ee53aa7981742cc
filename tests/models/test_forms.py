"""Models beyond a plain stack: what is read of them, and the one sentence that refuses the rest."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import heads, joined, post, pre

import deepnet_theory as dt
from deepnet_theory.models import read

pytestmark = pytest.mark.usefixtures("unmeasured")

D = 16
IDS = torch.randint(31, (2, 7), generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    """Self-attention, with norms of query, key and value or of the mixture where they are given."""

    def __init__(self, each=False, inner=False):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.each = nn.ModuleList(nn.LayerNorm(D // 2) for _ in range(3 * each))
        self.inner = nn.LayerNorm(D) if inner else nn.Identity()

    def forward(self, x, memory=None):
        own = x if memory is None else memory
        q, k, v = heads(self.q(x), 2), heads(self.k(own), 2), heads(self.v(own), 2)
        if self.each:
            q, k, v = (norm(t) for norm, t in zip(self.each, (q, k, v), strict=True))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=memory is None)
        return self.o(self.inner(joined(mixed)))


def mlp(inner=False):
    norm = nn.LayerNorm(2 * D) if inner else nn.Identity()
    return nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), norm, nn.Linear(2 * D, D))


def bare(x, branch, norm):
    return x + branch(x)


class Layer(nn.Module):
    def __init__(self, line=pre, second=None, **branches):
        super().__init__()
        self.lines = line, second or line
        self.attention = branches.get("attention") or Attention()
        self.feed = branches.get("feed") or mlp()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))

    def forward(self, x):
        x = self.lines[0](x, self.attention, self.norms[0])
        return self.lines[1](x, self.feed, self.norms[1])


def layers(count, *lines, **branches):
    return [Layer(*lines, **{k: make() for k, make in branches.items()}) for _ in range(count)]


class Decoder(nn.Module):
    """Embeddings, layers, a norm or none, a head."""

    def __init__(self, layers, final=True):
        super().__init__()
        self.embed, self.layers = nn.Embedding(31, D), nn.ModuleList(layers)
        self.final = nn.LayerNorm(D) if final else nn.Identity()
        self.head = nn.Linear(D, 31, bias=False)

    def stream(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, ids):
        return self.head(self.final(self.stream(self.embed(ids))))


def refusal(model, inputs=IDS):
    """Why a model is held against no rule."""
    audit = dt.audit(model, inputs, optimizer="adamw")
    assert (audit.verdict, audit.findings, audit.plan) == ("UNDECIDED", (), ())
    return " ".join(str(audit.to_dict().get(key, "")) for key in ("refusal", "remarks"))


# ------------------------------------------------------------------------------ gates and routers


class Experts(nn.Module):
    def __init__(self, most):
        super().__init__()
        self.route, self.most = nn.Linear(D, 3, bias=False), most
        self.experts = nn.ModuleList(mlp() for _ in range(3))

    def forward(self, x):
        weights = self.route(x).softmax(-1)
        if self.most is not None:
            best, which = weights.topk(self.most, -1)
            weights = torch.zeros_like(weights).scatter(-1, which, best)
        return sum(weights[..., i : i + 1] * e(x) for i, e in enumerate(self.experts))


def test_an_expert_that_no_token_chose_asks_for_more_tokens():
    torch.manual_seed(1)
    model = Decoder(layers(3, feed=lambda: Experts(1)))
    (note,) = [n for n in read(model, IDS[:1, :3]).notes if "layers.0" in n]
    assert "of 3 experts were chosen in the forward pass: give it more tokens" in note


# ------------------------------------------------------------------------------------------ skips


# ----------------------------------------------------------------------------------------- layers


class Ends(Decoder):
    """A feed-forward sublayer more at one end."""

    def __init__(self, layers, first):
        super().__init__(layers)
        self.extra, self.first = mlp(), first

    def stream(self, x):
        if self.first:
            return super().stream(x + self.extra(x))
        x = super().stream(x)
        return x + self.extra(x)


class Row(nn.Module):
    """Branches one after another, in no modules of layers."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in branches)

    def forward(self, x):
        for branch, norm in zip(self.branches, self.norms, strict=True):
            x = x + branch(norm(x))
        return x


def test_a_row_without_modules_of_layers_has_a_layer_for_each_kind_that_comes_again():
    found = read(Row(Attention(), mlp(), Attention(), mlp(), mlp()), torch.randn(2, 7, D))
    assert found.understood and not found.skips
    assert [s.layer for s in found.sublayers] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_a_sublayer_more_at_one_end_leaves_the_layers_as_they_are(first):
    model = Ends(layers(3), first)
    reading = read(model, IDS)
    assert reading.layers == {"decoder": 3}
    wanted = [0, 0, 0, 1, 1, 2, 2] if first else [0, 0, 1, 1, 2, 2, 2]
    assert [s.layer for s in reading.sublayers] == wanted
    odd = 0 if first else 2
    assert f"layer {odd} is" in refusal(model)


# ------------------------------------------------------------------------------------------ norms


def test_a_design_of_norms_is_no_fault():
    """HybridNorm: query, key and value are normalised, and the sum behind the feed-forward."""
    model = Decoder(layers(3, bare, post, attention=lambda: Attention(each=True)), final=False)
    reading = read(model, IDS)
    assert [s.around for s in reading.sublayers] == 3 * [frozenset(), frozenset({"sum"})]
    assert reading.norms == ()  # the last is its sublayer's
    judged = dt.audit(model, IDS, optimizer="adam")
    assert (judged.against, judged.verdict) == (None, "UNDECIDED")
    assert ", layers 0-2: x + branch(x) and norm(x + branch(x)), " in " ".join(str(judged).split())
    twice = layers(2, lambda x, branch, norm: norm(x + branch(norm(x))))
    assert (
        "norms stand in several ways, layers 0-1: norm(x + branch(norm(x))); layers 2-4: "
        "x + branch(norm(x)): no rule here has them so"
    ) in refusal(Decoder([*twice, *layers(3, pre)]))
    inner = layers(2, attention=lambda: Attention(inner=True), feed=lambda: mlp(inner=True))
    for s in read(Decoder(inner), IDS).sublayers:
        within = [n.enters for n in s.norms if n.where == "within"]
        assert within == [("output",) if s.kind == "attention-sub-ln" else ("fc2",)]


# ----------------------------------------------------------------------------------------- shared
