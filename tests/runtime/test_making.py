"""Roles, initial laws and the laws of each map, parameter groups, generators."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import deepnet_theory as dt
from deepnet_theory import parameter_groups, start_head_
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.sublayer import Role, norms, sublayer, sublayers
from deepnet_theory.runtime import branches as branches_module
from deepnet_theory.runtime import build, described, initialise_, unstack
from deepnet_theory.runtime.linear import NORM_EPS, normalise


@pytest.mark.parametrize("ffn", ["ffn", "ffn-swiglu"])
def test_every_parameter_is_described_with_the_specs_names(constants, ffn):
    model = build(constants("encoder-decoder", ffn=ffn))
    pairs = list(described(model))
    assert {id(p) for p, _ in pairs} == {id(p) for p in model.parameters()}
    assert len(pairs) == len(list(model.parameters()))
    for _, d in pairs:
        if d.kind is not None and not d.role.value.startswith("norm"):
            spec = sublayers()[d.kind]
            roles = {m.name: m.role for m in (*spec.matrices, *spec.vectors)}
            assert roles[d.name] is d.role
            assert (d.name in {m.name for m in spec.matrices}) == d.is_matrix
    # and nothing of the spec is missing
    for residual in model.residuals():
        names = {d.name for _, d in described(residual.branch)}
        spec = sublayers()[residual.site.kind]
        assert names == {p.name for p in (*spec.matrices, *spec.vectors)}


@pytest.mark.parametrize("seeds", [None, 4])
def test_matrices_have_xaviers_variance_times_the_gain(constants, seeds):
    beta = 0.3
    c = constants("encoder-decoder", beta=beta, layers=1, width=128, kv_heads=2, vocab=256)
    model = build(c, seeds=seeds, generator=torch.Generator().manual_seed(3))
    for p, d in described(model):
        if not d.is_matrix:
            assert (p == (1.0 if d.role is Role.NORM_GAIN else 0.0)).all()
            continue
        gain = beta if d.role is Role.SCALED else 1.0
        out, inner = p.shape[-2:]
        fans = 2 * inner if d.role is Role.EMBEDDING else inner + out
        expected = gain * math.sqrt(2 / fans)
        # a standard deviation from n normals has relative error 1/√(2n); five of them
        assert abs(p.std().item() / expected - 1) < 5 / math.sqrt(2 * p.numel())
        assert abs(p.mean().item()) < 5 * expected / math.sqrt(p.numel())


def test_embedding_and_head_are_the_same_at_every_depth(constants):
    shallow, deep = (
        build(constants(layers=n), generator=torch.Generator().manual_seed(5)) for n in (1, 9)
    )
    assert torch.equal(shallow.embed.weight, deep.embed.weight)
    assert torch.equal(shallow.head.weight, deep.head.weight)
    own = build(
        constants(layers=2),
        generator=torch.Generator().manual_seed(99),
        embedding_generator=torch.Generator().manual_seed(5),
    )
    assert torch.equal(own.head.weight, deep.head.weight)


def test_what_is_made_of_meta_is_what_is_made_and_a_tied_head_stays_tied(constants):
    for c in (constants(), constants(tied_head=True)):
        model = build(c, device="meta")
        assert all(p.is_meta for p in model.parameters())
        initialise_(model.to_empty(device="cpu"), generator=torch.Generator().manual_seed(2))
        real = build(c, generator=torch.Generator().manual_seed(2))
        for a, b in zip(model.parameters(), real.parameters(), strict=True):
            assert torch.equal(a, b)
    assert model.head.weight is model.embed.weight and real.head.weight is real.embed.weight
    assert sum(d.role is Role.HEAD for _, d in described(model)) == 0
    stacked = build(constants(tied_head=True), seeds=2)
    single = unstack(stacked, 1)
    assert single.head.weight is single.embed.weight
    assert torch.equal(single.head.weight, stacked.embed.weight[1])


def test_a_stacked_gradient_needs_no_copy(constants):
    """It lies in memory as its weight does, which is how a batched product writes it."""
    model = build(constants("decoder"), seeds=2, trainable_vectors=False)
    x = torch.randn(2, 1, 5, 16)
    produced = {}
    for residual in model.residuals():
        for name, linear in residual.branch.named_children():
            if hasattr(linear, "weight"):
                linear.weight.register_hook(
                    lambda g, key=(residual, name): produced.update({key: g})
                )
    model.body(x).square().sum().backward()
    assert len(produced) == 3 * 6
    for (residual, name), gradient in produced.items():
        weight = getattr(residual.branch, name).weight
        assert gradient.stride() == weight.stride()


def test_vectors_can_be_left_out(constants):
    c = constants("decoder")
    bare = build(c, trainable_vectors=False, generator=torch.Generator().manual_seed(1))
    full = build(c, generator=torch.Generator().manual_seed(1))
    assert all(d.is_matrix for _, d in described(bare))
    tokens = torch.randint(50, (2, 6))
    torch.testing.assert_close(bare(tokens), full(tokens), rtol=0, atol=1e-6)
    no_bias = build(constants("decoder", bias=False))
    assert {d.role for _, d in described(no_bias) if not d.is_matrix} == {Role.NORM_GAIN}


def test_hundreds_of_layers_stay_finite_and_a_copy_is_described_alike(constants):
    model = build(constants(layers=100, alpha=200**0.5, beta=200**-0.5))
    tokens = torch.randint(50, (1, 8))
    loss = torch.nn.functional.cross_entropy(model(tokens)[0], tokens[0])
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    own, copied = ([d for _, d in described(m)] for m in (model, copy.deepcopy(model)))
    assert own == copied


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"activation": "tanh"}, "relu, gelu, silu"),
        ({"placement": "mid-ln"}, "post-ln"),
        ({"norm": "batch"}, "layer, rms"),
        ({"ffn": "moe"}, "ffn-swiglu"),
        ({"ffn": "cross"}, "attend"),
        *(({"seeds": seeds}, "seeds") for seeds in (0, -1, 1.5, True)),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(constants, change, names):
    seeds = change.pop("seeds", None)
    with pytest.raises(InputError, match=names):
        build(constants(**change), seeds=seeds)


F64 = torch.float64


def branches(constants, kind, seeds, **options):
    model = build(
        constants(layers=1, **options),
        seeds=seeds,
        dtype=F64,
        generator=torch.Generator().manual_seed(0),
    )
    return next(r.branch for r in model.residuals() if r.site.kind == kind)


@pytest.mark.parametrize("ratio", [1, 4])
@pytest.mark.parametrize("kind", ["attention", "ffn"])
def test_the_second_moment_of_a_branch(constants, kind, ratio):
    """E G² = β⁴ for value and output on one token, 2dh/(d+h)² β⁴ for ReLU feed-forward.

    Xavier's variances are 2/(d+d) = 1/d for value and output and 2/(d+h) for fc1 and fc2; a
    ReLU keeps half of a symmetric second moment. Input of rms 1.
    """
    seeds, d, beta = 400, 16, 0.7
    h = ratio * d
    G = branches(constants, kind, seeds, width=d, beta=beta, ffn_ratio=float(ratio))
    x = torch.randn(d, dtype=F64, generator=torch.Generator().manual_seed(1))
    x = x / x.square().mean().sqrt()
    with torch.no_grad():
        y = G(x.expand(seeds, 1, 1, d))  # one token: softmax is 1
    moments = y.square().mean((1, 2, 3))  # one a seed
    law = beta**4 * (1.0 if kind == "attention" else 2 * d * h / (d + h) ** 2)
    error = moments.std().item() / math.sqrt(seeds)
    assert abs(moments.mean().item() - law) < 4 * error
    # planted errors: fans exchanged for the width, or the gain entering once only
    for wrong in (law / beta, law * 1.5):
        assert abs(moments.mean().item() - wrong) > 4 * error


@pytest.mark.parametrize("kind", ["attention", "ffn"])
@settings(max_examples=10, deadline=None)
@given(factor=st.floats(0.1, 10))
def test_a_branch_is_homogeneous_of_degree_one_in_each_scaled_matrix(constants, kind, factor):
    """Gain β·c gives c² G: two scaled matrices, and query and key untouched."""
    x = torch.randn(2, 1, 5, 16, dtype=F64, generator=torch.Generator().manual_seed(1))
    plain = branches(constants, kind, 2, beta=0.5)(x)
    scaled = branches(constants, kind, 2, beta=0.5 * factor)(x)
    torch.testing.assert_close(scaled, factor**2 * plain, rtol=1e-9, atol=1e-12)


def test_queries_and_keys_are_normed_head_by_head(constants):
    """Softmax of q̂·k̂/√h, whatever the size of a head's own queries and keys."""
    model = build(constants(layers=1, attention="attention-qk-norm"), dtype=F64)
    (G,) = (r.branch for r in model.residuals() if r.site.kind == "attention-qk-norm")
    x, heads = torch.randn(1, 5, 16, dtype=F64), (5, 4, 4)
    with torch.no_grad():
        q, k, v = (m(x).view(heads).transpose(0, 1) for m in (G.query, G.key, G.value))
        q, k = (y / y.square().mean(-1, keepdim=True).sqrt() for y in (q, k))
        mixed = (q @ k.mT / 4**0.5).softmax(-1) @ v
        torch.testing.assert_close(G(x), G.output(mixed.transpose(0, 1).reshape(1, 5, 16)))


@pytest.mark.parametrize(
    "branch, normed",
    [
        (sublayer("attention-qk-norm").branch, {"query", "key"}),
        (sublayer("attention-qkv-norm").branch, {"query", "key", "value"}),
        ("softmax(x*query*T(norm(x*key)))*x*value*output", {"key"}),  # no file has it
    ],
)
def test_what_is_normed_is_read_off_the_formula(constants, monkeypatch, branch, normed):
    own = replace(sublayer("attention-qk-norm"), branch=branch)
    monkeypatch.setattr(branches_module, "sublayer", lambda name: own)
    (G,) = (
        r.branch for r in build(constants(layers=1), dtype=F64).residuals() if r.site.sublayer == 0
    )
    x = torch.randn(1, 5, 16, dtype=F64)
    with torch.no_grad():
        for name in ("query", "key", "value"):
            before = G(x)
            getattr(G, name).weight[:4] *= 30  # the first head's alone
            assert torch.allclose(G(x), before) is (name in normed)


@pytest.mark.parametrize("name", sorted(norms()))
@given(scale=st.floats(0.5, 1e4), seed=st.integers(0, 99))
def test_a_norm_forgets_the_scale_and_gives_the_square_root_of_the_width(name, scale, seed):
    x = torch.randn(3, 64, dtype=F64, generator=torch.Generator().manual_seed(seed))
    y, z = normalise(x, norms()[name]), normalise(scale * x, norms()[name])
    # ε is added to a variance near 1
    torch.testing.assert_close(z, y, rtol=4 * NORM_EPS, atol=4 * NORM_EPS)
    size = torch.full((3,), 8.0, dtype=F64)
    torch.testing.assert_close(z.norm(dim=-1), size, rtol=4 * NORM_EPS, atol=0)


@pytest.mark.parametrize("placement", ["post-ln", "res-post-ln", "sandwich-ln"])
def test_what_alpha_does_to_a_layer(constants, placement):
    """norm(αx + G) is norm(x + G/α); in the others the branch's output is divided by α."""
    x = torch.randn(1, 5, 16, dtype=F64)
    x = normalise(x, norms()["layer"])
    size = {}
    for alpha in (8.0, 64.0):
        model = build(
            constants(placement=placement, alpha=alpha, layers=1),
            dtype=F64,
            generator=torch.Generator().manual_seed(0),
        )
        size[alpha] = (next(iter(model.residuals()))(x) - x).norm().item()
    # a change of order 1/α; norm's curvature is of the next order
    assert size[8.0] / size[64.0] == pytest.approx(8.0, rel=0.1)


# ------------------------------------------------------------------ the head's bias


def exported(**architecture):
    sizes = {"width": 32, "heads": 4, "vocab": 256, **architecture}
    return dt.export("adam", depth=2, **sizes)


def test_the_builder_has_a_bias_where_it_is_asked_for():
    assert build(exported()).head.bias is None
    model = build(exported(head_bias=True, bias=False))
    assert model.head.bias is not None
    assert model.head.bias.tolist() == [0.0] * 256
    (group,) = (g for g in parameter_groups(model, 1.0) if g["role"] == "head-bias")
    assert group["params"][0] is model.head.bias
    assert group["lr"] == 1.0


def test_the_bias_starts_at_the_log_of_the_frequencies():
    counts = torch.zeros(256, dtype=torch.long)
    counts[:3] = torch.tensor([99, 49, 0])
    model = build(exported(head_bias=True), seeds=2)
    start_head_(model.head, counts)
    own = nn.Linear(8, 256)
    start_head_(own, counts)
    for bias in (*model.head.bias, own.bias):
        p = torch.softmax(bias.double(), -1)
        expected = (counts + 1) / (counts + 1).sum()
        torch.testing.assert_close(p, expected.double(), rtol=1e-5, atol=1e-9)
        assert abs(bias.mean()) < 1e-5


@pytest.mark.parametrize(
    ("head", "counts", "says"),
    [
        (nn.Linear(4, 8, bias=False), torch.ones(8), "has no bias"),
        (nn.Linear(4, 8), torch.ones(7), "one number from 0 on"),
        (nn.Linear(4, 8), -torch.ones(8), "one number from 0 on"),
    ],
)
def test_what_is_no_head_or_no_count_is_refused(head, counts, says):
    with pytest.raises(InputError, match=says):
        start_head_(head, counts)


def test_the_first_loss_is_the_unigram_entropy():
    small = exported(head_bias=True)
    told = dt.train(small, steps=1, seeds=1, batch=8, tokens=64, processes=1)
    plain = dt.train(exported(), steps=1, seeds=1, batch=8, tokens=64, processes=1)
    started, zero = (t.runs[0].losses[0] for t in (told, plain))
    assert zero > 5.5  # ln 256 and what the head draws
    assert started < 4.2  # the text's unigram entropy is 3.2


def test_relative_to_a_base_the_bias_keeps_its_rate():
    wide = exported(width=128, heads=16, head_bias=True, base=32)
    assert wide.outer["head_bias"].rate == pytest.approx(1.0)
    assert "head_bias" not in exported(width=128, heads=16, base=32).outer
