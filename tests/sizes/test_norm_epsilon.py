"""The epsilon of a norm on what falls with the depth: in rules, schemes, constants and models."""

import json

import jsonschema
import pytest
import torch

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.runtime import build, schema

FIXED = 1e-5


@pytest.fixture(scope="module")
def falling():
    return dt.derive("sgd", placement="res-post-ln", closure="complete")


def test_what_is_in_a_models_code_is_asked_for(falling):
    """An epsilon is read off no forward pass: an audit and apply_ say which one is wanted."""
    constants = dt.export(falling, 4, width=16, heads=2, vocab=32)
    ids = torch.randint(32, (1, 8), generator=torch.Generator().manual_seed(0))
    model = build(constants)
    found = dt.audit(model, ids, constants=constants)
    assert any("on the output, 0.0156 times 1e-05" in remark for remark in found.remarks)
    applied = str(apply_(model, constants, inputs=ids, initialise=True))
    assert "set the epsilon of norms on the output to 1.56e-07" in applied


def test_constants_hold_it_and_the_model_is_built_with_it(tmp_path, falling):
    held = json.loads(dt.export(falling, 100, width=32, heads=2).to_json())
    jsonschema.validate(held, schema())
    for sublayer in held["parts"][0]["sublayers"]:
        assert sublayer["norm_epsilon"] == {"output": pytest.approx(1 / 200**2)}
    path = tmp_path / "constants.json"
    path.write_text(json.dumps(held), encoding="utf-8")
    model = build(path, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1, 8, 32, generator=torch.Generator().manual_seed(1))
    for residual in list(model.residuals())[:2]:
        with torch.no_grad():
            put_out = (residual(x) - x) * residual.alpha
            assert residual.branch(x).var() < FIXED  # a fixed one would be the larger
        assert put_out.var().item() == pytest.approx(1, rel=0.01)
    held["parts"][0]["sublayers"][0]["norm_epsilon"] = {"input": 1.0}
    path.write_text(json.dumps(held), encoding="utf-8")
    with pytest.raises(dt.InputError, match="norm of 'res-post-ln' 'input'"):
        build(path)
