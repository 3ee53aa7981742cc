"""The explicit sublayer: its derivatives, SymPy's laws on it, and its sizes near the identity."""

from dataclasses import replace

import derivations
import pytest
import sympy as sp

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.placement import PLACEMENTS, Placement, placement
from deepnet_theory.definitions.sublayer import SUBLAYERS, sublayer
from deepnet_theory.proof import witness as room
from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.placement import gain, probed, value_of, values_of
from deepnet_theory.proof.witness import Witness, derivative, distance, sizes
from deepnet_theory.sizes.laws import law
from deepnet_theory.sizes.monomial import Monomial

# laws of placements and of branches are composed: each of them with two of the others
PAIRS = [
    (p, s)
    for p in PLACEMENTS.values()
    for s in SUBLAYERS.values()
    if p.name in ("post-ln", "sandwich-ln") or s.name in ("attention", "ffn-swiglu")
]


def agree(stated, values, numeric):
    if stated == 0:
        return abs(numeric).max() < 1e-6
    return distance(value_of(stated, values), numeric) < 1e-6


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS, ids=lambda v: v.name)
def test_every_derivative_agrees_with_explicit_matrices(placement, sublayer):
    witness = Witness.drawn(sublayer, placement, seed=1)
    values = values_of(witness)
    for matrix in sublayer.scaled:
        radial = sp.diff(probed(placement, sublayer), gain(matrix.name))
        numeric = derivative(witness.inner(matrix.name, radially=True))
        assert agree(radial, values, numeric)
        # the check can fail: twice the derivative does not pass
        assert radial == 0 or distance(value_of(2 * radial, values), numeric) > 1e-4


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS, ids=lambda v: v.name)
def test_the_witness_moves_as_a_finite_difference_says(placement, sublayer):
    witness = Witness.drawn(sublayer, placement)
    for matrix in sublayer.matrices:
        gain = witness.gains[matrix.name]

        def at(step, name=matrix.name, gain=gain):
            return replace(witness, gains={**witness.gains, name: gain + step}).output()

        near, far = (at(h) - at(-h) for h in (5e-5, 1e-4))  # to fourth order
        moved = derivative(witness.output(matrix.name, radially=True))
        assert distance((8 * near - far) / 6e-4, moved) < 1e-6


def test_sizes_are_whole_powers_and_what_does_not_respond_has_none():
    found = sizes(placement("post-ln"), sublayer("attention"))
    alpha, beta = Monomial.of("alpha"), Monomial.of("beta")
    assert found.weight == beta**2 / alpha and found.responses["key_bias"] is None
    assert found.variances["sum"] == alpha**2


def test_a_size_that_is_no_power_is_not_rounded_to_one():
    mine = Placement("mine", "x + (1 + alpha/1000)*branch(norm(x))", final_norm=True)
    with pytest.raises(ArithmeticError, match="no power of alpha near the identity"):
        sizes(mine, sublayer("ffn"))


@pytest.mark.parametrize(("placement", "sublayer"), PAIRS)
def test_a_law_has_alpha_where_the_output_moves_with_it(placement, sublayer):
    one, twice = (Witness.at(sublayer, placement, alpha, 0.5, 0).output() for alpha in (1.0, 2.0))
    assert law(placement, sublayer).has_alpha == (distance(one, twice) > 1e-6)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("field", room.Mixed._fields)
def test_experts_that_did_otherwise_would_refute_the_table(field, monkeypatch):
    right = room.mixed

    def other(of):
        numbers = right(of)
        twice = {field: getattr(numbers, field) * 2}
        return numbers._replace(**twice) if of.experts > 1 else numbers

    monkeypatch.setattr(room, "mixed", other)
    monkeypatch.setattr("deepnet_theory.proof.stack.mixed", other)
    refuted = {row.verdict for row in derive(derivations.selection("experts sgd")).measured}
    assert Verdict.REFUTED in refuted
