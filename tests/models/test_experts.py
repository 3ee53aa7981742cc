"""Mixtures of experts: read in both forms that people write, judged, mended and measured."""

import warnings
from functools import partial

import pytest
import torch
from mended import audit_of_a_real_step, depth_exponents, put_right
from torch import nn
from written_models import GPT, Mixture, branch_step, started

import deepnet_theory as dt
from deepnet_theory.models import read
from deepnet_theory.runtime import apply_, build, parameter_groups
from deepnet_theory.spec.errors import Refusal

pytestmark = pytest.mark.usefixtures("unpredicted")

D, V = 32, 61
IDS = torch.randint(V, (2, 32), generator=torch.Generator().manual_seed(0))
SIZES = {
    "hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": V,
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


def public(name, sizes=None):
    transformers = pytest.importorskip("transformers")
    config = getattr(
        transformers, f"{name.removesuffix('Text')}{'Text' * ('Llama4' in name)}Config"
    )
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(config(**(sizes or PUBLIC[name][0])))


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_stacked_experts_of_public_models_are_read(name):
    model = public(name)
    found = read(model, IDS)
    total = PUBLIC[name][1]
    mixtures = [s for s in found.sublayers if s.kind == "ffn-swiglu@2/8"]
    assert len(mixtures) == 2 and not found.notes
    for s in mixtures:
        router, gate, up, down = s.matrices
        hidden = gate.fan_out
        assert [m.role for m in s.matrices] == ["router", "gate", "up", "down"]
        assert (gate.where, up.where) == (
            f"{gate.name}[:, 0:{hidden}]",
            f"{gate.name}[:, {hidden}:{2 * hidden}]",
        )
        assert (gate.fan_in, down.fan_in, down.fan_out, router.fan_out) == (D, hidden, D, 8)
        weight = model.get_parameter(down.name)
        assert down.size == pytest.approx(
            float(weight.detach().square().mean().sqrt()) * down.times, 1e-4
        )
        assert down.times == pytest.approx(total, 1e-4) if total else 0.2 < down.times < 0.6
    shared = [s for s in found.sublayers if s.kind == "ffn-swiglu"]
    assert len(shared) == 2 * name.startswith("Deepseek")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "why"),
    [
        ("Llama4", {"num_local_experts": 8, "num_experts_per_tok": 1, "intermediate_size_mlp": 24,
                    "interleave_moe_layer_step": 1, "head_dim": 8},
         r"gates of experts multiply what enters them .*feed_forward\.router\.weight"),
        ("GptOss", {"num_local_experts": 8, "head_dim": 8},
         r"a router chooses experts \(model\.layers\.0\.mlp\.router\.weight\), whose branches"),
    ],
)  # fmt: skip
def test_what_has_no_law_is_said(name, sizes, why):
    model = public("Llama4" if name == "Llama4" else name, {**SIZES, **sizes})
    audit = dt.audit(model, IDS, optimizer="adamw")
    assert audit.verdict == "UNDECIDED"
    with pytest.raises(Refusal, match=why):
        apply_(model, exported(2, "adamw"), inputs=IDS)


# ---- written by hand: one module an expert ----


def made(layers, d=D, **options):
    torch.manual_seed(layers)
    return GPT(layers, d=d, block=partial(Mixture, **options))


def exported(layers, optimizer="adamw", layer="attention,ffn@2/4", d=D, **select):
    rule = dt.derive(optimizer, placement="pre-ln", stack="decoder", layer=layer, **select)
    return dt.export(rule, layers, width=d, heads=4, vocab=V)


@pytest.mark.parametrize(
    ("options", "layer"),
    [
        ({}, "attention,ffn@2/4"),
        *(
            pytest.param(*more, marks=pytest.mark.slow)
            for more in (
                ({"shared": True}, "attention,ffn+ffn@2/4"),
                ({"chosen": 1, "normed": False}, "attention,ffn@1/4"),
            )
        ),
    ],
)
def test_experts_of_a_list_are_read_judged_and_mended(options, layer):
    model, constants = made(3, **options), exported(3, layer=layer)
    found = read(model, IDS)
    assert found.select["layer"] == layer and found.understood
    own = found.sublayers[-1].matrices
    assert [m.role for m in own] == ["router", *["fc1", "fc2"] * 4]
    audit = dt.audit(model, IDS, optimizer="adamw")
    assert audit.verdict == "REFUTED"
    (line,) = {line for line in str(audit).splitlines() if "─ router" in line}
    assert line.count("fc1") == line.count("fc2") == 1
    put_right(model, constants, IDS)


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
        every = torch.bmm(tokens.expand(len(self.into), -1, -1), self.into).relu()
        return (torch.bmm(every, self.out) * gates.T[..., None]).sum(0).view_as(x)


def test_experts_in_one_parameter_are_read_by_its_axes():
    model = made(2)
    for block in model.h:
        block.moe = Stacked(D)
    apply_(model, exported(2), inputs=IDS)
    found = read(model, IDS)
    (_, into, out) = found.sublayers[1].matrices
    assert found.sublayers[1].kind == "ffn@2/4" and found.understood
    assert [(m.role, m.axis, m.fan_in, m.fan_out) for m in (into, out)] == [
        ("fc1", 2, D, 3 * D),
        ("fc2", 2, 3 * D, D),
    ]
    drawn = model.h[0].moe.into.detach().std()
    assert float(drawn) == pytest.approx(into.xavier * 4**-0.5, rel=0.03)


def test_sgd_steps_an_expert_by_as_much_more_as_it_sees_less():
    model = made(3)
    apply_(model, exported(3, "sgd"), inputs=IDS)
    scales = {
        name: group["lr_scale"]
        for group in parameter_groups(model, 1e-3)
        for name, p in model.named_parameters()
        if any(p is q for q in group["params"])
    }
    assert scales["h.0.moe.experts.2.c_fc.weight"] == 4
    assert scales["h.0.moe.router.weight"] == scales["h.0.attn.c_proj.weight"] == 1


def test_experts_that_no_token_chose_are_said_and_a_mixture_is_not_built():
    few = torch.zeros(1, 4, dtype=torch.long)
    with pytest.raises(Refusal, match=r"of 4 experts were chosen .*: give it more tokens"):
        apply_(made(2), exported(2), inputs=few)
    with pytest.raises(Refusal, match="no mixture of experts is built here: 'ffn@2/4'"):
        build(exported(2))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_one_step_moves_a_mended_mixture_alike_at_every_depth(optimizer):
    mended, plain = depth_exponents(
        made, partial(exported, optimizer=optimizer), IDS, optimizer, [4, 8, 16]
    )
    assert abs(mended) < 0.15 and plain > 0.8


def sign_step(model):
    """‖ΔF‖ of a sign step so small that no token is sent elsewhere."""
    own = [n for n, p in model.named_parameters() if n.startswith("h.") and p.dim() > 1]
    return branch_step(model, dict.fromkeys(own, 1e-10), batches=4)


def sgd_step(model, text=False):
    """‖ΔF‖ of a step of SGD at the rule's rates."""
    named = {p: n for n, p in model.named_parameters() if n.startswith("h.") and p.dim() > 1}
    with warnings.catch_warnings(action="ignore"):
        groups = parameter_groups(model, 1e-6)
    rates = {named[p]: g["lr"] for g in groups for p in g["params"] if p in named}
    return branch_step(model, rates, step=lambda g: g, batches=4, text=text)


@pytest.mark.usefixtures("predicted")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "optimizer", "step"),
    [(last, *way) for last in ("c_fc", "c_proj") for way in (
        ("adam", sign_step), ("sgd", sgd_step), ("sgd", partial(sgd_step, text=True)),
    )],
)  # fmt: skip
def test_a_predicted_effect_is_that_of_a_real_step(last, optimizer, step):
    right = started(made(8, d=64))
    apply_(right, exported(8, optimizer, d=64), inputs=IDS)

    def change(wrong):
        for name, p in wrong.named_parameters():
            if "experts" in name and last in name:
                p.mul_(3)

    audit = audit_of_a_real_step(right, change, IDS, step, optimizer=optimizer)
    assert audit.effect > 1.3
    (finding,) = audit.findings
    assert "all 8 layers" in finding.where and finding.size == pytest.approx(3, rel=0.05)
