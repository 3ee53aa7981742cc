"""Records and constants: exact round trips, and one clear error for anything damaged."""

import functools
import json
from dataclasses import dataclass, field, replace
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


def constants(alpha=2.0, beta=0.5, layers=3, **architecture):
    sublayers = tuple(SublayerConstants(kind, alpha, beta) for kind in ("attention", "ffn"))
    part = PartConstants("encoder", layers, False, sublayers, {"norm-gain": 0.25})
    return Constants(
        "encoder", "post-ln", "layer", (part,), Architecture(width=16, heads=2, **architecture)
    )


@given(
    positive, positive, st.integers(1, 1000),
    st.dictionaries(st.sampled_from(["scaled", "norm-gain", "output-bias"]), st.floats(0, 10)),
)  # fmt: skip
def test_json_round_trip_is_exact(alpha, beta, layers, multipliers):
    made = constants(alpha, beta, layers)
    made = replace(made, parts=(replace(made.parts[0], multipliers=multipliers),))
    assert Constants.from_json(made.to_json()) == made


GOOD = constants().to_dict()
OVER_A_BASE = dt.export("adamw", 6, width=64, heads=4, base=(16, 2)).to_dict()
DEEP = functools.reduce(lambda inner, _: {"deeper": inner}, range(900), {})


def _with(data=GOOD, **changes):
    return {**data, **changes}


def _part(**changes):
    return _with(parts=[_with(GOOD["parts"][0], **changes)])


def _based(**changes):
    return _with(OVER_A_BASE, origin={"base": _with(OVER_A_BASE["origin"]["base"], **changes)})


def _table(**changes):
    data = json.loads(json.dumps(OVER_A_BASE))
    data["parts"][0]["sublayers"][1]["parameters"].update(changes)
    return data


def places(node, at=()):
    """Every container of plain data with one of its keys; the words of an origin are free."""
    for key, below in node.items() if isinstance(node, dict) else enumerate(node):
        if "origin" not in (*at, key) or "base" in (*at, key):
            yield node, key
        if isinstance(below, dict | list):
            yield from places(below, (*at, key))


def refused(data):
    with pytest.raises(InputError) as caught:
        Constants.from_dict(data)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400


HOSTILE = (
    [1], {"x": 1}, 10**400, 1e308, float("nan"), "\x1b]52;c;aGk=\x07", "\x9b31m", "a\nb", "\u202e",
    "\x00", "\ud800",
)  # fmt: skip


def test_no_place_of_a_file_takes_another_type_a_number_beyond_all_or_what_is_not_printed():
    changed = json.loads(json.dumps(OVER_A_BASE))
    tried = [*places(changed)]
    assert len(tried) > 100
    for holder, key in tried:
        right = holder[key]
        for value in HOSTILE:
            if (key, value) != ("depth", {"x": 1}):  # a depth by its name
                holder[key] = value
                refused(changed)
        holder[key] = right


@pytest.mark.parametrize(
    "data",
    [
        [], {}, *(_with(**{key: value}) for key, value in (
            ("schema", "deepnet-theory/constants/2"), ("schema", "x" * 10_000), ("parts", []),
            ("architecture", None), ("stack", "decoder"), ("stack", "pile"),
            ("placement", "mid-ln"), ("norm", "batch"), ("placement", "pre-ln"),  # whose alpha is 1
            ("origin", {"half a pair": "\ud800"}), ("origin", {"many digits": 10**400}),
            ("origin", {"a\nb": 1}), ("origin", DEEP), ("eta", 0), ("extra", 1), ("a\nb", 1))),
        *(_part(**{key: value}) for key, value in (
            ("layers", 0), ("layers", 2.5), ("layers", True), ("layers", "3"), ("extra", 1),
            ("name", "keys"), ("name", "../../etc"), ("multipliers", {"norm-gain": -1}),
            ("multipliers", {"norm": 1}), ("sublayers", []),
            ("sublayers", [{"kind": "cross", "alpha": 1, "beta": 1}] * 2))),
        *(_part(sublayers=[{"kind": "ffn", "alpha": 1, "beta": 1, **change}])
          for change in ({"alpha": -1}, {"beta": 0}, {"beta": 1e-308}, {"alpha": True},
                         {"beta": None}, {"kind": "moe"})),
        *(_with(architecture={"width": 16, "heads": 2, **change}) for change in (
            {"heads": 3}, {"width": 2**40}, {"activation": "tanh"}, {"ffn_ratio": 0.01})),
        *(_based(**change) for change in (
            {"width": -16}, {"width": 0.5}, {"heads": 0.5}, {"alignment": "half"}, {"more": 1})),
        *(_table(**change) for change in (
            {"gate": {}}, {"fc1": {"rates": 1}}, {"fc1": {"rate": -1}}, {"fc1": {"gain": 3.0}})),
    ],
)  # fmt: skip
def test_bad_data_is_refused_with_one_sentence(data):
    refused(data)


def test_a_file_comes_back_and_a_damaged_large_binary_or_missing_one_is_refused(tmp_path):
    made, path = constants(), tmp_path / "constants.json"
    made.save(path)
    assert Constants.load(path) == made == Constants.from_dict(GOOD)
    assert [p.name for p in tmp_path.iterdir()] == ["constants.json"]
    text = made.to_json()
    for damaged in (*(text[:cut] for cut in (0, 1, 50, 200)), text.replace("2.0", "Infinity", 1),
                    "[" * 100_000, " " * 1_000_001):  # fmt: skip
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


@pytest.mark.parametrize(
    ("leaf", "sentence"),
    [
        ({"size": 2.5}, "size must be from 0 to 2, not 2.5"),
        ({"size": -1}, "size must be from 0 to 2, not -1"),
        ({"size": "1"}, "size must be from 0 to 2, not '1'"),
        ({"size": True}, "size must be from 0 to 2, not True"),
        ({"count": 1.0}, "count must be a whole number, not 1.0"),
        ({"flag": 1}, "flag must be a boolean, not 1"),
        ({"name": 5}, "name must be text without control characters, not 5"),
    ],
)
def test_a_value_that_its_annotation_does_not_allow_is_named_with_its_place(leaf, sentence):
    own = Leaf(**{"name": "oak", **leaf})
    label = "oak: " * ("name" not in leaf)
    for tree in (Tree((Leaf("x"), own)), Tree((), {"k": own})):
        with pytest.raises(InputError) as caught:
            require(tree, Tree, "a tree")
        place = f"leaves: {label}" if tree.leaves else "sizes: 'k': "
        assert str(caught.value).replace("5: name", "name") == f"a tree: {place}{sentence}"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "a tree must be a JSON object, not []"),
        ({}, "a tree lacks 'leaves'"),
        ({"leaves": {}}, "a tree: leaves must be a JSON list, not {}"),
        ({"leaves": [3]}, "a tree: leaves must be a JSON object, not 3"),
        ({"leaves": [{"name": "x", "sise": 1}]}, "a tree: leaves has no 'sise'; valid are: name, "),
        ({"leaves": [], "sizes": []}, "a tree: sizes must be a JSON object, not []"),
        ({"leaves": [], "sizes": {"k": None}}, "a tree: sizes must be a JSON object, not None"),
    ],
)
def test_plain_data_of_another_shape_is_named_with_its_place(data, sentence):
    with pytest.raises(InputError) as caught:
        read(Tree, data, "a tree")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("select", ["adam", {}, {"optimizer": 5}, {"colour": "red"}])
def test_a_selection_of_a_file_that_is_none_is_refused_where_it_is_read(select):
    pytest.importorskip("torch")
    c = Constants.from_dict({**OVER_A_BASE, "origin": {"select": select}})
    model = dt.build(c)
    with pytest.raises(InputError):
        dt.parameter_groups(model, lr=1e-3, constants=c, optimizers={"*": "lion"})
