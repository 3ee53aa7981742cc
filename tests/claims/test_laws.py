"""Laws of what the claims share, and of their own formulas, on drawn numbers."""

import math
from functools import partial
from inspect import unwrap
from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory.statistics import Interval
from paper_checks.shared import changes, judging, stacks
from paper_checks.shared.bench import Lab
from paper_checks.shared.check import claims
from paper_checks.shared.fitting import powers, settled
from paper_checks.shared.gaussian import FeedForward, LinearAttention, drawn, expect, squared
from paper_checks.shared.stacks import correlation
from paper_checks.shared.training import descend

few = partial(settings, max_examples=8, deadline=None)
s, t = sp.symbols("s t", real=True)
integers, positive = st.integers(-3, 3), st.floats(0.1, 3.0)
coefficients = st.lists(integers, min_size=1, max_size=5)


def names_of(claim):
    """The module-level names of a claim's own file."""
    return unwrap(claims()[claim].parts[0].check).__globals__


def polynomial(of, symbol):
    return sp.sympify(sum(c * symbol**k for k, c in enumerate(of)))


@few()
@given(coefficients)
def test_a_weighted_sum_of_gaussians_is_gaussian(weights):
    entries = sp.symbols(f"t:{len(weights)}", real=True)
    variances = {entry: sp.Integer(k + 1) for k, entry in enumerate(entries)}
    total = sp.sympify(sum(w * entry for w, entry in zip(weights, entries, strict=True)))
    variance = sum((k + 1) * w**2 for k, w in enumerate(weights))
    moments = [expect(total**p, variances) for p in (1, 2, 3, 4)]
    assert moments == [0, variance, 0, 3 * variance**2]


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 100))
def test_exact_moments_are_the_means_of_draws(seed):
    """E‖ReLU(xW)V‖² and attention's term against draws, at numbers for what is fixed."""
    draws, f, a = np.random.default_rng(seed), FeedForward(2, 3), LinearAttention(2)
    x, dV, dW = draws.normal(size=(1, 2)), draws.normal(size=(2, 2)), draws.normal(size=(2, 2))

    def matrices(rows, columns, variance):
        return draws.normal(0, math.sqrt(variance), (100_000, rows, columns))

    W, V = matrices(2, 3, 2 * 0.5**2 / 2), matrices(3, 2, 0.7**2 / 3)
    at = {f.v: 0.7, f.w: 0.5, **dict(zip(f.x, x.ravel(), strict=True))}
    exact = f.mean(squared(f.hidden(f.x) * f.V)).subs(at)
    found = (np.maximum(x @ W, 0) @ V) ** 2
    assert found.sum((1, 2)).mean() == pytest.approx(float(exact), rel=0.05)
    change = matrices(1, 2, 1) @ (dV @ matrices(2, 2, 0.5**2 / 2) + matrices(2, 2, 0.7**2 / 2) @ dW)
    values = zip((*a.dV, *a.dW), (*dV.ravel(), *dW.ravel()), strict=True)
    exact = a.parameter_term().subs({a.v: 0.7, a.w: 0.5, **dict(values)})
    assert (change**2).sum((1, 2)).mean() == pytest.approx(float(exact), rel=0.05)


@few()
@given(integers, integers)
def test_a_coin_does_not_stand_for_a_mask_where_odd_powers_meet_it(first, second):
    f = FeedForward(1, 1)
    odd = first * f.hidden(f.x)[0] + (second or 1) * f.hidden(f.x)[0] ** 3
    with pytest.raises(ValueError, match="odd power"):
        f.mean(odd, drawn(sp.Matrix([t]), 1))  # w/√π by the mask, 0 by a coin


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1), st.floats(0, 1))
def test_an_interval_is_in_a_band_out_of_it_or_undecided(low, width, bottom, band):
    found = Interval(low + width / 2, low, low + width)
    verdict = judging.within(found, bottom, bottom + band, "x").verdict
    inside = bottom <= low and low + width <= bottom + band
    outside = low + width < bottom or bottom + band < low
    expected = Verdict.SUPPORTED if inside else Verdict.REFUTED if outside else Verdict.UNDECIDED
    assert verdict is expected


def test_the_correlation_of_tokens_is_their_mean_cosine():
    assert correlation(torch.ones(2, 1, 5, 4)).tolist() == pytest.approx([1, 1])
    assert correlation(torch.eye(4).reshape(1, 1, 4, 4)).item() == pytest.approx(0.0, abs=1e-12)


@few()
@given(st.floats(0.01, 0.2), st.lists(positive, min_size=2, max_size=2))
def test_the_claims_training_is_sgd_by_hand(rate, batch):
    x, weight, seen = torch.tensor(batch)[:, None], torch.nn.Parameter(torch.ones(2, 1)), []
    losses = descend(
        "sgd", [weight], rate, [x, x], lambda x: (x * weight).square().sum(1), seen.append
    )
    first = x.detach()[:, 0].square()
    assert torch.allclose(losses, torch.stack([first, first * (1 - 2 * rate * first) ** 2]))
    assert seen == [0, 1]


@few()
@given(positive, positive, positive, st.sampled_from([1, -1]))
def test_the_printed_derivatives_of_the_scalar_sublayer(alpha, v, w, sign):
    """Complex-step differentiation: exact to rounding, and no formula in common."""

    def f(v, w):
        return (alpha + sign * v * w) / (alpha**2 + (v * w) ** 2) ** 0.5

    printed, tiny = names_of("cake-scalar-derivatives")["printed"], 1e-30
    at = dict(zip(sp.symbols("x alpha v w", positive=True), (1, alpha, v, w), strict=True))
    for name, along in (("v", f(v + tiny * 1j, w)), ("w", f(v, w + tiny * 1j))):
        found = float(printed(name, sign).subs(at))
        assert math.isclose(found, along.imag / tiny, rel_tol=1e-9, abs_tol=1e-12)


@few()
@given(st.floats(0.01, 0.99), st.integers(1, 5))
def test_the_means_of_products_of_jacobians(r, count):
    exact = names_of("cake-random-sign")["products"](count)
    found = sorted(float(e.subs(sp.Symbol("r", positive=True), r)) for e in exact)
    signs = product((1, -1), repeat=count)
    direct = sorted(math.prod((1 + s * r) / math.sqrt(1 + r * r) for s in one) for one in signs)
    assert found == pytest.approx(direct)
    assert np.mean(found) == pytest.approx((1 + r * r) ** (-count / 2))
    assert np.mean(np.square(found)) == pytest.approx(1)
    geometric = ((1 - r * r) / (1 + r * r)) ** (count / 2)
    assert math.exp(np.mean(np.log(found))) == pytest.approx(geometric)


# ---- the bench ----


def interval(low, high):
    return Interval((low + high) / 2, low, high)


def test_of_several_conditions_the_worst_counts_and_the_tightest_is_told():
    wide, tight = interval(0.98, 1.02), interval(1.03, 1.04)
    found = judging.within({"wide": wide, "tight": tight}, 0.95, 1.05, "ratio")
    assert found.verdict is Verdict.SUPPORTED and found.because.startswith("ratio, tight: ")
    both = {"wide": judging.numbers(wide), "tight": judging.numbers(tight)}
    assert found.evidence["by condition"] == both
    found = judging.at_most({"good": wide, "bad": interval(1.2, 1.3)}, 1.0, "ratio")
    assert found.verdict is Verdict.REFUTED and "bad" in found.because
    nothing = interval(math.nan, math.nan)  # a condition without a value is no pass
    found = judging.within({"good": interval(0.99, 1.01), "none": nothing}, 0.9, 1.1, "r")
    assert found.verdict is not Verdict.SUPPORTED
    with pytest.raises(ValueError, match="nothing was measured"):
        judging.at_most({}, 1.0, "ratio")
    measured = {"half": interval(0.49, 0.51), "one": interval(0.99, 1.01)}
    assert judging.exponent(measured, {"half": 0.5, "one": 1.0}).verdict is Verdict.SUPPORTED
    for wrong in ({"half": 1.0, "one": 0.5}, 0.5):
        assert judging.exponent(measured, wrong).verdict is Verdict.REFUTED


def test_a_fit_shows_its_points_as_evidence():
    at = (4, 8, 16, 32)
    noise = np.exp(0.001 * np.random.default_rng(0).standard_normal((8, 4)))
    found = Lab.exponent({"text": settled(at, np.sqrt(at) * noise)}, 0.5, (("none", 0.0),))
    assert found.verdict is Verdict.SUPPORTED and found.evidence["by condition"]["text"]["at"] == at
    knobs = [(a, b) for a in (1.0, 2.0, 4.0) for b in (1.0, 3.0)]
    values = np.array([[a**2 / b for a, b in knobs]] * 2) * noise[:2, :1]
    assert np.allclose([i.estimate for i in powers(knobs, values)], [2, -1])


def test_seeds_in_lots_are_the_lots_one_after_another():
    net, squares = stacks.PLAIN, stacks.Pass.squared
    s = Lab().settings(width=16, tokens=4, seeds=4)
    parts = [stacks.per_depth(net, (1, 2), lot, squares) for lot in stacks.lots(s, 2)]
    both = stacks.per_depth(net, (1, 2), s, squares, at_once=2)
    assert both.tolist() == [row for part in parts for row in part.tolist()]
    with pytest.raises(ValueError, match="float64"):  # a step that rounding would lose
        changes.scaled_updates(stacks.Net(), (4,), Lab().settings(step="all"))
