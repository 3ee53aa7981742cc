"""Models written at random from a grammar, each with what it was written from.

A seed chooses a sentence of the grammar; :class:`Model` is its forward pass, in plain torch, and
:func:`expected` what a reading must say. The names of modules and parameters say nothing.
"""

import math
import random
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import heads, joined

import deepnet_theory as dt
from deepnet_theory.definitions.placement import placement

WIDTH, HEADS, VOCAB, TOKENS = 16, 2, 23, 8
K = WIDTH // HEADS

# x and the branch's y, each with its coefficient, in the ways that people add them up
SUMS = {
    "plain": lambda x, y, a, b: a * x + b * y,
    "left out": lambda x, y, a, b: (x if a == 1 else a * x) + (y if b == 1 else y * b),
    "quotients": lambda x, y, a, b: x / (1 / a) + y / (1 / b),
    "torch.add": lambda x, y, a, b: torch.add(b * y, x, alpha=a),
    "minus": lambda x, y, a, b: a * x - (-b * y),
    "rsub": lambda x, y, a, b: torch.rsub(-y, a * x, alpha=b),
    "in place": lambda x, y, a, b: x.clone().mul_(a).add_(y, alpha=b),
    "buffers": lambda x, y, a, b: torch.addcmul(a * x, y, torch.full((WIDTH,), b)),
    "transposed": lambda x, y, a, b: (a * x.mT + b * y.mT).mT,
}
WEIGHED = {  # coefficients that add up to 1, under a norm on the sum
    "lerp": lambda x, y, a, b: torch.lerp(x, y, b),
    "a part of the difference": lambda x, y, a, b: x + b * (y - x),
    "a mean": lambda x, y, a, b: (3 * a * x + 3 * b * y) / 3,
}
# norms of x with gain w, bias b and ε, by library and by hand
NORMS = {
    "layer": {
        "library": lambda x, w, b, eps: F.layer_norm(x, (WIDTH,), w, b, eps),
        "gain behind": lambda x, w, b, eps: w * F.layer_norm(x, (WIDTH,), eps=eps) + b,
        "centred first": lambda x, w, b, eps: (
            (z := x - x.mean(-1, keepdim=True)) * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + eps)
            * w + b),
        "std": lambda x, w, b, eps: (
            w * (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps) + b),
        "variance": lambda x, w, b, eps: (
            (x - x.mean(-1, keepdim=True))
            / torch.sqrt((x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True) + eps)
            * w + b),
        "var_mean": lambda x, w, b, eps: (
            (x - (both := torch.var_mean(x, -1, correction=0, keepdim=True))[1])
            / (both[0] + eps).sqrt() * w + b),
    },
    "rms": {
        "library": lambda x, w, b, eps: F.rms_norm(x, (WIDTH,), w, eps),
        "by hand": lambda x, w, b, eps: (
            (x.float() * x.float().pow(2).mean(-1, keepdim=True).add(eps).rsqrt()).type_as(x) * w),
        "normalize": lambda x, w, b, eps: F.normalize(x, dim=-1) * WIDTH**0.5 * w,
        "length": lambda x, w, b, eps: (
            x / x.norm(dim=-1, keepdim=True).clamp_min(eps) * math.sqrt(WIDTH) * w),
        "one plus gain": lambda x, w, b, eps: F.rms_norm(x, (WIDTH,), eps=eps) * (1 + w),
    },
}  # fmt: skip
SQUARED = {"z²": lambda z: F.relu(z) ** 2, "z·z": lambda z: F.relu(z) * F.relu(z)}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
GRAMMAR = {
    "placement": (
        "post-ln", "pre-ln", "branch-multiplier", "res-post-ln", "sandwich-ln", "layer-scale"),
    "optimizer": ("sgd", "adam", "muon"),
    "norm": ("layer", "rms"),
    "attention": ("attention", "attention-qk-norm", "attention-gated"),
    "feed": ("ffn", "ffn-relu2", "ffn-swiglu"),
    "activation": tuple(ACTIVATIONS),
    "squared": tuple(SQUARED),
    "matrix": ("linear", "transposed", "left", "convolution"),
    "packing": ("apart", "parts", "heads"),
    "mixing": ("one operation", "written out", "query divided", "not divided"),
    "sum": (*SUMS, *WEIGHED),
    "alpha": ("stream", "branch"),
    "bias": (True, False),
    "causal": (True, False),
    "shared keys": (True, False),
    "layers": (2, 3),
}  # fmt: skip


@dataclass(frozen=True)
class Sentence:
    """One choice for each word of the grammar, by its seed, and the constants of that model."""

    seed: int
    said: dict[str, object]
    constants: dt.Constants

    def __getitem__(self, word):
        return self.said[word]

    @property
    def stack(self):
        return "decoder" if self["causal"] else "encoder"


def sentence(seed):
    """The sentence of a seed; what contradicts itself in it is left out."""
    chosen = random.Random(seed)
    said = {word: chosen.choice(choices) for word, choices in GRAMMAR.items()}
    said["normed"] = chosen.choice(list(NORMS[said["norm"]]))
    if said["sum"] in WEIGHED and said["placement"] != "post-ln":
        said["sum"] = "plain"
    if said["feed"] != "ffn":  # the builder has one activation for each
        said["activation"] = {"ffn-relu2": "relu", "ffn-swiglu": "silu"}[said["feed"]]
    if said["attention"] == "attention-qk-norm" and said["mixing"] == "not divided":
        said["mixing"] = "written out"  # no size of a matrix makes up for it behind a norm
    if said["packing"] == "heads":
        said["shared keys"] = False
    asked = dt.Selection(
        said["optimizer"], placement=said["placement"], norm=said["norm"],
        stack="decoder" if said["causal"] else "encoder",
        layer=f"{said['attention']},{said['feed']}",
    )  # fmt: skip
    constants = dt.export(
        asked, said["layers"], width=WIDTH, heads=HEADS, vocab=VOCAB, bias=said["bias"],
        kv_heads=1 if said["shared keys"] else None, activation=said["activation"],
    )  # fmt: skip
    return Sentence(seed, said, constants)


class Map(nn.Module):
    """One matrix, stored and multiplied as a sentence says."""

    def __init__(self, s, fan_in, fan_out):
        super().__init__()
        self.how = s["matrix"]
        shape = (fan_in, fan_out) if self.how == "transposed" else (fan_out, fan_in)
        shape += (1,) * (self.how == "convolution")
        self.u = nn.Parameter(torch.randn(shape) / fan_in**0.5)
        self.c = nn.Parameter(torch.zeros(fan_out)) if s["bias"] else None
        self.axis = int(self.how == "transposed")

    def forward(self, x):
        if self.how == "linear":
            return F.linear(x, self.u, self.c)
        if self.how == "convolution":
            return F.conv1d(x.mT, self.u, self.c).mT
        y = x @ self.u if self.how == "transposed" else (self.u @ x.mT).mT
        return y if self.c is None else y + self.c


class Normed(nn.Module):
    """A norm, of a library or by hand."""

    def __init__(self, s):
        super().__init__()
        self.formula, self.eps = NORMS[s["norm"]][s["normed"]], 1e-5
        self.w = nn.Parameter(torch.full((WIDTH,), float(s["normed"] != "one plus gain")))
        self.b = nn.Parameter(torch.zeros(WIDTH)) if s["norm"] == "layer" else None

    def forward(self, x):
        return self.formula(x, self.w, self.b, self.eps)


class Branch(nn.Module):
    """The maps of a branch; ``roles`` has of each role its map and outputs."""

    def __init__(self, s):
        super().__init__()
        self.s, self.roles = s, {}
        self.maps = nn.ModuleList()

    def add(self, fan_in, fan_out, **roles):
        """One map with the outputs of each role, all where none are named."""
        self.maps.append(one := Map(self.s, fan_in, fan_out))
        for role, runs in roles.items():
            self.roles[role] = one, runs or ((0, fan_out),)

    def given(self, role, x):
        one, runs = self.roles[role]
        y = one(x)
        return torch.cat([y[..., start:end] for start, end in runs], -1)


class Attention(Branch):
    def __init__(self, s):
        super().__init__(s)
        self.kv = K if s["shared keys"] else WIDTH
        wide = WIDTH + 2 * self.kv
        if s["packing"] == "apart":
            for role, rows in (("query", WIDTH), ("key", self.kv), ("value", self.kv)):
                self.add(WIDTH, rows, **{role: ()})
        elif s["packing"] == "parts":
            ends = WIDTH, WIDTH + self.kv, wide
            self.add(WIDTH, wide, query=((0, ends[0]),), key=(ends[:2],), value=(ends[1:],))
        else:  # of each head its query, key and value
            starts = {"query": 0, "key": K, "value": 2 * K}
            self.add(WIDTH, wide, **{
                role: tuple((3 * K * i + at, 3 * K * i + at + K) for i in range(HEADS))
                for role, at in starts.items()
            })  # fmt: skip
        if s["attention"] == "attention-gated":
            self.add(WIDTH, WIDTH, gate=())
        self.add(WIDTH, WIDTH, output=())

    def forward(self, x):
        q, k, v = (self.given(role, x) for role in ("query", "key", "value"))
        q, k, v = heads(q, HEADS), heads(k, self.kv // K), heads(v, self.kv // K)
        if self.s["attention"] == "attention-qk-norm":
            q, k = F.rms_norm(q, (K,)), F.rms_norm(k, (K,))
        if self.s["mixing"] == "one operation":
            y = F.scaled_dot_product_attention(
                q, k, v, is_causal=self.s["causal"], enable_gqa=self.kv != WIDTH
            )
        else:
            k, v = (t.repeat_interleave(WIDTH // self.kv, 1) for t in (k, v))
            y = self.weights(q, k) @ v
        y = joined(y)
        return self.given("output", self.given("gate", x).sigmoid() * y
                          if "gate" in self.roles else y)  # fmt: skip

    def weights(self, q, k):
        match self.s["mixing"]:
            case "query divided":
                scores = (q / math.sqrt(K)) @ k.mT
            case "not divided":
                scores = q @ k.mT
            case _:
                scores = q @ k.mT / math.sqrt(K)
        ahead = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
        return (scores.masked_fill(ahead, -torch.inf) if self.s["causal"] else scores).softmax(-1)


class Feed(Branch):
    def __init__(self, s):
        super().__init__(s)
        hidden, packed = 4 * WIDTH, s["packing"] != "apart"
        if s["feed"] != "ffn-swiglu":
            self.add(WIDTH, hidden, fc1=())
            self.add(hidden, WIDTH, fc2=())
            return
        if packed:
            both = (hidden, 2 * hidden), (0, hidden)
            self.add(WIDTH, 2 * hidden, gate=both[:1], up=both[1:])
        else:
            self.add(WIDTH, hidden, gate=())
            self.add(WIDTH, hidden, up=())
        self.add(hidden, WIDTH, down=())

    def forward(self, x):
        if self.s["feed"] == "ffn-swiglu":
            return self.given("down", F.silu(self.given("gate", x)) * self.given("up", x))
        z = self.given("fc1", x)
        relu2 = self.s["feed"] == "ffn-relu2"
        return self.given("fc2", SQUARED[self.s["squared"]](z) if relu2
                          else ACTIVATIONS[self.s["activation"]](z))  # fmt: skip


class Residual(nn.Module):
    """One sublayer at its α: norms where the placement has them, the sum as it is written."""

    def __init__(self, s, make, alpha):
        super().__init__()
        self.s, self.placed, self.branch = s, placement(s["placement"]), make(s)
        self.norms = nn.ModuleDict({place: Normed(s) for place in sorted(self.placed.norms)})
        a, b = self.placed.coefficients(alpha)
        if "sum" in self.norms and s["alpha"] == "branch":
            a, b = 1.0, b / a
        if s["sum"] in WEIGHED:
            a, b = a / (a + b), b / (a + b)
        self.coefficients = a, b
        self.scale = nn.Parameter(torch.full((WIDTH,), b)) if self.placed.learnt else None

    def normed(self, place, x):
        return self.norms[place](x) if place in self.norms else x

    def forward(self, x):
        y = self.normed("output", self.branch(self.normed("input", x)))
        a, b = self.coefficients
        if self.scale is not None:
            return x + self.scale * y
        return self.normed("sum", {**SUMS, **WEIGHED}[self.s["sum"]](x, y, a, b))


class Model(nn.Module):
    """From tokens to logits."""

    def __init__(self, s):
        super().__init__()
        torch.manual_seed(s.seed)
        self.e, self.h = nn.Embedding(VOCAB, WIDTH), nn.ModuleList()
        alphas = [row.alpha for row in s.constants.parts[0].sublayers]
        for _ in range(s["layers"]):
            rows = zip((Attention, Feed), alphas, strict=True)
            self.h.append(nn.ModuleList(Residual(s, make, alpha) for make, alpha in rows))
        self.f = Normed(s) if placement(s["placement"]).final_norm else None
        self.z = nn.Linear(WIDTH, VOCAB, bias=False)

    def body(self, x):
        for layer in self.h:
            for residual in layer:
                x = residual(x)
        return x if self.f is None else self.f(x)

    def forward(self, ids):
        return self.z(self.body(self.e(ids)))


@dataclass(frozen=True)
class Expected:
    """What a reading says of one sublayer, in the words of the reading."""

    layer: int
    kind: str
    coefficients: tuple[float, float]
    norms: tuple[tuple[str, str | None, str | None], ...]  # place, gain, bias
    matrices: dict[str, tuple[str, tuple[tuple[int, int], ...], int, str | None, float]]
    scores: float
    learnt: str | None


def expected(model, s):
    """Every sublayer of a model that was written from a sentence."""
    names = {p: name for name, p in model.named_parameters()} | {None: None}
    undivided = math.sqrt(K) if s["mixing"] == "not divided" else 1.0
    for index, layer in enumerate(model.h):
        for residual in layer:
            attends = isinstance(residual.branch, Attention)
            matrices = {
                role: (names[one.u], runs, one.axis, names[one.c],
                       undivided if role == "query" else 1.0)
                for role, (one, runs) in residual.branch.roles.items()
            }  # fmt: skip
            norms = [(place, names[n.w], names[n.b]) for place, n in residual.norms.items()]
            kind = s["attention"] if attends else s["feed"]
            scored = kind == "attention-qk-norm"
            yield Expected(
                index, "attention" if scored else kind, residual.coefficients,
                (*norms, *[("scores", None, None)] * 2 * scored), matrices,
                undivided if attends else 1.0, names[residual.scale],
            )  # fmt: skip


def tokens(seed=0):
    return torch.randint(VOCAB, (2, TOKENS), generator=torch.Generator().manual_seed(seed))


vectors = partial(torch.randn, 2, TOKENS, WIDTH)
