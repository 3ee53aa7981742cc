"""The engine of expectations against explicit expansion, enumeration and sampling."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.expectation import (
    ENUMERATED,
    Bernoulli,
    Expectation,
    Gaussian,
    Index,
    IndexSum,
    Known,
    Polynomial,
    Rademacher,
    RectifiedGaussian,
    Tensor,
    White,
    constant,
    delta,
    enumerate_expectation,
    expect,
)
from deepnet_theory.symbolic.expectation.exact import root
from deepnet_theory.symbolic.expectation.node import sizes_that_determine
from deepnet_theory.symbolic.expectation.parity import even_in_columns
from deepnet_theory.symbolic.proof.step import Relation, Step

d, m, sigma, p = (sp.Symbol(name, positive=True) for name in ("d", "m", "sigma", "p"))
i, j = Index("i", d), Index("j", d)
k, l = Index("k", m), Index("l", m)  # noqa: E741
W = Tensor("W", (d, m), Gaussian(sigma**2))
E = Tensor("E", (d, m), Rademacher())
R = Tensor("R", (m,), Bernoulli(p))
x = Tensor("x", (d,))
norm_x = sp.Symbol("norm_x", positive=True)
KNOWN = (Known(norm_x, (x[i] * x[i]).sum(i), 2),)


def gram_square(tensor: Tensor) -> Polynomial:
    return (tensor[i, k] * tensor[j, k] * tensor[j, l] * tensor[i, l]).sum(i, j, k, l)


def test_the_sizes_tried_determine_the_polynomial() -> None:
    """Degree + 1 of each range, where an index alone on a centred tensor counts by half."""

    def most(polynomial: Polynomial) -> dict[sp.Expr, int]:
        tried = list(sizes_that_determine(polynomial))
        found = {size: max(at[size] for at in tried) for size in tried[0]}
        assert len(tried) == sp.Mul(*found.values())
        return found

    assert most(gram_square(W)) == {d: 3, m: 3}  # every index twice on a tensor: none alone
    assert most((W[i, k] * W[j, l]).sum(i, j, k, l)) == {d: 2, m: 2}
    assert most((R[k] * R[l]).sum(k, l)) == {m: 3}  # not centred


def test_trace_of_the_squared_gram_matrix() -> None:
    assert sp.factor(expect(gram_square(W))) == sigma**4 * d * m * (d + m + 1)
    # signs have fourth moment 1 in place of 3: two fewer for each of the d·m entries
    assert sp.factor(expect(gram_square(E))) == d * m * (d + m - 1)


def test_the_entries_expanded_one_by_one() -> None:
    """tr((WWᵀ)²) of explicit symbols, expanded by SymPy, monomials replaced by moments."""
    for rows, columns in ((1, 1), (2, 2), (2, 3), (3, 2)):
        entries = sp.Matrix(rows, columns, sp.symbols(f"w:{rows * columns}"))
        expanded = sp.Poly(sp.expand(((entries * entries.T) ** 2).trace()), *entries)
        total: Any = 0
        for powers, coefficient in expanded.terms():
            moments = [sp.factorial2(r - 1) if r % 2 == 0 else 0 for r in powers if r]
            total += coefficient * sp.Mul(*moments)
        assert expect(gram_square(W)).subs({d: rows, m: columns, sigma: 1}) == total


def test_norm_of_an_image_to_the_fourth() -> None:
    image = (x[i] * W[i, k]).sum(i)
    fourth = (image * image).sum(k) ** 2
    assert sp.factor(expect(fourth, KNOWN)) == sigma**4 * norm_x**4 * m * (m + 2)


def test_coincidences_of_a_law_with_a_mean() -> None:
    count = R[k].sum(k)
    assert sp.expand(expect(count) - m * p) == 0
    assert sp.expand(expect(count * count) - (m * p * (1 - p) + m**2 * p**2)) == 0
    third = m * (m - 1) * (m - 2) * p**3 + 3 * m * (m - 1) * p**2 + m * p
    assert sp.expand(expect(count**3) - third) == 0


def test_free_indices_leave_their_kronecker_deltas() -> None:
    value = expect(W[i, k] * W[j, l])
    names = [sp.Symbol(name) for name in "ijkl"]
    assert value == sigma**2 * sp.KroneckerDelta(*names[:2]) * sp.KroneckerDelta(*names[2:])


def test_a_delta_is_its_own_square_and_sums_to_its_range() -> None:
    square = delta(i, j) * delta(i, j)
    assert expect(square.sum(i, j)) == expect(delta(i, j).sum(i, j)) == d
    assert expect(square.sum(j)) == expect(delta(i, i)) == 1
    assert expect((square * x[i] * x[j]).sum(i, j), KNOWN) == norm_x**2


def test_expectation_is_linear() -> None:
    one, other = gram_square(W), (R[k] * R[k]).sum(k)
    assert sp.expand(expect(one - other) - expect(one) + expect(other)) == 0
    assert sp.expand(expect(one + 3 * other) - expect(one) - 3 * expect(other)) == 0


def test_cumulants_of_a_gaussian_come_out_of_its_moments() -> None:
    class Written(Gaussian):
        cumulant = Bernoulli.cumulant  # the general recursion

    law = Written(sigma**2)
    assert [sp.expand(law.cumulant(r)) for r in range(1, 9)] == [0, sigma**2, *[0] * 6]


def test_rectified_gaussian_moments() -> None:
    law = RectifiedGaussian(sigma**2)
    assert law.moment(2) == sigma**2 / 2
    assert law.moment(4) == 3 * sigma**4 / 2
    assert sp.simplify(law.moment(1) - sigma / sp.sqrt(2 * sp.pi)) == 0


FACTORS = st.lists(
    st.tuples(st.sampled_from(["W", "E", "R"]), st.sampled_from([0, 1]), st.sampled_from([0, 1])),
    min_size=1,
    max_size=6,
)


@given(FACTORS, FACTORS)
@settings(max_examples=60, deadline=None)
def test_contraction_agrees_with_enumeration(first: Any, second: Any) -> None:
    polynomial = constant(0)
    for coefficient, factors in ((2, first), (-3, second)):
        term = constant(coefficient)
        for name, row, column in factors:
            column_index = (k, l)[column]
            entry = (
                R[column_index]
                if name == "R"
                else {"W": W, "E": E}[name][(i, j)[row], column_index]
            )
            term = term * entry
        polynomial = polynomial + (term).sum(i, j, k, l)
    value = sp.sympify(expect(polynomial))
    for rows, columns in product((1, 2, 3), (1, 2)):
        point = {d: rows, m: columns, sigma: sp.Rational(3, 2), p: sp.Rational(2, 7)}
        assert value.subs(point) == sp.sympify(enumerate_expectation(polynomial, point))


def test_a_sum_over_an_absent_index_counts() -> None:
    assert expect(constant(3).sum(i)) == 3 * d


def test_derivatives_by_the_product_rule() -> None:
    square = ((x[i] * W[i, k]).sum(i) ** 2).sum(k)
    slope = square.derivative(W, j, l)
    assert str(slope) == "Sum(x_j*x_i*W_il, i=1..d) + Sum(x_i*W_il*x_j, i=1..d)"
    assert str(delta(i, j).sum(i)) == "Sum(delta_ij, i=1..d)"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: W[k, i], "W has axes of sizes"),
        (lambda: delta(i, k), "different ranges"),
        (lambda: expect((x[i] * x[j]).sum(i, j), KNOWN), "give one with Known"),
        (
            lambda: expect(Tensor("y", (d,), White(1))[i] ** 4),
            "only the mean and the variance",
        ),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        wrong()


def test_a_step_without_an_expectation_is_none_to_enumerate() -> None:
    assert Step("d", d, d, Relation.EQUAL, "").check() is Verdict.PROVED
    plain = Step("d", d, d, Relation.EQUAL, "", checks=(ENUMERATED,))
    assert plain.check() is Verdict.REFUTED


def test_the_check_refutes_planted_errors() -> None:
    right = sigma**4 * d * m * (d + m + 1)
    step = Step(
        "trace", Expectation(gram_square(W), "tr"), right, Relation.EQUAL, "", checks=(ENUMERATED,)
    )
    assert step.check() is Verdict.PROVED
    for planted in (
        -right,
        2 * right,
        right / sigma,
        sigma**4 * d * m * (d + m),
        sigma**4 * d * m * (d + m - 1),
        sigma**4 * d**2 * (d + m + 1),
        sigma**4 * m**2 * (d + m + 1),
        sigma**4 * d * m * (2 * m + 1),
    ):
        assert replace(step, rhs=planted).check() is Verdict.REFUTED, planted
    swapped = Expectation(gram_square(E), "tr")
    assert replace(step, lhs=swapped).check() is Verdict.REFUTED


def test_parity_sees_odd_columns() -> None:
    mask = Tensor("R", (m,), Bernoulli(sp.Rational(1, 2)))
    hidden = ((x[i] * W[i, k]).sum(i) * mask[k]).sum(k)
    assert not even_in_columns(hidden, W)
    assert not even_in_columns(hidden * hidden, W)  # columns k and k' differ
    own = (((x[i] * W[i, k]).sum(i) * mask[k]) ** 2).sum(k)
    assert even_in_columns(own, W)


def test_sampling_agrees() -> None:
    """A generous sanity check with NumPy; the exact checks are above."""
    generator = np.random.default_rng(0)
    rows, columns, draws = 5, 7, 40_000
    w = generator.normal(0, 0.6, (draws, rows, columns))
    gram = w @ w.transpose(0, 2, 1)
    sampled = np.einsum("nij,nij->n", gram, gram)
    exact = float(expect(gram_square(W)).subs({d: rows, m: columns, sigma: 0.6}))
    assert abs(sampled.mean() - exact) < 4 * sampled.std() / np.sqrt(draws)


def test_shown_as_text_and_latex() -> None:
    node = Expectation((W[i, k] * W[i, k]).sum(i, k))
    assert str(node) == "E[Sum(W_ik*W_ik, i=1..d, k=1..m)]"
    assert sp.latex(node).startswith(r"\mathbb{E}\left[\sum_{i=1}^{d}\sum_{k=1}^{m}")
    assert "E[" in sp.pretty(node)
    assert "E[" in sp.printing.mathml(node, printer="presentation")
    assert node.free_symbols == {d, m, sigma}
    assert node.doit() == d * m * sigma**2
    assert Counter([node, Expectation((W[i, k] * W[i, k]).sum(i, k))])[node] == 2
    square = IndexSum((W[i, k] * W[i, k]).sum(i, k), "||W||^2", r"\|W\|^2")
    assert sp.latex(node / square**2) == (r"\frac{" + sp.latex(node) + r"}{{\|W\|^2}^{2}}")


def test_nodes_of_different_laws_are_different() -> None:
    wider = Tensor("W", (d, m), Gaussian(4 * sigma**2))
    first, second = (Expectation((t[i, k] * t[i, k]).sum(i, k), "size") for t in (W, wider))
    assert first != second and sp.simplify((second / first).doit() - 4) == 0


def test_roots_of_squares_are_rational_and_others_stand() -> None:
    for k in (1, 2, 3, 5):
        assert root(Fraction(k * k, 9)) == Fraction(k, 3)
    for number in (Fraction(2), Fraction(4, 3), Fraction(3, 4)):
        found = root(number)
        assert isinstance(found, sp.Pow) and found**2 == sp.Rational(*number.as_integer_ratio())
