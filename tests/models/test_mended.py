"""Models as people write them: read, judged, put right, measured against a real step.

``KINDS`` is one model a mechanism, built of one block by its switches; each test is a law of all.
"""

import copy
import warnings
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from mended import depth_exponents, put_right, times
from torch import nn
from written_models import (
    GPT,
    HEADS,
    VOCAB,
    Attention,
    Block,
    Experts,
    Mixture,
    Parallel,
    SwiGLU,
    branch_step,
    heads,
    joined,
    started,
    with_inner_norms,
)

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models import read
from deepnet_theory.runtime import build
from deepnet_theory.sizes.wanted import selection_of

pytestmark = pytest.mark.usefixtures("unmeasured")

IDS = torch.randint(VOCAB, (2, 32), generator=torch.Generator().manual_seed(0))
SUB_LN = "attention-sub-ln,ffn-sub-ln"


# ---- blocks ----


class GPTJ(Block):
    """One norm for both branches, the feed-forward added first."""

    def forward(self, x):
        h = self.ln_1(x)
        return self.mlp(h) + self.attn(h) + x


class PaLM(nn.Module):
    """One product makes queries, keys, values and the hidden vector; one may take both results."""

    def __init__(self, line=None, d=32, one_output=False):
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


class PostLN(Block):
    """norm(x + attention(x) + feed-forward(x)): no code of this kind has a place for α."""

    def forward(self, x):
        return self.ln_1(x + self.attn(x) + self.mlp(x))


class Sandwich(Block):
    """Peri-LN's block: a norm before and one behind each branch, which ``alpha`` divides."""

    def __init__(self, line, d, alpha):
        super().__init__(line, d)
        self.alpha, self.behind = alpha, nn.ModuleList(nn.LayerNorm(d) for _ in range(2))

    def forward(self, x):
        x = x + self.behind[0](self.attn(self.ln_1(x))) / self.alpha
        return x + self.behind[1](self.mlp(self.ln_2(x))) / self.alpha


class Latent(nn.Module):
    """Queries of a latent vector, keys and values of another, and a key past its norm."""

    def __init__(self, d, own=4):
        super().__init__()
        linear = partial(nn.Linear, bias=False)
        self.q_a, self.q_b = linear(d, d), linear(d, d + HEADS * own)
        self.kv_a, self.kv_b = linear(d, d + own), linear(d, 2 * d)
        self.q_norm, self.kv_norm = nn.RMSNorm(d), nn.RMSNorm(d)
        self.o, self.parts, self.wide = linear(d, d), (d, own), d // HEADS

    def forward(self, x):
        latent, own = self.kv_a(x).split(self.parts, -1)
        k, v = heads(self.kv_b(self.kv_norm(latent))).split(self.wide, -1)
        q = heads(self.q_b(self.q_norm(self.q_a(x))))
        k = torch.cat([k, own[:, None].expand(-1, HEADS, -1, -1)], -1)
        return self.o(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class Opened(SwiGLU):
    """Times one number a token."""

    def __init__(self, d):
        super().__init__(d)
        self.open = nn.Linear(d, 1, bias=False)

    def forward(self, x):
        return torch.sigmoid(self.open(x)) * super().forward(x)


class DeepSeek(Block):
    """Latent attention, and experts beside a shared one."""

    def __init__(self, line, d, shared=SwiGLU):
        super().__init__(line, d, nn.RMSNorm, attn=Latent, mlp=shared)
        self.moe = Experts(d, expert=SwiGLU)

    def both(self, x):
        return self.mlp(x) + self.moe(x) if self.moe is not None else self.mlp(x)

    def forward(self, x):
        x = self.line(x, self.attn, self.ln_1)
        return self.line(x, self.both, self.ln_2)


class Stacked(nn.Module):
    """All experts on all tokens, their matrices in one parameter; the gates of most are 0."""

    def __init__(self, d, chosen=2, experts=4):
        super().__init__()
        self.router, self.chosen = nn.Linear(d, experts, bias=False), chosen
        self.into = nn.Parameter(torch.randn(experts, d, 3 * d) / 10)
        self.out = nn.Parameter(torch.randn(experts, 3 * d, d) / 10)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        gates, which = self.router(tokens).topk(self.chosen, -1)
        gates = torch.zeros(len(tokens), len(self.into)).scatter(1, which, gates.softmax(-1))
        hidden = torch.bmm(tokens.expand(len(self.into), -1, -1), self.into).relu()
        return (torch.bmm(hidden, self.out) * gates.T[..., None]).sum(0).view_as(x)


# ---- one model a mechanism ----


def gpt(layers=3, d=32, block=Block, **options):
    torch.manual_seed(layers)
    return GPT(layers, d=d, block=partial(block, **options))


def attends(**options):
    return partial(gpt, attn=partial(Attention, **options))


def sub_ln(layers=3, d=32):
    return with_inner_norms(gpt(layers, d), d)


def sandwich(layers=3, d=32, alpha=None):
    return gpt(layers, d, Sandwich, alpha=alpha or 2 * layers)


def deepseek(layers=3, d=32, dense=1, **options):
    """A GPT whose first layers have no experts."""
    torch.manual_seed(0)
    model = GPT(layers, d=d, block=partial(DeepSeek, **options))
    model.ln_f = nn.RMSNorm(d)
    for block in model.h[:dense]:
        block.moe = None
    return model


@dataclass(frozen=True)
class Kind:
    """How a mechanism's model is made, of layers and a width, and what is read of it."""

    make: object
    layer: str = "attention,ffn"
    placement: str = "pre-ln"
    more: dict = field(default_factory=dict)  # of the selection

    def constants(self, layers=3, optimizer="adam", d=32):
        select = {"placement": self.placement, "stack": "decoder", "layer": self.layer, **self.more}
        rule = dt.Selection(optimizer, **select)
        return dt.export(rule, layers, width=d, heads=HEADS, vocab=VOCAB)


COMPLETE = {"closure": "complete"}
GATED = partial(Kind, layer="attention-gated,ffn", more=COMPLETE)
BESIDE = partial(Kind, layer="attention+ffn")
KINDS = {
    "experts": Kind(partial(gpt, block=Mixture), "attention,ffn@2/4"),
    "experts beside a shared one": Kind(
        partial(gpt, block=Mixture, shared=True), "attention,ffn+ffn@2/4"),
    "one expert a token": Kind(
        partial(gpt, block=Mixture, chosen=1, normed=False), "attention,ffn@1/4"),
    "a gate of each entry": GATED(attends(gate=torch.sigmoid)),
    "a gate of each head": GATED(attends(gate=torch.sigmoid, gate_of="head")),
    "a gate among the queries": GATED(attends(gate=torch.sigmoid, gate_of="queries")),
    "a sink of attention": Kind(attends(sink=True), more=COMPLETE),
    "positions": Kind(attends(positions="own"), more=COMPLETE),
    "positions by the keys' matrix": Kind(attends(positions="shared"), more=COMPLETE),
    "latent, a shared expert opened": Kind(
        partial(deepseek, dense=0, shared=Opened),
        "attention-latent,ffn-swiglu-gated+ffn-swiglu@2/4", more={"norm": "rms"}),
    "Sub-LN": Kind(sub_ln, SUB_LN),
    "sandwich": Kind(sandwich, placement="sandwich-ln"),
    "GPT-NeoX": BESIDE(partial(gpt, block=Parallel)),
    "GPT-J": BESIDE(partial(gpt, block=GPTJ)),
    "Cohere": BESIDE(partial(gpt, block=GPTJ, mlp=SwiGLU), layer="attention+ffn-swiglu"),
    "PaLM": BESIDE(partial(gpt, block=PaLM)),
}  # fmt: skip
SLOW = {
    "experts beside a shared one", "one expert a token", "positions by the keys' matrix",
    "latent, a shared expert opened", "GPT-NeoX", "Cohere", "a gate of each head",
}  # fmt: skip


def marked(rows):
    """The rows of a table, those of ``SLOW`` marked as that."""
    return [
        pytest.param(
            row, marks=[pytest.mark.slow] * (row in SLOW),
            id=row if isinstance(row, str) else ", ".join(map(str, row)),
        )
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("name", marked(KINDS))
def test_it_is_read_judged_and_mended(name):
    kind = KINDS[name]
    model = kind.make(2)
    reading = read(model, IDS)
    assert reading.understood and reading.select["layer"] == kind.layer
    assert reading.select["placement"] == kind.placement
    audit = dt.audit(model, IDS, optimizer="adam")
    assert (audit.verdict, audit.refusal) == ("REFUTED", "")
    put_right(model, kind.constants(2), IDS)


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("experts", ["router", *["fc1", "fc2"] * 4]),
        ("a gate among the queries", ["query", "key", "value", "gate", "output"]),
        ("latent, dense first", ["latent", "latent", "query", "key", "key", "value", "output"]),
    ],
)
def test_its_matrices_have_roles(name, roles):
    sublayers = read(KINDS[name].make(2), IDS).sublayers
    rows = sublayers[1 if name == "experts" else 0].matrices
    assert sorted(m.role for m in rows) == sorted(roles)


@pytest.mark.parametrize("form", ["each", "head", "queries"])
def test_a_gate_is_as_wide_as_it_is_written(form):
    model = attends(gate=torch.sigmoid, gate_of=form)(1)
    parts = {m.role: m for m in read(model, IDS).sublayers[0].matrices}
    assert parts["gate"].fan_out == (HEADS if form == "head" else 32)
    name = "q" if form == "queries" else "g.0"
    assert parts["gate"].name == f"h.0.attn.{name}.weight" and parts["query"].fan_out == 32


@pytest.mark.parametrize("positions", ["own", "shared"])
def test_a_matrix_of_positions_that_is_off_is_named(positions):
    name = "positions" if positions == "own" else "positions by the keys' matrix"
    model, constants = KINDS[name].make(2), KINDS[name].constants(2)
    apply_(model, constants, inputs=IDS)
    with torch.no_grad():
        model.h[1].attn.pos_k.weight *= 4
    (finding,) = dt.audit(model, IDS, constants=constants).findings
    assert ("k" if positions == "shared" else "pos_k") + ".weight" in finding.where
    assert finding.size == pytest.approx(4, rel=0.05)


def test_the_branches_of_a_layer_are_one_sum():
    assert [s.sums for s in read(gpt(3, block=GPTJ), IDS).sublayers] == [0, 0, 1, 1, 2, 2]


def test_a_router_and_all_its_experts_have_a_row_a_role():
    page = str(dt.audit(gpt(2, block=Mixture), IDS, optimizer="adam"))
    table = page.split("\nGains\n")[1].split("\n\n")[1]
    rows = [line.split()[0] for line in table.splitlines()]
    assert [rows.count(role) for role in ("router", "fc1", "fc2")] == [1, 1, 1]


def test_experts_in_one_parameter_are_read_by_its_axes():
    model = gpt(2, block=Mixture)
    for block in model.h:
        block.moe = Stacked(32)
    apply_(model, KINDS["experts"].constants(2), inputs=IDS)
    reading = read(model, IDS)
    (_, into, out) = reading.sublayers[1].matrices
    assert reading.sublayers[1].kind == "ffn@2/4" and reading.understood
    assert [(m.role, m.axis, m.fan_in, m.fan_out) for m in (into, out)] == [
        ("fc1", 2, 32, 96), ("fc2", 2, 96, 32),
    ]  # fmt: skip
    drawn = model.h[0].moe.into.detach().std()
    assert float(drawn) == pytest.approx(into.xavier * 4**-0.5, rel=0.03)


def test_sgd_steps_an_expert_by_as_much_more_as_it_sees_less():
    model = gpt(3, block=Mixture)
    apply_(model, KINDS["experts"].constants(3, "sgd"), inputs=IDS)
    names = {id(p): n for n, p in model.named_parameters()}
    groups = parameter_groups(model, 1e-3)
    scales = {names[id(p)]: group["lr_scale"] for group in groups for p in group["params"]}
    assert scales["h.0.moe.experts.2.c_fc.weight"] == 4
    assert scales["h.0.moe.router.weight"] == scales["h.0.attn.c_proj.weight"] == 1


# ---- what is refused ----


def to_values(d):
    """What attention mixes is multiplied by a gate without a bound before its output."""
    return Attention(d, gate=F.softplus)


BESIDE_OUTPUT = "{} enter its output matrix beside those that attention mixes, which has no law"
SCORES = "activations are multiplied, and not as in attention (h.0.attn.q.weight and 3 more)"
REFUSED = {  # a model, the kind whose constants it is offered, and why it is refused them
    "an unbounded gate": (attends(gate=F.silu), "a gate of each entry", "h.0.attn.g.0.weight"),
    "a gate of either sign": (attends(gate=torch.tanh), "a gate of each entry", "no law here"),
    "a gate of two maps": (
        attends(gate=torch.sigmoid, gates=2), "a gate of each entry", "no law here"),
    "a gate without a bound": (
        partial(gpt, attn=to_values), "a gate of each entry",
        BESIDE_OUTPUT.format("values computed with h.0.attn.g.0.weight")),
    "both results by one matrix": (
        partial(gpt, block=PaLM, one_output=True), "PaLM",
        BESIDE_OUTPUT.format("values computed with h.0.into.weight")),
    "values multiplied behind a gate": (
        attends(gate=torch.sigmoid, times=2), "a gate of each entry",
        "multiplies its values by 2"),
    "values that meet positions": (
        attends(positions="own", beside="value"), "positions", SCORES),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_law_is_refused_by_its_matrix(name):
    make, of, why = REFUSED[name]
    model = make(2)
    audit = dt.audit(model, IDS, optimizer="adam")
    assert (audit.verdict, audit.findings) == ("UNDECIDED", ()) and why in audit.refusal
    with pytest.raises(Refusal) as refused:
        apply_(model, KINDS[of].constants(2), inputs=IDS)
    assert why in str(refused.value)


def test_a_matrix_on_the_scores_of_heads_is_said_and_refused():
    model, why = attends(positions="own", beside="talk")(2), "values computed with h.0.attn.talk"
    reading = read(model, IDS)
    assert f"{why} enter it" in reading.sublayers[0].why and not reading.understood
    with pytest.raises(Refusal, match=why):
        apply_(model, KINDS["positions"].constants(2), inputs=IDS)


OTHERS = {  # a model, and the kind whose constants are not its own
    "a sequence's": ("GPT-J", "a sink of attention",
                     "is attention+ffn, the constants are for attention, ffn"),
    "parallel branches'": ("a sink of attention", "GPT-J",
                           "is attention, ffn, the constants are for attention+ffn"),
    "plain sublayers'": ("Sub-LN", "a sink of attention",
                         "attention-sub-ln, ffn-sub-ln, the constants are for attention, ffn"),
    "Sub-LN's": ("a sink of attention", "Sub-LN",
                 "is attention, ffn, the constants are for attention-sub-ln"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_constants_of_another_model_are_refused(name):
    model, kind, why = OTHERS[name]
    with pytest.raises(Refusal) as refused:
        apply_(KINDS[model].make(2), KINDS[kind].constants(2), inputs=IDS)
    assert why in str(refused.value)


def test_other_ways_to_have_no_place_for_constants():
    few = torch.zeros(1, 4, dtype=torch.long)
    experts, gpt_j = KINDS["experts"], KINDS["GPT-J"]
    with pytest.raises(Refusal, match=r"of 4 experts were chosen .*: give it more tokens"):
        apply_(experts.make(2), experts.constants(2), inputs=few)
    with pytest.raises(Refusal, match="no mixture of experts is built here: 'ffn@2/4'"):
        build(experts.constants(2))
    with pytest.raises(Refusal, match="divide what is behind the branch's norm by 6 there"):
        apply_(sandwich(3, alpha=1.0), KINDS["sandwich"].constants(3), inputs=IDS)
    shared = gpt_j.make(3)
    shared.h[1].ln_1 = shared.h[0].ln_1
    with pytest.raises(Refusal, match=r"share h\.0\.ln_1\.weight"):
        apply_(shared, gpt_j.constants(3), inputs=IDS)
    mixed = deepseek(3)
    for block in mixed.h:
        block.line = lambda x, branch, norm: norm(x + branch(x))
    with pytest.raises(Refusal, match="in some layers alone under one norm"):
        selection_of(read(mixed, IDS), "adamw")


def test_a_normalised_sum_of_branches_takes_one_alpha_in_its_weights():
    rule = dt.Selection("adamw", stack="decoder", layer="attention+ffn", closure="complete")
    model = GPT(3, block=PostLN, final=False)
    with torch.no_grad():
        for table in (model.wte, model.wpe):
            table.weight.mul_(0.5**0.5)
    assert read(model, IDS).select["placement"] == "post-ln"
    sizes = {"width": 32, "heads": HEADS, "vocab": VOCAB}
    with pytest.raises(Refusal, match="no place for alpha = 6"):
        apply_(model, dt.export(rule, 3, **sizes), inputs=IDS)
    put_right(model, dt.export(rule, 3, **sizes, form="weights"), IDS)


# ---- what one step moves ----

ALIKE = [  # a kind, an optimizer, depths, and the least exponent of the model as it is written
    ("a gate of each entry", "adam", (2, 8), 0.5),
    ("a gate of each entry", "sgd", (8, 32), 0.5),
    ("experts", "adam", (4, 8, 16), 0.8),
    ("experts", "sgd", (4, 8, 16), 0.8),
    ("positions", "adam", (4, 8, 16), 0.3),
    ("positions", "sgd", (4, 8, 16), 0.3),
    ("Sub-LN", "adam", (4, 16), 0.4),
    ("sandwich", "adam", (4, 16), 0.4),
    ("GPT-J", "adam", (4, 16), 0.2),
    ("Cohere", "adam", (4, 16), 0.2),
]
SLOW |= {*ALIKE[1:]}


@pytest.mark.parametrize("row", marked(ALIKE))
def test_one_step_moves_a_mended_model_alike_at_every_depth(row):
    name, optimizer, depths, least = row
    kind = KINDS[name]
    constants = lambda n: kind.constants(n, optimizer)  # noqa: E731
    mended, plain = depth_exponents(kind.make, constants, IDS, optimizer, depths)
    if name == "sandwich":  # whose code has its alpha
        make = lambda n: (sandwich(n, alpha=1.0), IDS)  # noqa: E731
        plain = dt.measure(make, depths, optimizer="adam", seeds=2).exponents[0].estimate
    assert abs(mended) < (0.15 if len(depths) == 3 else 0.1) and plain > least


def at_the_rules_rates(model, unit=1e-6, **options):
    """‖ΔF‖ of a step of the branches' matrices at the rule's rates."""
    named = {p: n for n, p in model.named_parameters() if n.startswith("h.") and p.dim() > 1}
    with warnings.catch_warnings(action="ignore"):
        groups = parameter_groups(model, unit)
    rates = {named[p]: g["lr"] for g in groups for p in g["params"] if p in named}
    return branch_step(model, rates, **options)


# so small a step that no token is sent to another expert
to_the_same_experts = partial(at_the_rules_rates, unit=1e-10, batches=4)


@pytest.mark.usefixtures("measured")
def test_the_size_of_a_gate_is_a_remark_and_moves_a_real_step_as_little():
    kind = KINDS["a gate of each entry"]
    right = started(kind.make(4, d=64))
    apply_(right, kind.constants(4, d=64), inputs=IDS)
    wrong = copy.deepcopy(right)
    with torch.no_grad():
        times(9, "attn.g.0.weight")(wrong)
    audit = dt.audit(wrong, IDS, optimizer="adam")
    (found,) = audit.findings
    assert (audit.verdict, found.severity) == ("SUPPORTED", "remark") and "gate" in found.where
    assert branch_step(wrong) == pytest.approx(branch_step(right), rel=0.05)


# ---- what is built here is read as it was selected ----


@pytest.mark.parametrize(
    ("layer", "norm"),
    [
        (SUB_LN, "layer"), ("attention-sub-ln,ffn-swiglu-sub-ln", "rms"),
        ("attention-qkv-norm,ffn", "rms"), ("attention-qkv-norm,ffn", "layer"),
        ("attention-qk-norm,ffn", "layer"), ("attention-latent,ffn-sub-ln", "rms"),
    ],
)  # fmt: skip
def test_a_built_model_is_read_as_selected_and_follows_its_own_constants(layer, norm):
    """Norms of heads and latents are RMS norms, whatever norm the stack has."""

    def constants(norm):
        select = dt.Selection("adamw", placement="pre-ln", layer=layer, norm=norm)
        return dt.export(select, 2, width=32, heads=HEADS, vocab=VOCAB)

    torch.manual_seed(0)
    model = build(constants(norm))
    reading = read(model, IDS)
    assert reading.understood
    assert reading.select["layer"] == layer.replace("attention-qk-norm", "attention")
    audit = dt.audit(model, IDS, constants=constants(norm))
    assert audit.verdict == "SUPPORTED" and not audit.findings
    with pytest.raises(dt.InputError, match="the constants are for the norm"):
        dt.audit(model, IDS, constants=constants({"rms": "layer", "layer": "rms"}[norm]))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("output.weight"):
                p.mul_(3)
    audit = dt.audit(model, IDS, constants=constants(norm))
    assert audit.verdict == "REFUTED" and "output" in audit.findings[0].where


# ---- public models of these kinds ----

SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": VOCAB,
    "max_position_embeddings": 64, "num_key_value_heads": 4, "num_experts_per_tok": 2,
    "intermediate_size": 48, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FINE = {**SIZES, "moe_intermediate_size": 24}
DEEP = {
    **FINE, "n_routed_experts": 8, "first_k_dense_replace": 0, "n_shared_experts": 1,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "n_group": 2, "topk_group": 1,
}  # fmt: skip
# the class, its sizes, and what the gates of a token add up to where that is a number
PUBLIC = {
    "Mixtral": (SIZES | {"num_local_experts": 8}, 1.0),
    "Qwen2Moe": (FINE | {"num_experts": 8, "shared_expert_intermediate_size": 40}, None),
    "Qwen3Moe": (FINE | {"num_experts": 8, "head_dim": 8, "norm_topk_prob": True}, 1.0),
    "Olmoe": (SIZES | {"num_experts": 8}, None),
    "DeepseekV2": (DEEP, None),
    "DeepseekV3": (DEEP, 2.5),
}


def public(name, sizes):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes)
    return getattr(transformers, f"{name}ForCausalLM")(config)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_stacked_experts_of_public_models_are_read(name):
    sizes, total = PUBLIC[name]
    model = public(name, sizes)
    reading = read(model, IDS)
    mixtures = [s for s in reading.sublayers if s.kind == "ffn-swiglu@2/8"]
    assert len(mixtures) == 2 and not reading.notes
    for s in mixtures:
        router, gate, up, down = s.matrices
        hidden = gate.fan_out
        assert [m.role for m in s.matrices] == ["router", "gate", "up", "down"]
        assert (gate.where, up.where) == (
            f"{gate.name}[:, 0:{hidden}]", f"{gate.name}[:, {hidden}:{2 * hidden}]",
        )  # fmt: skip
        assert (gate.fan_in, down.fan_in, down.fan_out, router.fan_out) == (32, hidden, 32, 8)
        weight = model.get_parameter(down.name)
        size = float(weight.detach().square().mean().sqrt())
        assert down.size == pytest.approx(size * down.times, 1e-4)
        assert down.times == pytest.approx(total, 1e-4) if total else 0.2 < down.times < 0.6
    shared = [s for s in reading.sublayers if s.kind == "ffn-swiglu"]
    assert len(shared) == 2 * name.startswith("Deepseek")


def test_a_model_of_bitnets_kind_is_judged_by_the_rule_of_its_sublayers_and_takes_it():
    model = public("BitNet", SIZES | {"num_key_value_heads": 2})
    assert dt.audit(model, IDS, optimizer="adamw").against == "adamw"
    rule = dt.Selection("adamw", **read(model, IDS).select)
    put_right(model, dt.export(rule, 2, width=32, heads=HEADS, ffn_ratio=1.5, vocab=VOCAB), IDS)
