"""‖ΔF‖/η from single sublayers beside what real stacks do: every kind of stack."""

import math
from dataclasses import replace

import pytest
import torch
from published_rules import SU

from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.model_update import measure_model_update
from deepnet_theory.laboratory.one_sublayer import predict_depth
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.trial import Case

LAB = Settings(width=32, heads=2, tokens=8, seeds=6, draws=2)
ALL = replace(LAB, step="all", data="gaussian:0.5")
PAIR = own_rule(("encoder", "decoder"), "N**(1/4)", "N**(-1/4)", "M**(1/4)", "M**(-1/4)")
LAMB, BLUNT = SU["lamb"], 0.2  # a standard error that shows nothing


def stack(optimizer, knobs, settings=LAB, **select):
    return Case(Selection(optimizer, **select), own_rule(("encoder",), *knobs), {"N": 12}, settings)


FAST = {
    "adam": stack("adam", SU["adam"]),
    "a pair": Case(Selection("sgd", stack="encoder-decoder"), PAIR, {"N": 10, "M": 8}, LAB),
    "parallel": stack("adam", LAMB, placement="pre-ln", layer="attention+ffn:swiglu"),
}
SLOW = {
    "sgd": stack("sgd", SU["sgd"]),
    "lamb": stack("lamb", LAMB),
    "lion": stack("lion", ("1", "(2*N)**-1"), ALL, placement="pre-ln"),
    "muon": stack("muon", ("2*N", "1"), ALL, placement="res-post-ln"),
    "swiglu": stack("adam", LAMB, ALL, layer="attention,ffn:swiglu"),
}


@pytest.mark.parametrize(
    "name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_it_is_what_is_measured_of_a_real_stack(name):
    """Predicted over measured is 1: the mean over seeds of the same data, within its error."""
    case = (FAST | SLOW)[name]
    measured = measure_model_update(case, draws=case.settings.draws)
    predicted = predict_depth(case)["all"].values
    logs = torch.tensor(predicted).log() - torch.tensor(measured).log()
    error = float(logs.std() / math.sqrt(len(logs)))
    assert error < BLUNT and abs(math.exp(logs.mean()) - 1) < 0.01 + 3 * error
