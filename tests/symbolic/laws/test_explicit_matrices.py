"""Probed branches and placement laws against explicit matrices."""

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.sublayer import sublayers
from deepnet_theory.symbolic.laws.explicit_matrices import central_difference, value_of, values_of
from deepnet_theory.symbolic.laws.placement import delta, gain, probed
from deepnet_theory.symbolic.proof.witness import Witness, distance

PAIRS = [(p, s) for p in placements().values() for s in sublayers().values()]


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS, ids=lambda v: v.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_derivative_agrees_with_explicit_matrices(placement, sublayer, seed):
    witness = Witness.drawn(sublayer, placement, seed)
    values = values_of(witness)
    for matrix in sublayer.matrices:
        radial = sp.diff(probed(placement, sublayer), gain(matrix.name))
        numeric = witness.inner(matrix.name, radially=True).derivative
        if radial == 0:
            assert max(abs(e) for row in numeric for e in row) < 1e-6
        else:
            assert distance(value_of(radial, values), numeric) < 1e-6
            # the check can fail: twice the derivative does not pass
            assert distance(value_of(2 * radial, values), numeric) > 1e-4
    for parameter in (*sublayer.matrices, *sublayer.vectors):
        z = probed(placement, sublayer, parameter.name)
        moved = sp.expand(sp.diff(z, delta).subs(delta, 0))
        numeric = witness.inner(parameter.name).derivative
        if moved == 0:
            assert max(abs(e) for row in numeric for e in row) < 1e-6
        else:
            assert distance(value_of(moved, values), numeric) < 1e-6


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS, ids=lambda v: v.name)
def test_the_witness_moves_as_a_finite_difference_says(placement, sublayer):
    witness = Witness.drawn(sublayer, placement)
    for matrix in sublayer.matrices:
        gain = witness.gains[matrix.name]

        def at(step, name=matrix.name, gain=gain):
            return replace(witness, gains={**witness.gains, name: gain + step}).output()

        moved = witness.output(matrix.name, radially=True).derivative
        assert distance(central_difference(at), moved) < 1e-6
