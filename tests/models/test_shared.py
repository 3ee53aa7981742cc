"""Models that use their layers several times: read, judged, mended, measured."""

import re

import pytest
import torch
from fixed import everything
from torch import nn
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models import read

pytestmark = pytest.mark.usefixtures("unmeasured")

D, V = 32, 61
IDS = torch.randint(V, (2, 16), generator=torch.Generator().manual_seed(0))


def universal(layers=3):
    """torch's own layer, used again and again: its code has a place for α."""
    layer = nn.TransformerEncoderLayer(D, 4, 64, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    encoder.layers = nn.ModuleList([encoder.layers[0]] * layers)
    return encoder


def exported(layers, uses="1", **options):
    rule = dt.Selection("adamw", placement="pre-ln", stack="decoder", uses=uses)
    return dt.export(rule, layers, width=D, heads=4, vocab=V, **options)


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


# ---- what one step moves ----
