"""‖ΔF‖/η from single sublayers beside what real stacks do: every kind of stack."""

import math
from dataclasses import replace

import pytest
import torch
from published_rules import rule

from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.scheme import SchemePart, measurable, scheme
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.model_update import (
    change_along,
    directions_of,
    measure_model_update,
)
from deepnet_theory.laboratory.one_sublayer import predict_model_update
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.trace import take_trace
from deepnet_theory.laboratory.trial import Trial
from deepnet_theory.sizes.table import table, texts

LAB = Settings(width=32, heads=2, tokens=8, seeds=6, draws=2)
ALL = replace(LAB, step="all", data="gaussian:0.5")
TINY = Settings(width=16, heads=2, tokens=8, seeds=8, draws=2, device="cpu")
FOUR = replace(TINY, draws=4)
WEAK = (SchemePart("encoder", gains={"output": "1/4", "fc2": "1/4"}),)
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


def of_scheme(given, layers=12, settings=TINY):
    given = scheme(given) if isinstance(given, str) else given
    selection, rules = measurable(given, "adam", None)
    return Case(selection, rules, {"N": layers}, settings, scheme=given)


BLUNT = 0.2  # a standard error that shows nothing


def near(case, off=0.01, errors=3):
    """Predicted over measured is 1: the mean over seeds of the same data, within its error."""
    measured = measure_model_update(case, draws=case.settings.draws)
    logs = torch.tensor(predict_model_update(case).values).log() - torch.tensor(measured).log()
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


@pytest.mark.parametrize("power", ["N**(1/2)", "N"])
def test_branches_of_one_layer_need_1_over_n_to_stay_near_the_identity(power):
    """1/sqrt(N) bounds S·r² where layers are distinct, and not S·n·r² where all are one."""
    sizes, distances = {}, {}
    for uses in ("1", "N"):
        grown, far = [], []
        for layers in (16, 64):
            case = of_rule(
                "sgd", (power, "1"), layers, TINY, placement="branch-multiplier", uses=uses
            )
            trace = take_trace(Trial(case))
            first, last = trace.sublayers[0].input_size, trace.sublayers[-1].input_size
            grown.append(float((last / first).square().mean()) - 1)
            far.append(float(trace.over_sublayers("square").sum(0).mean()))
        sizes[uses], distances[uses] = grown[1] / grown[0], far[1] / far[0]
    constant = "N" if power == "N" else "1"  # S·n·r², or S·r²
    assert (sizes[constant], distances[constant]) == pytest.approx((1, 1), rel=0.4)
    if power != "N":
        assert sizes["N"] > 2 < distances["N"]


@pytest.mark.parametrize(
    ("placement", "optimizer", "closure", "seeds"),
    [
        ("layer-scale", "adam", "complete", 4),  # S
        ("layer-scale", "sgd", "complete", 4),  # 1/S
        ("layer-scale", "lamb", "unit-init", 4),  # 1
        ("stream-scalar", "adam", "complete", 12),  # √S: S numbers, beside what is added behind
    ],
)
def test_learnt_multipliers_move_the_output_by_their_share(placement, optimizer, closure, seeds):
    selection = Selection(optimizer=optimizer, placement=placement, closure=closure)
    sizes, rows = [], table(selection)
    (share,) = {row.share for row in rows.parameters if row.role is Role.RESIDUAL_GAIN}
    settings = Settings(
        width=32, heads=4, tokens=4, batch=1, dtype="float64", seeds=seeds, step="all"
    )
    for layers in (4, 32):
        trial = Trial(Case(selection, texts(rows.rule), {"N": layers}, settings))
        gains = directions_of(trial, lambda d: d.role is Role.RESIDUAL_GAIN)
        assert len(gains) == 2 * layers
        sizes.append(float(change_along(trial, gains).norm(dim=-1).square().mean().sqrt()))
    slope = math.log(sizes[1] / sizes[0]) / math.log(8)
    assert slope == pytest.approx(float(share.exponent("N")), abs=0.15)
