"""Models and constants that no rule fits: refused in one sentence, and nothing is touched."""

import math

import pytest
import torch
from fixed import everything
from torch import nn
from written_models import GPT, Lone, Stack, SwiGLU, post, pre

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.report.text import plain

pytestmark = pytest.mark.usefixtures("unmeasured")

D = 32
IDS = torch.arange(16).view(2, 8)


def exported(layers, **sizes):
    rule = dt.Selection("adamw", placement="pre-ln", stack="decoder")
    return dt.export(rule, layers, **{"width": D, "heads": 4, "vocab": 61, **sizes})


def grouped(model, constants, inputs=None):
    return parameter_groups(model, 1.0, constants=constants, inputs=inputs)


def with_line(line, scale=None, layers=slice(None)):
    """Another residual line in some layers, whose branches have a parameter or none."""

    def change(model):
        for block in model.h[layers]:
            block.line = line
            for branch in (block.attn, block.mlp):
                branch.scale = None if scale is None else nn.Parameter(scale.clone())

    return change


def norms_before_activations(model):
    for block in model.h:
        block.mlp.c_fc = nn.Sequential(block.mlp.c_fc, nn.LayerNorm(4 * D))


def dense_first(model):  # as DeepSeek's
    for block in model.h[1:]:
        block.mlp = SwiGLU(D)


def lone_at_the_end(model):
    model.h[-1] = Lone(pre, D)


def a_matrix(model):
    model.h[2].mlp.c_fc.weight = model.h[0].mlp.c_fc.weight


def norms_alone(model):
    for block in model.h[1:]:
        block.ln_1, block.ln_2 = model.h[0].ln_1, model.h[0].ln_2


def first_and_last(model):
    model.h[3] = model.h[0]


FOR = "the constants are for"
SHARED = r"several sublayers share h\.0\."
LEARNT = r"multiplied by h\.0\.attn\.scale, which is learnt"
WITHOUT_LAW = {  # what the audit says, and apply_ where it says something else
    "norms before activations": (norms_before_activations, "a norm within its branch", None),
    "no branches": (
        with_line(lambda x, f, n: x + 0.0 * f(n(x))), "is multiplied by 0", None),
    "LayerScale": (
        with_line(lambda x, f, n: x + f.scale * f(n(x)), torch.full((D,), 0.1)), LEARNT, None),
    "learnt on the stream": (
        with_line(lambda x, f, n: f.scale * x + f(n(x)), torch.tensor(0.9)), LEARNT, None),
    "two placements": (
        with_line(post, layers=slice(2)),
        r"in several ways, layer 0 of the decoder: norm\(x \+ branch\(x\)\); layer 2", FOR),
    "dense first": (
        dense_first, "layer 0 is attention,ffn, others are attention,ffn-swiglu, and no rule",
        rf"{FOR} [a-z, ]+$"),
    "lone at the end": (
        lone_at_the_end, "layer 3 is ffn, others are attention,ffn, and no rule here", FOR),
    "a shared matrix": (
        a_matrix, rf"{SHARED}mlp\.c_fc\.weight, and no law here is of shared layers", None),
    "shared norms": (norms_alone, rf"{SHARED}ln_1\.weight", None),
    "a shared layer": (first_and_last, rf"{SHARED}attn", None),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_LAW)
def test_no_rule_judges_a_model_without_a_law_and_none_is_applied_to_it(name):
    torch.manual_seed(0)
    model, (change, why, applied) = GPT(4, d=D), WITHOUT_LAW[name]
    change(model)
    before = everything(model)
    audit = dt.audit(model, IDS, optimizer="adamw")
    assert (audit.verdict, audit.findings, audit.effect) == ("UNDECIDED", (), None)
    with pytest.raises(Refusal, match=why):
        raise Refusal(audit.refusal)
    assert " ".join(plain(audit.refusal).split()) in " ".join(str(audit).split())
    for way in (apply_, grouped):
        with pytest.raises(Refusal, match=applied or why):
            way(model, exported(4), inputs=IDS)
    assert everything(model) == before


def test_a_gain_behind_a_branch_that_is_not_1_multiplies_it_and_is_refused():
    """The audit shows the multiplier as it starts."""
    model = GPT(3, lambda x, f, norm: x + norm(f(x)), d=D)
    rule = dt.Selection("adamw", placement="res-post-ln", stack="decoder", closure="unit-init")
    c = dt.export(rule, 3, width=D, heads=4, vocab=61)
    norms = [norm for block in model.h for norm in (block.ln_1, block.ln_2)]
    for norm in norms:
        nn.init.constant_(norm.weight, 0.25)
    before, why = everything(model), r"multiplied by h\.0\.ln_1\.weight, which is learnt"
    for given in ({}, {"optimizer": "adamw"}, {"constants": c}, {"scheme": "peri-ln"}):
        audit = dt.audit(model, IDS, **given)
        assert (audit.verdict, audit.findings) == ("UNDECIDED", ())
        assert all(s["alpha"] == pytest.approx(4.0) for s in audit.sublayers)
        with pytest.raises(Refusal, match=why):
            raise Refusal(audit.refusal)
    with pytest.raises(Refusal, match=why):
        apply_(model, c, inputs=IDS)
    assert everything(model) == before


def low_rank():
    model = GPT(3, d=D)
    for block in model.h:
        block.attn.c_attn = nn.Sequential(nn.Linear(D, 8, bias=False), nn.Linear(8, 3 * D))
    return model


def of_its_own(x, branch, norm):
    raise KeyError("cache")


def torchs(part, **options):
    layer = getattr(nn, f"Transformer{part}Layer")(D, 4, 4 * D, batch_first=True)
    return getattr(nn, f"Transformer{part}")(layer, 3, **options)


OF_ANOTHER = {  # the model, and why they do not fit
    "of a norm": (lambda: GPT(3, norm=nn.RMSNorm), f"has RMS norm, {FOR} the norm 'layer'"),
    "of a depth": (lambda: GPT(4), "4 layers"),
    "of whole matrices": (low_rank, r"computed with h\.0\.attn\.c_attn\.0\.weight enter it"),
    "of a placement": (
        lambda: GPT(3, post),
        r"is norm\(x \+ branch\(x\)\).*derived with placement=\"post-ln\", norm=\"layer\""),
    "of no multiplier": (
        lambda: GPT(3, lambda x, f, n: x + 0.1 * f(n(x))),
        "has no place for alpha = 1, it has 10 in .*; set it to 1 there"),
    "of layers that run": (lambda: GPT(3, of_its_own), "fails.*: KeyError"),
    "of a decoder": (lambda: torchs("Encoder", enable_nested_tensor=False), FOR),
    "of one stack": (
        lambda: torchs("Decoder"),
        f"a layer of the decoder is attention, cross, ffn, {FOR} attention, ffn"),
    "of a network": (lambda: nn.Linear(D, D), "Linear has no residual stream"),
}  # fmt: skip


# by an audit
JUDGED = {"of a depth", "of whole matrices", "of a placement", "of no multiplier", "of a decoder"}


@pytest.mark.parametrize("name", OF_ANOTHER)
def test_audit_and_apply_refuse_constants_of_another_model_in_the_same_words(name):
    make, why = OF_ANOTHER[name]
    model, c = make(), exported(3)
    before, inputs = everything(model), IDS if isinstance(model, Stack) else None
    with pytest.raises((Refusal, InputError), match=why) as refused:
        apply_(model, c, inputs=inputs)
    assert everything(model) == before and all(m.training for m in model.modules())
    if name not in JUDGED:
        with pytest.raises(InputError) as told:
            dt.audit(model, inputs, constants=c)
        assert str(told.value) == str(refused.value)


def test_what_is_no_model_or_optimizer_is_one_sentence():
    for call in (lambda: apply_(3, exported(2)), lambda: parameter_groups(3, 1.0)):
        with pytest.raises(InputError, match=r"the model is 3: give a torch.nn.Module"):
            call()
    with pytest.raises(InputError, match="make the groups with parameter_groups"):
        dt.guard(3)


def expand(m):
    m.weight = nn.Parameter(torch.zeros(1, 1).expand(4 * D, D))


NOT_DRAWN = {
    "frozen": (lambda m: m.weight.requires_grad_(False), "c_fc.weight is frozen"),
    "not a number": (lambda m: m.weight.data.fill_(math.nan), "c_fc.weight has entries that are N"),
    "expanded": (expand, "c_fc.weight of the model is expanded"),
    "on meta": (lambda m: m.register_buffer("b", torch.ones(2, device="meta")), "is on meta"),
    "complex": (lambda m: m.to(torch.complex64), "is complex"),
}


@pytest.mark.parametrize("name", NOT_DRAWN)
def test_weights_that_are_not_to_be_drawn_are_refused_in_one_sentence(name):
    change, why = NOT_DRAWN[name]
    model = GPT(2, d=D)
    change(model.h[1].mlp.c_fc)
    with pytest.raises(dt.DeepNetTheoryError, match=why) as refusal:
        apply_(model, exported(2), inputs=IDS)
    assert "\n" not in str(refusal.value)
