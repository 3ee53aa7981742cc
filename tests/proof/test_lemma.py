"""The lemma route: its assumptions, bounds and placements, and plain numbers without its code."""

import math
import re
from dataclasses import replace
from functools import cache
from itertools import product

import derivations
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.placement import Placement, placements
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.lemma import lemma_route, without_minus
from paper_checks.shared.steps.lemma import before_steps, following_steps

LEMMAS = [name for name, of in derivations.SELECTIONS.items() if of.get("method") == "lemma"]


def test_what_the_sources_write_before_the_route_holds():
    assert {step.name: step.failures() for step in before_steps() if step.failures()} == {}


@pytest.mark.parametrize("name", LEMMAS)
def test_what_the_route_rests_on_and_what_follows_it_holds(name):
    premises = {a.name for a in derivations.derivation(name).assumptions}
    assert {"independent-signs", "bounded-loss-gradient"} <= premises
    following = following_steps(derivations.selection(name))
    assert {step.name: step.failures() for step in following if step.failures()} == {}


def test_bounds_are_refuted_with_sides_exchanged_or_halved():
    for name in ("lemma", "lemma both"):
        steps = derivations.derivation(name).steps
        bounds = [s for s in steps if s.relation.name == "AT_MOST"]
        assert bounds
        for s in bounds:
            for wrong in ({"lhs": s.rhs, "rhs": s.lhs}, {"rhs": s.rhs / 2}):
                assert replace(s, **wrong).check() is Verdict.REFUTED, s.name


def test_two_parts_say_how_they_add_and_two_cross_attentions_amplify_twice():
    both = derivations.selection("lemma both")
    uses = {s.name: s.uses for s in derive(both).steps}
    assert uses["amplification-aligned"] == ("two-part-bound",)
    assert uses["two-part-bound"] == ("telescoping-unit-jacobians", "cross-attention-response")
    twice = derive(replace(both, layer="attention,cross,cross,ffn"))
    once = derivations.derivation("lemma both")
    assert twice.step("amplification-aligned").rhs == 2 * once.step("amplification-aligned").rhs


@pytest.mark.parametrize(
    ("select", "what"),
    [
        *(({"placement": name}, placements()[name].equation)
          for name in sorted(placements().keys() - {"post-ln", "pre-ln"})),
        ({"update": "-eta*g/norm(g)**(3/2)"}, "falls with its gradient"),
    ],
)  # fmt: skip
def test_what_the_route_does_not_cover_is_refused_with_the_probes_name(select, what):
    select = {"method": "lemma", **({"optimizer": "sgd"} if "update" not in select else {}),
              **select}  # fmt: skip
    with pytest.raises(Refusal, match=re.escape(what)) as refused:
        lemma_route(Selection(**select))
    assert "use the method probe" in str(refused.value)


def test_the_route_refuses_a_branch_of_another_weight(monkeypatch):
    """The layer cake's products of Jacobians hold of norm(alpha*x + branch(x))."""
    half = Placement("mine", "norm(alpha*x + branch(x)/2)", final_norm=True)
    monkeypatch.setattr("deepnet_theory.definitions.placement.placements", lambda: {"mine": half})
    selection = Selection(optimizer="sgd", placement="mine")
    assert len(derive(selection).rule.entries) == 1
    with pytest.raises(Refusal, match="the lemma route covers"):
        derive(replace(selection, method="lemma"))


# ---- its statements against plain numbers ----

unit = st.floats(0.01, 0.99)
positive = st.floats(0.1, 3.0)


@cache
def step(name, **select):
    selection = Selection(method="lemma", **{"optimizer": "sgd", **select})
    told = (*before_steps(), *lemma_route(selection).steps, *following_steps(selection))
    return next(s for s in told if s.name == name)


def value(expression, **at):
    by_name = {s.name: s for s in expression.free_symbols}
    return float(expression.subs({by_name[k]: v for k, v in at.items() if k in by_name}))


@given(unit, st.integers(1, 6))
def test_the_average_of_correlated_tokens(rho, tokens):
    """The quadratic form of the tokens' correlation matrix, at uniform weights."""
    correlation = np.full((tokens, tokens), rho) + (1 - rho) * np.eye(tokens)
    expected = np.full(tokens, 1 / tokens) @ correlation @ np.full(tokens, 1 / tokens)
    average = step("average-with-uniform-weights").rhs
    assert math.isclose(value(average, rho=rho, n=tokens), expected, rel_tol=1e-12)
    # independent tokens lose magnitude: the lemma's bound is far from an equality
    assert (value(average, rho=0.0, n=1024), value(average, rho=1.0, n=1024)) == (1 / 1024, 1.0)


@given(positive, positive, positive)
def test_derivatives_of_the_scalar_sublayer(alpha, v, w):
    """Complex-step differentiation: exact to rounding, and no formula in common."""

    def f(v, w):
        return (alpha + v * w) / (alpha**2 + (v * w) ** 2) ** 0.5

    tiny = 1e-30
    for name, along in (("v", f(v + tiny * 1j, w)), ("w", f(v, w + tiny * 1j))):
        found = value(step(f"derivative-{name}").rhs, alpha=alpha, v=v, w=w, x=1.0)
        assert math.isclose(found, along.imag / tiny, rel_tol=1e-9, abs_tol=1e-12)


def test_a_minus_goes_into_one_sum_of_a_product():
    a, b, c = sp.symbols("a b c", positive=True)
    for product_of in ((a - b,), (a - b, b - c), (a, b - c, a - 2 * b), (1 / (a + b), b - c)):
        minus = -sp.Mul(*product_of)
        found = without_minus(minus)
        assert sp.simplify(found - minus) == 0 and sp.S.NegativeOne not in found.args
    for kept in (a - b, -a * b, a * (b - c), -a / (b + c)):
        assert without_minus(kept) == kept


@given(unit, st.integers(1, 7))
def test_the_four_products_of_jacobians(r, count):
    products = np.array(
        [
            np.prod([(1 + s * r) / math.sqrt(1 + r * r) for s in signs])
            for signs in product((1, -1), repeat=count)
        ]
    )
    expected = {
        "jacobian-geometric-mean": np.exp(np.log(products).mean()),
        "jacobian-mean": products.mean(),
        "jacobian-root-mean-square": math.sqrt((products**2).mean()),
        "jacobian-all-positive": products.max(),
    }
    for name, truth in expected.items():
        assert math.isclose(value(step(name).rhs, r=r, Q=count), truth, rel_tol=1e-10), name
    assert list(expected.values()) == sorted(expected.values()) or count == 1 or r < 1e-6


def test_a_pre_ln_stream_in_independent_directions():
    """Random orthogonal branches: the stream's size and what passes it, as the steps say."""
    generator = np.random.default_rng(0)
    width, sublayers, r, start = 48, 12, 0.6, 4
    sizes, passed = [], []

    def norm(x):
        return math.sqrt(width) * x / np.linalg.norm(x)

    def orthogonal():
        q, upper = np.linalg.qr(generator.normal(size=(width, width)))
        return q * np.sign(np.diag(upper))  # Haar: without the signs q would lean to −1

    for _ in range(400):
        branches = [orthogonal() for _ in range(sublayers)]
        x = norm(generator.normal(size=width))
        moved = x
        direction = generator.normal(size=width)
        direction *= math.sqrt(width) / np.linalg.norm(direction)
        for index, branch in enumerate(branches, start=1):
            x = x + r * branch @ norm(x)
            moved = moved + r * branch @ norm(moved)
            if index == start:
                moved = x + 1e-6 * direction
        sizes.append(x @ x / width)
        passed.append(((norm(moved) - norm(x)) @ (norm(moved) - norm(x))) / 1e-12 / width)
    for found, samples in (
        (step("stream-size", placement="pre-ln").rhs, sizes),
        (step("stream-jacobians", placement="pre-ln").rhs, passed),
    ):
        truth = value(found, r=r, S=sublayers, i=start)
        error = np.std(samples) / math.sqrt(len(samples))
        # a norm takes the share 1/width of a change that lies along the stream
        assert abs(np.mean(samples) - truth) < 4 * error + 2 * truth / width


@pytest.mark.parametrize(("optimizer", "power"), [("sgd", 1), ("adam", 0)])
def test_the_sum_far_from_the_identity(optimizer, power):
    """Plain pre-LN (r = 1) in independent directions: log S for SGD, √S for Adam, not S."""
    found = step("sum-without-near-identity", optimizer=optimizer, placement="pre-ln")
    previous = 0.0
    for sublayers in (10, 1000, 100_000):
        truth = sum((1 + i) ** (-(1 + power) / 2) for i in range(1, sublayers + 1))
        bound = value(found.rhs, r=1, S=sublayers)
        assert previous < truth <= bound
        assert bound - truth < 1.3  # the summand's fall from its first value, at most
        previous = truth
