"""‖ΔF‖/η from single sublayers beside what real stacks do: every kind of stack."""

import math
from dataclasses import replace

import pytest
import torch
from published_rules import rule

from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.model_update import (
    measure_model_update,
)
from deepnet_theory.laboratory.one_sublayer import predict_depth
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.sizes.table import table, texts

LAB = Settings(width=32, heads=2, tokens=8, seeds=6, draws=2)
ALL = replace(LAB, step="all", data="gaussian:0.5")
PAIR = own_rule(("encoder", "decoder"), "N**(1/4)", "N**(-1/4)", "M**(1/4)", "M**(-1/4)")


def of_rule(optimizer, given=None, layers=12, settings=LAB, **select):
    """A derived rule to train with, or one that is given."""
    selection = Selection(optimizer, **select)
    if given is None:
        selection = replace(selection, closure="complete")
        given = texts(table(selection).rule)
    elif isinstance(given, tuple):
        given = own_rule(("encoder",), *given)
    return Case(selection, given, {"N": layers}, settings)


BLUNT = 0.2  # a standard error that shows nothing


def near(case, off=0.01, errors=3):
    """Predicted over measured is 1: the mean over seeds of the same data, within its error."""
    measured = measure_model_update(case, draws=case.settings.draws)
    predicted = predict_depth(case).shares["all"].values
    logs = torch.tensor(predicted).log() - torch.tensor(measured).log()
    error = float(logs.std() / math.sqrt(len(logs)))
    assert error < BLUNT and abs(math.exp(logs.mean()) - 1) < off + errors * error


FAST = {
    "adam": of_rule("adam", rule("adam")),
    "a pair": Case(Selection("sgd", stack="encoder-decoder"), PAIR, {"N": 10, "M": 8}, LAB),
    "parallel": of_rule(
        "adam", ("1", "(2*N)**(-1/2)"), placement="pre-ln", layer="attention+ffn:swiglu"
    ),
}
SLOW = {
    "sgd": of_rule("sgd", rule("sgd")),
    "lamb": of_rule("lamb", rule("lamb")),
    "lion": of_rule("lion", ("1", "(2*N)**-1"), 12, ALL, placement="pre-ln"),
    "muon": of_rule("muon", ("2*N", "1"), 12, ALL, placement="res-post-ln"),
    "swiglu": of_rule("adam", ("1", "(2*N)**(-1/2)"), 12, ALL, layer="attention,ffn:swiglu"),
}


def marked(fast, slow):
    return [*fast, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


@pytest.mark.parametrize("name", marked(FAST, SLOW))
def test_it_is_what_is_measured_of_a_real_stack(name):
    near((FAST | SLOW)[name])
