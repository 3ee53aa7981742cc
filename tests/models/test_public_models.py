"""Public models by their libraries' small random configurations, each with what is read of it.

A row is how to build a model and one line of what the reader says: stack, layers, the kinds of a
layer (a plus between branches of one sum), the residual equations, and what multiplies or
normalises beside them. A model without a law has the sentence that refuses it. Families whose
parameters are read one by one stand in ``test_families``.
"""

from functools import cache
from itertools import groupby

import pytest
import torch

from deepnet_theory.models import read
from deepnet_theory.sizes.wanted import selection_of
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.results.reading import described
from deepnet_theory.spec.subject import without_law

transformers = pytest.importorskip("transformers")

PRE, POST, OUT = "x + branch(norm(x))", "norm(x + branch(x))", "x + norm(branch(x))"
SANDWICH = "x + norm(branch(norm(x)))"
GATED, PLAIN = "attention, ffn-swiglu", "attention, ffn"


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


IDS = torch.randint(3, 61, (2, 9), generator=torch.Generator().manual_seed(0))
PIXELS = drawn(2, 3, 16, 16)
BOTH = {"input_ids": IDS, "decoder_input_ids": IDS.flip(0)}
TOKENS = {"vocab_size": 61, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4}  # fmt: skip
BERT = {**SIZES, **TOKENS, "max_position_embeddings": 40}
LLAMA = {**BERT, "num_key_value_heads": 2}
HEADS = {**LLAMA, "head_dim": 4}
TWO_HEADS = {**LLAMA, "num_attention_heads": 2}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, **TOKENS}
BART = {"d_model": 16, **TOKENS, "decoder_start_token_id": 2, "max_position_embeddings": 32,
        **{f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (
            ("layers", 2), ("attention_heads", 4), ("ffn_dim", 32))}}  # fmt: skip
T5 = {"d_model": 16, "d_ff": 32, "num_layers": 2, "num_heads": 4, "d_kv": 4, "vocab_size": 61}
IMAGE = {**SIZES, "image_size": 16, "patch_size": 8}
LATENT = {**BERT, "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 8,
          "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}


def hf(name, inputs=IDS, **sizes):
    """A model of transformers by the name of its class, and what it reads."""

    def make():
        own = name.removesuffix("Model")
        return getattr(transformers, f"{own}Model")(
            getattr(transformers, f"{own}Config")(**sizes)
        ), inputs

    return make


def x_transformers(part="Decoder", **options):
    def make():
        library = pytest.importorskip("x_transformers")
        layers = getattr(library, part)(dim=16, depth=2, heads=2, attn_dim_head=8, **options)
        return library.TransformerWrapper(num_tokens=61, max_seq_len=16, attn_layers=layers), IDS

    return make


def decoder(kinds, equation=PRE, more=""):
    return f"decoder: 2 x ({kinds}); {equation}{more}"


def encoder(kinds, equation=PRE, more=""):
    return f"encoder: 2 x ({kinds}); {equation}{more}"


def both(ffn, equation=PRE):
    return f"{encoder(f'attention, {ffn}', equation)} / " + decoder(
        f"attention, cross, {ffn}", equation
    )


SCORES = "; norms of scores"
READ = {
    # parallel branches
    "GPT-J": (hf("GPTJ", **GPT, rotary_dim=4), decoder("attention+ffn")),
    "GPT-NeoX": (hf("GPTNeoX", **BERT), decoder("attention+ffn")),
    "GPT-NeoX, one after the other": (
        hf("GPTNeoX", **BERT, use_parallel_residual=False), decoder(PLAIN)),
    "Phi": (hf("Phi", **BERT), decoder("attention+ffn")),
    "Falcon, one norm": (
        hf("Falcon", **BERT, new_decoder_architecture=False), decoder("attention+ffn")),
    "Falcon, two norms": (
        hf("Falcon", **BERT, new_decoder_architecture=True, num_kv_heads=2),
        decoder("attention+ffn")),
    "Falcon RW": (
        hf("Falcon", **BERT, new_decoder_architecture=False, multi_query=False,
           parallel_attn=False, alibi=True, bias=True), decoder(PLAIN)),
    "Cohere": (hf("Cohere", **HEADS), decoder("attention+ffn-swiglu")),
    "Cohere 2": (hf("Cohere2", **HEADS), decoder("attention+ffn-swiglu")),
    "StableLM, parallel": (
        hf("StableLm", **TWO_HEADS, use_parallel_residual=True, partial_rotary_factor=0.5),
        decoder("attention+ffn-swiglu")),
    "StableLM": (hf("StableLm", **TWO_HEADS, partial_rotary_factor=0.5), decoder(GATED)),
    "CodeGen": (hf("CodeGen", **GPT, rotary_dim=4), decoder("attention+ffn")),
    # norms behind the branch, within it, on both sides of it
    "OLMo 2": (hf("Olmo2", **BERT), decoder(GATED, OUT, SCORES)),
    "OLMo 3": (hf("Olmo3", **BERT), decoder(GATED, OUT, SCORES)),
    "Exaone 4": (
        hf("Exaone4", **HEADS, sliding_window=8, sliding_window_pattern=2),
        decoder(GATED, OUT, SCORES)),
    "Swin v2": (
        hf("Swinv2", PIXELS, image_size=16, patch_size=2, embed_dim=16, depths=[2], num_heads=[4],
           window_size=4), encoder(PLAIN, OUT, SCORES)),
    "Gemma 3": (hf("Gemma3Text", **HEADS), decoder(GATED, SANDWICH, SCORES + "; tokens x 4")),
    "GLM 4": (hf("Glm4", **HEADS), decoder(GATED, SANDWICH)),
    "sandwich norms": (x_transformers(sandwich_norm=True), decoder(PLAIN, SANDWICH)),
    "norms before a branch and on its sum": (
        x_transformers(pre_and_post_norm=True), decoder(PLAIN, "norm(x + branch(norm(x)))")),
    # pre-LN decoders
    "OLMo": (hf("Olmo", **BERT), decoder(GATED)),
    "GLM": (hf("Glm", **HEADS), decoder(GATED)),
    "Qwen 3": (hf("Qwen3", **HEADS), decoder(GATED, more=SCORES)),
    "Mistral": (hf("Mistral", **HEADS), decoder(GATED)),
    "Phi 3": (hf("Phi3", **BERT), decoder(GATED)),
    "SmolLM 3": (hf("SmolLM3", **LLAMA), decoder(GATED)),
    "Seed-OSS": (hf("SeedOss", **HEADS), decoder(GATED)),
    "Starcoder 2": (hf("Starcoder2", **LLAMA), decoder(PLAIN)),
    "Nemotron": (hf("Nemotron", **HEADS), decoder(PLAIN)),
    "Persimmon": (hf("Persimmon", **BERT), decoder(PLAIN, more=SCORES)),
    "Apertus": (hf("Apertus", **LLAMA), decoder(PLAIN, more=SCORES)),
    "NanoChat": (hf("NanoChat", **LLAMA), decoder(PLAIN, more=SCORES)),
    "Granite": (
        hf("Granite", **LLAMA, residual_multiplier=0.22, embedding_multiplier=12.0),
        decoder(GATED, more="; branch x 0.22; tokens x 12")),
    "MPT": (
        hf("Mpt", d_model=16, n_heads=4, n_layers=2, expansion_ratio=2, vocab_size=61,
           max_seq_len=32), decoder(PLAIN)),
    "BLOOM": (hf("Bloom", hidden_size=16, n_layer=2, n_head=4, vocab_size=61), decoder(PLAIN)),
    "BLOOM, its residual behind the norm": (
        hf("Bloom", hidden_size=16, n_layer=2, n_head=4, vocab_size=61,
           apply_residual_connection_post_layernorm=True), decoder(PLAIN, POST)),
    "OPT": (hf("OPT", **BERT, ffn_dim=32, word_embed_proj_dim=16), decoder(PLAIN)),
    "OPT 350M": (
        hf("OPT", **BERT, ffn_dim=32, word_embed_proj_dim=16, do_layer_norm_before=False),
        decoder(PLAIN, POST)),
    "GPT-BigCode": (hf("GPTBigCode", **GPT), decoder(PLAIN)),
    "CTRL": (
        hf("CTRL", **{**GPT, "dff": 32}), decoder(PLAIN, more="; tokens x 4")),
    "XGLM": (
        hf("XGLM", d_model=16, num_layers=2, attention_heads=4, ffn_dim=32, vocab_size=61,
           max_position_embeddings=32), decoder(PLAIN, more="; tokens x 4")),
    # encoders
    "RoBERTa": (hf("Roberta", **BERT), encoder(PLAIN, POST)),
    "RoBERTa-PreLN": (hf("RobertaPreLayerNorm", **BERT), encoder(PLAIN)),
    "ELECTRA": (hf("Electra", **BERT, embedding_size=8), encoder(PLAIN, POST)),
    "NomicBERT": (hf("NomicBert", **BERT), encoder(GATED, POST)),
    "ESM 2": (hf("Esm", **BERT), encoder(PLAIN)),
    "DeiT": (hf("DeiT", PIXELS, **IMAGE), encoder(PLAIN)),
    # LayerScale: its steps have no law here yet
    "DINOv2": (hf("Dinov2", PIXELS, **IMAGE), encoder(PLAIN, more="; learnt")),
    "BEiT": (hf("Beit", PIXELS, **IMAGE), encoder(PLAIN, more="; learnt; branch x 0.1")),
    "CLIP, text": (hf("CLIPText", **BERT), decoder(PLAIN)),
    "CLIP, images": (hf("CLIPVision", PIXELS, **IMAGE), encoder(PLAIN)),
    "SigLIP, text": (hf("SiglipText", **BERT), encoder(PLAIN)),
    # encoders with decoders
    "T5 1.1": (hf("T5", BOTH, **T5, feed_forward_proj="gated-gelu"), both("ffn-swiglu")),
    "BART": (hf("Bart", BOTH, **BART), both("ffn", POST)),
    "mBART": (hf("MBart", BOTH, **BART), both("ffn")),
    "Marian": (hf("Marian", BOTH, **BART), both("ffn", POST)),
    "Pegasus": (hf("Pegasus", BOTH, **BART), both("ffn")),
    "Whisper": (
        hf("Whisper", {"input_features": drawn(2, 8, 12), "decoder_input_ids": IDS}, **{
            **BART, "num_mel_bins": 8, "max_source_positions": 6, "max_target_positions": 12}),
        both("ffn")),
    # macaron
    "feed-forwards on both sides": (
        x_transformers(macaron=True),
        decoder("ffn, attention, ffn", more="; branch x 0.5 in ffn")),
}  # fmt: skip


@cache
def reading(name, table):
    torch.manual_seed(0)
    return read(*TABLES[table][name][0]())


def told(found):
    """A reading in one line."""
    own = (_of_stack(name, row, found) for name, row in found.stacks.items())
    return " / ".join(own)


def _of_stack(name, row, found):
    layers = [described(own) for _, own in groupby(row, lambda s: s.layer)]
    assert len(set(layers)) == 1, layers
    (equation,) = {s.equation for s in row}
    text = f"{name}: {len(layers)} x ({layers[0]}); {equation}"
    if {"inside"} & {n.where for s in row for n in s.norms}:
        roles = dict.fromkeys(role for s in row for n in s.norms if n.where == "inside"
                              for role in n.enters)  # fmt: skip
        text += f"; norms before {', '.join(roles)}"
    if {"scores"} & {n.where for s in row for n in s.norms}:
        text += SCORES
    if any(s.learnt for s in row):
        text += "; learnt"
    for side in ("stream", "branch"):
        times = {(s.kind, round(getattr(s, side), 3)) for s in row}
        for number in sorted({number for _, number in times} - {1.0}):
            of = sorted({kind for kind, n in times if n == number})
            text += f"; {side} x {number:g}"
            text += f" in {', '.join(of)}" if len(of) < len({kind for kind, _ in times}) else ""
    for table in found.tables:
        if table.of_inputs and table.stack == name and table.times != 1:
            text += f"; tokens x {table.times:g}"
    return text


def refusal(found):
    """Why a model that was read has no rule."""
    try:
        selection_of(found, "adamw")
    except Refusal as refused:
        return str(refused)
    return without_law(found)


TABLES = {"read": READ}


@pytest.mark.parametrize("name", READ)
def test_what_is_read(name):
    found = reading(name, "read")
    assert told(found) == READ[name][1]
    assert found.understood
