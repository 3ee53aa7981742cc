"""Records and constants: exact round trips, and one clear error for anything damaged."""

import copy
import functools
import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.record import OPTIONAL, Within, read, require, written

positive = st.floats(min_value=1e-6, max_value=1e6)


def constants(alpha=2.0, beta=0.5, layers=3, multipliers=None):
    sublayers = tuple(SublayerConstants(kind, alpha, beta) for kind in ("attention", "ffn"))
    part = PartConstants("encoder", layers, False, sublayers, multipliers or {})
    return Constants("encoder", "post-ln", "layer", (part,), Architecture(width=16, heads=2))


@given(
    positive, positive, st.integers(1, 1000),
    st.dictionaries(st.sampled_from(["scaled", "norm-gain", "output-bias"]), st.floats(0, 10)),
)  # fmt: skip
def test_json_round_trip_is_exact(alpha, beta, layers, multipliers):
    made = constants(alpha, beta, layers, multipliers)
    assert Constants.from_json(made.to_json()) == made


GOOD = dt.export("adamw", 6, width=64, heads=4, base=(16, 2)).to_dict()
DEEP = functools.reduce(lambda inner, _: {"deeper": inner}, range(900), {})
HOSTILE = (
    [1], {"x": 1}, 10**400, 1e308, float("nan"), "\x1b]52;c;aGk=\x07", "\x9b31m", "a\nb", "\u202e",
    "\x00", "\ud800",
)  # fmt: skip
WRONG = {  # a place of a file, and what would be right elsewhere
    ("schema",): ("deepnet-theory/constants/2", "x" * 10_000),
    ("parts",): ([],),
    ("architecture",): (None,),
    ("stack",): ("decoder", "pile"),
    ("placement",): ("mid-ln", "pre-ln"),  # whose alpha is 1
    ("norm",): ("batch",),
    ("eta",): (0,),
    ("extra",): (1,),
    ("a\nb",): (1,),
    ("origin", "half a pair"): ("\ud800",),
    ("origin", "many digits"): (10**400,),
    ("origin", "a\nb"): (1,),
    ("origin", "levels"): (DEEP,),
    ("origin", "base", "width"): (-16, 0.5),
    ("origin", "base", "heads"): (0.5,),
    ("origin", "base", "alignment"): ("half",),
    ("origin", "base", "more"): (1,),
    ("architecture", "heads"): (3,),
    ("architecture", "width"): (2**40,),
    ("architecture", "activation"): ("tanh",),
    ("architecture", "ffn_ratio"): (0.001,),
    ("parts", 0, "layers"): (0, 2.5, True, "3"),
    ("parts", 0, "extra"): (1,),
    ("parts", 0, "name"): ("keys", "../../etc"),
    ("parts", 0, "multipliers"): ({"norm-gain": -1}, {"norm": 1}),
    ("parts", 0, "sublayers"): ([], [{"kind": "cross", "alpha": 1, "beta": 1}] * 2),
    ("parts", 0, "sublayers", 1, "alpha"): (-1, True),
    ("parts", 0, "sublayers", 1, "beta"): (0, 1e-308, None),
    ("parts", 0, "sublayers", 1, "kind"): ("moe",),
    ("parts", 0, "sublayers", 1, "parameters", "gate"): ({},),
    ("parts", 0, "sublayers", 1, "parameters", "fc1"): ({"rates": 1}, {"rate": -1}, {"gain": 3.0}),
}


def places(node, at=()):
    """The place of every value of plain data."""
    for key, below in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*at, key)
        if isinstance(below, dict | list):
            yield from places(below, (*at, key))


def refused(data):
    with pytest.raises(InputError) as caught:
        Constants.from_dict(data)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400


def test_no_place_of_a_file_takes_another_type_a_wrong_value_or_what_is_not_printed():
    tried = [at for at in places(GOOD) if at[0] != "origin" or at[1:2] == ("base",)]
    assert len(tried) > 100 and ("origin", "base", "width") in tried
    for (*outer, key), values in (*WRONG.items(), *((at, HOSTILE) for at in tried)):
        data = copy.deepcopy(GOOD)
        holder = functools.reduce(operator.getitem, outer, data)
        for holder[key] in values:
            if not (key == "depth" and holder[key] == {"x": 1}):  # a depth has any name
                refused(data)
    for data in ([], {}):
        refused(data)
    assert Constants.from_dict(GOOD).to_dict() == GOOD


def test_a_file_comes_back_and_a_damaged_large_binary_or_missing_one_is_refused(tmp_path):
    made, path = constants(), tmp_path / "constants.json"
    made.save(path)
    assert Constants.load(path) == made
    assert [p.name for p in tmp_path.iterdir()] == ["constants.json"]
    text = made.to_json()
    for damaged in (text[:200], text.replace("2.0", "Infinity", 1), "[" * 100_000, " " * 1_000_001):
        path.write_text(damaged, encoding="utf-8")
        with pytest.raises(InputError):
            Constants.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    for unread in (path, tmp_path / "missing.json", tmp_path):
        with pytest.raises(InputError):
            Constants.load(unread)


@dataclass(frozen=True)
class Leaf:
    name: str
    size: Annotated[float, Within(0, 2)] = 1.0
    count: int | None = None
    flag: bool = field(default=False, metadata=OPTIONAL)


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    sizes: dict[str, Leaf] = field(default_factory=dict, metadata=OPTIONAL)
    free: dict[str, Any] = field(default_factory=dict, metadata={"json": None})
    seed: int = field(default=0, metadata={"json": "in"})


@given(
    st.lists(st.builds(Leaf, st.text("ab", max_size=3), st.floats(0, 2),
                       st.none() | st.integers(), st.booleans())),
    st.integers(),
)  # fmt: skip
def test_what_is_written_is_read_again(leaves, seed):
    tree = Tree(tuple(leaves), {leaf.name: leaf for leaf in leaves}, seed=seed)
    require(tree, Tree, "a tree")
    data = json.loads(json.dumps(written(tree)))
    assert ("sizes" in data) is bool(leaves) and "free" not in data
    assert [o.get("flag", False) for o in data["leaves"]] == [leaf.flag for leaf in leaves]
    assert read(Tree, {"seed": data.pop("in"), **data}, "a tree") == tree
    assert written([float("inf"), 2.0, (float("nan"),)], finite=True) == [None, 2.0, [None]]


def leaf(**values):
    return {"leaves": [{"name": "x"}, {"name": "oak", **values}]}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], " must be a JSON object, not []"),
        ({}, " lacks 'leaves'"),
        ({"leaves": {}}, ": leaves must be a JSON list, not {}"),
        ({"leaves": [3]}, ": leaves must be a JSON object, not 3"),
        (leaf(sise=1), ": leaves has no 'sise'; valid are: name, "),
        ({"leaves": [], "sizes": []}, ": sizes must be a JSON object, not []"),
        ({"leaves": [], "sizes": {"k": None}}, ": sizes must be a JSON object, not None"),
        ({"leaves": [], "sizes": {"k": {"name": 5}}}, ": sizes: 'k': name must be text without"),
        (leaf(size=2.5), ": leaves: oak: size must be from 0 to 2, not 2.5"),
        (leaf(size=-1), ": leaves: oak: size must be from 0 to 2, not -1"),
        (leaf(size="1"), ": leaves: oak: size must be from 0 to 2, not '1'"),
        (leaf(size=True), ": leaves: oak: size must be from 0 to 2, not True"),
        (leaf(count=1.0), ": leaves: oak: count must be a whole number, not 1.0"),
        (leaf(flag=1), ": leaves: oak: flag must be a boolean, not 1"),
    ],
)
def test_plain_data_that_no_annotation_allows_is_named_with_its_place(data, sentence):
    with pytest.raises(InputError) as caught:
        require(read(Tree, data, "a tree"), Tree, "a tree")
    assert str(caught.value).startswith(f"a tree{sentence}")


@pytest.mark.parametrize("select", ["adam", {}, {"optimizer": 5}, {"colour": "red"}])
def test_a_selection_of_a_file_that_is_none_is_refused_where_it_is_read(select):
    pytest.importorskip("torch")
    c = Constants.from_dict({**GOOD, "origin": {"select": select}})
    model = dt.build(c)
    with pytest.raises(InputError):
        dt.parameter_groups(model, lr=1e-3, constants=c, optimizers={"*": "lion"})
