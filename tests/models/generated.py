"""Models written at random from a grammar, each with what it was written from.

A seed chooses a sentence of the grammar; :class:`Model` is its forward pass, in plain torch, and
:func:`expected` what a reading must say. The names of modules and parameters say nothing.
"""

import math
import random
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import heads, joined

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import placement

WIDTH, HEADS, SHARED, VOCAB, TOKENS = 16, 4, 2, 23, 12
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
    "sub": lambda x, y, a, b: torch.sub(a * x, y, alpha=-b),
    "a value": lambda x, y, a, b: torch.addcmul(a * x, y, torch.ones(WIDTH), value=b),
    "flat": lambda x, y, a, b: (a * x.flatten(0, 1) + b * y.reshape(-1, WIDTH)).view_as(x),
    "dropout": lambda x, y, a, b: F.dropout(b * y, 0.5, False) + a * x,
}
WEIGHED = {  # coefficients that add up to 1, under a norm on the sum
    "lerp": lambda x, y, a, b: torch.lerp(x, y, b),
    "a part of the difference": lambda x, y, a, b: x + b * (y - x),
    "a mean": lambda x, y, a, b: (3 * a * x + 3 * b * y) / 3,
}
# norms of x with gain w, bias b and ε, by library and by hand
NORMS = {
    "layer": {
        "library": lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps),
        "gain behind": lambda x, w, b, eps: w * F.layer_norm(x, x.shape[-1:], eps=eps) + b,
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
        "library": lambda x, w, b, eps: F.rms_norm(x, x.shape[-1:], w, eps),
        "by hand": lambda x, w, b, eps: (
            (x.float() * x.float().pow(2).mean(-1, keepdim=True).add(eps).rsqrt()).type_as(x) * w),
        "normalize": lambda x, w, b, eps: F.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * w,
        "length": lambda x, w, b, eps: (
            x / x.norm(dim=-1, keepdim=True).clamp_min(eps) * math.sqrt(x.shape[-1]) * w),
        "one plus gain": lambda x, w, b, eps: F.rms_norm(x, x.shape[-1:], eps=eps) * (1 + w),
    },
}  # fmt: skip
OTHER_EPSILON = {"std", "normalize", "length"}  # ε stands elsewhere in them than in the builder's
SQUARED = {"z²": lambda z: F.relu(z) ** 2, "z·z": lambda z: F.relu(z) * F.relu(z)}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
GATES = {"of each": torch.sigmoid, "by hand": lambda z: 1 / (1 + torch.exp(-z))}
GRAMMAR = {
    "placement": ("post-ln", "pre-ln", "branch-multiplier", "res-post-ln", "sandwich-ln"),
    "optimizer": ("sgd", "adam", "muon"),
    "stack": ("encoder", "decoder", "encoder-decoder"),
    "norm": ("layer", "rms"),
    "attention": (
        "attention", "attention-qk-norm", "attention-qk-norm", "attention-gated",
        "attention-sub-ln", "attention-latent"),
    "feed": (
        "ffn", "ffn-relu2", "ffn-swiglu", "ffn-sub-ln", "ffn-swiglu-sub-ln", "ffn@2/4"),
    "beside": (False, False, True),
    "activation": tuple(ACTIVATIONS),
    "squared": tuple(SQUARED),
    "gate": tuple(GATES),
    "matrix": ("linear", "transposed", "left", "convolution", "einsum", "heads"),
    "packing": ("apart", "parts", "heads", "sliced"),
    "experts": ("apart", "stacked"),
    "mixing": ("one operation", "written out", "query divided", "not divided"),
    "enters": (1.0, 1.0, 3.0),  # a number that multiplies what enters a branch
    "inner": (1.0, 1.0, 0.25),  # and what enters its last matrix
    "sum": (*SUMS, *WEIGHED),
    "alpha": ("stream", "branch"),
    "bias": (True, False),
    "tied": (True, False),
    "shared keys": (True, False),
}  # fmt: skip


@dataclass(frozen=True)
class Sentence:
    """One choice for each word of the grammar, and the constants of that model."""

    seed: int
    said: dict[str, object]
    constants: dt.Constants

    def __getitem__(self, word):
        return self.said[word]

    @property
    def select(self):
        """What a reading of the model selects."""
        select = {word: self[word] for word in ("placement", "norm", "stack")}
        alphas = {row.alpha for part in self.constants.parts for row in part.sublayers}
        if select["placement"] == "branch-multiplier" and alphas == {1.0}:  # which multiplies none
            select["placement"] = "pre-ln"
        attention = self["attention"].replace("attention-qk-norm", "attention")
        return select | {"layer": written(self.said | {"attention": attention})}


def written(said):
    """The layers of each stack."""
    attention, feed = said["attention"], said["feed"]
    if said["stack"] == "encoder-decoder":
        own = "" if (attention, feed) == ("attention", "ffn") else f"{attention},{feed};"
        return f"{own}{attention},cross,{feed}"
    return f"{attention}{'+' if said['beside'] else ','}{feed}"


def sentence(seed=0, layers=2, **pinned):
    """The sentence of a seed, with ``pinned`` words; what contradicts itself is left out."""
    chosen = random.Random(seed)
    said = {word: chosen.choice(choices) for word, choices in GRAMMAR.items()}
    said["normed"] = chosen.choice(list(NORMS[pinned.get("norm", said["norm"])]))
    said |= pinned
    two, latent = said["stack"] == "encoder-decoder", said["attention"] == "attention-latent"
    if two or latent:
        said["beside"] = False
    if said["sum"] in WEIGHED and (said["placement"] != "post-ln" or said["beside"]):
        said["sum"] = "plain"
    if "swiglu" in said["feed"]:  # the builder has one activation for each
        said["activation"] = "silu"
    elif said["feed"] == "ffn-relu2":
        said["activation"] = "relu"
    if said["attention"] == "attention-qk-norm" and said["mixing"] == "not divided":
        said["mixing"] = "written out"  # no size of a matrix makes up for it behind a norm
    if said["matrix"] == "heads":  # a part of them is no block of the parameter
        said["packing"] = "apart"
    if said["packing"] == "sliced":
        said["bias"] = False
    if said["packing"] == "heads" or latent:
        said["shared keys"] = False
    if "@" in said["feed"]:  # whose gates multiply what leaves them
        said["enters"] = said["inner"] = 1.0
    asked = dt.Selection(
        said["optimizer"], placement=said["placement"], norm=said["norm"], stack=said["stack"],
        layer=written(said),
    )  # fmt: skip
    depth = (layers, layers) if two else layers
    sizes = {
        "width": WIDTH, "heads": HEADS, "vocab": VOCAB, "bias": said["bias"],
        "kv_heads": SHARED if said["shared keys"] else None, "activation": said["activation"],
        "tied_head": said["tied"],
    }  # fmt: skip
    try:
        constants = dt.export(asked, depth, **sizes)
    except Refusal:  # the default closure does not balance it
        asked = replace(asked, closure="complete")
        constants = dt.export(asked, depth, **sizes)
    if said["beside"] and len({row.alpha for row in constants.parts[0].sublayers}) > 1:
        return sentence(seed, layers, **pinned | {"beside": False})  # one sum has one alpha
    return Sentence(seed, said, constants)


class Map(nn.Module):
    """One matrix, stored and multiplied as a sentence says."""

    def __init__(self, s, fan_in, fan_out, bias=True):
        super().__init__()
        self.how = s["matrix"]
        shape, self.axis = {
            "transposed": ((fan_in, fan_out), 1), "convolution": ((fan_out, fan_in, 1), 0),
            "heads": ((fan_in, fan_out // K, K), 2),
        }.get(self.how, ((fan_out, fan_in), 0))  # fmt: skip
        self.u = nn.Parameter(torch.randn(shape) / fan_in**0.5)
        self.c = nn.Parameter(torch.zeros(fan_out)) if s["bias"] and bias else None

    def forward(self, x, start=0, end=None):
        u = self.u if end is None else self.u.narrow(self.axis, start, end - start)
        match self.how:
            case "linear":
                return F.linear(x, u, self.c)
            case "convolution":
                return F.conv1d(x.mT, u, self.c).mT
            case "transposed":
                y = x @ u
            case "left":
                y = (u @ x.mT).mT
            case "einsum":
                y = torch.einsum("btd,od->bto", x, u)
            case "heads":
                y = torch.einsum("btd,dhk->bthk", x, u).flatten(2)
        return y if self.c is None else y + self.c


class Normed(nn.Module):
    """A norm, of a library or by hand."""

    def __init__(self, s, width=WIDTH):
        super().__init__()
        self.formula, self.eps = NORMS[s["norm"]][s["normed"]], 1e-5
        self.w = nn.Parameter(torch.full((width,), float(s["normed"] != "one plus gain")))
        self.b = nn.Parameter(torch.zeros(width)) if s["norm"] == "layer" else None

    def forward(self, x):
        return self.formula(x, self.w, self.b, self.eps)


class Branch(nn.Module):
    """The maps of a branch; ``roles`` has of each role the maps and their outputs."""

    def __init__(self, s, kind):
        super().__init__()
        self.s, self.kind, self.roles, self.inner = s, kind, {}, None
        self.maps = nn.ModuleList()

    def add(self, fan_in, fan_out, bias=True, **roles):
        """One map with the outputs of each role, all where none are named."""
        self.maps.append(one := Map(self.s, fan_in, fan_out, bias))
        for role, runs in roles.items():
            self.roles[role] = one, runs or ((0, one.u.shape[one.axis]),)

    def given(self, role, x):
        one, runs = self.roles[role]
        if one.how == "heads":
            return one(x)
        if self.s["packing"] == "sliced":
            return torch.cat([one(x, *run) for run in runs], -1)
        y = one(x)
        return torch.cat([y[..., start:end] for start, end in runs], -1)

    def matrices(self):
        """Of each matrix its role, parameter, outputs, their axis, and bias."""
        for role, (one, runs) in self.roles.items():
            yield role, one.u, runs, one.axis, one.c


class Attention(Branch):
    def __init__(self, s, kind):
        super().__init__(s, kind)
        self.kv = SHARED * K if s["shared keys"] else WIDTH
        self.latent = kind == "attention-latent"
        rows = {"query": WIDTH, "key": self.kv, "value": self.kv}
        if self.latent:
            self.add(WIDTH, WIDTH, latent=())
        if s["packing"] == "apart" or kind == "cross":
            for role, width in rows.items():
                self.add(WIDTH, width, **{role: ()})
        elif s["packing"] == "heads":  # of each head its query, key and value
            starts = {"query": 0, "key": K, "value": 2 * K}
            self.add(WIDTH, 3 * WIDTH, **{
                role: tuple((3 * K * i + at, 3 * K * i + at + K) for i in range(HEADS))
                for role, at in starts.items()
            })  # fmt: skip
        else:
            at = WIDTH, WIDTH + self.kv, WIDTH + 2 * self.kv
            self.add(WIDTH, at[2], query=((0, at[0]),), key=(at[:2],), value=(at[1:],))
        if kind == "attention-gated":
            self.add(WIDTH, WIDTH, gate=())
        if kind == "attention-sub-ln":
            self.inner = Normed(s)
        self.add(WIDTH, WIDTH, output=())

    def forward(self, x, memory=None):
        seen = x if memory is None else memory
        if self.latent:
            x = seen = F.rms_norm(self.given("latent", x), (WIDTH,))
        q, k, v = self.given("query", x), self.given("key", seen), self.given("value", seen)
        q, k, v = heads(q, HEADS), heads(k, self.kv // K), heads(v, self.kv // K)
        if self.kind == "attention-qk-norm":
            q, k = F.rms_norm(q, (K,)), F.rms_norm(k, (K,))
        y = self.mixed(q, k, v, self.s["causal"] and memory is None)
        if self.kind == "attention-gated":
            y = GATES[self.s["gate"]](self.given("gate", x)) * y
        y = y if self.inner is None else self.inner(y)
        return self.given("output", y * self.s["inner"])

    def mixed(self, q, k, v, causal):
        way, grouped = self.s["mixing"], self.kv != WIDTH
        if way == "one operation":
            return joined(F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=grouped))  # fmt: skip
        k, v = (t.repeat_interleave(WIDTH // self.kv, 1) for t in (k, v))
        if way == "query divided":
            q = q / math.sqrt(K)
        scores = q @ k.mT
        if way == "written out":
            scores = scores / math.sqrt(K)
        if causal:
            ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, -torch.inf)
        return joined(scores.softmax(-1) @ v)


class Feed(Branch):
    def __init__(self, s, kind):
        super().__init__(s, kind)
        hidden = 4 * WIDTH
        if kind.startswith("ffn-swiglu"):
            if s["packing"] == "apart":
                self.add(WIDTH, hidden, gate=())
                self.add(WIDTH, hidden, up=())
            else:
                both = (hidden, 2 * hidden), (0, hidden)
                self.add(WIDTH, 2 * hidden, gate=both[:1], up=both[1:])
            self.add(hidden, WIDTH, down=())
        else:
            self.add(WIDTH, hidden, fc1=())
            self.add(hidden, WIDTH, fc2=())
        if kind.endswith("sub-ln"):
            self.inner = Normed(s, hidden)

    def forward(self, x):
        if "gate" in self.roles:
            z = F.silu(self.given("gate", x)) * self.given("up", x)
        else:
            z = self.given("fc1", x)
            squared = self.kind == "ffn-relu2"
            z = (SQUARED[self.s["squared"]] if squared else ACTIVATIONS[self.s["activation"]])(z)
        z = z if self.inner is None else self.inner(z)
        return self.given("down" if "gate" in self.roles else "fc2", z * self.s["inner"])


class Experts(nn.Module):
    """Two of four feed-forwards for every token: modules of their own, or stacked matrices."""

    chosen, count = 2, 4

    def __init__(self, s, kind):
        super().__init__()
        self.s, self.kind, self.inner, hidden = s, kind, None, 2 * WIDTH
        self.router = nn.Linear(WIDTH, self.count, bias=False)
        if s["experts"] == "stacked":
            self.into = nn.Parameter(torch.randn(self.count, WIDTH, hidden) / WIDTH**0.5)
            self.out = nn.Parameter(torch.randn(self.count, hidden, WIDTH) / WIDTH**0.5)
        else:
            self.each = nn.ModuleList(
                nn.ModuleList([nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)])
                for _ in range(self.count)
            )

    def matrices(self):
        yield "router", self.router.weight, ((0, self.count),), 0, None
        if self.s["experts"] == "stacked":
            yield "fc1", self.into, ((0, 2 * WIDTH),), 2, None
            yield "fc2", self.out, ((0, WIDTH),), 2, None
            return
        for expert in self.each:
            for role, one in zip(("fc1", "fc2"), expert, strict=True):
                yield role, one.weight, ((0, one.out_features),), 0, one.bias

    def forward(self, x):
        rows, phi = x.flatten(0, 1), ACTIVATIONS[self.s["activation"]]
        scores = self.router(rows)
        with torch.no_grad():  # a view, without gradients, chooses alone
            which = scores.view(-1, self.count).topk(self.chosen)[1]
        gates = scores.gather(1, which).softmax(-1)
        if self.s["experts"] == "stacked":
            gates = gates.new_zeros(len(rows), self.count).scatter(1, which, gates)
            z = phi(torch.bmm(rows.expand(self.count, -1, -1), self.into))
            return (torch.bmm(z, self.out) * gates.T[..., None]).sum(0).view_as(x)
        y = torch.zeros_like(rows)
        for i, (fc1, fc2) in enumerate(self.each):
            row, place = torch.where(which == i)
            nothing = row[:, None] < 0  # as rows of another machine's experts are masked
            taken = rows[row].masked_fill_(nothing, 0.0)
            given = fc2(phi(fc1(taken).masked_fill(nothing, 0.0))).masked_fill(nothing, 0.0)
            y.index_add_(0, row, gates[row, place, None] * given)
        return y.view_as(x)


def branch(s, kind):
    make = Attention if kind.startswith(("attention", "cross")) else Feed
    return (Experts if "@" in kind else make)(s, kind)


class Residual(nn.Module):
    """One residual sum at its α: norms where the placement has them, the sum as it is written."""

    def __init__(self, s, kinds, alpha):
        super().__init__()
        self.s, self.placed = s, placement(s["placement"])
        self.branches = nn.ModuleList(branch(s, kind) for kind in kinds)
        self.norms = nn.ModuleDict({place: Normed(s) for place in sorted(self.placed.norms)})
        a, b = self.placed.coefficients(alpha)
        if "sum" in self.norms and s["alpha"] == "branch":
            a, b = 1.0, b / a
        if s["sum"] in WEIGHED:
            a, b = a / (a + b), b / (a + b)
        self.coefficients = a, b

    def normed(self, place, x):
        return self.norms[place](x) if place in self.norms else x

    def forward(self, x, memory=None):
        z = self.normed("input", x) * self.s["enters"]
        ys = [
            self.normed("output", of(z) if memory is None or of.kind != "cross" else of(z, memory))
            for of in self.branches
        ]
        a, b = self.coefficients
        for y in ys:
            x, a = {**SUMS, **WEIGHED}[self.s["sum"]](x, y, a, b), 1.0
        return self.normed("sum", x)


class Stack(nn.Module):
    def __init__(self, s, part):
        super().__init__()
        kinds = [(row.kind, row.alpha) for row in part.sublayers]
        sums = [(kinds, kinds[0][1])] if s["beside"] else [([one], one[1]) for one in kinds]
        self.h = nn.ModuleList(
            nn.ModuleList(Residual(s, [kind for kind, _ in rows], alpha) for rows, alpha in sums)
            for _ in range(part.layers)
        )
        self.f = Normed(s) if placement(s["placement"]).final_norm else None

    def forward(self, x, memory=None):
        for layer in self.h:
            for residual in layer:
                x = residual(x, memory)
        return x if self.f is None else self.f(x)


class Model(nn.Module):
    """From tokens to logits; an encoder reads them backwards."""

    def __init__(self, s):
        super().__init__()
        torch.manual_seed(s.seed)
        self.e, self.z = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        # tokens that differ little beside what branches add to all choose the same experts
        nn.init.normal_(self.e.weight, std=1.0 if "@" in s["feed"] else WIDTH**-0.5)
        if s["tied"]:
            self.z.weight = self.e.weight
        self.parts = nn.ModuleList()
        for part in s.constants.parts:
            own = Sentence(s.seed, {**s.said, "causal": part.causal}, s.constants)
            self.parts.append(Stack(own, part))

    def body(self, x, memory=None):
        *encoder, last = self.parts
        return last(x, *(of(memory) for of in encoder))

    def forward(self, ids):
        backwards = self.e(ids.flip(1)) if len(self.parts) > 1 else None
        return self.z(self.body(self.e(ids), backwards))


def expected(model, s):
    """Of every sublayer: stack, layer, kind, numbers, norms and matrices."""
    names = {p: name for name, p in model.named_parameters()} | {None: None}
    undivided = math.sqrt(K) if s["mixing"] == "not divided" else 1.0
    for part, stack in zip(s.constants.parts, model.parts, strict=True):
        for index, layer in enumerate(stack.h):
            for residual in layer:
                for of in residual.branches:
                    attends = isinstance(of, Attention)
                    yield {
                        "where": (part.name, index), "kind": of.kind,
                        "numbers": (*residual.coefficients, undivided if attends else 1.0),
                        "norms": sorted(norms(residual, of, names)),
                        "matrices": matrices(s, of, names, undivided),
                    }  # fmt: skip


def norms(residual, of, names):
    """Place, gain and bias of each norm; heads and latents have neither."""
    for place, n in residual.norms.items():
        yield place, names[n.w], names[n.b] or ""
    if of.inner is not None:
        yield "within", names[of.inner.w], names[of.inner.b] or ""
    if of.kind == "attention-qk-norm":
        yield from [("scores", "", "")] * 2
    if of.kind == "attention-latent":
        yield "within", "", ""


def matrices(s, of, names, undivided):
    """Of each its role, place and bias, and the numbers that multiply it."""
    beside = {"key", "value"} if of.kind == "cross" else set()  # what comes from the encoder
    beside |= {"latent", "query", "key", "value"} if of.kind == "attention-latent" else set()
    normed = {"query", "key"} if of.kind == "attention-qk-norm" else set()

    def times(role):
        if role in ("output", "fc2", "down"):
            return s["inner"]
        read = 1.0 if role in beside | normed else s["enters"]
        return read * (undivided if role == "query" else 1.0)

    return sorted(
        (role, names[u], runs, axis, names[c] or "", times(role))
        for role, u, runs, axis, c in of.matrices()
    )


def tokens(seed=0):
    return torch.randint(VOCAB, (6, TOKENS), generator=torch.Generator().manual_seed(seed))


vectors = partial(torch.randn, 2, TOKENS, WIDTH)
