"""Models of many families, read sublayer by sublayer."""

import pytest
import torch
from torch import nn

from deepnet_theory.models import read

transformers = pytest.importorskip("transformers")

PRE, POST = "x + branch(norm(x))", "norm(x + branch(x))"
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "vocab_size": 61}  # fmt: skip
GPT_SIZES = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61, "n_positions": 64}
IDS = torch.randint(61, (2, 9), generator=torch.Generator().manual_seed(0))


def told(reading):
    """Each sublayer as ``kind: role=parameter[part] …``, by stack."""
    return {
        stack: [
            f"{s.layer} {s.kind}: " + " ".join(f"{m.role}={m.where}" for m in s.matrices)
            for s in own
        ]
        for stack, own in reading.stacks.items()
    }


def each(layers, *sublayers):
    """The sublayers of every layer, # for its index."""
    return [f"{i} {s.replace('#', str(i))}" for i in range(layers) for s in sublayers]


def attention(where, *names, kind="attention"):
    roles = ("query", "key", "value", "output")
    return f"{kind}: " + " ".join(f"{r}={where}{n}" for r, n in zip(roles, names, strict=True))


def ffn(where, *names):
    roles = ("fc1", "fc2") if len(names) == 2 else ("gate", "up", "down")
    kind = "ffn" if len(names) == 2 else "ffn-swiglu"
    return f"{kind}: " + " ".join(f"{r}={where}{n}" for r, n in zip(roles, names, strict=True))


def packed(where, output, rows=""):
    return attention("", *(f"{where}[{rows}{i}:{i + 32}]" for i in (0, 32, 64)), output)


def nn_encoder(norm_first):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


NN = [
    packed("layers.#.self_attn.in_proj_weight", "layers.#.self_attn.out_proj.weight"),
    ffn("layers.#.linear", "1.weight", "2.weight"),
]
LLAMA = [
    attention("layers.#.self_attn.", *(f"{n}_proj.weight" for n in "qkvo")),
    ffn("layers.#.mlp.", "gate_proj.weight", "up_proj.weight", "down_proj.weight"),
]
CONV1D = [
    packed("h.#.attn.c_attn.weight", "h.#.attn.c_proj.weight", ":, "),
    ffn("h.#.mlp.", "c_fc.weight", "c_proj.weight"),
]
FAMILIES = {
    "torch.nn": (lambda: nn_encoder(False), "encoder", POST, NN),
    "torch.nn pre-LN": (lambda: nn_encoder(True), "encoder", PRE, NN),
    "Llama": (
        lambda: transformers.LlamaModel(transformers.LlamaConfig(**SIZES, num_key_value_heads=2)),
        "decoder", PRE, LLAMA,
    ),
    "Gemma, whose embeddings are multiplied by sqrt(d)": (
        lambda: transformers.GemmaModel(transformers.GemmaConfig(
            **SIZES, num_key_value_heads=2, head_dim=8)),
        "decoder", PRE, LLAMA,
    ),
    "Gemma 2": (
        lambda: transformers.Gemma2Model(transformers.Gemma2Config(
            **SIZES, num_key_value_heads=2, head_dim=8)),
        "decoder", "x + norm(branch(norm(x)))", LLAMA,
    ),
    "GPT-2": (
        lambda: transformers.GPT2Model(transformers.GPT2Config(
            **GPT_SIZES, bos_token_id=0, eos_token_id=0)),
        "decoder", PRE, CONV1D,
    ),
    "OpenAI-GPT": (
        lambda: transformers.OpenAIGPTModel(transformers.OpenAIGPTConfig(**GPT_SIZES)),
        "decoder", POST, CONV1D,
    ),
    "BERT": (
        lambda: transformers.BertModel(transformers.BertConfig(**SIZES)), "encoder", POST,
        [
            attention("encoder.layer.#.attention.", "self.query.weight", "self.key.weight",
                      "self.value.weight", "output.dense.weight"),
            ffn("encoder.layer.#.", "intermediate.dense.weight", "output.dense.weight"),
        ],
    ),
    "DistilBERT": (
        lambda: transformers.DistilBertModel(transformers.DistilBertConfig(
            dim=32, hidden_dim=64, n_layers=2, n_heads=4, vocab_size=61)),
        "encoder", POST,
        [
            attention("transformer.layer.#.attention.", *(
                f"{n}_lin.weight" for n in ("q", "k", "v", "out"))),
            ffn("transformer.layer.#.ffn.lin", "1.weight", "2.weight"),
        ],
    ),
    "ViT": (
        lambda: transformers.ViTModel(transformers.ViTConfig(
            **{**SIZES, "image_size": 32, "patch_size": 8})),
        "encoder", PRE,
        [
            attention("layers.#.attention.", *(f"{n}_proj.weight" for n in "qkvo")),
            ffn("layers.#.mlp.", "fc1.weight", "fc2.weight"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_sublayer_of_a_family(family):
    make, stack, equation, layer = FAMILIES[family]
    reading = read(make())
    assert told(reading) == {stack: each(2, *layer)}
    assert {s.equation for s in reading.sublayers} == {equation}
    assert {(s.stream, s.branch, s.alpha_on) for s in reading.sublayers} == {(1.0, 1.0, None)}
    assert reading.understood
    assert reading.layers == {stack: 2}


@pytest.mark.parametrize("post_norm", [False, True], ids=["pre-LN", "post-LN"])
@pytest.mark.parametrize("gated", [False, True], ids=["GELU", "SwiGLU"])
def test_x_transformers(post_norm, gated):
    """Residuals as modules of their own, layers in a flat list, packed gates."""
    library = pytest.importorskip("x_transformers")
    more = {"ff_glu": True, "ff_swish": True, "use_rmsnorm": True} if gated else {}
    layers = library.Decoder(dim=32, depth=2, heads=2, attn_dim_head=16,
                             pre_norm=not post_norm, **more)  # fmt: skip
    reading = read(
        library.TransformerWrapper(num_tokens=61, max_seq_len=16, attn_layers=layers), IDS
    )
    wanted = []
    for index in range(2):
        block = f"attn_layers.layers.{2 * index}.1.to_"
        mixed = attention(block, *(f"{n}.weight" for n in ("q", "k", "v", "out")))
        feed = f"attn_layers.layers.{2 * index + 1}.1.ff."
        names = ["0.proj.weight[128:256]", "0.proj.weight[0:128]", "2.weight"]
        wanted += [
            f"{index} {mixed}",
            f"{index} " + ffn(feed, *(names if gated else ["0.0.weight", "2.weight"])),
        ]
    assert told(reading) == {"decoder": wanted}
    assert {s.equation for s in reading.sublayers} == {POST if post_norm else PRE}


def test_gpt_neox_has_parallel_branches_and_interleaved_heads():
    reading = read(transformers.GPTNeoXModel(transformers.GPTNeoXConfig(**SIZES)))
    assert [s.sums for s in reading.sublayers] == [0, 0, 1, 1]
    assert {s.equation for s in reading.sublayers} == {PRE}
    first, second = reading.sublayers[:2]
    assert [m.role for m in first.matrices] == ["query", "key", "value", "output"]
    # head by head: query, key, value of 8 rows each
    value = first.matrices[2]
    assert value.name == "layers.0.attention.query_key_value.weight"
    assert value.rows == [[16, 24], [40, 48], [64, 72], [88, 96]]
    assert (value.fan_in, value.fan_out) == (32, 32)
    assert [m.name for m in second.matrices] == [
        "layers.0.mlp.dense_h_to_4h.weight", "layers.0.mlp.dense_4h_to_h.weight"
    ]  # fmt: skip


def test_t5_has_two_stacks_and_the_second_crosses_to_the_first():
    model = transformers.T5Model(transformers.T5Config(
        d_model=32, d_ff=64, num_layers=2, num_heads=4, d_kv=8, vocab_size=61))  # fmt: skip
    reading = read(model, {"input_ids": IDS, "decoder_input_ids": IDS.flip(0)})
    names = [f"{n}.weight" for n in "qkvo"]
    encoder = [
        attention("encoder.block.#.layer.0.SelfAttention.", *names),
        ffn("encoder.block.#.layer.1.DenseReluDense.", "wi.weight", "wo.weight"),
    ]
    decoder = [
        attention("decoder.block.#.layer.0.SelfAttention.", *names),
        attention("decoder.block.#.layer.1.EncDecAttention.", *names, kind="cross"),
        ffn("decoder.block.#.layer.2.DenseReluDense.", "wi.weight", "wo.weight"),
    ]
    assert told(reading) == {"encoder": each(2, *encoder), "decoder": each(2, *decoder)}
    assert reading.embeddings == ("shared.weight",)
    assert [n.gain for n in reading.norms] == [
        "encoder.final_layer_norm.weight", "decoder.final_layer_norm.weight"
    ]  # fmt: skip
