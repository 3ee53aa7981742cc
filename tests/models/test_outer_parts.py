"""Embedding and head of your own model: where the stream starts, where the loss starts."""

import math
import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from fixed import everything
from torch import nn
from written_models import GPT, Llama, Normed, post

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import Refusal

D, V, TOKENS = 64, 256, 32
SMALL = {"d": D, "vocab": V, "std": 0.02}  # GPT-2's sizes
PRE = {"placement": "pre-ln", "stack": "decoder"}
GATED = {**PRE, "norm": "rms", "layer": "attention,ffn:swiglu"}
FAMILIES = {  # a model of N layers, and the constants' selection
    "nanoGPT": (partial(GPT, **SMALL), PRE),
    "GPT-2": (partial(GPT, **SMALL, tied=True, bias=True), PRE),
    "Llama": (partial(Llama, **SMALL, tied=True), GATED),
    "BERT": (partial(Normed, line=post, final=False, **SMALL, tied=True), {"stack": "decoder"}),
    "post-LN": (partial(GPT, line=post, final=False, **SMALL), {"stack": "decoder"}),
}


def exported(select, layers=2, width=D, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        derived = dt.Selection("adamw", closure="complete", **select)
        form = "forward" if "placement" in select else "weights"
        return dt.export(derived, layers, width=width, heads=4, vocab=V, form=form, **options)


def batch(seed=0):
    return torch.randint(V, (4, TOKENS), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def loss(model):
    """Of targets that are drawn evenly, over its ln V."""
    ids, targets = batch(1), torch.arange(V)
    logits = model(ids).flatten(0, 1)  # (tokens, vocabulary), every target once a token
    each = F.cross_entropy(
        logits[:, None].expand(-1, V, -1).flatten(0, 1), targets.repeat(len(logits))
    )
    return each.item() / math.log(V)


def start(model):
    return model.first(batch(1)).square().mean().sqrt().item()


@pytest.mark.parametrize("name", FAMILIES)
def test_stream_and_loss_start_where_the_rule_has_them(name):
    torch.manual_seed(0)
    make, select = FAMILIES[name]
    model, tied = make(2), name in ("GPT-2", "Llama", "BERT")
    before = {n: p.clone() for n, p in model.named_parameters()}
    applied = apply_(model, exported(select), inputs=batch())
    assert 1 <= loss(model) < 1.05
    outside = [n for n in before if n.startswith(("wte", "wpe", "lm_head"))]
    kept = [torch.equal(before[n], model.get_parameter(n)) for n in outside]
    assert kept == [tied] * len(outside)  # a tied matrix serves two, and stays
    lines = [line.partition("  #")[0] for line in applied.lines]
    match name:
        case "GPT-2" | "Llama":  # the stream needs a line, for no size of the matrix is right
            tables = [model.wte] if name == "Llama" else [model.wte, model.wpe]
            both = math.sqrt(sum(t.weight.square().mean().item() for t in tables))
            assert lines == [f"x = x * {1 / both:.4g}"] and lines[0] in str(applied)
            model.start = 1 / both
            again = make(2)
            again.load_state_dict(model.state_dict())
            again.start = 1 / both
            assert apply_(again, exported(select), inputs=batch()).lines == ()
            assert 1 <= loss(again) < 1.05
        case "BERT":
            assert lines == ["start_head_(head, counts)"] and "lm_head" not in lines
        case _:
            assert not lines
    assert start(model) == pytest.approx(1, rel=0.1)
    ratio = model.lm_head.weight.std().item() / math.sqrt(2 / (D + V))
    if not tied:  # Xavier's, or what adds 4 % to ln V
        assert ratio == pytest.approx(1, rel=0.05)


def test_a_tied_matrix_that_was_multiplied_is_refused_with_the_line_that_it_needs():
    """The advice of multiplying an embedding by 50 raises the loss of a tied model tenfold."""
    torch.manual_seed(0)
    model, c = GPT(2, d=D, vocab=V, tied=True, std=1.0), exported(PRE)
    before = everything(model)
    assert loss(model) > 5
    why = r"starts at 4.* ln 256 is 5.55: no size of wte.weight .*write logits = logits \* 0\.015"
    with pytest.raises(Refusal, match=why):
        apply_(model, c, inputs=batch())
    assert everything(model) == before
    model.end = 1 / D
    assert apply_(model, c, inputs=batch()).lines == ()
    assert loss(model) < 1.05
    # at first the small rows hide it: both lines at once, the loss high where one alone is written
    wide = GPT(2, d=256, vocab=V, tied=True, std=0.035)
    first, second = apply_(wide, exported(PRE, width=256), inputs=batch()).lines
    assert first.startswith("x = x * 20.") and second.startswith("logits = logits * 0.11")
    wide = GPT(2, d=256, vocab=V, tied=True, std=0.035, start=20.2)
    with pytest.raises(Refusal, match=r"logits = logits \* 0\.11"):
        apply_(wide, exported(PRE, width=256), inputs=batch())
    wide.end = 0.11
    assert loss(wide) < 1.05


def test_what_is_asked_to_stay_stays():
    torch.manual_seed(0)
    c = exported(PRE)
    for options in ({"outer": False}, {"initialise": False}):
        model = FAMILIES["nanoGPT"][0](2)
        before = [p.clone() for p in (model.wte.weight, model.wpe.weight, model.lm_head.weight)]
        applied = apply_(model, c, inputs=batch(), **options)
        after = (model.wte.weight, model.wpe.weight, model.lm_head.weight)
        assert all(map(torch.equal, before, after))
        assert [line[:9] for line in applied.lines] == ["x = x * 3"] * ("outer" in options)
    # what is fixed, and what holds no independent entries; the row of padding
    model = FAMILIES["nanoGPT"][0](2)
    model.wpe.requires_grad_(False)
    model.wte = nn.Embedding(V, D, padding_idx=3)
    with torch.no_grad():
        model.lm_head.weight += torch.randn(V, 1) * 0.1
    kept = model.wpe.weight.clone(), model.lm_head.weight.clone()
    apply_(model, c, inputs=batch())
    assert torch.equal(model.wpe.weight, kept[0]) and torch.equal(model.lm_head.weight, kept[1])
    assert (model.wte.weight[3] == 0).all() and model.wte.weight.std() < 0.9
    assert apply_(model, c, inputs=batch()).changes == ()
