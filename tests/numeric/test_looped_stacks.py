"""Stacks of looped layers: measured, and predicted from single sublayers."""

from statistics import fmean

import pytest

import deepnet_theory as dt
from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import measure_model_update
from deepnet_theory.numeric.one_sublayer import distance_from_identity, predict_model_update
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.trace import take_trace
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection

SMALL = Settings(width=16, heads=2, tokens=8, seeds=8, device="cpu")


@pytest.mark.parametrize(
    ("optimizer", "where", "uses"),
    [
        ("sgd", "pre-ln", "N"),
        pytest.param("adam", "post-ln", "N/2", marks=pytest.mark.slow),
        pytest.param("sgd", "sandwich-ln", "4", marks=pytest.mark.slow),
    ],
)
def test_what_looped_layers_change_is_predicted_from_one_of_them(optimizer, where, uses):
    of = Selection(optimizer, placement=where, uses=uses, closure="complete")
    case = Case(of, texts(solve_rule(of)), {"N": 16}, SMALL)
    real = fmean(measure_model_update(case).values)
    assert predict_model_update(case).mean == pytest.approx(real, rel=0.15)
    alone = Case(Selection(optimizer, placement=where), case.rule, {"N": 16}, SMALL)
    if optimizer == "sgd":  # as many times more as a layer is used
        many = alone.constants.parts[0].layers if uses == "N" else 4
        own = fmean(measure_model_update(alone).values)
        assert real / own == pytest.approx(many, rel=0.4)


@pytest.mark.parametrize("power", ["N**(1/2)", "N"])
def test_branches_of_one_layer_need_1_over_n_to_stay_near_the_identity(power):
    """1/sqrt(N) bounds S·r² where layers are distinct, and not S·n·r² where all are one."""
    sizes, distances = {}, {}
    for uses in ("1", "N"):
        of = Selection("sgd", placement="branch-multiplier", uses=uses)
        rule = Rule("own", (RuleEntry("encoder", "*", power, "1"),))
        found, far = [], []
        for depth in (16, 64):
            constants = Case(of, rule, {"N": depth}, SMALL)
            trace = take_trace(Trial(constants))
            first, last = trace.sublayers[0].input_size, trace.sublayers[-1].input_size
            found.append(float((last / first).square().mean()) - 1)
            far.append(float(trace.over_sublayers("square").sum(0).mean()))
            short = fmean(distance_from_identity(constants).whole)
            assert short == pytest.approx(far[-1], rel=0.5)
        sizes[uses], distances[uses] = found[1] / found[0], far[1] / far[0]
    if power == "N":
        # S*n*r^2 is constant
        assert (sizes["N"], distances["N"]) == pytest.approx((1, 1), rel=0.4)
    else:
        # S*r^2 is constant
        assert (sizes["1"], distances["1"]) == pytest.approx((1, 1), rel=0.4)
        assert sizes["N"] > 2 < distances["N"]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["pre-ln", "post-ln"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_rule_of_looped_layers_is_supported(optimizer, where):
    rule = dt.derive(optimizer, placement=where, uses="N", closure="complete")
    found = dt.verify(rule, depths=[8, 16, 32, 64], seeds=32, width=32, tokens=16)
    assert found.verdict == "SUPPORTED", found
    assert abs(found.points[-1].mean / found.points[-1].predicted - 1) < 0.05
