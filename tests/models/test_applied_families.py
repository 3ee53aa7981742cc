"""apply_ on families of Hugging Face models: the audit, which is another judge, finds the rule."""

from dataclasses import replace

import pytest
import torch
from mended import put_right

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import Refusal

D, V, LAYERS = 64, 50, 2
IDS = torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(0))
SIZES = {
    "vocab_size": V, "hidden_size": D, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
    "intermediate_size": 4 * D,
}  # fmt: skip


PRE, CAUSAL = {"placement": "pre-ln"}, {"stack": "decoder"}
GATED = {**PRE, **CAUSAL, "norm": "rms", "layer": "attention,ffn:swiglu"}
BESIDE = {**PRE, **CAUSAL, "layer": "attention+ffn"}
OF_GPT = {"vocab_size": V, "n_embd": D, "n_layer": LAYERS, "n_head": 4}
IMAGE = {**{k: v for k, v in SIZES.items() if k != "vocab_size"}, "image_size": 8, "patch_size": 4}
FAMILIES = {  # the model's class and its configuration, and the constants' selection
    "GPT2": ("GPT2LMHeadModel", OF_GPT, {**CAUSAL, **PRE}),
    "Llama": ("LlamaForCausalLM", {**SIZES, "num_key_value_heads": 2}, GATED),
    "Qwen2": ("Qwen2ForCausalLM", {**SIZES, "num_key_value_heads": 2}, GATED),
    # queries and keys are normalised
    "Qwen3": ("Qwen3ForCausalLM", {**SIZES, "num_key_value_heads": 2, "head_dim": 16}, GATED),
    "ViT": ("ViTForImageClassification", IMAGE, PRE),
    "T5": (
        "T5ForConditionalGeneration",
        {"vocab_size": V, "d_model": D, "d_kv": 16, "d_ff": 4 * D, "num_layers": LAYERS,
         "num_heads": 4}, {"stack": "encoder-decoder", **PRE, "norm": "rms"},
    ),
    "Bert": ("BertForMaskedLM", SIZES, {}),
    "DistilBert": (
        "DistilBertForMaskedLM",
        {"vocab_size": V, "dim": D, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 4 * D}, {},
    ),
    "OpenAIGPT": ("OpenAIGPTLMHeadModel", OF_GPT, CAUSAL),
    # branches in parallel: of one norm, of one each, multi-query, gated
    "GPTJ": ("GPTJForCausalLM", {**OF_GPT, "rotary_dim": 8}, BESIDE),
    "GPTNeoX": ("GPTNeoXForCausalLM", SIZES, BESIDE),
    "Phi": ("PhiForCausalLM", SIZES, BESIDE),
    "Falcon": ("FalconForCausalLM", {**SIZES, "ffn_hidden_size": 4 * D}, BESIDE),
    "StableLm": (
        "StableLmForCausalLM", {**SIZES, "num_key_value_heads": 2, "use_parallel_residual": True},
        {**BESIDE, "layer": "attention+ffn:swiglu"},
    ),
    "Cohere": (
        "CohereForCausalLM", {**SIZES, "num_key_value_heads": 2},
        {**BESIDE, "layer": "attention+ffn:swiglu"},
    ),
}  # fmt: skip


def family(name):
    """A small random model, its inputs, and the constants' selection."""
    t = pytest.importorskip("transformers")
    kind, sizes, select = FAMILIES[name]
    inputs = {"pixel_values": torch.randn(2, 3, 8, 8)} if name == "ViT" else {"input_ids": IDS}
    if name == "T5":
        inputs["decoder_input_ids"] = IDS
    return getattr(t, kind)(getattr(t, f"{name}Config")(**sizes)), inputs, select


def exported(select, **options):
    depth = {"N": LAYERS, "M": LAYERS} if select.get("stack") == "encoder-decoder" else LAYERS
    sizes = {"width": D, "heads": 4, "vocab": V}
    derived = dt.Selection("adam", closure="complete", **select)
    return dt.export(derived, depth, **sizes, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["GPT2", "Llama", "Qwen2", "Qwen3", "ViT", "T5", "Bert", "GPTJ", "GPTNeoX", "Phi", "Falcon",
     "StableLm", "Cohere"],
)  # fmt: skip
def test_the_audit_finds_the_rule_that_was_put_in(name):
    torch.manual_seed(0)
    model, inputs, select = family(name)
    model.eval()
    c = exported(select)
    assert dt.audit(model, inputs, constants=c).verdict.value == "REFUTED"
    if name == "T5":  # its tied head starts at 7.5, and ln 50 is 3.9
        with pytest.raises(Refusal, match=r"write logits = logits \* 0\.12"):
            apply_(model, c, inputs=inputs)
    put_right(model, c, inputs, outer=name != "T5")
    other = exported({**select, "placement": "res-post-ln"} if "placement" in select else
                     {"placement": "pre-ln"})  # fmt: skip
    with pytest.raises(Refusal, match="the constants are for"):
        apply_(model, other, inputs=inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DistilBert", "OpenAIGPT"])
def test_a_post_ln_model_without_a_place_for_alpha_takes_it_in_its_weights(name):
    torch.manual_seed(0)
    model, inputs, select = family(name)
    model.eval()
    with pytest.raises(Refusal, match="exported with form='weights'"):
        apply_(model, exported(select), inputs=inputs)
    c = exported(select, form="weights")
    apply_(model, c, inputs=inputs)
    assert dt.audit(model, inputs, constants=c).verdict.value == "SUPPORTED"
    groups = parameter_groups(model, 1e-3, constants=replace(c, origin={}))
    assert min(g["lr"] for g in groups) < 1e-3


@pytest.mark.slow
def test_norms_on_queries_and_keys_have_no_part_in_the_rule():
    torch.manual_seed(0)
    model, inputs, select = family("Qwen3")
    c = exported(select)
    put_right(model, c, inputs)
    for layer in model.model.layers:  # on the value it has one
        layer.self_attn.v_proj = torch.nn.Sequential(layer.self_attn.v_proj, torch.nn.RMSNorm(32))
    with pytest.raises(Refusal, match="a layer of the decoder is attention-qkv-norm"):
        apply_(model, c, inputs=inputs)
