"""Mean squares of matrix products: the law against all signs and against sampling, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.proof.algebra import vanishes
from deepnet_theory.proof.expectation import (
    ENUMERATED,
    Law,
    Matrix,
    MeanSquare,
    Product,
    Rows,
    RowSum,
    moment,
)
from deepnet_theory.proof.notation import norm_of
from deepnet_theory.proof.step import Section

d, m, s, t = sp.symbols("d m s t", positive=True)
SECTION = Section("Moments")
x = Matrix("x", sp.S.One, d, norm_of("x"))
white = Matrix("y", sp.S.One, d, t, Law.CENTRED)
W, V = Matrix("W", d, m, s, Law.CENTRED), Matrix("V", m, d, t / m, Law.CENTRED)
R = Matrix("R", sp.S.One, m, sp.S.Half, Law.MASK)
D, E = Matrix("D", d, m, norm_of("D")), Matrix("E", m, d, norm_of("E"))

rows = st.sampled_from([x, white])
first = st.sampled_from([W, D])
last = st.sampled_from([V, E])


def step(*products):
    return moment(SECTION, "moment", Rows(products), ("z", "z"), "")


@given(rows, first, st.booleans(), last, st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_law_is_the_mean_entry_by_entry(row, one, masked, other, path):
    factors = (row, one, *((R,) if masked else ()), other)
    beside = (Product(sp.Rational(2), (row,)),) if path else ()
    try:
        right = step(Product(s, factors), *beside)
    except InputError:  # a fixed matrix behind a row that is not white, or terms not apart
        assert D in factors or E in factors
        return
    assert right.check() is Verdict.PROVED
    for wrong in (2 * right.rhs, -right.rhs, right.rhs * d / m, right.rhs.subs(s, s**2)):
        if not vanishes(wrong - right.rhs):
            assert replace(right, rhs=wrong).check() is Verdict.REFUTED, wrong


def test_sampling_agrees():
    generator = np.random.default_rng(1)
    width, inner, draws = 6, 10, 20_000
    row = generator.normal(size=width)
    big_w = generator.normal(0, np.sqrt(0.3), (draws, width, inner))
    big_v = generator.normal(0, np.sqrt(0.5 / inner), (draws, inner, width))
    hidden = np.maximum(row @ big_w, 0)  # ReLU's own mask: even in each column, so as a fair coin
    sampled = ((1.3 * row + np.einsum("nk,nki->ni", hidden, big_v)) ** 2).sum(1)
    exact = step(Product(sp.Float(1.3), (x,)), Product(sp.S.One, (x, W, R, V))).rhs
    at = {d: width, m: inner, s: 0.3, t: 0.5, x.size: np.linalg.norm(row)}
    assert abs(sampled.mean() - float(exact.subs(at))) < 4 * sampled.std() / np.sqrt(draws)


@pytest.mark.parametrize(
    ("products", "said"),
    [
        ((Product(s, (x, D)),), "D in s\\*x\\*D acts on a row that is not white"),
        ((Product(s, (x,)), Product(t, (x,))), "no centred matrix tells"),
        ((Product(s, (x, W, V, W)),), "stands twice"),
    ],
)
def test_what_has_no_law_is_refused_and_what_has_no_mean_square_not_enumerated(products, said):
    with pytest.raises(InputError, match=said):
        step(*products)
    plain = SECTION.equal("d", d, d, "", checks=(ENUMERATED,))
    assert plain.check() is Verdict.REFUTED


def test_a_mean_square_is_shown_as_text_and_mathematics():
    z = Rows((Product(s, (x,)), Product(sp.S.One, (x, W, V))))
    assert str(RowSum(z.along(W, D) + z.along(V, E))) == "x*D*V + x*W*E"
    assert not z.along(R, R).products
    node = MeanSquare(Rows((Product(s, (x, W)),)), "s x W")
    assert str(node) == "E[||s x W||^2]" and node.free_symbols == {s}
    assert sp.latex(node**2).startswith(r"{\mathbb{E}") or r"\mathbb{E}" in sp.latex(node**2)
    assert "E[" in sp.pretty(node) and "E[" in sp.printing.mathml(node, printer="presentation")
    wider = MeanSquare(Rows((Product(s, (x, replace(W, size=2 * s))),)), "s x W")
    assert node != wider
