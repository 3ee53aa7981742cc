"""The multipliers of every kind of parameter, from the rule to a step."""

import json
import warnings

import jsonschema
import pytest
import torch

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError, UnstableWarning
from deepnet_theory.definitions.scheme import scheme
from deepnet_theory.runtime import build, schema
from deepnet_theory.sizes.growth import growth

LAYER = "attention,ffn:swiglu"


@pytest.fixture(scope="module")
def constants():
    derivation = dt.derive(optimizer="adam", placement="pre-ln", layer=LAYER, closure="complete")
    return dt.export(derivation, depth=4, width=16, heads=2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"fc9": {}}, "'fc9'"),
        ({"gate": 3}, "JSON object"),
        ({"gate": {"rates": 1}}, "no 'rates'"),
        ({"gate": {"rate": -1}}, "'gate': rate"),
        ({"gate": {"epsilon": "x"}}, "'gate': epsilon"),
        ({"gate": {"formulas": {"rate": [1]}}}, "'gate': formulas"),
        ({"gate": {"gain": 3.0}}, "said twice"),
    ],
)
def test_a_damaged_table_is_refused(constants, change, told):
    data = json.loads(constants.to_json())
    jsonschema.validate(data, schema())
    data["parts"][0]["sublayers"][1]["parameters"].update(change)
    with pytest.raises(InputError, match=told):
        Constants.from_dict(data)


def test_completeps_epsilon_is_derived():
    """Dey et al., arXiv 2505.01618, Table 1: of every parameter of the blocks as 1/N."""
    published = scheme("completep").epsilon
    derived = dt.derive("adamw", placement="branch-multiplier", closure="complete").parameters
    assert {p.role.value for p in derived} & {*published}
    for p in derived:
        if p.role.value in published:
            assert p.epsilon.exponent("N") == growth(published[p.role.value], "N") == -1
            assert p.rate.exponent("N") == 0  # and no learning rate depends on the depth


def test_no_epsilon_overtakes_a_gradient():
    """What it is to the gradient is the same at every depth, kind by kind; unmultiplied, not."""
    found = {}
    for depth in (4, 32):
        constants = dt.export(
            dt.derive("adam", closure="complete"), depth=depth, width=16, heads=2, vocab=16
        )
        generator = torch.Generator().manual_seed(depth)
        model = build(constants, dtype=torch.float64, generator=generator)
        tokens = torch.randint(16, (4, 16), generator=torch.Generator().manual_seed(0))
        logits = model(tokens)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.roll(1).flatten()).backward()
        for group in parameter_groups(model, 1e-3):
            sizes = [p.grad.square().mean().item() for p in group["params"]]
            size = (sum(sizes) / len(sizes)) ** 0.5
            found.setdefault(group["name"], []).append((size, group["eps"]))
    blocks = [name for name in found if name.split("/")[0] == "encoder" and "key" not in name]
    assert {"encoder/scaled", "encoder/unscaled", "encoder/output-bias"} <= set(blocks)
    for name in blocks:
        (shallow, its), (deep, own) = found[name]
        assert 1 / 2 < (deep / own) / (shallow / its) < 2, name
        if "norm" not in name:
            assert deep / shallow < 1 / 4, name


def test_python_exports_the_complete_rule_and_warns_of_an_unstable_one():
    named = dt.derive("adam", closure="symmetric")
    with pytest.warns(UnstableWarning, match="take the closure complete"):
        unstable = dt.export(named, 4, width=16, heads=2)
    assert unstable.parts[0].sublayers[0].alpha == 8**0.5
    assert named.training.entries == dt.derive("adam", closure="complete").rule.entries
    assert dt.derive("lamb").trains  # its own rule is stable
    with pytest.warns(UnstableWarning, match="rho scales as"):
        build(unstable)
    with warnings.catch_warnings(action="error", category=UnstableWarning):
        for given in ("adam", dt.derive("adam")):
            found = dt.export(given, 4, width=16, heads=2)
            assert build(found).constants.parts[0].sublayers[0].alpha == 8.0
