"""Probed branches and placement laws against explicit matrices."""

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.expression import OperatorAlgebra
from deepnet_theory.spec.placement import Placement, placements
from deepnet_theory.spec.sublayer import sublayers
from deepnet_theory.symbolic.algebra.monomial import alpha
from deepnet_theory.symbolic.algebra.nodes import (
    Activation,
    DirectionalDifferential,
    Label,
    Normalise,
    Softmax,
    Transpose,
)
from deepnet_theory.symbolic.laws.explicit_matrices import central_difference, value_of, values_of
from deepnet_theory.symbolic.laws.placement import branch, delta, gain, placement_law, probed
from deepnet_theory.symbolic.proof.witness import Witness, distance

PAIRS = [(p, s) for p in placements().values() for s in sublayers().values()]
A, B = sp.symbols("A B", commutative=False)
t = sp.Symbol("t", positive=True)


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


def test_the_radial_probe_is_blind_where_the_branch_is_normalised():
    for name in ("res-post-ln", "sandwich-ln"):
        z = probed(placements()[name], sublayers()["ffn"])
        assert sp.diff(z, gain("fc1")) == 0


def test_the_key_bias_has_no_gradient_because_softmax_ignores_a_shift():
    moved = sp.diff(branch(sublayers()["attention"], "key_bias"), delta).subs(delta, 0)
    assert sp.expand(moved) == 0


def test_maps_pull_scalars_out_by_their_degree():
    assert Activation(t * A) == t * Activation(A)
    assert Normalise(t * A) == Normalise(A)
    assert Softmax(t * A) != Softmax(A)
    assert Transpose(t * A * B) == t * Transpose(B) * Transpose(A)
    d = DirectionalDifferential(Label(Normalise), t * A, B)
    assert d == DirectionalDifferential(Label(Normalise), A, B) / t


def test_no_output_holds_subs():
    for placement, sublayer in PAIRS:
        for matrix in sublayer.matrices:
            derivative = sp.diff(probed(placement, sublayer, matrix.name), delta).subs(delta, 0)
            shown = str(derivative) + sp.latex(derivative) + sp.mathml(derivative, "presentation")
            assert "Subs" not in shown and "subs" not in shown.replace("msub", "")


def test_post_ln_divides_by_alpha_and_pre_ln_has_no_alpha():
    post, pre = placement_law(placements()["post-ln"]), placement_law(placements()["pre-ln"])
    assert post.response == 1 / alpha and post.has_alpha
    assert not pre.has_alpha and not pre.response.has(alpha)


def test_an_equation_without_an_identity_path_is_refused():
    for equation in ("norm(branch(x))", "branch(x)", "x + branch(x) + branch(norm(x))"):
        with pytest.raises(Refusal, match="no law"):
            placement_law(Placement("mine", equation, final_norm=False))


def test_the_operator_algebra_is_shared():
    assert OperatorAlgebra().add(1, 2) == 3
