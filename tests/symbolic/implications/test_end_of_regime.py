"""Adafactor's floor: the depth at which its degree changes."""

import math

import pytest

from deepnet_theory.sizes.table import crossings, table
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.rule.problem import solve_rule


def test_at_the_crossing_depth_the_xavier_matrix_has_the_floor_as_its_rms():
    selection = Selection(optimizer="adafactor")
    rule = solve_rule(selection)
    found = {c.matrix: c for c in crossings(table(selection))}
    assert set(found) == {"value", "output", "fc1", "fc2"}
    for name, (d, m) in {"value": (512, 2048), "fc1": (512, 2048), "fc2": (64, 256)}.items():
        depth = found[name].at(d, m)
        fans = 2 * d if name == "value" else d + m
        beta = rule.entries[0].at(N=depth)[1]
        assert beta * math.sqrt(2 / fans) == pytest.approx(1e-3)
    # a wide model meets the floor within the depths that people train
    assert found["fc1"].at(512, 2048) < 1000 < found["fc1"].at(64, 256)


def test_optimizers_without_such_a_regime_cross_nothing():
    assert not list(crossings(table(Selection(optimizer="lamb"))))
