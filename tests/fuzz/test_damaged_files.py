"""Damaged and hostile files: what is read ends in a model or in one sentence."""

import copy
import json
from functools import cache

import pytest
from hypothesis import given

from deepnet_theory.cli import deriving
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.selection import Selection

pytest.importorskip("torch")
from deepnet_theory.runtime import Model, build, load_constants

from .hostile import RANDOM, ended, tried
from .texts import spoiled

ORDINARY = 150
DEEP = []
for _ in range(500):
    DEEP = [DEEP]
VALUES = (
    0, -1, 1, 2, 3, 2**63, 10**400, -(10**400), 0.5, -0.0, 1e308, 1e-308, 1e38, 1e-46, True, False,
    None, "", "x", "8", "relu", "cross", "encoder", "pre-ln", "keys", "a.b", "\ud800", "é" * 5000,
    "a\nb", [], {}, [[]], [None], {"": {}}, DEEP,
)  # fmt: skip


@cache
def good():
    """Constants of every stack, as plain data, of small models."""
    found = []
    for stack, depth in (("encoder", 2), ("decoder", 2), ("encoder-decoder", "1,2")):
        derivation = deriving.derive(Selection(optimizer="lamb", stack=stack))
        constants = deriving.export(derivation, depth, width=8, heads=2, vocab=16)
        found.append(json.loads(constants.to_json()))
    return found


def holders(node):
    """Every container of a tree with one of its keys."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from holders(node[key])


def with_other_data(data, draw):
    """The text of the data with one of its values changed or left out."""
    changed = copy.deepcopy(data)
    node, key = draw.choice(list(holders(changed)))
    node[key] = draw.choice(VALUES)
    if isinstance(node, dict) and draw.random() < 0.2:
        del node[key]
    return json.dumps(changed)


@tried(ORDINARY)
@given(draw=RANDOM)
def test_no_constants_file_breaks_the_builder(tmp_path, draw):
    path, data = tmp_path / "constants.json", draw.choice(good())
    if draw.random() < 0.7:
        content = with_other_data(data, draw).encode()
    else:
        content = bytes(spoiled(draw, json.dumps(data).encode(), range(256)))
    path.write_bytes(content)
    assert isinstance(ended(lambda: build(load_constants(path))), Model | InputError)
