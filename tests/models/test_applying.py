"""apply_ on torch.nn, BERT-like and GPT-2-like models."""

import copy

import pytest
import torch
from fixed import everything
from torch import nn
from translated import from_torch
from written_models import Stack

from deepnet_theory import apply_, audit, parameter_groups
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.runtime import build

F64 = torch.float64
D = 64


def encoder(layers=3, first=False, **options):
    layer = nn.TransformerEncoderLayer(
        D, 4, 4 * D, 0.0, batch_first=True, norm_first=first, dtype=F64, **options
    )
    norm = nn.LayerNorm(D, dtype=F64) if first else None
    return nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=not first)


@pytest.mark.parametrize(
    ("placement", "activation"), [("post-ln", "gelu"), ("post-ln", "relu"), ("pre-ln", "gelu")]
)
def test_an_applied_encoder_is_the_built_one(constants, placement, activation):
    c = constants(placement=placement, width=D, beta=0.3, activation=activation)
    model = encoder(first=placement == "pre-ln", activation=activation)
    torch_class = type(model.layers[0])
    apply_(model, c)
    assert isinstance(model.layers[0], torch_class)
    with torch.no_grad():  # biases and gains too, so that they count
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    part = build(c, dtype=F64).parts["encoder"]
    part.load_state_dict(from_torch(model.state_dict()))
    x = torch.randn(2, 9, D, dtype=F64)
    expected = part(x)
    for training in (True, False):  # torch has a fast path of its own in evaluation
        model.train(training)
        with torch.set_grad_enabled(training):
            y = model(x)
        torch.testing.assert_close(y, expected, rtol=0, atol=1e-10)
    # one layer's state_dict fits one layer, and gradients agree as well
    part.layers[0].load_state_dict(from_torch(model.layers[0].state_dict()))
    for one in (part, model.train()):
        one(x).square().sum().backward()
    packed = model.layers[0].self_attn.in_proj_weight.grad
    query = part.layers[0][0].branch.query.weight.grad
    torch.testing.assert_close(query, packed[:D], rtol=1e-10, atol=1e-9)
    if placement == "post-ln":  # planted error: without α the outputs differ
        for layer in model.layers:
            layer.residual_multiplier.alphas = (1.0, 1.0)
        assert not torch.allclose(model(x), expected, atol=1e-3)


@pytest.mark.parametrize("placement", ["post-ln", "pre-ln"])
def test_an_applied_encoder_decoder_and_each_half_alone_are_the_built_ones(constants, placement):
    c, first = constants("encoder-decoder", placement, width=D), placement == "pre-ln"
    options = {"batch_first": True, "norm_first": first, "dtype": F64}
    whole = nn.Transformer(D, 4, 3, 3, 4 * D, 0.0, **options)
    if not first:
        whole.encoder.norm = whole.decoder.norm = None
    source, target = torch.randn(2, 9, D, dtype=F64), torch.randn(2, 6, D, dtype=F64)
    masked = {"tgt_mask": whole.generate_square_subsequent_mask(6, dtype=F64)}
    masked["tgt_is_causal"] = True
    apply_(whole, c)
    ours = build(c, dtype=F64)
    ours.parts.load_state_dict(from_torch(whole.state_dict()))
    theirs = whole(source, target, **masked)
    torch.testing.assert_close(ours.body(target, source), theirs, rtol=0, atol=1e-10)
    final = nn.LayerNorm(D, dtype=F64) if first else None
    layer = nn.TransformerDecoderLayer(D, 4, 4 * D, 0.0, **options)
    halves = {"encoder": encoder(first=first), "decoder": nn.TransformerDecoder(layer, 3, final)}
    for name, half in halves.items():
        assert apply_(half, c).changes and apply_(half, c).changes == ()
        part, given = build(c, dtype=F64).parts[name], (source,)
        part.load_state_dict(from_torch(half.state_dict()))
        if name == "decoder":
            given = target, source
        theirs = half(*given, **(masked if name == "decoder" else {}))
        torch.testing.assert_close(part(*given), theirs, rtol=0, atol=1e-10)
    assert audit(halves["encoder"], source, constants=c).verdict.value == "SUPPORTED"


def bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=D, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=4 * D, hidden_act="relu",
    )  # fmt: skip
    return transformers.BertForMaskedLM(config).double()


def test_an_interrupt_at_any_forward_pass_leaves_the_model_as_it_was(constants):
    for at in range(1, 20):
        model, calls = encoder(), []

        def interrupted(*_, at=at, calls=calls):
            calls.append(1)
            if len(calls) == at:
                raise KeyboardInterrupt

        model.register_forward_pre_hook(interrupted)
        before = everything(model)
        try:
            assert apply_(model, constants(width=D)).changes
        except KeyboardInterrupt:
            assert everything(model) == before
        else:
            break
    assert at > 2 and everything(model) != before  # it was interrupted before and after drawing


def test_parameters_that_are_spread_over_processes_are_refused(constants):
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        sharded, part = encoder(), encoder()
        mesh = init_device_mesh("cpu", (1,))
        fully_shard(sharded, mesh=mesh)
        fully_shard(part.layers[1], mesh=mesh)
        copies = nn.parallel.DistributedDataParallel(encoder())
        c, x = constants(width=D), torch.randn(2, 9, D, dtype=F64)
        for model, name in ((sharded, "the model"), (part, "layers.1"), (copies, "the model")):
            before = [type(m) for m in model.modules()]
            for way in (apply_, lambda m, c, inputs: parameter_groups(m, 1.0, constants=c)):
                with pytest.raises(Refusal, match=rf"of {name} \(.* before it is sharded"):
                    way(model, c, inputs=x)
            assert before == [type(m) for m in model.modules()]
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("make", [encoder, bert])
def test_alpha_is_saved_with_the_weights_or_loading_fails(constants, make):
    c = constants(width=D, alpha=2.5)
    model = make().eval()
    apply_(model, c)
    saved = model.state_dict()
    with pytest.raises(RuntimeError, match="Unexpected key"):
        make().load_state_dict(saved)
    other = make().eval()
    apply_(other, constants(width=D, alpha=1.5), initialise=False)
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict(make().state_dict())
    other.load_state_dict(saved)
    x = torch.randn(2, 9, D, dtype=F64) if make is encoder else torch.arange(18).view(2, 9)
    y, expected = other(x), model(x)
    torch.testing.assert_close(*(o if make is encoder else o.logits for o in (y, expected)))
    for twin in (copy.deepcopy(model), other):  # α is its own: another rule replaces it
        assert apply_(twin, constants(width=D, alpha=3.0), initialise=False).changes
    assert apply_(model, c).changes == ()


def test_trained_weights_are_asked_about(constants):
    c = constants("decoder", "pre-ln", width=D, beta=0.3)
    torch.manual_seed(0)
    model = Stack(3, d=D, bias=True)
    assert apply_(copy.deepcopy(model), c).changes  # as it begins
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(2, 9, D)).square().mean().backward()
    optimizer.step()
    before = everything(model)[0]
    with pytest.raises(Refusal, match=r"h.0.ln_1.weight differ.*initialise=True"):
        apply_(model, c)
    assert everything(model)[0] == before
    apply_(model, c, initialise=False)
    assert everything(model)[0] == before  # and pre-LN has no alpha
    apply_(model, c, initialise=True)
    assert everything(model)[0] != before
    for block in model.h:  # without norms to tell it, the singular values do
        for norm in (block.ln_1, block.ln_2):
            nn.init.ones_(norm.weight)
            nn.init.zeros_(norm.bias)
    u = torch.randn(D)
    with torch.no_grad():
        model.h[1].mlp.c_proj.weight += 0.02 * u[:, None]
    with pytest.raises(Refusal, match=r"h.1.mlp.c_proj.weight has a singular value"):
        apply_(model, constants("decoder", "pre-ln", width=D, beta=0.2))
