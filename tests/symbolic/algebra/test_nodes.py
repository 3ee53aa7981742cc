"""Matrix-valued nodes: what is pulled out of a map, and how a differential is taken."""

import re

import pytest
import sympy as sp

from deepnet_theory.symbolic.algebra.nodes import (
    ONES,
    Activation,
    Branch,
    DirectionalDifferential,
    Hadamard,
    Label,
    Normalise,
    Softmax,
    Transpose,
    coefficient,
    split,
)
from paper_checks.shared.steps.nodes import Above, Beside

A, B, H, K = sp.symbols("A B H K", commutative=False)
c, t = sp.symbols("c t", positive=True)
y = sp.Symbol("y", real=True)
MAPS = (Activation, Normalise, Softmax, Branch)


def differential(f, point, direction):
    return DirectionalDifferential(Label(f), point, direction)


def test_scalars_are_split_off_and_shared_ones_found():
    for scalar, rest in ((sp.Integer(1), A), (c * y, A * B), (c, sp.Integer(1)), (-c, A + B)):
        assert split(scalar * rest) == (scalar, rest)
    assert coefficient(c * (A * B + Activation(A))) == c
    assert coefficient(sp.Integer(0)) == Activation(sp.Integer(0)) == Transpose(sp.Integer(0)) == 0
    assert Normalise(sp.Integer(0)) != 0 and Softmax(sp.Integer(0)) != 0


@pytest.mark.parametrize("f", MAPS)
def test_a_map_and_its_differential_scale_by_the_degree(f):
    expected = f(c * A, evaluate=False) if f.degree is None else c**f.degree * f(A)
    assert f(c * A) == expected
    assert split(f(y * A))[0] == 1  # y may be negative
    assert f(A + B).args == (A + B,)
    of_h, of_k = differential(f, A, H), differential(f, A, K)
    assert differential(f, A, y * H + c * K) == y * of_h + c * of_k
    assert differential(f, A, sp.Integer(0)) == 0
    assert f(A + t**2 * H).diff(t) == differential(f, A + t**2 * H, 2 * t * H)
    assert f(A).diff(t) == 0
    scaled = differential(f, c * A, H)
    if f.degree is None:
        assert scaled.args[1:] == (c * A, H)
    else:
        assert scaled == c ** (f.degree - 1) * of_h
    assert differential(f, y * A, H).args[1:] == (y * A, H)


def test_transposition_and_the_entrywise_product_are_linear():
    assert Transpose(Transpose(A)) == A
    assert Transpose(y * A * B) == y * Transpose(B) * Transpose(A)
    assert Transpose(y * A + B) == y * Transpose(A) + Transpose(B)
    assert Transpose(t**2 * A + B).diff(t) == 2 * t * Transpose(A)
    assert Hadamard(y * A, c * B) == c * y * Hadamard(A, B)
    assert Hadamard(0 * A, B) == Hadamard(A, 0 * B) == 0
    assert Hadamard(t * A, t**2 * B).diff(t) == 3 * t**2 * Hadamard(A, B)


def test_softmax_does_not_feel_what_is_added_to_a_whole_row():
    shift = A * H * Transpose(ONES)
    assert differential(Softmax, A, c * shift) == 0
    assert differential(Softmax, A, H + shift) == differential(Softmax, A, H)
    assert differential(Activation, A, shift) != 0
    assert differential(Softmax, A, Transpose(ONES) * H) != 0


@pytest.mark.parametrize(
    ("node", "text", "latex"),
    [
        (Beside(A, B), "[A, B]", "A&B"),
        (Above(A, B), "[A; B]", r"A\\B"),
        (Transpose(A), "A.T", r"A^{\top}"),
        (Hadamard(A, B), "hadamard(A, B)", r"\left(A \odot B\right)"),
        (Softmax(A), "softmax(A)", r"\mathrm{softmax}\left(A\right)"),
        (
            differential(Softmax, A, H),
            "D[softmax](A)[H]",
            r"\mathrm{D}\mathrm{softmax}\left(A\right)\left[H\right]",
        ),
    ],
)
def test_every_printer_names_the_parts_in_their_order(node, text, latex):
    assert str(node) == text and latex in sp.latex(node)
    shown = re.sub(r"<[^>]*>", "", sp.mathml(node, printer="presentation"))
    places = [shown.index(part.name) for part in node.args if part.is_Symbol]
    assert places == sorted(places) and len(set(places)) == len(places)
