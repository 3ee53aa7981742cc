"""The explicit sublayer: its derivatives, SymPy's laws on it, and its sizes near the identity."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
import sympy as sp

from deepnet_theory.definitions.placement import Placement, placement, placements
from deepnet_theory.definitions.sublayer import sublayer, sublayers
from deepnet_theory.proof.explicit import decimal
from deepnet_theory.proof.placement import (
    central_difference,
    delta,
    gain,
    probed,
    value_of,
    values_of,
)
from deepnet_theory.proof.witness import Powers, Witness, distance, sizes

# laws of placements and of branches are composed: each of them with two of the others
PAIRS = [
    (p, s)
    for p in placements().values()
    for s in sublayers().values()
    if p.name in ("post-ln", "sandwich-ln") or s.name in ("attention", "ffn-swiglu")
]


def agree(derivative, values, numeric):
    if derivative == 0:
        return max(abs(entry) for row in numeric for entry in row) < 1e-6
    return distance(value_of(derivative, values), numeric) < 1e-6


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS, ids=lambda v: v.name)
def test_every_derivative_agrees_with_explicit_matrices(placement, sublayer):
    witness = Witness.drawn(sublayer, placement, seed=1)
    values = values_of(witness)
    for matrix in sublayer.matrices:
        radial = sp.diff(probed(placement, sublayer), gain(matrix.name))
        numeric = witness.inner(matrix.name, radially=True).derivative
        assert agree(radial, values, numeric)
        # the check can fail: twice the derivative does not pass
        assert radial == 0 or distance(value_of(2 * radial, values), numeric) > 1e-4
    for parameter in (*sublayer.matrices, *sublayer.vectors):
        z = probed(placement, sublayer, parameter.name)
        moved = sp.expand(sp.diff(z, delta).subs(delta, 0))
        numeric = witness.inner(parameter.name).derivative
        assert agree(moved, values, numeric)


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS, ids=lambda v: v.name)
def test_the_witness_moves_as_a_finite_difference_says(placement, sublayer):
    witness = Witness.drawn(sublayer, placement)
    for matrix in sublayer.matrices:
        gain = witness.gains[matrix.name]

        def at(step, name=matrix.name, gain=gain):
            return replace(witness, gains={**witness.gains, name: gain + step}).output()

        moved = witness.output(matrix.name, radially=True).derivative
        assert distance(central_difference(at), moved) < 1e-6


def test_sizes_are_whole_powers_and_what_does_not_respond_has_none():
    found = sizes(placement("post-ln"), sublayer("attention"))
    assert found.weight == Powers(-1, 2)
    assert found.responses["value"] == found.responses["output"] == Powers(-1, 1)
    assert found.responses["query"] == Powers(-1, 2)
    assert found.responses["key_bias"] is None
    assert found.variances["sum"] == Powers(2, 0)


def test_a_size_that_is_no_power_is_not_rounded_to_one():
    mine = Placement("mine", "x + (1 + alpha/1000)*branch(norm(x))", final_norm=True)
    with pytest.raises(ArithmeticError, match="no power of alpha near the identity"):
        sizes(mine, sublayer("ffn"))


def test_a_number_of_any_kind_has_all_its_digits():
    third = decimal(Fraction(1, 3))
    assert third == Decimal(1) / 3 and decimal(sp.Rational(1, 3)) == pytest.approx(third)
    assert decimal(0.5) == decimal(Fraction(1, 2)) == decimal(sp.Rational(1, 2)) == Decimal("0.5")
    assert decimal(7) == 7
