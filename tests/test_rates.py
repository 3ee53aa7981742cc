"""κ, the learning-rate multiplier of the scaled matrices, from the rule to a step."""

import pytest

import deepnet_theory as dt
from deepnet_theory.runtime import build, parameter_groups
from deepnet_theory.spec.constants import Constants

LAYER = "attention,ffn:swiglu"


@pytest.fixture(scope="module")
def constants():
    derivation = dt.derive(optimizer="adam", placement="pre-ln", layer=LAYER, closure="complete")
    return dt.export(derivation, depth=4, width=16, heads=2)


def test_each_kind_steps_at_its_own_rate(constants):
    model = build(constants)
    rates = {g["name"]: g["lr"] for g in parameter_groups(model, lr=1.0)}
    assert rates["encoder/scaled/attention"] == pytest.approx(8 ** (-1 / 2))
    assert rates["encoder/scaled/ffn-swiglu"] == pytest.approx(8 ** (-1 / 3))
    assert rates["encoder/unscaled"] == 1.0
    together = sum(p.numel() for g in parameter_groups(model, lr=1.0) for p in g["params"])
    assert together == sum(p.numel() for p in model.parameters())


def test_the_file_keeps_it(constants):
    again = Constants.from_json(constants.to_json())
    assert again == constants
    assert [s.rate for s in again.parts[0].sublayers] == [8 ** (-1 / 2), 8 ** (-1 / 3)]
    assert [row["rate"] for row in constants.origin["formulas"]] == [
        "(2*N)**(-1/2)",
        "(2*N)**(-1/3)",
    ]


def test_the_laboratory_steps_with_it():
    pre = dt.derive(optimizer="adam", placement="pre-ln", closure="complete")
    sizes = {}
    for rule in (pre.rule, dt.own_rule(pre, "1", "(2*N)**(-1/2)")):
        found = dt.verify(pre, [2, 8], rule=rule, width=16, heads=2, tokens=8, seeds=2)
        sizes[rule.name] = [point.mean for point in found.points]
    whole, plain = sizes["adam"], sizes["own"]
    # query and key move as much either way, so that the ratio lies between 1 and κ
    assert plain[0] / whole[0] == pytest.approx(2, rel=0.2)
    assert plain[1] / whole[1] == pytest.approx(4, rel=0.3)


def test_an_unstable_rule_is_exported_with_a_warning(capsys):
    from deepnet_theory.cli import main

    words = ["export", "--optimizer", "adam", "--depth", "4"]
    assert main(words) == 0
    assert "warning: Unstable in depth" in capsys.readouterr().err
    assert main([*words, "--closure", "complete"]) == 0
    assert "warning" not in capsys.readouterr().err
