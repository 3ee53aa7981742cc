"""Probed branches and placement laws against explicit matrices and finite differences."""

import pytest
import sympy as sp

from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.sublayer import sublayers
from deepnet_theory.symbolic.algebra.monomial import alpha
from deepnet_theory.symbolic.laws.branch import delta, gain
from deepnet_theory.symbolic.laws.explicit_matrices import Witness, distance
from deepnet_theory.symbolic.laws.placement import probed

PAIRS = [(p, s) for p in placements().values() for s in sublayers().values()]


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS, ids=lambda v: v.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_derivative_agrees_with_a_finite_difference(placement, sublayer, seed):
    witness = Witness(sublayer, placement, seed)
    for matrix in sublayer.matrices:
        radial = sp.diff(probed(placement, sublayer), gain(matrix.name))
        numeric = witness.derivative(gain(matrix.name))
        if radial == 0:
            assert max(abs(e) for row in numeric for e in row) < 1e-6
        else:
            assert distance(witness.evaluate(radial, alpha), numeric) < 1e-6
            # the check can fail: twice the derivative does not pass
            assert distance(witness.evaluate(2 * radial, alpha), numeric) > 1e-4
    for parameter in (*sublayer.matrices, *sublayer.vectors):
        z = probed(placement, sublayer, parameter.name)
        moved = sp.expand(sp.diff(z, delta).subs(delta, 0))
        numeric = witness.derivative(delta, parameter.name)
        if moved == 0:
            assert max(abs(e) for row in numeric for e in row) < 1e-6
        else:
            assert distance(witness.evaluate(moved, alpha), numeric) < 1e-6
