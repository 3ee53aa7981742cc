"""Each trainer's own rule resolves what is exported for it to the numbers of parameter_groups."""

import re
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest
import torch
from matchers import OWN, RULES, executed
from models.test_public_models import READ
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from written_models import GPT, Llama, post

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models import read
from deepnet_theory.models.applying import is_tied
from deepnet_theory.sizes.wanted import selection_of
from deepnet_theory.trainers.patterns import _plain, patterns_of
from deepnet_theory.trainers.trainer import trainers

IDS = torch.randint(61, (2, 9), generator=torch.Generator().manual_seed(0))
WRITTEN = {
    "nanoGPT": lambda: (GPT(3, d=16), IDS),
    "nanoGPT, tied": lambda: (GPT(3, d=16, tied=True), IDS),
    "a Llama by hand": lambda: (Llama(3, d=16), IDS),
    "post-LN": lambda: (GPT(3, post, d=16, final=False, bias=True), IDS),
}
MODELS = WRITTEN | {name: make for name, (make, _) in READ.items()}
QUICK = {*WRITTEN, "Llama", "GPT2", "Bert", "T5", "torch.nn", "Mixtral"}
LR, DECAY = 1e-3, 0.1
REFUSED = {"norms before a branch and on its sum": "the constants are for"}  # no rule has both
REFUSED |= dict.fromkeys(("DINOv2", "BEiT"), "which is learnt")
NO_WIDTH = {"Mixtral", "Qwen 3 MoE", "OLMoE", "Qwen 2 MoE", "DeepSeek V3"}  # a router has no law


@cache
def exported(name, optimizer="adamw"):
    """A model, its patterns, and what parameter_groups gives each of its parameters."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    reading = read(model, inputs)
    layers = list(reading.layers.values())
    base = None if name in NO_WIDTH else (8, [1] * len(layers))
    constants = dt.export(
        selection_of(reading, optimizer), layers, width=16, heads=16, vocab=61, base=base,
        tied_head=is_tied(reading),
    )  # fmt: skip
    decay = DECAY if optimizer == "adamw" else 0.0
    given = {"weight_decay": decay, "betas": (0.9, 0.95) if optimizer == "adamw" else None}
    made = patterns_of(model, constants, LR, inputs=inputs, **given)
    own = {p: called for called, p in model.named_parameters()}
    groups = dt.parameter_groups(model, LR, weight_decay=decay)
    expected = {
        own[p]: (optimizer, g["lr"], g.get("eps"), g["weight_decay"], given["betas"])
        for g in groups
        for p in g["params"]
    }
    return model, made, expected


def agree(found, expected):
    """Of every parameter the same numbers; a multiple is rounded once more."""
    assert found.keys() == expected.keys()
    for parameter, (optimizer, *numbers) in expected.items():
        kind, *values = found[parameter]
        assert kind == optimizer, parameter
        for value, number in zip(values, numbers, strict=True):
            close = isinstance(number, float)
            assert value == (pytest.approx(number, rel=1e-12) if close else number), parameter


def cell(name, trainer, optimizer, patch):
    """Equal, or the sentence that refuses it."""
    model, made, expected = exported(name, optimizer)
    try:
        text = trainers()[trainer].text(made)
    except Refusal as refused:
        return str(refused)
    agree(RULES[trainer](model, text, patch), expected)
    return "equal"


@pytest.mark.filterwarnings("ignore:query:UserWarning", "ignore:gate:UserWarning")
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)
def test_a_trainer_resolves_the_numbers_of_parameter_groups_or_refuses(name, monkeypatch):
    if name in REFUSED:
        with pytest.raises(Refusal, match=REFUSED[name]):
            exported(name)
        return
    cells = {trainer: cell(name, trainer, "adamw", monkeypatch) for trainer in RULES}
    assert cells.keys() == trainers().keys()
    assert "has no eps by pattern" in cells.pop("automodel")
    if (shell := cells.pop("olmo-core")) != "equal":
        assert re.search("the shell pattern .* matches .*, too", shell)
    assert set(cells.values()) == {"equal"}, cells
    if name in WRITTEN:  # SGD has no epsilon to carry
        cells = {trainer: cell(name, trainer, "sgd", monkeypatch) for trainer in RULES}
        assert "takes adamw by name pattern, and not sgd" in cells["fairseq2"]
        equal = {trainer for trainer, found in cells.items() if found == "equal"}
        assert equal == {"torch", "automodel", "optax"}, cells


@pytest.mark.parametrize(
    ("place", "planted"),
    [
        ("$more", {"eps": 0.5}),
        ("$more", {"betas": (0.5, 0.5)}),
        ("$optimizer", {"optimizer": "adam"}),
    ],
)
def test_a_number_without_a_place_is_said(place, planted):
    _, made, _ = exported("nanoGPT")
    form = trainers()["torchtitan"]
    one = replace(made.rows[0], **planted)
    both = replace(made, rows=(made.rows[0], one))
    assert str(*planted.values()).strip("(")[:3] in form.text(both).lower()
    less = replace(form, group=form.group.replace(place, ""))
    with pytest.raises(Refusal, match=f"0.3.0 has no {next(iter(planted))} by pattern"):
        less.text(both)


def test_a_planted_error_is_seen(monkeypatch):
    """The rules see a rate that is not the group's, and a name that no pattern has."""
    model, made, expected = exported("nanoGPT")
    rows = (replace(made.rows[0], lr=2 * made.rows[0].lr), *made.rows[1:])
    for name, rule in RULES.items():
        if name == "automodel":
            continue
        text = trainers()[name].text(replace(made, rows=rows))
        assert rule(model, text, monkeypatch) != expected, name
        text = trainers()[name].text(replace(made, rows=made.rows[1:]))
        try:
            assert rule(model, text, monkeypatch).keys() != expected.keys(), name
        except ValueError as error:  # torch's form finds it by itself
            assert "no pattern matches" in str(error)


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.filterwarnings("ignore:query:UserWarning")
@pytest.mark.parametrize("name", ["nanoGPT", "a Llama by hand"])
def test_the_initial_sizes_are_those_of_apply_(name, monkeypatch):
    """A model that the exported code draws follows the constants, and no other one does."""
    model, inputs = MODELS[name]()
    reading = read(model, inputs)
    c = dt.export(selection_of(reading, "adamw"), 3, width=16, heads=16, vocab=61)
    made = executed(trainers()["torch"].text(patterns_of(model, c, LR, inputs=inputs)), monkeypatch)
    torch.manual_seed(1)
    fresh, _ = MODELS[name]()
    assert dt.audit(fresh, inputs, constants=c).verdict == "REFUTED"
    made.initialise(fresh)
    found = dt.audit(fresh, inputs, constants=c)
    assert found.verdict == "SUPPORTED", found.findings


WRAPPED = {
    "as it is": lambda model: model,
    "compiled": torch.compile,
    "checkpointed": lambda model: (
        apply_activation_checkpointing(
            model, check_fn=lambda module: not isinstance(module, nn.ModuleList)
        )
        or model
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trainer", OWN)
@pytest.mark.parametrize("name", sorted(MODELS.keys() - REFUSED))
def test_a_trainer_s_own_code_resolves_them_too(name, trainer):
    """Where it is installed, with names as they are and as wrappers change them."""
    module, asked = OWN[trainer]
    room = pytest.importorskip(module)
    model, made, expected = exported(name, "sgd" if trainer == "automodel" else "adamw")
    try:
        text = trainers()[trainer].text(made)
    except Refusal as refused:
        assert trainer == "olmo-core" and "shell pattern" in str(refused)
        return
    for wrap in WRAPPED.values():
        whole = wrap(deepcopy(model))
        found = asked(room, whole, text)
        trained = [raw for raw, p in whole.named_parameters() if p.requires_grad]
        wanted = {raw: expected[_plain(raw)] for raw in trained}
        for raw, numbers in wanted.items():  # what has no number takes the library's own
            given = zip(found[raw], numbers, strict=True)
            found[raw] = tuple(None if number is None else value for value, number in given)
        agree({raw: found[raw] for raw in trained}, wanted)
