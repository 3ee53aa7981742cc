"""Learnt multipliers: the rows of the table, and the equations that they may stand in."""

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError, Refusal
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
    # beside what √S·r is added behind: S·(√S·r)^(1 + p)
    ("stream-scalar", "sgd", "unit-residual"): ("1", "1", "1"),
    ("stream-scalar", "adamw", "complete"): ("1", "(2*N)**(1/2)", "(2*N)**(-1/2)"),
    ("stream-scalar", "adamw", "unit-residual"): ("1", "(2*N)**(-1/2)", "1"),
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
        ("x + learnt(1)*learnt(2)*branch(x)", "two learnt numbers on one term"),
        ("learnt(1)*(x + branch(norm(x)))", "multiplies the stream or the branch"),
        ("x + branch(learnt(1)*norm(x))", "multiplies the stream or the branch"),
        ("x + learnt(x)*branch(x)", "starts at a number"),
    ],
)
def test_learnt_numbers_stand_on_one_term_each(equation, says):
    with pytest.raises(InputError, match=says):
        Placement("own", equation, True)


def test_one_number_for_all_channels_has_no_law_in_the_width_under_sgd():
    derived = dt.derive("sgd", placement="stream-scalar", closure="complete")
    with pytest.raises(Refusal, match="one learnt number for all channels"):
        dt.export(derived, 8, width=64, base=(32, 4))
