"""Shares of ‖ΔF‖."""

from dataclasses import replace

import numpy as np
import pytest
from published_rules import SMALL, rule

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.judging import ratio_interval
from deepnet_theory.numeric.model_update import measure_model_update
from deepnet_theory.numeric.one_sublayer import measure_shares, predict_shares
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection


def test_shares_bound_the_whole_and_are_those_of_every_kind(adam):
    case = Case(adam, rule("adam"), {"N": 2}, replace(SMALL, draws=1))
    found = measure_shares(case)
    assert list(found) == list(predict_shares(case))
    for k, whole in enumerate(measure_model_update(case).values):
        sizes = [values[k] for values in found.values()]
        assert max(sizes) < whole < sum(sizes)
    # THEORY: queries and keys matter little for Adam's own rule
    assert max(found["encoder", "attention query"]) < min(found["encoder", "attention value"])


@pytest.mark.parametrize("name", ["query", "fc2", "gain"])
def test_a_share_is_what_a_small_step_of_its_parameters_moves(adam, name):
    case = Case(adam, rule("adam"), {"N": 3}, replace(SMALL, step="all"))
    shares = measure_shares(case)
    kinds = [key for key in shares if key[1].split()[-1] == name and "norm" not in key[1]]
    for part, kind in kinds:
        stepped = measure_model_update(
            case, chosen=lambda d, kind=kind: f"{d.kind} {d.name}" == kind
        )
        assert shares[part, kind] == pytest.approx(stepped.values, rel=5e-3)
    assert kinds
    # a softmax does not see what is added to all of its scores
    largest = max(max(values) for values in shares.values())
    assert max(shares["encoder", "attention key_bias"]) < 1e-6 * largest
    assert min(shares["encoder", "attention value_bias"]) > 1e-3 * largest


def test_shares_say_in_which_matrix_a_gain_is_wrong():
    """Under SGD fc1's gradient and its effect pass through fc2: a gain of 1.3 there squares."""
    beta = "(2*N)**(-1/4)"
    entry = RuleEntry("encoder", "*", "(2*N)**(1/4)", beta)
    faulty = replace(entry, gains=(("fc2", f"1.3*{beta}"),))
    lab = Settings(width=32, heads=2, tokens=16, seeds=8, data="gaussian:0")
    model, ruled = (
        Case(Selection(optimizer="sgd"), Rule("own", (e,)), {"N": 12}, lab) for e in (faulty, entry)
    )
    predicted = predict_shares(ruled)
    for case, expected in ((ruled, 1.0), (model, 1.3**2)):
        measured = measure_shares(case)
        ratios = {
            name: ratio_interval(np.array(values), np.array(predicted["encoder", name].values))
            for (_, name), values in measured.items()
        }
        assert ratios["ffn fc1"].estimate == pytest.approx(expected, rel=0.1)
        assert (ratios["ffn fc1"].low > 1.3) == (case is model)
        assert ratios["ffn fc2"].estimate == pytest.approx(1, rel=0.1)
