"""Learnt multipliers: the rows of the table, and the equations that they may stand in."""

import pytest

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import Placement, placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.monomial import parse
from deepnet_theory.sizes.table import table

# start, share and learning-rate multiplier by hand: S = 2N responses of the size of what is
# multiplied, to the power 1 + p, times the start to the power q
BY_HAND = {
    ("layer-scale", "sgd", "symmetric"): ("(2*N)**(-1/4)", "1", "1"),
    ("layer-scale", "sgd", "complete"): ("1", "1/(2*N)", "1"),
    ("layer-scale", "adamw", "symmetric"): ("(2*N)**(-1/2)", "1", "1"),
    ("layer-scale", "adamw", "complete"): ("1/(2*N)", "2*N", "1/(2*N)"),
    ("layer-scale", "muon", "complete"): ("1/(2*N)", "2*N", "1/(2*N)"),
    ("layer-scale", "lamb", "unit-init"): ("1/(2*N)", "1", "1"),
}


@pytest.mark.parametrize("where", BY_HAND)
def test_the_rows_are_those_by_hand(where):
    placed, optimizer, closure = where
    found = table(Selection(optimizer=optimizer, placement=placed, closure=closure)).parameters
    rows = [row for row in found if row.parameter in placement(placed).learnt]
    assert [row.sublayer for row in rows] == ["attention", "ffn"]
    for row in rows:
        assert (row.size, row.share, row.rate) == tuple(map(parse, BY_HAND[where]))
        assert row.decay is None


@pytest.mark.parametrize(
    ("equation", "says"),
    [
        ("x + learnt(1)*learnt(2)*branch(x)", "one learnt number may multiply the branch"),
        ("learnt(1)*x + branch(norm(x))", "one learnt number may multiply the branch"),
        ("learnt(1)*(x + branch(norm(x)))", "one learnt number may multiply the branch"),
        ("x + branch(learnt(1)*norm(x))", "one learnt number may multiply the branch"),
        ("x + learnt(x)*branch(x)", "starts at a number"),
    ],
)
def test_one_learnt_number_multiplies_the_branch(equation, says):
    with pytest.raises(InputError, match=says):
        Placement("own", equation, True)
