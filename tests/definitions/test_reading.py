"""Readings written by hand: their equations, layers and uses, and how they differ."""

import math
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.reading import Matrix, Norm, Reading, Sublayer
from deepnet_theory.definitions.subject import (
    Wanted,
    WantedSublayer,
    differences,
    gain,
    norms_of,
    require_equation,
    without_law,
)

ROLES = {"attention": ("query", "key", "value", "output"), "ffn": ("fc1", "fc2")}


def norm(where, of="norm", centred=True, size=1.0):
    return Norm(where, centred, f"{of}.weight", f"{of}.bias", size)


def matrix(name, role, gain=1.0, error=0.0, **more):
    m = Matrix(name, role, 0, ((0, 32),), 32, 32, **more)
    return replace(m, entries=gain * m.xavier, spread=error * m.xavier)


def sublayer(
    layer, kind="ffn", *, where="input", stack="decoder", sums=0, gain=1.0, own="", **more
):
    own = own or f"{stack}.{layer}.{kind}"
    norms = (norm(where, f"{own}.{where}"),) if where else ()
    matrices = tuple(matrix(f"{own}.{role}", role, gain) for role in ROLES[kind])
    given = {"stream": 1.0, "branch": 1.0, "norms": norms, "matrices": matrices, **more}
    return Sublayer(stack, layer, kind, 10 * layer + len(kind), **given)


def reading(*sublayers, **more):
    stream = {s.stack: 1.0 for s in sublayers}
    return Reading(tuple(sublayers), (), stream, **more)


def stack(layers=3, **more):
    return reading(*(sublayer(n, kind, **more) for n in range(layers) for kind in ROLES))


def test_alpha_is_what_multiplies_the_stream_against_the_branch():
    assert sublayer(0, stream=2.0, branch=0.5, carried=3.0).alpha == 12
    assert sublayer(0, branch=0.0).alpha == math.inf
    on = [sublayer(0, stream=a, branch=b).alpha_on for a, b in ((1, 1), (2, 1), (2, 3), (1, 3))]
    assert on == [None, "stream", "stream", "branch"]


def test_the_gain_of_a_norm_behind_a_branch_may_be_its_multiplier():
    norms = (norm("input"), norm("output", "after", size=0.25))
    s = sublayer(0, norms=norms, branch=2.0)
    taken = s.in_gain
    assert (taken.branch, taken.learnt, taken.start) == (0.5, "after.weight", 0.25)
    assert [(n.where, n.gain, n.size) for n in taken.norms] == [
        ("input", "norm.weight", 1.0), ("output", None, 1.0),
    ]  # fmt: skip
    assert taken.learnt_names == ("residual_gain",) and s.learnt_names == ()
    assert sublayer(0).in_gain == sublayer(0) and taken.in_gain is taken
    entry = replace(s, learnt="gates[3]")
    assert entry.in_gain is entry and entry.learnt_parameter == "gates"


def test_norms_within_a_branch_are_no_part_of_its_equation():
    s = sublayer(0, norms=tuple(map(norm, ("input", "inside", "scores"))))
    assert s.around == {"input"} and norms_of(s) == {"input", "inside"}
    assert [n.where for n in s.placed_norms] == ["input"]
    assert [n.where for n in s.ruled_norms] == ["input", "inside"]
    assert norms_of(sublayer(0, norms=(norm("within"),))) == {"inside"}
    assert "has a norm within its branch" in without_law(reading(s))
    learnt = sublayer(0, learnt="gate", multiplier="residual_gain")
    assert "is multiplied by gate, which is learnt" in without_law(reading(learnt))
    assert without_law(reading(s), ("inside",)) == ""


def test_layers_are_said_as_a_selection_says_them():
    assert stack(2).layer_texts == [["attention,ffn"] * 2] and stack(2).uniform
    odd = reading(sublayer(0), sublayer(1, "attention"), sublayer(1), sublayer(2), sublayer(3))
    assert not odd.uniform
    assert odd.layers == {"decoder": 4} and odd.placement == "pre-ln"
    assert stack().select == {
        "placement": "pre-ln", "norm": "layer", "stack": "decoder", "layer": "attention,ffn",
    }  # fmt: skip
    rms = stack(norms=(norm("sum", centred=False),))
    assert rms.select["norm"] == "rms" and rms.select["placement"] == "post-ln"


def test_each_equation_is_said_with_the_first_layer_that_has_it():
    mixed = reading(*(sublayer(n, where="sum" if n < 2 else "input") for n in range(5)))
    assert mixed.placement is None and mixed.said_ways() == (
        "layer 0 of the decoder: norm(x + branch(x)); layer 2 of the decoder: x + branch(norm(x))"
    )


@given(st.integers(2, 5), st.data())
def test_layers_that_share_a_parameter_have_no_law(layers, data):
    """Whichever two of them it is, and where all have their own none is named."""
    own = list(string.ascii_letters[:layers])
    assert without_law(reading(*(sublayer(n, own=name) for n, name in enumerate(own)))) == ""
    one, other = data.draw(st.permutations(range(layers)))[:2]
    own[one] = own[other]
    shared = without_law(reading(*(sublayer(n, own=name) for n, name in enumerate(own))))
    assert f"several sublayers share {own[other]}" in shared


def wanted(*sublayers, alpha=1.0, gains=None, **more):
    norms = frozenset({"input"})
    rows = tuple(WantedSublayer(norms, alpha, gains or {}, **more) for _ in sublayers)
    return Wanted("rule", "", "pre-ln", rows)


def test_a_reading_differs_in_norms_alpha_and_gains_beyond_chance():
    def found(s, **asked):
        return {(d.item, round(d.ratio, 3)) for d in differences(reading(s), wanted(s, **asked))}

    assert found(sublayer(0)) == set()
    assert found(sublayer(0, where="sum")) == {("norms", 1.0)}
    assert found(sublayer(0, stream=3.0), alpha=2.0) == {("alpha", 1.5)}
    assert found(sublayer(0), learnt=True, alpha=4.0) == {("learnt", 0.25)}
    assert found(sublayer(0, gain=2.0), gains={"fc1": 4.0, "fc2": 2.0}) == {("fc1", 0.5)}
    assert found(sublayer(0), gains={"fc1": 0.0}) == {("fc1", math.inf)}
    noisy = sublayer(0, matrices=(matrix("w", "fc1", 1.2, error=0.1),))
    assert found(noisy) == set()  # two errors
    assert found(noisy, gains={"fc1": 0.9}) == {("fc1", 1.333)}  # three
    strange = matrix("w", "unknown", 9.0)
    assert found(sublayer(0, matrices=(strange,))) == set()


def test_a_gain_has_an_interval_and_may_be_of_another_deviation():
    size, low, high = gain(matrix("w", "fc1", 0.5, error=0.1))
    assert (size, low, high) == pytest.approx((0.5, 0.304, 0.696), abs=1e-3)
    row = WantedSublayer(frozenset(), 1.0, {"fc1": 3.0}, std=0.02)
    m = matrix("w", "fc1")
    assert row.gain(m) == pytest.approx(0.06 / m.xavier)
    assert row.gain(matrix("w", "fc2")) == pytest.approx(0.02 / m.xavier)
    assert m.xavier == math.sqrt(2 / 64)


def test_a_block_of_a_parameter_is_written_as_in_code():
    m = matrix("w", "fc1")
    assert (m.where, m.rows) == ("w", [0, 32])
    block = replace(m, whole=False, axis=1)
    assert (block.where, block.rows) == ("w[:, 0:32]", [0, 32])
    several = replace(block, axis=0, outputs=((0, 4), (8, 12)))
    assert (several.where, several.rows) == ("w[0:4, … 2 blocks]", [[0, 4], [8, 12]])


def test_constants_of_other_norms_are_refused_with_what_to_derive():
    post = stack(1, where="sum")
    with pytest.raises(Refusal, match=r"derived with placement=\"post-ln\", norm=\"layer\""):
        require_equation(post, wanted(*post.sublayers))
    require_equation(stack(1), wanted(*stack(1).sublayers))
