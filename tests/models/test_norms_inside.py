"""Norms within a branch and behind it: read, judged, put right, measured."""

import warnings
from functools import partial

import pytest
import torch
from mended import audit_of_a_real_step, depth_exponents, put_right, times
from torch import nn
from written_models import GPT, branch_step, started, with_inner_norms

import deepnet_theory as dt
from deepnet_theory.models import read
from deepnet_theory.runtime import apply_, build, parameter_groups
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

pytestmark = pytest.mark.usefixtures("unpredicted")

V = 61
IDS = torch.randint(V, (2, 16), generator=torch.Generator().manual_seed(0))
SUB_LN = "attention-sub-ln,ffn-sub-ln"


def sub_ln(layers, d=32):
    return with_inner_norms(GPT(layers, d=d), d)


class Sandwich(nn.Module):
    """Peri-LN's block: a norm before and one behind each branch, which ``alpha`` divides."""

    def __init__(self, plain, alpha, d):
        super().__init__()
        self.attn, self.mlp, self.alpha = plain.attn, plain.mlp, alpha
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(4))

    def forward(self, x):
        x = x + self.norms[1](self.attn(self.norms[0](x))) / self.alpha
        return x + self.norms[3](self.mlp(self.norms[2](x))) / self.alpha


def sandwich(layers, d=32, alpha=None):
    model = GPT(layers, d=d)
    model.h = nn.ModuleList(Sandwich(block, alpha or 2 * layers, d) for block in model.h)
    return model


# a model, and what its rule is derived for; the code of a sandwich has its alpha
KINDS = {
    "Sub-LN": (sub_ln, {"placement": "pre-ln", "layer": SUB_LN}),
    "sandwich": (sandwich, {"placement": "sandwich-ln"}),
}


def exported(kind, layers, d=32, optimizer="adam", **options):
    rule = dt.derive(optimizer, stack="decoder", **KINDS[kind][1])
    return dt.export(rule, layers, width=d, heads=4, vocab=V, **options)


def seeded(make, layers, **options):
    torch.manual_seed(layers)
    return make(layers, **options)


@pytest.mark.parametrize(
    ("layer", "norm"),
    [(SUB_LN, "layer"), ("attention-sub-ln,ffn-swiglu-sub-ln", "rms"),
     ("attention-qkv-norm,ffn", "rms")],
)  # fmt: skip
def test_what_is_built_is_read_as_it_was_selected_and_follows_its_rule(layer, norm):
    rule = dt.derive("adamw", placement="pre-ln", layer=layer, norm=norm)
    constants = dt.export(rule, 3, width=32, heads=4, vocab=V)
    torch.manual_seed(0)
    model = build(constants)
    found = read(model, IDS)
    assert found.understood and found.select["layer"] == layer
    assert dt.audit(model, IDS, constants=constants).verdict == "SUPPORTED"
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("output.weight"):
                p.mul_(3)
    audit = dt.audit(model, IDS, constants=constants)
    assert audit.verdict == "REFUTED" and "output" in audit.findings[0].where


transformers = pytest.importorskip("transformers")
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": V,
         "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip
GATED, QK = "attention,ffn-swiglu", ["scores", "scores"]
FAMILIES = {  # its layer, its placement, the norms that stand elsewhere
    "BitNet": ({}, "attention-sub-ln,ffn-swiglu-sub-ln", "pre-ln", ["within"]),
    "Gemma2": ({"head_dim": 8}, GATED, "sandwich-ln", []),
    "Gemma3Text": ({"head_dim": 8}, GATED, "sandwich-ln", QK),
    "Glm4": ({"head_dim": 8}, GATED, "sandwich-ln", []),
    "Olmo2": ({}, GATED, "res-post-ln", QK),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_public_models_are_read_with_their_norms(name):
    options, layer, placement, elsewhere = FAMILIES[name]
    config = getattr(transformers, f"{name}Config")(**SIZES, **options)
    found = read(getattr(transformers, f"{name}Model")(config), IDS)
    assert found.understood and found.select["layer"] == layer
    assert found.select["placement"] == placement
    norms = found.sublayers[0].norms
    assert [n.where for n in norms if n.where not in ("input", "output")] == elsewhere


def test_a_model_of_bitnets_kind_is_judged_by_the_rule_of_its_sublayers_and_takes_it():
    torch.manual_seed(0)
    model = transformers.BitNetForCausalLM(transformers.BitNetConfig(**SIZES))
    assert dt.audit(model, IDS, optimizer="adamw").against == "adamw"
    rule = dt.derive("adamw", **read(model, IDS).select)
    constants = dt.export(rule, 2, width=32, heads=4, ffn_ratio=2, vocab=V)
    put_right(model, constants, IDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_judged_by_the_rule_of_its_norms_and_mended(kind):
    make, select = KINDS[kind]
    model, constants = seeded(make, 3), exported(kind, 3)
    found = read(model, IDS)
    assert select.items() <= {**found.select}.items()
    audit = dt.audit(model, IDS, optimizer="adam")
    assert audit.verdict == "REFUTED" and audit.against == "adam", audit
    put_right(model, constants, IDS)


def test_constants_of_the_plain_sublayers_are_another_models():
    plain = dt.export(
        dt.derive("adam", placement="pre-ln", stack="decoder"), 3, width=32, heads=4, vocab=V
    )
    with pytest.raises(Refusal, match="attention-sub-ln, ffn-sub-ln, the constants are for attent"):
        apply_(sub_ln(3), plain, inputs=IDS)
    with pytest.raises(Refusal, match="is attention, ffn, the constants are for attention-sub-ln"):
        apply_(GPT(3), exported("Sub-LN", 3), inputs=IDS)


def test_alpha_behind_a_branchs_norm_goes_into_no_matrix():
    with pytest.raises(Refusal, match="divide what is behind the branch's norm by 6 there"):
        apply_(sandwich(3, alpha=1.0), exported("sandwich", 3), inputs=IDS)


@pytest.mark.slow  # a real step of one depth is compared below
@pytest.mark.parametrize("kind", ["Sub-LN", "sandwich"])
def test_one_step_moves_a_mended_model_alike_at_every_depth(kind):
    make = partial(seeded, KINDS[kind][0])
    mended, plain = depth_exponents(make, partial(exported, kind), IDS)
    if kind == "sandwich":  # whose code has its alpha
        make = partial(make, alpha=1.0)
        plain = dt.measure(lambda n: (make(n), IDS), [4, 16], optimizer="adam", seeds=2)
        plain = plain.exponents[0].estimate
    assert abs(mended) < 0.1 and plain > 0.4


def rule_step(model):
    """‖ΔF‖ at small rates of the branches' matrices, in the rule's ratio."""
    with warnings.catch_warnings(action="ignore"):
        groups = parameter_groups(model, 1e-6)
    names = {p: n for n, p in model.named_parameters()}
    rates = {names[p]: g["lr"] for g in groups for p in g["params"] if p.dim() > 1}
    return branch_step(model, {name: rate for name, rate in rates.items() if name[:2] == "h."})


LAST = [
    ("Sub-LN", "mlp.c_proj.1"),
    pytest.param("sandwich", "mlp.c_proj", marks=pytest.mark.slow),
]


@pytest.mark.usefixtures("predicted")
@pytest.mark.parametrize(("kind", "part"), LAST)
def test_a_predicted_effect_is_that_of_a_real_step(kind, part):
    right = started(KINDS[kind][0](8, d=64))
    apply_(right, exported(kind, 8, 64), inputs=IDS)
    # behind a norm small matrices move most
    change = times(3 if kind == "Sub-LN" else 1 / 3, f"{part}.weight")
    audit = audit_of_a_real_step(right, change, IDS, rule_step, optimizer="adam")
    assert abs(audit.effect - 1) > 0.2


@pytest.mark.parametrize(
    "layer", ["attention-qk-norm,ffn", "attention-qkv-norm,ffn", "attention-latent,ffn-sub-ln"]
)
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_a_built_model_follows_its_own_constants(layer, norm):
    """Norms of heads and latents are RMS norms, whatever norm the stack has."""

    def constants(norm):
        select = Selection(optimizer="sgd", layer=layer, norm=norm, closure="complete")
        return dt.export(select, depth=2, width=16, heads=2, vocab=V)

    torch.manual_seed(0)
    model = build(constants(norm))
    found = dt.audit(model, IDS, constants=constants(norm))
    assert found.verdict is Verdict.SUPPORTED and not found.findings
    with pytest.raises(dt.InputError, match="the constants are for the norm"):
        dt.audit(model, IDS, constants=constants({"rms": "layer", "layer": "rms"}[norm]))
