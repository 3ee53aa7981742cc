"""Constants files: round trips, damage, hostility."""

import json
from dataclasses import asdict, replace

import jsonschema
import pytest
import torch

from deepnet_theory.definitions.constants import (
    OF_A_BASE,
    OUTER,
    Architecture,
    Constants,
    ParameterConstants,
)
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.runtime import build, load_constants, schema

WRONG = {
    "device": ("nowhere", 5.0, "xpu:9"),
    "dtype": (torch.int64, torch.bool, torch.complex64, "float32", 32),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_device_or_type_that_is_none_is_one_sentence(constants, what):
    for wrong in WRONG[what]:
        with pytest.raises(InputError, match=f"unknown {what} .*valid are: "):
            build(constants(), **{what: wrong})


def test_the_schema_says_what_the_reader_reads(constants):
    shipped = schema()
    jsonschema.Draft202012Validator.check_schema(shipped)
    validator = jsonschema.Draft202012Validator(shipped)
    for stack in ("encoder", "decoder", "encoder-decoder"):
        validator.validate(json.loads(constants(stack).to_json()))
    body, part = shipped["properties"], shipped["properties"]["parts"]["items"]["properties"]
    assert body.keys() == constants().to_dict().keys() | OF_A_BASE.keys()
    outer = {name: ParameterConstants(2.0, 0.5) for name in OUTER}
    based = replace(constants(), head_multiplier=0.25, scores=0.5, outer=outer)
    assert Constants.from_json(based.to_json()) == based
    validator.validate(json.loads(based.to_json()))
    assert set(body["outer"]["propertyNames"]["enum"]) == set(OUTER)
    assert part.keys() == asdict(constants().parts[0]).keys()
    assert body["architecture"]["properties"].keys() == asdict(Architecture()).keys()
    # planted errors that the schema alone must catch
    data = json.loads(constants().to_json())
    for wrong in ({**data, "schema": "x"}, {**data, "parts": []}, {**data, "eta": 0}):
        assert not validator.is_valid(wrong)
    data["parts"][0]["sublayers"][0]["alpha"] = -1
    assert not validator.is_valid(data)


def test_a_file_stands_for_its_constants(constants, tmp_path):
    c = constants("encoder-decoder", multipliers={"norm-gain": 0.5})
    c.save(tmp_path / "c.json")
    assert load_constants(tmp_path / "c.json") == c
    for name in (tmp_path / "c.json", str(tmp_path / "c.json")):
        assert build(name).constants == c
    older = c.to_dict()
    older["architecture"] |= {"residual_gain": None}
    assert Constants.from_dict(older) == c
    older["architecture"] |= {"residual_gain": 0.5}
    with pytest.raises(InputError, match="architecture has no 'residual_gain'"):
        Constants.from_dict(older)
