"""Public models by their libraries' small random configurations, each with what is read of it.

A row is how to build a model and one line of what the reader says: stack, layers, the kinds of a
layer (a plus between branches of one sum), the residual equations, and what multiplies or
normalises beside them. A model without a law has the sentence that refuses it. What is read takes
the constants that its own reading selects.
"""

from itertools import groupby

import pytest
import torch
from fixed import put_right
from torch import nn

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.reading import described
from deepnet_theory.definitions.subject import without_law
from deepnet_theory.models import read
from deepnet_theory.sizes.wanted import selection_of

transformers = pytest.importorskip("transformers")

PRE, POST, OUT = "x + branch(norm(x))", "norm(x + branch(x))", "x + norm(branch(x))"
SANDWICH = "x + norm(branch(norm(x)))"
GATED, PLAIN = "attention,ffn-swiglu", "attention,ffn"
SQUARED = "attention,ffn-relu2"
MIXTURE = "attention,ffn-swiglu@2/4"


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


IDS = torch.randint(3, 61, (6, 9), generator=torch.Generator().manual_seed(0))
PIXELS = drawn(2, 3, 16, 16)
BOTH = {"input_ids": IDS, "decoder_input_ids": IDS.flip(0)}
TOKENS = {"vocab_size": 61, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4}  # fmt: skip
BERT = {**SIZES, **TOKENS, "max_position_embeddings": 40}
LLAMA = {**BERT, "num_key_value_heads": 2}
HEADS = {**LLAMA, "head_dim": 4}
TWO_HEADS = {**LLAMA, "num_attention_heads": 2}
GPT_2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, **TOKENS}
BART = {"d_model": 16, **TOKENS, "decoder_start_token_id": 2, "max_position_embeddings": 32,
        **{f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (
            ("layers", 2), ("attention_heads", 4), ("ffn_dim", 32))}}  # fmt: skip
OPT = {**BERT, "ffn_dim": 32, "word_embed_proj_dim": 16}
BLOOM = {"hidden_size": 16, "n_layer": 2, "n_head": 4, "vocab_size": 61}
T5 = {"d_model": 16, "d_ff": 32, "num_layers": 2, "num_heads": 4, "d_kv": 4, "vocab_size": 61}
IMAGE = {**SIZES, "image_size": 16, "patch_size": 8}
LATENT = {**BERT, "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 8,
          "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}


def hf(name, inputs=IDS, **sizes):
    """A model of transformers by the name of its class, and what it reads."""

    def make():
        if not hasattr(transformers, f"{name}Model"):
            pytest.skip(f"this version of transformers has no {name}Model")
        config = getattr(transformers, f"{name}Config")(use_cache=False, **sizes)
        return getattr(transformers, f"{name}Model")(config), inputs

    return make


def x_transformers(part="Decoder", **options):
    def make():
        library = pytest.importorskip("x_transformers")
        layers = getattr(library, part)(dim=16, depth=2, heads=2, attn_dim_head=8, **options)
        return library.TransformerWrapper(num_tokens=61, max_seq_len=16, attn_layers=layers), IDS

    return make


def torch_encoder():
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), drawn(2, 5, 16)


def alike(said, names, **sizes):
    """Families of one configuration that are read alike."""
    return {name: (hf(name, **sizes), said) for name in names.split()}


def decoder(kinds, equation=PRE, more=""):
    return f"decoder: 2 x ({kinds}); {equation}{more}"


def encoder(kinds, equation=PRE, more=""):
    return f"encoder: 2 x ({kinds}); {equation}{more}"


def both(ffn, equation=PRE):
    return f"{encoder(f'attention,{ffn}', equation)} / " + decoder(
        f"attention,cross,{ffn}", equation
    )


SCORES = "; norms of scores"
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4,
          "linear_value_head_dim": 4}  # fmt: skip
READ = {
    **alike(decoder(GATED), "Llama SmolLM3", **LLAMA),
    **alike(decoder(PLAIN), "GPT2 GPTBigCode", **GPT_2),
    **alike(encoder(PLAIN, POST), "Bert Roberta", **BERT),
    **alike(decoder("attention+ffn"), "GPTNeoX Phi", **BERT),
    **alike(decoder("attention+ffn-swiglu"), "Cohere Cohere2", **HEADS),
    **alike(decoder(GATED, OUT, SCORES), "Olmo2 Olmo3", **BERT),
    **alike(decoder(GATED), "Olmo Phi3", **BERT),
    **alike(decoder(GATED), "Glm Mistral SeedOss", **HEADS),
    **alike(decoder(SQUARED, more=SCORES), "Apertus NanoChat", **LLAMA),
    **alike(encoder(PLAIN), "RobertaPreLayerNorm Esm SiglipText", **BERT),
    **alike(encoder(PLAIN), "ViT DeiT CLIPVision", inputs=PIXELS, **IMAGE),
    **alike(decoder("attention+ffn"), "GPTJ CodeGen", **GPT_2, rotary_dim=4),
    **alike(both("ffn", POST), "Bart Marian", inputs=BOTH, **BART),
    **alike(both("ffn"), "MBart Pegasus", inputs=BOTH, **BART),
    # libraries' first models
    "torch.nn": (torch_encoder, encoder(PLAIN, POST)),
    "Gemma 2": (hf("Gemma2", **HEADS), decoder(GATED, SANDWICH, "; tokens x 4")),
    "OpenAI-GPT": (hf("OpenAIGPT", **GPT_2), decoder(PLAIN, POST)),
    "DistilBERT": (
        hf("DistilBert", dim=16, hidden_dim=32, n_layers=2, n_heads=4, vocab_size=61),
        encoder(PLAIN, POST)),
    "T5": (hf("T5", BOTH, **T5), both("ffn")),
    "gates in one matrix": (
        x_transformers(ff_glu=True, ff_swish=True, use_rmsnorm=True), decoder(GATED)),
    # parallel branches
    "Falcon, one norm": (
        hf("Falcon", **BERT, new_decoder_architecture=False), decoder("attention+ffn")),
    "Falcon, two norms": (
        hf("Falcon", **BERT, new_decoder_architecture=True, num_kv_heads=2),
        decoder("attention+ffn")),
    "StableLM": (hf("StableLm", **TWO_HEADS, partial_rotary_factor=0.5), decoder(GATED)),
    # a gate on what attention mixes
    "AFMoE": (
        hf("Afmoe", **HEADS, num_experts=0, num_dense_layers=2,
           layer_types=["full_attention"] * 2),
        decoder("attention-gated,ffn-swiglu", SANDWICH, SCORES)),
    "Qwen 3 Next, attention": (
        hf("Qwen3Next", **HEADS, **LINEAR, num_experts=0, partial_rotary_factor=1.0,
           layer_types=["full_attention"] * 2),
        decoder("attention-gated,ffn-swiglu", PRE, SCORES)),
    "Qwen 3.5, attention": (
        hf("Qwen3_5Text", **HEADS, **LINEAR, layer_types=["full_attention"] * 2),
        decoder("attention-gated,ffn-swiglu", PRE, SCORES)),
    "a gate on attention": (
        x_transformers(attn_gate_values=True), decoder("attention-gated,ffn")),
    # experts that a router chooses
    "Mixtral": (hf("Mixtral", **LLAMA, num_local_experts=4), decoder(MIXTURE)),
    "Qwen 3 MoE": (
        hf("Qwen3Moe", **HEADS, **EXPERTS, moe_intermediate_size=8), decoder(MIXTURE, PRE, SCORES)),
    "OLMoE": (hf("Olmoe", **BERT, **EXPERTS), decoder(MIXTURE, PRE, SCORES)),
    "Qwen 2 MoE": (
        hf("Qwen2Moe", **LLAMA, **EXPERTS, moe_intermediate_size=8,
           shared_expert_intermediate_size=8),
        decoder("attention,ffn-swiglu-gated+ffn-swiglu@2/4")),
    # latent attention
    "DeepSeek V2": (
        hf("DeepseekV2", **{**LATENT, "q_lora_rank": None}, moe_intermediate_size=8,
           n_routed_experts=2, num_experts_per_tok=1, n_group=1, topk_group=1,
           first_k_dense_replace=2, n_shared_experts=1), decoder("attention-latent,ffn-swiglu")),
    "MiniCPM 3": (
        hf("MiniCPM3", **BERT), decoder(
            "attention-latent,ffn-swiglu", more=SCORES + "; branch x 0.99; tokens x 12")),
    "DeepSeek V3": (
        hf("DeepseekV3", **LATENT, moe_intermediate_size=8, n_routed_experts=4, n_group=2,
           topk_group=1, num_experts_per_tok=2, first_k_dense_replace=0),
        decoder("attention-latent,ffn-swiglu+ffn-swiglu@2/4", more=SCORES)),
    # norms behind the branch, within it, on both sides of it
    "BitNet": (hf("BitNet", **LLAMA), decoder("attention-sub-ln,ffn-swiglu-sub-ln")),
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
    "Qwen 3": (hf("Qwen3", **HEADS), decoder(GATED, more=SCORES)),
    "Starcoder 2": (hf("Starcoder2", **LLAMA), decoder(PLAIN)),
    "Nemotron": (hf("Nemotron", **HEADS), decoder(SQUARED)),
    "Persimmon": (hf("Persimmon", **BERT), decoder(SQUARED, more=SCORES)),
    "Granite": (
        hf("Granite", **LLAMA, residual_multiplier=0.22, embedding_multiplier=12.0),
        decoder(GATED, more="; branch x 0.22; tokens x 12")),
    "MPT": (
        hf("Mpt", d_model=16, n_heads=4, n_layers=2, expansion_ratio=2, vocab_size=61,
           max_seq_len=32), decoder(PLAIN)),
    "BLOOM": (hf("Bloom", **BLOOM), decoder(PLAIN)),
    "BLOOM, its residual behind the norm": (
        hf("Bloom", **BLOOM, apply_residual_connection_post_layernorm=True), decoder(PLAIN, POST)),
    "OPT": (hf("OPT", **OPT), decoder(PLAIN)),
    "OPT 350M": (hf("OPT", **OPT, do_layer_norm_before=False), decoder(PLAIN, POST)),
    "CTRL": (
        hf("CTRL", **{**GPT_2, "dff": 32}), decoder(PLAIN, more="; tokens x 4")),
    "XGLM": (
        hf("XGLM", d_model=16, num_layers=2, attention_heads=4, ffn_dim=32, vocab_size=61,
           max_position_embeddings=32), decoder(PLAIN, more="; tokens x 4")),
    "memories beside keys and values": (x_transformers(attn_num_mem_kv=2), decoder(PLAIN)),
    # encoders
    "ModernBERT, whose first norm is that of the embedding": (
        hf("ModernBert", **BERT, cls_token_id=1, sep_token_id=2), encoder(GATED)),
    "XLM, which multiplies its stream by a mask": (
        hf("XLM", emb_dim=16, n_layers=2, n_heads=4, n_words=61, max_position_embeddings=32),
        encoder(PLAIN, POST)),
    "ELECTRA": (hf("Electra", **BERT, embedding_size=8), encoder(PLAIN, POST)),
    "NomicBERT": (hf("NomicBert", **BERT), encoder(GATED, POST)),
    # LayerScale: its steps have no law here yet
    "DINOv2": (hf("Dinov2", PIXELS, **IMAGE), encoder(PLAIN, more="; learnt")),
    "BEiT": (hf("Beit", PIXELS, **IMAGE), encoder(PLAIN, more="; learnt; branch x 0.1")),
    "CLIP, text": (hf("CLIPText", **BERT), decoder(PLAIN)),
    # encoders with decoders
    "T5 1.1": (hf("T5", BOTH, **T5, feed_forward_proj="gated-gelu"), both("ffn-swiglu")),
    "Whisper": (
        hf("Whisper", {"input_features": drawn(2, 8, 12), "decoder_input_ids": IDS}, **{
            **BART, "num_mel_bins": 8, "max_source_positions": 6, "max_target_positions": 12}),
        both("ffn")),
    # macaron
    "feed-forwards on both sides": (
        x_transformers(macaron=True),
        decoder("ffn,attention,ffn", more="; branch x 0.5 in ffn")),
}  # fmt: skip


# the reader's words for what mixes tokens otherwise; a library may write one law in several ways
MIXED = (
    "activations are multiplied, and not as in attention|tokens are mixed by a convolution"
    "|as a loop over tokens has"
)
BROKEN = "between two residual sums the stream "
REFUSED = {
    "LayerScale": (
        x_transformers(use_layerscale=True, layerscale_init_value=0.1),
        "multiplied by attn_layers.layers.0.1.gamma, which is learnt"),
    "gpt-oss": (
        hf("GptOss", **HEADS, num_local_experts=4, num_experts_per_tok=2),
        "a router chooses experts|its hidden layer grows as the power"),
    "Llama 4": (hf("Llama4Text", **HEADS), "gates of experts multiply what enters them"),
    # state spaces and linear attention
    "Mamba": (hf("Mamba", hidden_size=16, num_hidden_layers=2, vocab_size=61, state_size=4), MIXED),
    "RWKV": (
        hf("Rwkv", hidden_size=16, num_hidden_layers=2, vocab_size=61, context_length=32),
        "a branch of the decoder was not understood, that with blocks.0.attention.key.weight"),
    "Qwen 3 Next": (
        hf("Qwen3Next", **HEADS, **LINEAR, num_experts=0, partial_rotary_factor=1.0,
           layer_types=["linear_attention", "full_attention"]), MIXED),
    "LFM 2": (
        hf("Lfm2", **LLAMA, layer_types=["conv", "full_attention"], block_ff_dim=32,
           block_auto_adjust_ff_dim=False),
        "tokens are mixed by a convolution (layers.0.conv.conv.weight), which has no law here"),
    "ConvNeXt": (
        hf("ConvNext", PIXELS, hidden_sizes=[16], depths=[2], num_stages=1, patch_size=2),
        "tokens are mixed by a convolution (encoder.stages.0.layers.0.dwconv.weight)"),
    # stages
    "Swin": (
        hf("Swin", PIXELS, image_size=16, patch_size=2, embed_dim=16, depths=[1, 1],
           num_heads=[4, 4], window_size=4),
        BROKEN + "goes through the matrix encoder.layers.0.downsample.reduction.weight, in Swin"),
    # attention of another kind
    "ProphetNet": (
        hf("ProphetNet", BOTH, hidden_size=16, vocab_size=61, max_position_embeddings=32,
           num_buckets=8, ngram=2, **{f"num_{part}_{of}": n for part in ("encoder", "decoder")
           for of, n in (("layers", 2), ("attention_heads", 4))}, encoder_ffn_dim=32,
           decoder_ffn_dim=32), MIXED),
    "differential attention": (
        hf("DiffLlama", **LLAMA),
        MIXED + "|what it mixes is multiplied by layers.0.self_attn.lambda_q1, which has no law"),
    "a value residual": (
        x_transformers(add_value_residual=True, learned_value_residual_mix=False),
        "values computed with attn_layers.layers.0.1.to_v.weight enter it, which do not see"),
    # streams that are no chain of residual sums
    "Gemma 3n": (
        hf("Gemma3nText", **HEADS, hidden_size_per_layer_input=8, vocab_size_per_layer_input=61,
           laurel_rank=4, num_kv_shared_layers=0, layer_types=["full_attention"] * 2,
           activation_sparsity_pattern=[0.0] * 2, altup_num_inputs=2),
        BROKEN + "takes in a branch that starts at an earlier sublayer, in Gemma3nTextDecoderLay"),
    "SigLIP, images": (
        hf("SiglipVision", PIXELS, **IMAGE),
        "head.attention.out_proj.weight, in SiglipMultihead"),
    "FNet": (
        hf("FNet", **BERT),
        BROKEN + "takes in a sum that has no matrix of parameters in its branch, in FNetBasicOut"),
    "LongCat": (
        hf("LongcatFlash", **{**LATENT, "head_dim": 4}, num_layers=2, ffn_hidden_size=32,
           expert_ffn_hidden_size=8, n_routed_experts=4, zero_expert_num=0, moe_topk=2),
        "the stream takes in a branch that starts at an earlier sublayer"),
    "a GRU as the residual sum": (
        x_transformers(gate_residual=True),
        BROKEN + "is multiplied by computed values (gates), in GRUGating at x_transformers.py:"),
    "hyper-connections": (
        x_transformers(num_residual_streams=2),
        "no sum of the form x + G(x) with a matrix in G was found"),
    "attention over the layers before": (
        x_transformers(integrate_layers=True),
        "not as in attention (attn_layers.layer_integrators.1.to_weights.1.weight and 2 more)"),
    "a branch's part orthogonal to the stream": (
        x_transformers(orthog_residual=True),
        "what attn_layers.layers.0.1.to_out.weight gives enters one sum in several ways, in Orth"),
    "skips of a U-Net, by a matrix": (
        x_transformers("Encoder", unet_skips=True),
        BROKEN + "goes through the matrix attn_layers.skip_combines.2.combine.weight, in Concat"),
    "Zamba 2": (
        hf("Zamba2", hidden_size=16, intermediate_size=32, num_hidden_layers=4, vocab_size=61,
           num_attention_heads=4, n_mamba_heads=4, mamba_d_state=4, mamba_ngroups=1, chunk_size=8,
           hybrid_layer_ids=[1, 3], num_mem_blocks=1, use_mem_rope=False,
           layers_block_type=["mamba", "hybrid"] * 2),
        "a skip past several sublayers: Zamba2MambaDecoderLayer adds at modeling_zamba2.py:"),
    "an input that every layer takes again": (
        x_transformers(reinject_input=True), "a skip past several sublayers: Residual adds at"),
}  # fmt: skip


def seen(make):
    """What is read of a model."""
    torch.manual_seed(0)
    return read(*make())


def told(found):
    """A reading in one line."""
    return " / ".join(_of_stack(name, row, found) for name, row in found.stacks.items())


def _of_stack(name, row, found):
    layers = [described(own) for _, own in groupby(row, lambda s: s.layer)]
    assert len(set(layers)) == 1, layers
    (equation,) = {s.equation for s in row}
    text = f"{name}: {len(layers)} x ({layers[0]}); {equation}"
    if "scores" in {n.where for s in row for n in s.norms}:
        text += SCORES
    if any(s.learnt for s in row):
        text += "; learnt"
    kinds = {s.kind for s in row}
    for number in sorted({round(s.branch, 3) for s in row} - {1.0}):
        of = sorted({s.kind for s in row if round(s.branch, 3) == number})
        text += f"; branch x {number:g}" + (f" in {', '.join(of)}" if len(of) < len(kinds) else "")
    times = [t.times for t in found.tables if t.of_inputs and t.stack == name and t.times != 1]
    return text + "".join(f"; tokens x {number:g}" for number in times)


def refusal(found):
    """Why a model that was read has no rule."""
    try:
        selection_of(found, "adamw")
    except Refusal as refused:
        return str(refused)
    return without_law(found)


def rows(table):
    """Names of a table; the slow tests read those, too, that are read as an earlier one is."""
    seen = set()
    for name, (_, said) in table.items():
        yield pytest.param(name, marks=pytest.mark.slow) if said in seen else name
        seen.add(said)


@pytest.mark.parametrize("name", [*rows(READ)])
def test_what_is_read(name):
    found = seen(READ[name][0])
    assert all(s.stream == 1 for s in found.sublayers)
    assert told(found) == READ[name][1]
    assert found.understood


@pytest.mark.parametrize("name", [*rows(REFUSED)])
def test_what_is_refused_says_what_was_seen(name):
    try:
        said = refusal(seen(REFUSED[name][0]))
    except InputError as error:
        said = str(error)
    assert any(words in said for words in REFUSED[name][1].split("|")), said


TAKEN = "torch.nn", "GPT2", "T5", "GPTJ", "DeepSeek V3", "Qwen 2 MoE", "Gemma 3"
WITH_ALPHA_IN_WEIGHTS = {"branch-multiplier", "post-ln", "pre-ln"}
LEFT_OUT = {*TAKEN, "NanoChat"}  # whose norms hold no gain
NO_CONSTANTS = {  # those that their own code leaves no place for, and why
    "feed-forwards on both sides": "has no place for alpha = 1, it has 2 in",
    "Granite": "has no place for alpha = 1, it has 4.545 in",
    "MiniCPM 3": "has no place for alpha = 1, it has 1.01 in",
    "norms before a branch and on its sum": r"the constants are for norm\(x \+ branch\(x\)\)",
    **dict.fromkeys(("DINOv2", "BEiT"), "which is learnt"),
}


@pytest.mark.parametrize(
    "name", [*TAKEN, *(pytest.param(n, marks=pytest.mark.slow) for n in READ if n not in LEFT_OUT)]
)
def test_what_is_read_takes_the_constants_that_its_reading_selects(name):
    torch.manual_seed(0)
    model, inputs = READ[name][0]()
    select = read(model, inputs).select
    two = "encoder-decoder" in select["stack"]
    rule = dt.Selection("adam", closure="complete", **select)
    sizes = {"depth": (2, 2) if two else 2, "width": 16, "heads": 4, "vocab": 61}
    if rule.placement not in WITH_ALPHA_IN_WEIGHTS:
        with pytest.raises(Refusal, match=r"would take out again|is its form 'forward'"):
            dt.export(rule, form="weights", **sizes)
        return
    constants = dt.export(rule, form="weights", **sizes)
    if why := NO_CONSTANTS.get(name):
        with pytest.raises(Refusal, match=why):
            apply_(model, constants, inputs=inputs)
        return
    put_right(model, constants, inputs, outer=False)


CONV = {"conv_dim": [8, 8], "conv_stride": [4, 4], "conv_kernel": [8, 8],
        "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}  # fmt: skip
PARTS = {
    "Conformer, whose last layer is as those before it": (
        hf("Wav2Vec2Conformer", drawn(1, 400), **BERT, **CONV, conv_depthwise_kernel_size=3),
        [PRE, PRE, PRE, "norm(x + branch(norm(x)))"] * 2),
    "SegFormer, whose branch is transposed": (
        hf("Segformer", PIXELS, num_encoder_blocks=1, depths=[2], sr_ratios=[2], hidden_sizes=[16],
           patch_sizes=[3], strides=[2], num_attention_heads=[2], mlp_ratios=[2]), [PRE] * 4),
    "Doge, whose mask is a parameter's": (hf("Doge", **BERT), [PRE] * 4),
    "talking heads, a sum among scores": (x_transformers(attn_pre_talking_heads=True), [PRE] * 4),
    "OLMo hybrid": (
        hf("OlmoHybrid", **BERT, layer_types=["linear_attention", "full_attention"], **{
            **LINEAR, "linear_num_value_heads": 2}), [PRE, PRE, OUT, OUT]),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_sums_and_norms_are_read_where_a_branch_is_not(name):
    found = seen(PARTS[name][0])
    assert [s.equation for s in found.sublayers] == PARTS[name][1]
    assert len(found.stacks) == 1
    assert not found.understood
