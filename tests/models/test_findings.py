"""Differences in words: each kind of them once, with every number and the line that fixes it."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from approved import approve

from deepnet_theory.definitions.reading import FoundMatrix, FoundSublayer, Line, Reading
from deepnet_theory.definitions.subject import Difference, Wanted, WantedSublayer
from deepnet_theory.models.effect import SLIGHT
from deepnet_theory.models.findings import findings, in_layers

LAYERS = 12
NORMED = WantedSublayer(frozenset({"sum"}), 2.0, {})
FC1 = FoundMatrix("w", "fc1", 0, ((0, 8),), 8, 8, entries=0.25)  # Xavier's deviation is 0.354
PART = replace(FC1, whole=False, outputs=((2, 4), (6, 8)))
LARGER = replace(FC1, entries=0.3)
FFN = FoundSublayer("decoder", 0, "ffn", 1, 3.0, 1.0, (), (replace(FC1, times=3.0),))
INSIDE = replace(NORMED, norms=frozenset({"inside"}))


def found(differences, wanted=NORMED, sublayer=FFN, slight=False):
    """What is said of (layer, item, ratio, found, wanted, matrix) in the layers of a stack."""
    rows = tuple(replace(sublayer, layer=i, sums=i) for i in range(LAYERS))
    rule = Wanted("adam", "", "post-ln", (wanted,) * LAYERS)
    times = 1.0 if slight else 1.01
    effects = SimpleNamespace(
        of=lambda *_: SimpleNamespace(low=1 - SLIGHT, high=1 + times * SLIGHT)
    )
    asked = [Difference(*d) for d in differences]
    return findings(Reading(rows, (), {}), rule, asked, effects)


def every(layers, item, ratio, wanted=2.0, matrix=None):
    return [(i, item, ratio, ratio * wanted, wanted, matrix) for i in layers]


SAID = {
    "alpha of all layers": (every(range(LAYERS), "alpha", 1.5), {}),
    "alpha in a known line": (
        every([3], "alpha", 0.25),
        {"sublayer": replace(FFN, line=Line("/of/net.py", 7, "Block"))},
    ),
    "alphas": (every([0, 1], "alpha", 0.25) + every([2], "alpha", 2.0), {}),
    "alpha 1": (every([0, 2], "alpha", 3.0, 1.0), {"wanted": replace(NORMED, alpha=1.0)}),
    "no branch": ([(5, "alpha", math.inf, math.inf, 2.0)], {}),
    "norms": (every([0, 1], "norms", 1.0), {}),
    "norms and one inside": (every([0], "norms", 1.0), {"wanted": INSIDE}),
    "what it reads": (every([4], "reads", 3.0, 1.0), {}),
    "a rate": (every([0, 1], "rate of fc1", 9.0, 1 / 3), {}),
    "a gain": (every([1, 2, 3, 7], "fc1", 0.5, 0.5, FC1), {}),
    "gains": (every([1], "fc1", 0.5, 0.5, FC1) + every([2], "fc1", 0.55, 0.5, LARGER), {}),
    "one gain, to its error": (
        every([1], "fc1", 0.5, 0.5, replace(FC1, spread=0.02))
        + every([2], "fc1", 0.55, 0.5, replace(LARGER, spread=0.02)),
        {},
    ),
    "a part that is used often": (every([0], "fc1", 4.0, 0.5, replace(PART, times=3.0)), {}),
    "a part of columns": (every([0], "fc1", 4.0, 0.5, replace(PART, axis=1)), {}),
    "zeros": (every([0, 1], "fc1", 0.0, 0.5, replace(FC1, entries=0.0)), {}),
    "multiplied by zero": (every([0, 1], "fc1", 0.0, 0.5, replace(FC1, times=0.0)), {}),
    "no gain is expected": ([(0, "fc1", math.inf, 0.5, 0.0, FC1)], {}),
}


def test_a_difference_is_said_with_its_place_its_numbers_and_its_line():
    told = []
    for name, (differences, more) in SAID.items():
        (one,), ratio = found(differences, **more)
        told.append(f"{name}\n  {one.where}\n  {one.what}\n  {one.size:.6g}\n  {one.mend}\n")
        assert ratio is not None and one.line == more.get("sublayer", FFN).line
    approve(Path(__file__).parent / "approved" / "findings.txt", "\n".join(told))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_line_changes_every_block(axis):
    (one,), _ = found(every([0], "fc1", 4.0, 0.5, replace(PART, axis=axis)))
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.ones(8, 8))
    exec(one.mend, {"model": model})
    changed = model.w.index_select(axis, torch.tensor([2, 3, 6, 7]))
    assert torch.equal(changed, torch.full_like(changed, 0.25)) and model.w.sum() == 40


def test_differences_of_one_size_are_one_finding_and_the_worst_is_first():
    near = every([0], "fc1", 2.0, 0.5, FC1) + every([1], "fc1", 2.49, 0.5, FC1)
    far = every([2], "fc1", 2.51, 0.5, FC1) + every([3], "fc2", 0.1, 0.5, FC1)
    said, _ = found(near + far)
    assert [f.where.split(", ")[1] for f in said] == ["layer 3", "layer 2", "layers 0"]
    assert [f.size for f in said] == pytest.approx([10.0, 2.51, 2.49])


@pytest.mark.parametrize("slight", [True, False])
def test_a_matrix_that_no_rule_scales_is_a_remark_where_it_changes_nothing(slight):
    attention = replace(FFN, kind="attention")
    query = every([0], "query", 9.0, 0.5, FC1)
    (alone,), ratio = found(query, sublayer=attention, slight=slight)
    assert (alone.severity == "remark") is slight and (ratio is None) is slight
    said, _ = found(query + every([0], "value", 2.0, 0.5, FC1), sublayer=attention, slight=slight)
    assert [f.size for f in said] == pytest.approx([2, 9] if slight else [9, 2])


def test_layers_are_counted_in_words():
    words = {(0, 1, 2): "all 3 layers", (0,): "layer 0", (0, 1): "layers 0, 1"}
    assert {layers: in_layers([*layers], 3) for layers in words} == words
    assert in_layers([0], 1) == "layer 0" and in_layers([0, 1, 2, 4], 9) == "layers 0-2, 4"
