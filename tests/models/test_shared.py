"""Models that use their layers several times: read, judged, mended, measured."""

import re
from functools import partial

import pytest
import torch
from mended import depth_exponents, everything, put_right
from torch import nn
from written_models import GPT, post, pre, started

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.models import read

pytestmark = pytest.mark.usefixtures("unmeasured")

D, V = 32, 61
IDS = torch.randint(V, (2, 16), generator=torch.Generator().manual_seed(0))


class Looped(GPT):
    """A block of layers gone through again and again: a universal Transformer where it is one."""

    def __init__(self, block=1, loops=4, line=pre, d=D, **options):
        super().__init__(block, line, d, **options)
        self.h = nn.ModuleList([*self.h] * loops)


def looped(block=1, loops=4, line=pre, **options):
    torch.manual_seed(0)
    return Looped(block, loops, line, final=line is pre, **options)


def albert(layers=4, groups=1, inner=1):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    return transformers.AlbertModel(transformers.AlbertConfig(
        hidden_size=D, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
        vocab_size=V, embedding_size=16, num_hidden_groups=groups, inner_group_num=inner,
    ))  # fmt: skip


def universal(layers=3):
    """torch's own layer, used again and again: its code has a place for α."""
    layer = nn.TransformerEncoderLayer(D, 4, 64, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    encoder.layers = nn.ModuleList([encoder.layers[0]] * layers)
    return encoder


MODELS = {
    "ALBERT": (albert, "N", 4),
    "ALBERT, two groups": (partial(albert, groups=2), "N/2", 4),
    "ALBERT, a group of two": (partial(albert, inner=2), "N/2", 8),
    "ALBERT, all their own": (partial(albert, groups=4), None, 4),
    "universal": (looped, "N", 4),
    "looped": (partial(looped, 3, 2), "N/3", 6),
}


def exported(layers, uses="1", **options):
    rule = dt.Selection("adamw", placement="pre-ln", stack="decoder", uses=uses)
    return dt.export(rule, layers, width=D, heads=4, vocab=V, **options)


@pytest.mark.parametrize(
    "name",
    [m if m in ("ALBERT", "looped") else pytest.param(m, marks=pytest.mark.slow) for m in MODELS],
)
def test_uses_are_read_judged_and_mended_each_parameter_once(name):
    make, uses, layers = MODELS[name]
    model = make()
    found = read(model, IDS)
    assert found.select.get("uses") == uses and list(found.layers.values()) == [layers]
    audit = dt.audit(model, IDS, optimizer="adamw")
    assert audit.against == "adamw" and not audit.refusal
    assert (f"--uses {uses}" in audit.command) is (uses is not None)
    rule = dt.Selection("adamw", closure="complete", **found.select)
    sizes = {"width": D, "heads": 4, "vocab": V, "form": "weights"}
    constants = dt.export(rule, layers, **sizes)
    put_right(model, constants, IDS, initialise=True, outer=False)
    # the laws are those of as many uses, and of no others
    other = dt.Selection("adamw", **{**found.select, "uses": "1" if uses else "N"})
    with pytest.raises(Refusal, match=r"is used .*, the constants are for layers that are used"):
        apply_(model, dt.export(other, layers, **sizes), inputs=IDS, initialise=True)


def test_alpha_is_put_into_a_layer_once_however_often_it_is_used():
    x, model = torch.randn(2, 5, D), universal()
    rule = dt.Selection("sgd", uses="N")
    constants = dt.export(rule, 3, width=D, heads=4)
    assert constants.parts[0].sublayers[0].alpha > 1
    apply_(model, constants, inputs=x)
    assert apply_(model, constants, inputs=x).changes == ()
    assert {s.alpha for s in read(model, x).sublayers} == {constants.parts[0].sublayers[0].alpha}
    fresh = universal()
    apply_(fresh, constants, inputs=x, initialise=False)
    fresh.load_state_dict(model.state_dict())
    torch.testing.assert_close(fresh(x), model(x))


def a_matrix(model):
    model.h[2].mlp.c_fc.weight = model.h[0].mlp.c_fc.weight


def matrices_alone(model):
    """Norms of their own around shared matrices."""
    for block in model.h[1:]:
        block.attn, block.mlp = model.h[0].attn, model.h[0].mlp


def norms_alone(model):
    for block in model.h[1:]:
        block.ln_1, block.ln_2 = model.h[0].ln_1, model.h[0].ln_2


def first_and_last(model):
    model.h[3] = model.h[0]


UNEVEN = {
    a_matrix: r"2 sublayers share h\.0\.mlp\.c_fc\.weight, and 1 uses",
    matrices_alone: r"4 sublayers share h\.0\.attn\.c_attn.*, and 1 uses h\.\d\.ln_\d\.weight",
    norms_alone: r"4 sublayers share h\.0\.ln_1\.weight",
    first_and_last: r"2 sublayers share h\.0\.attn",
}


@pytest.mark.parametrize("share", UNEVEN)
def test_parameters_that_are_used_differently_often_have_no_law(share):
    torch.manual_seed(0)
    model = GPT(4)
    share(model)
    before = everything(model)
    audit = dt.audit(model, IDS, optimizer="adamw")
    assert (audit.verdict, audit.findings) == ("UNDECIDED", ())
    why = f"{UNEVEN[share]}.*: a law of parameters that are used differently often is missing"
    # one that comes again begins a layer: there they differ
    assert re.search(why, audit.refusal) or "the layers of the decoder differ" in audit.refusal
    for way in (apply_, lambda m, c, inputs: parameter_groups(m, 1.0, constants=c)):
        with pytest.raises(Refusal, match=why):
            way(model, exported(4), inputs=IDS)
    assert everything(model) == before


def test_a_scheme_of_layers_of_their_own_is_not_of_shared_ones():
    of = dt.audit(looped(line=post), IDS, scheme="deepnorm")
    assert "'deepnorm' sets constants for layers of their own: the matrices of" in of.refusal
    of = dt.audit(GPT(4), IDS, scheme="looped")
    assert "'looped' sets constants for layers that are used N/4 times" in of.refusal


# ---- what one step moves ----


def by_loops(optimizer, layers, uses="N", d=D, closure="complete"):
    rule = dt.Selection(optimizer, uses=uses, closure=closure, placement="pre-ln", stack="decoder")
    return dt.export(rule, layers, width=d, heads=4, vocab=V)


@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adam", marks=pytest.mark.slow)])
def test_one_step_moves_a_mended_model_alike_at_every_number_of_loops(optimizer):
    mended, plain = depth_exponents(
        lambda n: started(looped(1, n)), partial(by_loops, optimizer), IDS, optimizer, (2, 8)
    )
    assert abs(mended) < 0.15 and plain > 0.3


def test_a_depth_that_no_block_fills_is_said():
    with pytest.raises(InputError, match="10 layers of the decoder cannot be layers"):
        dt.export(dt.derive("adam", stack="decoder", uses="N/4"), 10)
