"""Wrong rules made from a table: the rule's own at the base, and off by what they say elsewhere."""

import warnings
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.sizes.rivals import WRONG, alike, matrix_at, of_another, wrong

OPTIMIZERS, PLACEMENTS = ("adamw", "lamb", "momentum", "muon"), ("post-ln", "pre-ln")


@cache
def exported(optimizer, placement, layers, width, alignment="full"):
    selection = dt.Selection(optimizer, placement=placement, closure="complete")
    with warnings.catch_warnings(action="ignore"):
        return dt.export(
            selection, layers, base=(32, 2), base_heads=4, width=width, heads=4,
            alignment=alignment,
        )  # fmt: skip


@settings(max_examples=12)
@given(st.sampled_from(OPTIMIZERS), st.sampled_from(PLACEMENTS), st.sampled_from(sorted(WRONG)))
def test_every_rule_is_the_same_at_the_base(optimizer, placement, name):
    base = exported(optimizer, placement, 2, 32)
    assert alike(wrong(name, base, base), base)
    sgd = exported("sgd", placement, 2, 32)
    assert alike(of_another(base, base, sgd, sgd), base)
    deep = exported(optimizer, placement, 8, 64)
    assert alike(of_another(deep, base, deep, base), deep)  # its own factors give the rule again


def off(name, layers=32, width=32, optimizer="adamw", placement="pre-ln"):
    """What gain and rate of every matrix of a branch are over the rule's, by matrix."""
    c, base = exported(optimizer, placement, layers, width), exported(optimizer, placement, 2, 32)
    own = wrong(name, c, base).rows
    return {
        at[-1]: (own[at].gain / p.gain, own[at].rate / p.rate)
        for at, p in c.rows.items()
        if matrix_at(c, at)
    }


REST = ("query", "key")
SCALED = ("value", "output", "fc1", "fc2")
WIDER = {"layers": 2, "width": 128}


@pytest.mark.parametrize(
    ("name", "sizes", "roles", "times"),
    [
        ("β² for β", {}, SCALED, (1 / 4, 1)),  # β = (2N)^(-1/2), over 16 times the depth
        ("κ times N^(1/4)", {}, SCALED, (1, 2)),
        ("no κ", {}, SCALED, (1, 4)),
        *((name, {}, REST, (1, 1)) for name in ("β² for β", "κ times N^(1/4)", "no κ")),
        ("hidden rates times d^(1/2)", WIDER, (*SCALED, *REST), (1, 2)),
        ("one rate for all roles", WIDER, (*SCALED, *REST), (1, 4)),
        # one standard deviation: Xavier's is 1/sqrt(d), over sqrt(2N) where a branch ends
        ("standard sizes", WIDER, ("value", "fc1"), (2, 1)),
        ("standard sizes", {}, ("value",), (4, 1)),
        ("standard sizes", {}, ("output",), (1, 1)),
    ],
)
def test_a_wrong_rule_is_off_by_what_it_says(name, sizes, roles, times):
    found = off(name, **sizes)
    for role in roles:
        assert found[role] == pytest.approx(times), role


def test_vectors_count_where_they_are_trained():
    c, base = (exported("adamw", "pre-ln", n, 32) for n in (8, 2))
    one, none = (wrong(name, c, base) for name in ("one rate for all roles", "no κ"))
    assert not alike(one, none) and alike(one, none, vectors=False)
