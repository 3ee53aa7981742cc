"""‖ΔF‖/η of one's own models, predicted from the laboratory's stack that is like them."""

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.runtime import build

TINY = {"width": 32, "heads": 2, "tokens": 8, "seeds": 2, "draws": 1, "device": "cpu"}
DEPTHS = [4, 8]


def built(depth, placement="pre-ln", times=1.0):
    """The model that the rule to train with makes of this depth, its branches some times larger."""
    c = dt.export(dt.Selection("adam", placement=placement), depth, width=64, heads=2, vocab=16)
    model = build(c, generator=torch.Generator().manual_seed(depth))
    with torch.no_grad():
        for layer in model.parts["encoder"].layers:
            layer[1].branch.fc2.weight.mul_(times)
    return model, torch.arange(16).view(1, 16)


def sizes(prediction):
    return [point.mean for point in prediction.points]


@pytest.mark.parametrize("placement", ["pre-ln", "post-ln"])
def test_it_is_the_prediction_of_its_rule(placement):
    """Read from drawn weights, whose gains scatter; at one learning rate, as no kappa is seen."""
    chosen = dt.Selection("adam", placement=placement)
    (entry,) = dt.derive(optimizer="adam", placement=placement, closure="complete").rule.entries
    rule = dt.own_rule(chosen, entry.alpha, entry.beta)
    model = dt.predict_model(lambda n: built(n, placement), DEPTHS, optimizer="adam", **TINY)
    expected = dt.predict_update(chosen, DEPTHS, rule=rule, **TINY)
    assert sizes(model) == pytest.approx(sizes(expected), rel=0.03)
    assert model.select["placement"] == placement and model.select["optimizer"] == "adam"
    assert [point.depth for point in model.points] == [{"N": 4}, {"N": 8}]
    larger = dt.predict_model(lambda n: built(n, placement, 2.0), DEPTHS, optimizer="adam", **TINY)
    assert sizes(larger) != pytest.approx(sizes(expected), rel=0.1)


def test_an_update_of_ones_own_steps_it():
    given = {"depths": [4], "update": "-eta*sign(g)", **TINY}
    by_name = dt.predict_model(built, [4], optimizer="signsgd", **TINY)
    assert sizes(dt.predict_model(built, **given)) == pytest.approx(sizes(by_name), rel=1e-6)


def test_layers_that_differ_have_no_stack_like_them():
    def make(depth):
        model, ids = built(depth)
        with torch.no_grad():
            model.parts["encoder"].layers[0][1].branch.fc1.weight.mul_(2)
        return model, ids

    with pytest.raises(Refusal, match="layers differ in fc1"):
        dt.predict_model(make, [4], optimizer="adam", **TINY)
