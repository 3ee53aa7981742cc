"""Constants files and model files: round trips, damage, hostility, missing extras."""

import json
import os
import pickle
import sys
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
from deepnet_theory.runtime import build, load, load_constants, save, schema


@pytest.mark.parametrize("stack", ["encoder", "decoder", "encoder-decoder"])
def test_a_model_comes_back(constants, stack, tmp_path):
    c = constants(
        stack, tied_head=stack == "decoder", norm="rms" if stack == "encoder" else "layer"
    )
    for options in ({}, {"seeds": 2}, {"trainable_vectors": False}, {"dtype": torch.float64}):
        model = build(c, **options)
        save(model, tmp_path / "m.safetensors")
        again = load(tmp_path / "m.safetensors")
        assert again.constants == c
        tokens = torch.randint(50, (2, 5)).expand(*([2] if "seeds" in options else []), 2, 5)
        memory = tokens if stack == "encoder-decoder" else None
        assert torch.equal(model(tokens, memory), again(tokens, memory))
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


NO_WEIGHTS = (torch.int64, torch.bool, torch.complex64)


NO_PLACES = [{"device": d} for d in ("nowhere", 5.0, "xpu:9")]
NO_TYPES = [{"dtype": t} for t in (*NO_WEIGHTS, "float32", 32)]


@pytest.mark.parametrize("wanted", NO_PLACES + NO_TYPES)
def test_a_device_or_type_that_is_none_is_one_sentence(constants, wanted, tmp_path):
    save(build(constants()), tmp_path / "m")
    (what,) = wanted
    for attempt in (lambda: build(constants(), **wanted), lambda: load(tmp_path / "m", **wanted)):
        with pytest.raises(InputError, match=f"unknown {what} .*valid are: "):
            attempt()


def test_a_damaged_or_foreign_model_file_is_one_sentence(constants, tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "m.safetensors"
    model = build(constants())
    save(model, path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[:-7], b"\xff" * 64, pickle.dumps(print)):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"m\.safetensors"):
            load(path)
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "absent")
    tensors = {n: p.detach() for n, p in model.named_parameters()}
    metadata = {"constants": model.constants.to_json()}
    huge = constants(layers=10**6).to_json()
    hostile = [
        (tensors, {}),
        (tensors, {"constants": "{}"}),
        (tensors, {"constants": huge}),
        (tensors, {**metadata, "seeds": "-1"}),
        (tensors, {**metadata, "seeds": "2"}),
        ({**tensors, "more": torch.zeros(1)}, metadata),
        ({k: v for k, v in tensors.items() if k != "head.weight"}, metadata),
        ({**tensors, "head.weight": torch.zeros(3, 3)}, metadata),
        ({}, metadata),
        (tensors, {**metadata, "seeds": "9" * 5000}),
        *(({**tensors, "head.weight": tensors["head.weight"].to(t)}, metadata) for t in NO_WEIGHTS),
    ]
    for contents, told in hostile:
        save_file(contents, path, told)
        with pytest.raises(InputError):
            load(path)


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


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_a_file_stands_for_its_constants(constants, tmp_path):
    c = constants("encoder-decoder", multipliers={"norm-gain": 0.5})
    c.save(tmp_path / "c.json")
    assert load_constants(tmp_path / "c.json") == c
    for name in (tmp_path / "c.json", str(tmp_path / "c.json")):
        assert build(name).constants == c
    with pytest.raises(InputError, match="cannot read"):
        build(tmp_path / "nowhere.json")
    for wrong in (c.to_dict(), 3, None):
        with pytest.raises(InputError, match="is no constants: give"):
            build(wrong)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * 2_000_000)
    os.mkfifo(tmp_path / "pipe")  # which is not waited for
    for name in ("binary", "large", "pipe", "."):
        for read in (load, load_constants):
            with pytest.raises(InputError) as caught:
                read(tmp_path / name)
            assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
