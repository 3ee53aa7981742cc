"""Does the learning rate transfer over widths? Curves by rule, exponents in d and in N."""

import json

import numpy as np
import pytest

import deepnet_theory as dt
from deepnet_theory.cli.experiments import RULES, _candidates
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.training import Course

SMALL = {"heads": 2, "tokens": 8, "batch": 2, "seeds": 2, "steps": 1, "device": "cpu"}
RATES = [2.0**-k for k in range(8, 2, -1)]


def test_every_width_and_depth_has_a_curve_in_the_json():
    t = dt.transfer("adam", [1, 2], RATES[:3], widths=[8, 16, 32], **SMALL)
    found = json.loads(t.to_json())
    assert [c["closure"] for c in found["closures"]] == list(RULES)
    rule = found["closures"][0]
    assert [c["depth"] for c in rule["curves"][:4]] == [
        {"N": 1, "d": 8}, {"N": 1, "d": 16}, {"N": 1, "d": 32}, {"N": 2, "d": 8},
    ]  # fmt: skip
    assert [e["in"] for e in rule["exponents"]] == ["d", "N"]
    assert rule["exponent"] == rule["exponents"][0]
    assert found["measure"]["width"] == [8, 16, 32]


def head_and_rate(name, width):
    """The head's effective size over Xavier's, its rate's, and fc1's, over those at width 32."""
    selection = Selection(optimizer="adam", placement="pre-ln")
    course = Course(selection.the_optimizer, Settings(width=32, device="cpu"), 1)
    one = _candidates(selection, name, [{"N": 2, "d": width}], 32, course)[name]
    (c,) = one.constants.values()
    head = c.parameter("encoder", None, "head", Role.HEAD)
    fc1 = c.parts[0].sublayers[1].parameters["fc1"]
    return c.head_multiplier * head.gain, c.head_multiplier * head.rate, fc1.rate


def test_all_parametrisations_agree_at_the_base_and_part_from_there():
    base = {name: head_and_rate(name, 32) for name in RULES}
    assert base["rule"] == base["sp"]
    wide = {name: head_and_rate(name, 128) for name in RULES}
    ratios = {name: np.divide(wide[name], base[name]).tolist() for name in RULES}
    assert ratios["sp"] == pytest.approx([1, 1, 1])
    # Xavier's head: sqrt(2/(d + 256)) is 1/sqrt(384/288) of itself; the rule's is 1/4
    assert ratios["rule"] == pytest.approx([np.sqrt(384 / 288) / 4, 1 / 4, 1 / 4])
