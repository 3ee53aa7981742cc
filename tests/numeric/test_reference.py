"""Tests of the expressions against the optimizers that people run."""

from dataclasses import replace

import pytest

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.reference import compare_with_real_step
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection

SETTINGS = Settings(width=16, heads=2, tokens=8, dtype="float64", device="cpu")
RULE = own_rule(("encoder",), "1", "(2*N)**(-1/2)")
ETA = 2.0**-14
EPSILON_MATTERS = {"lamb", "adafactor"}  # libraries' defaults: 1e-6, and 1e-3 of the parameter


def compared(selection, settings=SETTINGS):
    pytest.importorskip("pytorch_optimizer")
    return compare_with_real_step(Case(selection, RULE, {"N": 4}, settings), ETA)


@pytest.mark.parametrize(
    "name", [n for n, o in optimizers().items() if o.reference and n not in EPSILON_MATTERS]
)
def test_the_expression_is_the_first_step_of_the_real_optimizer(name):
    row = compared(Selection(optimizer=name))
    assert "skipped" not in row, row
    assert row["deviation"] < 5e-3, row


def test_another_expression_is_told_apart_from_the_real_optimizer(monkeypatch):
    # planted: SGD's update under Adam's name
    monkeypatch.setattr(Selection, "the_optimizer", replace(optimizers()["adam"], update="-eta*g"))
    row = compared(Selection(optimizer="adam"))
    assert row["optimizer"] == "torch.optim:Adam"
    assert row["difference"] > 0.5


def test_lamb_differs_from_the_library_by_its_epsilon_alone(monkeypatch):
    # wide enough that no gradient is rounding alone, of which a sign makes a whole step
    wide = replace(SETTINGS, width=64, heads=4, tokens=32)
    lamb = optimizers()["lamb"]
    found = []
    for epsilon in (1e-6, 1e-8, 1e-12):
        options = (*lamb.reference.options, ("eps", epsilon))
        monkeypatch.setattr(
            Selection,
            "the_optimizer",
            replace(lamb, reference=replace(lamb.reference, options=options)),
        )
        found.append(compared(Selection(optimizer="lamb"), wide)["deviation"])
    assert found == sorted(found, reverse=True)
    assert found[0] > 100 * found[2]
    assert found[2] < 1e-4
