"""Stacks of several streams: one real step, predicted from single sublayers of one stream."""

from dataclasses import replace
from statistics import fmean

import pytest

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import measure_model_update
from deepnet_theory.numeric.one_sublayer import predict_model_update
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts
from deepnet_theory.spec.scheme import Scheme, SchemePart, measurable, scheme
from deepnet_theory.spec.selection import Selection

SMALL = Settings(width=16, heads=2, tokens=8, seeds=4, draws=1, device="cpu")
WEAK = (SchemePart("encoder", gains={"output": "1/4", "fc2": "1/4"}),)
SKIP = replace(scheme("x0-skip"), equation="x + y + branch(norm(x)); y", parts=WEAK)


def of_rule(where, optimizer):
    of = Selection(optimizer, placement=where, closure="complete")
    return Case(of, texts(solve_rule(of)), {"N": 12}, SMALL)


def of_scheme(given, depth=12):
    selection, rule = measurable(given, "adam", None)
    return Case(selection, rule, {"N": depth}, SMALL, scheme=given)


CASES = {
    "residual-dual adam": of_rule("residual-dual", "adam"),
    "residual-dual sgd": of_rule("residual-dual", "sgd"),
    "hyper-connections adam": of_rule("hyper-connections", "adam"),
    "mhc": of_scheme(replace(scheme("mhc"), parts=WEAK)),
    "x0 skip": of_scheme(SKIP),
}


@pytest.mark.parametrize("name", CASES)
def test_one_step_moves_the_output_as_the_one_stream_says(name):
    real = fmean(measure_model_update(CASES[name]).values)
    assert predict_model_update(CASES[name]).mean == pytest.approx(real, rel=0.3)


def test_a_skip_from_the_embedding_holds_the_change_constant_and_none_lets_it_grow():
    plain = Scheme("plain", "x + branch(norm(x))", True, "adam", parts=WEAK, norm="rms")
    grown = {}
    for given in (SKIP, plain):
        shallow, deep = (
            fmean(measure_model_update(of_scheme(given, depth)).values) for depth in (8, 32)
        )
        grown[given.name] = deep / shallow
    assert grown["x0-skip"] == pytest.approx(1, abs=0.3) and grown["plain"] > 1.5
