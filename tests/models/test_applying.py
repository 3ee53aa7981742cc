"""apply_ on torch.nn, BERT-like and GPT-2-like models."""

import copy
import math
import warnings
from dataclasses import replace

import pytest
import torch
from mended import everything
from torch import nn
from written_models import Stack, post, pre

from deepnet_theory import apply_, audit, parameter_groups
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.models import applying
from deepnet_theory.models.reading import read
from deepnet_theory.runtime import Context, build, from_torch

F64 = torch.float64
D = 64


def encoder(layers=3, first=False, **options):
    layer = nn.TransformerEncoderLayer(
        D, 4, 4 * D, 0.0, batch_first=True, norm_first=first, dtype=F64, **options
    )
    norm = nn.LayerNorm(D, dtype=F64) if first else None
    return nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=not first)


def close(tensor, std):
    # five standard errors of a standard deviation from n normals
    return abs(tensor.std().item() / std - 1) < 5 / math.sqrt(2 * tensor.numel())


@pytest.mark.parametrize(
    ("placement", "padded", "activation"),
    [("post-ln", False, "gelu"), ("post-ln", True, "relu"), ("pre-ln", True, "gelu")],
)
def test_an_applied_encoder_is_the_built_one(constants, placement, padded, activation):
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
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[1, 6:] = padded
    seen = ~padding
    expected = part(x, None, Context(seen[:, None, None]))[seen]
    for training in (True, False):  # torch has a fast path of its own in evaluation
        model.train(training)
        with torch.set_grad_enabled(training):
            y = model(x, src_key_padding_mask=padding if padded else None)
        torch.testing.assert_close(y[seen], expected, rtol=0, atol=1e-10)
    # one layer's state_dict fits one layer, and gradients agree as well
    part.layers[0].load_state_dict(from_torch(model.layers[0].state_dict()))
    for one in (part, model.train()):
        one(x).square().sum().backward()
    packed = model.layers[0].self_attn.in_proj_weight.grad
    query = part.layers[0][0].branch.query.weight.grad
    torch.testing.assert_close(query, packed[:D], rtol=1e-10, atol=1e-9)
    if placement == "post-ln":  # planted error: without α the outputs differ
        for layer in model.layers:
            layer.alphas = (1.0, 1.0)
        assert not torch.allclose(model(x)[seen], expected, atol=1e-3)


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


def test_alpha_alone_keeps_weights_and_a_second_application_changes_nothing(constants):
    model, c = encoder(), constants(width=D)
    with pytest.raises(InputError, match="give its constants"):
        parameter_groups(model, 1.0)
    with pytest.raises(Refusal, match="with apply_ first"):
        parameter_groups(model, 1.0, constants=c)
    before = {k: v.detach().clone() for k, v in model.named_parameters()}
    report = apply_(model, c, initialise=False)
    assert len(report.changes) == 6 and model.layers[2].alphas == (1.7, 1.7)
    assert all(torch.equal(v, before[k]) for k, v in model.named_parameters())
    apply_(model, c)
    before = everything(model)
    assert apply_(model, c).changes == () and everything(model) == before
    assert "nothing changed" in str(apply_(model, c))
    assert apply_(copy.deepcopy(model), c).changes == ()
    other = constants(width=D, alpha=3.0)
    assert apply_(model, other).changes and model.layers[0].alphas == (3.0, 3.0)


def test_packed_matrices_are_drawn_block_by_block(constants):
    c = constants(width=D, beta=0.25)
    model = encoder()
    report = apply_(model, c, generator=torch.Generator().manual_seed(0))
    layer = model.layers[1]
    q, k, v = layer.self_attn.in_proj_weight.detach().chunk(3)
    square = math.sqrt(2 / (2 * D))  # each block has fans D and D, not D and 3·D
    assert close(q, square) and close(k, square) and close(v, 0.25 * square)
    assert close(layer.self_attn.out_proj.weight.detach(), 0.25 * square)
    assert close(layer.linear1.weight.detach(), 0.25 * math.sqrt(2 / (5 * D)))
    assert close(layer.linear2.weight.detach(), 0.25 * math.sqrt(2 / (5 * D)))
    assert all(
        (b == 0).all() for n, b in model.named_parameters() if "norm" not in n and "bias" in n
    )
    names = [change.name for change in report.changes]
    assert f"layers.1.self_attn.in_proj_weight[{2 * D}:{3 * D}]" in names
    # every matrix and bias of the branches is reported; norms are not touched
    told = {n.split("[")[0] for n in names}
    assert {n for n, _ in model.named_parameters() if "norm" not in n} <= told
    assert any("value, gain 0.25" in str(change) for change in report.changes)
    assert len(str(report).splitlines()) == 5 and "value, output, fc1, fc2 0.25" in str(report)


def bert(**options):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=D, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=4 * D, hidden_act="relu", hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5, **options,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config).double().eval()


def test_bert(constants):
    c = constants(width=D, beta=0.3)
    model = bert()
    embeddings = model.bert.embeddings.word_embeddings.weight.clone()
    report = apply_(model, c)
    assert torch.equal(embeddings, model.bert.embeddings.word_embeddings.weight)
    first = model.bert.encoder.layer[0]
    assert close(first.attention.self.value.weight.detach(), 0.3 / math.sqrt(D))
    assert close(first.attention.self.query.weight.detach(), 1 / math.sqrt(D))
    before = everything(model)
    assert apply_(model, c).changes == () and everything(model) == before
    assert any(c.name == "bert.encoder.layer.0.attention.self.value.weight" for c in report.changes)
    # the whole encoder is the runtime's own, given the same weights
    part = build(c, dtype=F64).parts["encoder"]
    with torch.no_grad():
        for layer, own in zip(model.bert.encoder.layer, part.layers, strict=True):
            pairs = [
                (layer.attention.self.query, own[0].branch.query),
                (layer.attention.self.key, own[0].branch.key),
                (layer.attention.self.value, own[0].branch.value),
                (layer.attention.output.dense, own[0].branch.output),
                (layer.intermediate.dense, own[1].branch.fc1),
                (layer.output.dense, own[1].branch.fc2),
            ]
            for theirs, ours in pairs:
                ours.weight.copy_(theirs.weight)
    x = torch.randn(2, 9, D, dtype=F64)
    theirs = model.bert.encoder(x).last_hidden_state
    torch.testing.assert_close(part(x), theirs, rtol=0, atol=1e-10)
    # another rule replaces α; it does not stack up
    apply_(model, constants(width=D, alpha=1.0), initialise=False)
    hooks = first.output._forward_pre_hooks
    assert len(hooks) == 1 and next(iter(hooks.values())).alphas == (1.0,)


def test_a_bert_whose_residual_has_a_number_of_its_own_gets_the_wanted_one(constants):
    model = bert()
    end = type(model.bert.encoder.layer[1].output)

    class Doubled(end):
        def forward(self, hidden_states, input_tensor):
            return super().forward(hidden_states, 2 * input_tensor)

    model.bert.encoder.layer[1].output.__class__ = Doubled
    before = everything(model)[0]
    apply_(model, constants(width=D, alpha=3.0), initialise=False)
    assert everything(model)[0] == before and {s.alpha for s in read(model).sublayers} == {3.0}
    hooks = [h for m in model.modules() for h in m._forward_pre_hooks.values()]
    assert sorted(h.alphas[0] for h in hooks) == [1.5, 3.0, 3.0, 3.0, 3.0, 3.0]


def test_a_residual_that_takes_no_multiplier_is_refused_and_put_back(constants):
    class Sum(nn.Module):  # called with (x, h), and not with (h, x) as BERT's
        def __init__(self):
            super().__init__()
            self.dense, self.norm = nn.Linear(D, D), nn.LayerNorm(D)

        def forward(self, x, h):
            return self.norm(self.dense(h) + x)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.end = nn.Linear(D, D), Sum()

        def forward(self, x):
            return self.end(x, torch.relu(self.fc1(x)))

    model = nn.Sequential(*(Layer() for _ in range(3)))
    before = everything(model)
    with pytest.raises(Refusal, match=r"no place for alpha = 1\.7"):
        apply_(model, feed_forwards(constants), inputs=torch.randn(2, 9, D))
    assert everything(model) == before and not any(m._forward_pre_hooks for m in model.modules())
    assert not [n for n, _ in model.named_modules() if "residual_multiplier" in n]


class Interrupted(nn.Module):
    """BERT's residual sums, and an interrupt (Ctrl-C) at one call of the forward pass."""

    def __init__(self, at, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(D, D), End()]) for _ in range(layers))
        self.register_buffer("calls", torch.zeros(()))
        self.at = at

    def forward(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        for fc1, end in self.layers:
            x = end(torch.relu(fc1(x)), x)
        return x


class End(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.norm = nn.Linear(D, D), nn.LayerNorm(D)

    def forward(self, h, x):
        return self.norm(self.dense(h) + x)


def feed_forwards(constants):
    c = constants(width=D)
    return replace(c, parts=(replace(c.parts[0], sublayers=c.parts[0].sublayers[1:]),))


def test_an_interrupt_at_any_forward_pass_leaves_the_model_as_it_was(constants):
    x = torch.randn(2, 9, D)
    for at in range(1, 20):
        model = Interrupted(at)
        before = everything(model)
        try:
            assert apply_(model, feed_forwards(constants), inputs=x).changes
        except KeyboardInterrupt:
            assert everything(model) == before
        else:
            break
    assert at > 2 and everything(model) != before  # it was interrupted before and after drawing


def test_parameters_that_are_spread_over_processes_are_refused(constants, tmp_path):
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rendezvous = f"file://{tmp_path / 'meet'}"
    distributed.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=1)
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


@pytest.mark.slow  # importing torch's compiler
def test_a_model_that_was_compiled_takes_constants(constants):
    torch.manual_seed(0)
    x = torch.randn(2, 9, D)
    for model, c in (
        (encoder().float().eval(), constants(width=D)),
        (Interrupted(0), feed_forwards(constants)),  # its alpha is in a hook
    ):
        twin, compiled = copy.deepcopy(model), torch.compile(model, backend="eager")
        compiled(x)  # without alpha
        before = everything(compiled)
        with pytest.raises(Refusal):
            apply_(compiled, constants(width=D, layers=4), inputs=x)
        assert everything(compiled) == before
        for own in (twin, compiled):
            generator = torch.Generator().manual_seed(1)
            assert apply_(own, c, inputs=x, generator=generator).changes
        torch.testing.assert_close(compiled(x), twin(x))
        assert apply_(compiled, c, inputs=x).changes == ()
        names = [[g["name"] for g in parameter_groups(m, 1.0)] for m in (compiled, twin)]
        assert names[0] == names[1]
    fresh = torch.compile(encoder(), backend="eager")  # one that has its alpha by its code
    apply_(fresh._orig_mod, constants(width=D, alpha=1.0))
    assert parameter_groups(fresh, 1.0, constants=constants(width=D, alpha=1.0))


def gpt2(**options):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "n_embd": D, "n_layer": 3, "n_head": 4, "n_positions": 32}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **options)).eval()


@pytest.mark.parametrize("n_inner", [None, 2 * D])
def test_gpt2(constants, n_inner):
    model, c = gpt2(n_inner=n_inner), constants("decoder", "pre-ln", width=D, beta=0.2)
    report = apply_(model, c)
    block = model.transformer.h[2]
    q, k, v = block.attn.c_attn.weight.detach().chunk(3, dim=1)  # a Conv1D is (in, out)
    square, hidden = math.sqrt(1 / D), n_inner or 4 * D
    assert close(q, square) and close(k, square) and close(v, 0.2 * square)
    assert close(block.mlp.c_fc.weight.detach(), 0.2 * math.sqrt(2 / (D + hidden)))
    name = f"transformer.h.2.attn.c_attn.weight[:, {2 * D}:{3 * D}]"
    assert any(change.name == name for change in report.changes)
    said = str(report).splitlines()
    assert len(said) == 6 and "18 matrices drawn, 12 biases 0" in said[0]
    assert said[1] == "gains: query, key 1; value, output, fc1, fc2 0.2"
    assert "stream starts at rms 0.02" in said[4] and "x = x * 3" in said[5]
    assert apply_(model, c).changes == ()
    words = 'placement="pre-ln", norm="layer", stack="decoder", layer="attention,ffn"'
    with pytest.raises(Refusal, match=f"constants are for norm.* derived with {words}"):
        apply_(model, constants(width=D))


def nano(line=pre):
    """Three blocks of nanoGPT, of vectors; branches that end in zeros."""
    model = Stack(3, line, D, bias=True)
    for block in model.h:
        for branch in (block.attn, block.mlp):
            nn.init.zeros_(branch.c_proj.weight)
    return model


class OwnLayer(nn.TransformerEncoderLayer):
    def forward(self, src, *a, **k):
        return src


def low_rank():
    model = nano()
    for block in model.h:
        block.attn.c_attn = nn.Sequential(nn.Linear(D, 8, bias=False), nn.Linear(8, 3 * D))
    return model


def of_its_own(x, branch, norm):
    raise KeyError("cache")


OTHER = {"batch_first": True, "dtype": F64}
REFUSED = {  # a model, and why it is refused: of an encoder the first five, of a decoder the others
    "a linear map": (lambda: nn.Linear(D, D), ""),
    "pre-LN": (lambda: encoder(first=True), ""),
    "four layers": (lambda: encoder(4), ""),
    "a layer of one's own": (
        lambda: nn.TransformerEncoder(
            OwnLayer(D, 4, 4 * D, **OTHER), 3, enable_nested_tensor=False
        ),
        "",
    ),
    "a decoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(D, 4, 4 * D, **OTHER), 3),
        "",
    ),
    "low rank": (low_rank, ""),
    "post-LN": (lambda: nano(post), "is norm"),
    "a tenth of the branch": (
        lambda: nano(lambda x, f, n: x + 0.1 * f(n(x))),
        "has no place for alpha = 1, it has 10 in .*; set it to 1 there",
    ),
    "a call of its own": (lambda: nano(of_its_own), "fails: KeyError"),
}
ENCODERS = list(REFUSED)[:5]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_recognised_is_refused_and_left_alone(constants, name):
    make, why = REFUSED[name]
    model = make()
    before = everything(model)
    of = () if name in ENCODERS else ("decoder", "pre-ln")
    with pytest.raises((Refusal, InputError), match=why or None):
        apply_(model, constants(*of, width=D))
    assert everything(model) == before and all(m.training for m in model.modules())


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


def test_from_pretrained_does_not_lose_alpha_in_silence(constants, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = bert()
    c = constants(width=D, alpha=2.5)
    apply_(model, c)
    model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="mismatched_sizes"):
        type(model).from_pretrained(tmp_path)
    # the way that the documentation names
    again = type(model)(model.config).double().eval()
    apply_(again, c, initialise=False)
    state = safetensors.load_file(tmp_path / "model.safetensors")
    again.load_state_dict(state, strict=False)  # its tied head is saved once
    tokens = torch.arange(18).view(2, 9)
    assert torch.equal(again(tokens).logits, model(tokens).logits)


def test_what_a_second_reading_does_not_show_is_put_back(constants, monkeypatch):
    model = nano()
    before = everything(model)
    # planted error: the blocks of another axis are drawn
    monkeypatch.setattr(applying, "blocks", lambda model, m: [model.get_parameter(m.name)[:8]])
    with pytest.raises(Refusal, match=r"enters the forward pass .*; nothing was changed"):
        apply_(model, constants("decoder", "pre-ln", width=D), initialise=True)
    assert everything(model) == before


# ------------------------------------------------------------------------ trained weights


def test_trained_weights_are_asked_about(constants):
    c = constants("decoder", "pre-ln", width=D, beta=0.3)
    torch.manual_seed(0)
    model = nano()
    for block in model.h:
        for branch in (block.attn, block.mlp):
            nn.init.normal_(branch.c_proj.weight, 0, 0.02)
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


# -------------------------------------------------------------------------- parameter groups


def test_groups_by_role_hold_every_parameter_once(constants):
    rates = {"norm-gain": 0.5, "output-bias": 0.25, "embedding": 2.0}
    c = constants("decoder", "pre-ln", width=D, beta=0.2, multipliers=rates)
    model = nn.Sequential(nn.Embedding(50, D), nano(), nn.Linear(D, 50))
    model[1].extra = nn.Linear(3, 3)  # no part of the forward pass
    groups = parameter_groups(model, 1e-2, constants=c, weight_decay=0.1)
    members = [id(p) for g in groups for p in g["params"]]
    assert sorted(members) == sorted(id(p) for p in model.parameters())
    by_id = {id(p): g for g in groups for p in g["params"]}
    block = model[1].h[1]
    expected = [
        (model[0].weight, 2.0, 1), (block.ln_1.weight, 0.5, 0), (model[1].ln_f.weight, 0.5, 0),
        (block.attn.c_proj.bias, 0.25, 0), (block.mlp.c_fc.weight, 1, 1),
        (model[2].weight, 1, 1), (model[1].extra.weight, 1, 1), (model[1].extra.bias, 1, 0),
        (model[2].bias, 1, 0),
    ]  # fmt: skip
    for parameter, rate, decays in expected:
        group = by_id[id(parameter)]
        assert math.isclose(group["lr"], 1e-2 * rate), group["name"]
        assert group["weight_decay"] == 0.1 * decays, group["name"]
    torch.optim.AdamW(groups).step()


def test_packed_matrices_of_several_rates_step_at_the_least_and_say_so(constants):
    c = constants(width=D)
    parts = tuple(
        replace(p, sublayers=tuple(replace(s, rate=0.25) for s in p.sublayers)) for p in c.parts
    )
    c = replace(c, parts=parts)
    model = encoder()
    apply_(model, c)
    with pytest.warns(UserWarning, match="packed into one parameter"):
        groups = parameter_groups(model, 1.0)
    by_id = {id(p): g for g in groups for p in g["params"]}
    assert by_id[id(model.layers[0].self_attn.in_proj_weight)]["lr"] == 0.25
    assert by_id[id(model.layers[0].linear1.weight)]["lr"] == 0.25


def test_a_step_that_a_norm_gain_does_not_resolve_is_told(constants):
    c = constants(width=D, multipliers={"norm-gain": 1 / 24})
    model = encoder().bfloat16()
    apply_(model, c, inputs=torch.randn(2, 9, D, dtype=torch.bfloat16))
    gain = model.layers[0].norm1.weight
    with pytest.warns(UserWarning, match="resolve 0.008 in torch.bfloat16: steps of 4e-05"):
        groups = parameter_groups(model, 1e-3)
    rate = next(g["lr"] for g in groups if any(p is gain for p in g["params"]))
    assert torch.equal(gain - rate, gain)  # it is so
    for layer in model.layers:
        layer.norm1.float(), layer.norm2.float()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parameter_groups(model, 1e-3)
    assert not torch.equal(model.layers[0].norm1.weight - rate, model.layers[0].norm1.weight)
