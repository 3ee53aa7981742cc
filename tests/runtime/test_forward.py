"""The forward pass: one model and a stack of seeds, placements, masks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from translated import unstack

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from deepnet_theory.runtime import build

STACKS = ("encoder", "decoder", "encoder-decoder")
F64 = torch.float64


def sources(stack, tokens):
    return tokens.roll(1, -1)[..., :5] if stack == "encoder-decoder" else None


EVERY = [("encoder-decoder", placement) for placement in sorted(PLACEMENTS)]


@pytest.mark.parametrize(
    ("index", "stack", "placement"),
    [(i, *row) for i, row in enumerate([("encoder", "post-ln"), ("decoder", "post-ln"), *EVERY])],
)
def test_a_stack_of_seeds_is_the_models_side_by_side(constants, index, stack, placement):
    norm, ffn = ("layer", "ffn-swiglu") if index % 2 else ("rms", "ffn")
    c = constants(stack, placement, norm, layers=2, ffn=ffn, kv_heads=2, activation="gelu")
    model = build(c, seeds=3, dtype=F64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():  # vectors away from their initial values, so that they count
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, dtype=F64))
    tokens = torch.randint(50, (3, 2, 7))
    memory = sources(stack, tokens)
    logits = model(tokens, memory)
    assert logits.shape == (3, 2, 7, 50)
    for s in range(3):
        own = None if memory is None else memory[s]
        single = unstack(model, s)(tokens[s], own)
        torch.testing.assert_close(logits[s], single, rtol=0, atol=1e-12)
    # the same text for every seed
    shared = model(tokens[0], None if memory is None else memory[0].expand(3, 2, 5))
    torch.testing.assert_close(shared[0], model(tokens, memory)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
def test_the_written_line_is_the_placements_equation(constants, placement):
    """The line in Residual.forward against the spec's own equation, interpreted."""
    model, x = build(constants(placement=placement), dtype=F64), torch.randn(2, 5, 16, dtype=F64)
    written = model.body(x)
    for residual in model.residuals():
        p = residual.placement
        residual.placement = Placement(p.name, f"({p.equation})", p.final_norm)  # no line's text
    torch.testing.assert_close(model.body(x), written, rtol=0, atol=1e-12)


@pytest.mark.parametrize("stack", STACKS)
@settings(max_examples=10)
@given(seen=st.integers(1, 7), seed=st.integers(0, 99))
def test_nothing_leaks_from_the_future(constants, stack, seen, seed):
    model = build(constants(stack), dtype=F64)
    a = torch.randint(50, (1, 8), generator=torch.Generator().manual_seed(seed))
    b = a.clone()
    b[0, seen:] = (b[0, seen:] + 1) % 50
    memory = sources(stack, a)
    changed = (model(a, memory) - model(b, memory))[0, :seen].abs().max()
    assert (changed > 0) == (stack == "encoder")  # an encoder sees everything


def test_what_does_not_fit_a_model_is_refused(constants):
    tokens, model = torch.zeros(1, 3, dtype=torch.long), build(constants())
    for call, says in (
        (lambda: build(constants("encoder-decoder"))(tokens), "memory"),
        (lambda: model(tokens, tokens), "no memory"),
    ):
        with pytest.raises(InputError, match=says):
            call()
    for seeds in (None, 2):  # and no token is taken from another seed's embedding
        with pytest.raises(IndexError):
            build(constants(), seeds=seeds)(torch.full((1, 3), 50))


def test_dropout_is_where_the_usual_encoder_layer_has_it(constants):
    """On what each branch adds, and between the matrices of the feed-forward; never on x."""
    model = build(constants(dropout=0.3), dtype=F64)
    layer = model.parts["encoder"].layers[0]
    attention, feed_forward = layer
    x = torch.randn(2, 5, 16, dtype=F64)
    torch.manual_seed(0)
    ours = layer(x)
    torch.manual_seed(0)
    alpha, drop, ffn = attention.alpha, nn.Dropout(0.3), feed_forward.branch
    y = attention.norms[0](drop(attention.branch(x)) + alpha * x)
    z = drop(ffn.fc2(drop(ffn.fc1(y).relu())))
    torch.testing.assert_close(feed_forward.norms[0](z + alpha * y), ours, rtol=0, atol=1e-12)
    layer.eval()
    assert torch.equal(layer(x), layer(x)) and not torch.equal(layer(x), ours)
