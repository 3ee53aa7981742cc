"""Roles, initial laws and the laws of each map, parameter groups, generators."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from translated import unstack

from deepnet_theory import start_head_
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.sublayer import NORMS, SUBLAYERS, Role
from deepnet_theory.runtime import build, described, initialise_
from deepnet_theory.runtime.linear import NORM_EPS, normalise
from deepnet_theory.runtime.model import LINES


@pytest.mark.parametrize(("ffn", "seeds"), [("ffn", None), ("ffn-swiglu", 4)])
def test_parameters_have_the_specs_names_and_roles_and_xaviers_variance(constants, ffn, seeds):
    beta = 0.3
    c = constants("encoder-decoder", ffn=ffn, beta=beta, layers=1, width=128, kv_heads=2, vocab=256)
    model = build(c, seeds=seeds, generator=torch.Generator().manual_seed(3))
    assert sorted(id(p) for p, _ in described(model)) == sorted(map(id, model.parameters()))
    for residual in model.residuals():
        spec = SUBLAYERS[residual.site.kind]
        named = {d.name: (d.role, d.is_matrix) for _, d in described(residual.branch)}
        rows = (*((m, True) for m in spec.matrices), *((m, False) for m in spec.vectors))
        assert named == {m.name: (m.role, is_matrix) for m, is_matrix in rows}
    for p, d in described(model):
        if not d.is_matrix:
            assert (p == (1.0 if d.role is Role.NORM_GAIN else 0.0)).all()
            continue
        gain = beta if d.role is Role.SCALED else 1.0
        out, inner = p.shape[-2:]
        expected = gain * math.sqrt(2 / (2 * inner if d.role is Role.EMBEDDING else inner + out))
        # a standard deviation from n normals has relative error 1/√(2n); five of them
        assert abs(p.std().item() / expected - 1) < 5 / math.sqrt(2 * p.numel())
        assert abs(p.mean().item()) < 5 * expected / math.sqrt(p.numel())


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


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"activation": "tanh"}, "relu, gelu, silu"),
        ({"placement": "mid-ln"}, "post-ln"),
        ({"norm": "batch"}, "layer, rms"),
        ({"ffn": "moe"}, "ffn-swiglu"),
        ({"ffn": "cross"}, "attend"),
        ({"seeds": 10**15}, "there is no memory for a parameter of 1000000000000000 x 50 x 16 num"),
        *(({"seeds": seeds}, "seeds") for seeds in (0, -1, 1.5, True)),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(constants, change, names):
    seeds = change.pop("seeds", None)
    with pytest.raises(InputError, match=names):
        build(constants(**change), seeds=seeds)


F64 = torch.float64


@pytest.mark.parametrize("name", sorted(NORMS))
@given(scale=st.floats(0.5, 1e4), seed=st.integers(0, 99))
def test_a_norm_forgets_the_scale_and_gives_the_square_root_of_the_width(name, scale, seed):
    x = torch.randn(3, 64, dtype=F64, generator=torch.Generator().manual_seed(seed))
    y, z = normalise(x, NORMS[name]), normalise(scale * x, NORMS[name])
    # ε is added to a variance near 1
    torch.testing.assert_close(z, y, rtol=4 * NORM_EPS, atol=4 * NORM_EPS)
    size = torch.full((3,), 8.0, dtype=F64)
    torch.testing.assert_close(z.norm(dim=-1), size, rtol=4 * NORM_EPS, atol=0)


def test_the_bias_starts_at_the_log_of_the_frequencies_of_one_count_for_each_output(constants):
    counts = torch.zeros(256, dtype=torch.long)
    counts[:3] = torch.tensor([99, 49, 0])
    model = build(constants(head_bias=True, vocab=256), seeds=2)
    start_head_(model.head, counts)
    own = nn.Linear(8, 256)
    start_head_(own, counts)
    for bias in (*model.head.bias, own.bias):
        p = torch.softmax(bias.double(), -1)
        expected = (counts + 1) / (counts + 1).sum()
        torch.testing.assert_close(p, expected.double(), rtol=1e-5, atol=1e-9)
        assert abs(bias.mean()) < 1e-5
    for head, wrong, says in (
        (nn.Linear(4, 8, bias=False), torch.ones(8), "has no bias"),
        (nn.Linear(4, 8), torch.ones(7), "one number from 0 on"),
        (nn.Linear(4, 8), -torch.ones(8), "one number from 0 on"),
    ):
        with pytest.raises(InputError, match=says):
            start_head_(head, wrong)


def beside(s, **more):
    return s[0], replace(s[1], **{"parallel": True, **more})


def with_sublayers(c, change):
    (part,) = c.parts
    return replace(c, parts=(replace(part, sublayers=change(part.sublayers)),))


def test_branches_in_parallel_need_a_line_of_their_equation(constants, monkeypatch):
    made = with_sublayers(constants(placement="pre-ln"), beside)
    build(made)
    monkeypatch.delitem(LINES, "x + branch(norm(x))")
    with pytest.raises(InputError, match="parallel branches are built for"):
        build(made)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: beside(s)[::-1], "has no sum to join"),
        (partial(beside, alpha=2.0),
         "the branches of one residual sum have one alpha, not 1.7 and 2.0"),
        (partial(beside, parallel=1), "parallel must be a boolean"),
    ],
)  # fmt: skip
def test_branches_that_cannot_share_a_sum_are_refused(constants, change, why):
    with pytest.raises(InputError, match=why):
        build(with_sublayers(constants(), change))
