"""Models beyond a plain stack: what is read of them, and the one sentence that refuses the rest."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import GPT, heads, joined, post, pre

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError
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


class Modulated(nn.Module):
    """adaLN-zero: shift, scale and gate of every branch are computed of a condition."""

    def __init__(self, std):
        super().__init__()
        self.attention, self.feed, self.ada = Attention(), mlp(), nn.Linear(D, 6 * D)
        self.norm = nn.LayerNorm(D, elementwise_affine=False)
        nn.init.normal_(self.ada.weight, std=std)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x, condition):
        a, b, c, d, e, f = self.ada(F.silu(condition))[:, None].chunk(6, -1)
        x = x + c * self.attention(self.norm(x) * (1 + b) + a)
        return x + f * self.feed(self.norm(x) * (1 + e) + d)


class Diffusion(nn.Module):
    def __init__(self, std):
        super().__init__()
        self.time, self.blocks = nn.Linear(1, D), nn.ModuleList(Modulated(std) for _ in range(3))
        self.first, self.last = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, time):
        x, condition = self.first(x), self.time(time[:, None])
        for block in self.blocks:
            x = block(x, condition)
        return self.last(x)


def test_branches_behind_a_drawn_gate_are_refused_by_its_name():
    inputs = torch.randn(2, 5, D), torch.rand(2)
    reading = read(Diffusion(0.02), inputs)
    assert list(reading.layers.values()) == [3] and not reading.understood
    for std in (0.02, 0.0):
        said = refusal(Diffusion(std), inputs)
        assert "multiplied by values computed with blocks.0.ada.weight, which has no law" in said


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


@pytest.mark.parametrize("most", [None, 1], ids=["weighed", "chosen"])
def test_a_router_is_said_to_be_one_and_dense_layers_before_it_count(most):
    torch.manual_seed(0)
    model = Decoder([Layer(), *layers(3, feed=lambda: Experts(most))])
    reading = read(model, IDS)
    assert reading.layers == {"decoder": 4}
    if most is None:
        assert "a router chooses experts (layers.1.feed.route.weight)" in refusal(model)
    else:
        ranges = [(r.first, r.last, r.layer) for r in reading.ranges]
        assert ranges == [(0, 0, "attention, ffn"), (1, 3, "attention, ffn@1/3")]
        assert "layer 0 is attention,ffn, others are attention,ffn@1/3" in refusal(model)


def test_an_expert_that_no_token_chose_asks_for_more_tokens():
    torch.manual_seed(1)
    model = Decoder(layers(3, feed=lambda: Experts(1)))
    (note,) = [n for n in read(model, IDS[:1, :3]).notes if "layers.0" in n]
    assert "of 3 experts were chosen in the forward pass: give it more tokens" in note


class Chosen(nn.Module):
    """An expert whose place alone depends on the router."""

    def __init__(self):
        super().__init__()
        self.route, self.up = nn.Linear(D, 8, bias=False), nn.Embedding(8, D)

    def forward(self, x):
        which = self.route(x).topk(2, -1).indices
        inner = (x[..., None, :] @ self.up(which).mT).relu()
        return (inner @ self.up(which)).squeeze(-2)


class Masked(Attention):
    """Doge's: the mask is made of the values."""

    def __init__(self):
        super().__init__()
        self.step = nn.Linear(D, 2)

    def forward(self, x, memory=None):
        v = self.v(x)
        late = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        mask = self.step(v).transpose(1, 2)[:, :, None].masked_fill(late, float("-inf"))
        q, k, v = (heads(t, 2) for t in (self.q(x), self.k(x), v))
        return self.o(joined(F.scaled_dot_product_attention(q, k, v, mask)))


class TimeMix(nn.Module):
    """RWKV's: no attention that is known, so that both sublayers are of unknown kind."""

    def __init__(self):
        super().__init__()
        self.r, self.k, self.v = (nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        return torch.sigmoid(self.r(x)) * self.v(self.k(x).cumsum(1))


@pytest.mark.parametrize(
    ("branches", "index", "why"),
    [
        ({"feed": Chosen}, 1, "a router chooses experts"),  # a choice alone has no derivative
        ({"attention": Masked}, 0, "values computed with layers.0.attention.step.weight enter it"),
        ({"attention": TimeMix, "feed": TimeMix}, 0, ""),  # counted by their modules
    ],
)
def test_layers_are_read_whatever_their_branches_are(branches, index, why):
    reading = read(Decoder(layers(4, **branches)), IDS)
    assert list(reading.layers.values()) == [4] and why in (reading.sublayers[index].why or "")


class Highway(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.feed = nn.Linear(D, D), mlp()

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return g * x + (1 - g) * self.feed(x)


class Streams(nn.Module):
    """Hyper-connections: two streams, mixed by a matrix of two rows."""

    def __init__(self):
        super().__init__()
        self.feed, self.norm = mlp(), nn.LayerNorm(D)
        self.mix = nn.Parameter(torch.eye(2) + 0.1)

    def forward(self, x):
        if x.dim() == 3:
            x = torch.stack([x, x], -2)
        y = self.feed(self.norm(x.mean(-2)))
        return torch.einsum("btnd,nm->btmd", x, self.mix) + y[..., None, :]


@pytest.mark.parametrize(
    ("layer", "seen"),
    [
        (Highway, "multiplied by computed values (gates), in Highway at test_forms.py:"),
        (Streams, "2 streams are mixed by layers.0.mix (hyper-connections), in Streams at test_"),
    ],
)
def test_a_stream_that_is_no_sum_is_refused_with_what_was_seen(layer, seen):
    with pytest.raises(InputError) as refused:
        read(Decoder([layer() for _ in range(2)], final=False), IDS)
    assert seen in str(refused.value)


# ------------------------------------------------------------------------------------------ skips


class Skips(Decoder):
    def stream(self, x):
        first = x
        for layer in self.layers:
            x = layer(x) + first
        return x


def test_a_skip_is_one_sentence_with_module_and_line_and_does_not_tear_the_stack():
    model = Skips(layers(3))
    reading = read(model, IDS)
    assert reading.layers == {"decoder": 3}
    (note,) = reading.notes
    line = Skips.stream.__code__.co_firstlineno + 3
    assert note == (
        f"a skip past several sublayers: Skips adds at test_forms.py:{line} what the stream starts "
        "from, 3 times"
    )
    assert note in refusal(model)


class Beside(Decoder):
    """A second stream that every branch is added to: ResiDual, or two that start alike."""

    def __init__(self, layers, line):
        super().__init__(layers, final=line is pre)
        self.post, self.end = line is post, nn.LayerNorm(D)

    def stream(self, x):
        y = x
        for layer in self.layers:
            for branch, norm in zip((layer.attention, layer.feed), layer.norms, strict=True):
                f = branch(x) if self.post else branch(norm(x))
                x, y = (norm(x + f) if self.post else x + f), y + f
        return x + (self.end(y) if self.post else y)


@pytest.mark.parametrize("line", [post, pre], ids=["ResiDual", "hyper-connections"])
def test_a_second_stream_is_held_against_no_rule_and_said_with_its_line(line):
    model, at = Beside(layers(3), line), Beside.stream.__code__.co_firstlineno
    seen = refusal(model)
    assert any(f"Beside adds at test_forms.py:{at + n}" in seen for n in (5, 6))


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


class Retrieval(Decoder):
    """Some of the tokens take from neighbours that an encoder reads."""

    def __init__(self, layers):
        super().__init__(layers)
        self.reader, self.cross, self.norm = Layer(), Attention(), nn.LayerNorm(D)

    def forward(self, ids):  # the neighbours are the tokens, backwards
        x, memory = self.embed(ids), self.reader(self.embed(ids.flip(1)))
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == 1:
                late = x[:, 3:]
                late = late + self.cross(self.norm(late), memory)
                x = torch.cat([x[:, :3], late], 1)
        return self.head(self.final(x))


def test_a_stack_whose_tokens_are_parted_is_one():
    model = Retrieval(layers(4))
    reading = read(model, IDS)
    assert sorted(reading.layers.values()) == [1, 4] and len(reading.stacks) == 2
    assert not reading.uniform


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


def test_layers_that_share_their_matrices_are_said_to():
    layer, attention = Layer(), Attention()
    assert read(Decoder([layer] * 4), IDS).shared == ("the matrices of layer 0 are used 4 times",)
    some = read(Decoder([Layer(attention=attention) for _ in range(3)]), IDS)
    names = ", ".join(f"layers.0.attention.{name}.weight" for name in "qkvo")
    assert some.shared == (f"{names} of layer 0 are used 3 times",)
    assert read(Decoder(layers(3)), IDS).shared == ()


ACTIVATIONS = {
    "relu": (F.relu, lambda x: x.clamp(min=0)),
    "gelu": (F.gelu, lambda x: x / 2 * (1 + torch.tanh(0.8 * (x + 0.045 * x**3)))),
    "silu": (F.silu, lambda x: x * torch.sigmoid(x)),
}


@pytest.mark.parametrize(("name", "phi"), [(n, f) for n, of in ACTIVATIONS.items() for f in of])
def test_the_activation_of_a_feed_forward_is_that_most_like_it(name, phi):
    model = GPT(2)
    for mlp in (block.mlp for block in model.h):
        mlp.forward = lambda x, mlp=mlp: mlp.c_proj(phi(mlp.c_fc(x)))
    found = read(model, torch.arange(8)[None])
    assert [s.activation for s in found.sublayers] == ["", name] * 2


def test_a_ratio_of_two_numbers_is_passed_over():
    class Chunked(Decoder):
        """As Longformer counts its chunks."""

        def stream(self, x):
            torch.div(16, 8, rounding_mode="trunc")
            return super().stream(x)

    reading = read(Chunked(layers(3)), IDS)
    assert reading.understood and reading.dropped == ()
