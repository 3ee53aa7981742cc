"""The moment route: every step proved, planted errors refuted, samples agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

from deepnet_theory.spec.assumption import assumptions
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.expectation import IndexSum
from deepnet_theory.symbolic.proof.step import Relation, Step
from deepnet_theory.symbolic.routes.moments import BRANCHES, moment_route
from deepnet_theory.symbolic.routes.moments.increment import is_gradient_step
from deepnet_theory.symbolic.routes.moments.setting import (
    XAVIER,
    alpha,
    beta,
    d,
    delta_w,
    eta,
    j,
    k,
    m,
    n,
    norm_dv,
    norm_dw,
    norm_x,
    v,
    w,
)
from deepnet_theory.symbolic.routes.moments.stream import stream_of
from deepnet_theory.symbolic.rule.problem import Problem
from paper_checks.shared.steps.moments import moment_asides

SELECTION = Selection(optimizer="sgd", method="moments")
STEPS = {s.name: s for s in (*moment_route(SELECTION).steps, *moment_asides(SELECTION))}
DERIVATION = derive(SELECTION)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_is_proved(name: str) -> None:
    assert STEPS[name].failures() == ()


def test_the_number_of_heads_drops_out() -> None:
    assert STEPS["attention-heads"].rhs == STEPS["attention-norm"].rhs


def planted(step: Step) -> list[Any]:
    """Wrong right-hand sides of a step; those that happen to be equal are left out."""
    right = step.rhs
    if isinstance(right, IndexSum):
        wrong: list[Any] = [IndexSum(right.polynomial * 2), IndexSum(right.polynomial * (-1))]
        return wrong
    if right == 0:
        return [alpha, 1]
    wrong = [-right, right / 2]
    if step.relation in (Relation.EQUAL, Relation.ASYMPTOTIC):
        wrong += [2 * right, right + 1]
        wrong += [right.subs({d: m, m: d}, simultaneous=True), right.subs(d, m), right.subs(m, d)]
        wrong += [right.subs(s, s**2) for s in (v, w, alpha, beta, norm_x, norm_dv, norm_dw, d, n)]
    return [x for x in wrong if sp.simplify(x - right) != 0]


@pytest.mark.parametrize("name", STEPS)
def test_planted_errors_are_refuted(name: str) -> None:
    step = STEPS[name]
    wrong = planted(step)
    assert wrong
    for right in wrong:
        assert replace(step, rhs=right).check() is Verdict.REFUTED, right


@pytest.mark.parametrize("name", STEPS)
def test_a_doubled_left_side_is_refuted(name: str) -> None:
    step = STEPS[name]
    if name != "degrees" and step.rhs != 0:  # the optimizer's degrees are checked elsewhere
        assert replace(step, lhs=2 * step.lhs).check() is Verdict.REFUTED


def test_swapped_ranges_of_the_first_matrix_do_not_even_form() -> None:
    with pytest.raises(InputError, match="axes of sizes"):
        delta_w[k, j]
    as_printed, right = STEPS["ffn-index-ranges-as-printed"], STEPS["ffn-index-ranges"]
    assert replace(right, rhs=as_printed.rhs).check() is Verdict.REFUTED
    assert replace(as_printed, rhs=right.rhs).check() is Verdict.REFUTED
    slip = STEPS["ffn-index-ranges-slip"]
    assert replace(slip, lhs=slip.rhs, rhs=slip.lhs).check() is Verdict.REFUTED


def test_derivatives_with_swapped_indices_are_refuted() -> None:
    first = STEPS["ffn-derivative-first-matrix"]
    second = STEPS["ffn-derivative-second-matrix"]
    assert replace(first, rhs=second.rhs).check() is Verdict.REFUTED
    masked = STEPS["attention-derivative-first-matrix"]
    assert replace(first, rhs=masked.rhs).check() is Verdict.REFUTED  # the mask forgotten


def test_reversed_inequalities_are_refuted() -> None:
    for name, step in STEPS.items():
        if step.relation is Relation.AT_MOST:
            swapped = replace(step, lhs=step.rhs, rhs=step.lhs)
            assert swapped.check() is Verdict.REFUTED, name


def test_the_source_s_moments_come_out() -> None:
    assert STEPS["ffn-mean"].rhs == 0
    assert STEPS["ffn-second-moment"].rhs == alpha**2 + v**2 * w**2
    assert STEPS["attention-second-moment"].rhs == alpha**2 + v**2 * w**2
    term = w**2 * norm_dv**2 + d * v**2 / (2 * m) * norm_dw**2
    assert sp.expand(STEPS["ffn-parameter-term"].rhs - term) == 0
    assert STEPS["attention-parameter-term"].rhs.coeff(norm_dw, 2) == d * v**2 / m
    assert STEPS["moment-coefficient"].rhs == sp.sqrt(v**2 + w**2) / alpha


def test_the_mean_square_of_z_sampled_with_the_true_mask() -> None:
    generator = np.random.default_rng(1)
    width, inner, draws = 6, 10, 20_000
    x = generator.normal(size=width)
    for rectified, variances in (
        (True, BRANCHES["ffn"].convention),
        (False, BRANCHES["attention"].convention),
        (True, XAVIER),
    ):
        at = {d: width, m: inner, v: 0.7, w: 0.9}
        big_w = generator.normal(0, float(sp.sqrt(variances.inner.subs(at))), (draws, width, inner))
        big_v = generator.normal(0, float(sp.sqrt(variances.outer.subs(at))), (draws, inner, width))
        hidden = x @ big_w
        if rectified:
            hidden = np.maximum(hidden, 0)
        z = 1.3 * x + np.einsum("nk,nki->ni", hidden, big_v)
        sampled = (z**2).sum(1)
        name = "ffn-norm" if rectified else "attention-norm"
        name = "ffn-xavier-norm" if variances is XAVIER else name
        exact = float(STEPS[name].rhs.subs({**at, alpha: 1.3, norm_x: np.linalg.norm(x)}))
        assert abs(sampled.mean() - exact) < 4 * sampled.std() / np.sqrt(draws), name


def test_relu_hidden_units_have_a_common_direction() -> None:
    """‖ReLU(xW)ΔV‖² with equal rows of ΔV: the coin's w²‖ΔV‖² is several times too small."""
    generator = np.random.default_rng(2)
    width, inner, draws = 8, 20, 40_000
    x = generator.normal(size=width)
    x *= np.sqrt(width) / np.linalg.norm(x)
    hidden = np.maximum(x @ generator.normal(0, np.sqrt(2 / width), (draws, width, inner)), 0)
    change = np.ones((inner, 1))
    sampled = ((hidden @ change) ** 2).sum(1)
    step = STEPS["ffn-mask-second-matrix"]
    names = {str(symbol): symbol for symbol in step.rhs.free_symbols}
    values = {"s": sp.sqrt(2), "norm_dV": sp.sqrt(inner), "norm_1dV": inner}
    exact = float(step.rhs.subs({names[key]: value for key, value in values.items()}))
    assert abs(sampled.mean() - exact) < 4 * sampled.std() / np.sqrt(draws)
    assert exact > 6 * inner  # the coin says ‖ΔV‖² = 20


def test_orthogonal_tokens_meet_behind_relu() -> None:
    generator = np.random.default_rng(3)
    first, second = np.maximum(generator.normal(size=(2, 400_000)), 0)
    cosine = (first * second).mean() / np.sqrt((first**2).mean() * (second**2).mean())
    assert abs(cosine - float(STEPS["mask-orthogonal-tokens"].rhs)) < 0.005


def test_deepnet_s_constants_and_their_assumptions() -> None:
    (entry,) = DERIVATION.rule.entries
    assert (entry.alpha, entry.beta) == ("(2*N)**(1/4)", "(8*N)**(-1/4)")
    assert DERIVATION.verdict is Verdict.PROVED
    assert DERIVATION.relation is Relation.BOUND
    names = {a.name for a in DERIVATION.assumptions}
    assert {"independent-update", "independent-mask", "white-input"} <= names
    assert names <= set(assumptions())


def test_the_sharper_bound_keeps_the_powers() -> None:
    depth = sp.Symbol("N", positive=True)
    for symbol, published in (("alpha", (2 * depth) ** 0.25), ("beta", (8 * depth) ** -0.25)):
        sharper = STEPS[f"sharper-rule-{symbol}"].rhs
        ratio = [float((sharper / published).subs(depth, N)) for N in (3, 300)]
        assert ratio[0] == pytest.approx(ratio[1]) and ratio[0] != pytest.approx(1)


def test_parts_of_a_layer_and_other_norms() -> None:
    selection = Selection(optimizer="adam", method="moments", layer="attention")
    only = (*moment_route(selection).steps, *moment_asides(selection))
    assert not [s.name for s in only if s.name.startswith("ffn") or "relu" in s.name]
    assert all(s.check() is Verdict.PROVED for s in only)
    rms = {
        s.name: s
        for s in moment_route(Selection(optimizer="sgd", method="moments", norm="rms")).steps
    }
    assert rms["norm-jacobian-rank"].rhs == d - 1
    assert rms["norm-jacobian-rank"].check() is Verdict.PROVED
    assert rms["norm-jacobian"].check() is Verdict.PROVED


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"layer": "attention,ffn:swiglu"}, "'ffn-swiglu': it is no product of two matrices"),
        (
            {"stack": "encoder-decoder", "layer": "attention,cross,ffn:swiglu"},
            "'ffn-swiglu': it is no product of two matrices",
        ),
        ({"stack": "encoder-decoder", "layer": "attention,ffn"}, "no cross-attention"),
    ],
)
def test_missing_laws_are_refused(other: dict[str, str], why: str) -> None:
    selection = Selection(optimizer="sgd", method="moments", **other)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match=why):
        moment_route(selection)


def test_a_placement_that_is_no_stream_with_a_branch_added_is_refused() -> None:
    for equation, final_norm in (
        ("x + branch(x)", False),
        ("x + branch(x)", True),
        ("alpha*x + branch(norm(x))", True),
        ("x + norm(x) + branch(x)", True),
        ("norm(x)*alpha + branch(x)", True),
    ):
        with pytest.raises(Refusal, match="no law for the placement 'odd'"):
            stream_of(Placement("odd", equation, final_norm))


@pytest.mark.parametrize(
    ("update", "along_the_gradient"),
    [
        ("-eta*g", True),
        ("-3*eta*g", True),
        ("-eta*sign(g)", False),
        ("-eta*g/norm(g)", False),
        ("-eta*norm(g)*sign(g)", False),
        ("-eta*norm(g)*polar(g)", False),
    ],
)
def test_only_a_gradient_step_is_derived_to_be_aligned(
    update: str, along_the_gradient: bool
) -> None:
    assert is_gradient_step(Optimizer("own", update)) is along_the_gradient


STREAMS = ("pre-ln", "res-post-ln", "sandwich-ln")


@pytest.mark.parametrize("placement", STREAMS)
def test_placements_whose_stream_grows(placement: str) -> None:
    steps = {
        s.name: s
        for s in moment_route(
            Selection(optimizer="adam", method="moments", placement=placement)
        ).steps
        if s.name not in STEPS or s != STEPS[s.name]
    }
    assert {"stream-growth", "change-growth", "stream-after", "moment-coefficient"} <= set(steps)
    for name, step in steps.items():
        assert step.failures() == (), name
        if name in ("degrees", "loss-increment"):
            continue
        for right in planted(step):
            assert replace(step, rhs=right).check() is Verdict.REFUTED, (name, right)
        if step.relation is Relation.AT_MOST and name != "moment-increment":
            swapped = replace(step, lhs=step.rhs, rhs=step.lhs)
            assert swapped.check() is Verdict.REFUTED, name


@pytest.mark.parametrize("placement", STREAMS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
def test_the_increment_of_every_placement_is_what_the_balance_sums(
    placement: str, optimizer: str
) -> None:
    selection = Selection(optimizer=optimizer, method="moments", placement=placement)
    derivation = derive(selection)
    assert derivation.verdict is Verdict.PROVED
    (balanced,) = Problem(selection).balanced
    stated = derivation.step("moment-increment").rhs / eta
    for kind in balanced.kinds:
        assert sp.simplify(sp.powsimp(stated / kind.increment, force=True)) == 1
    lemma = derive(replace(selection, method="lemma"))
    assert derivation.rule.entries == lemma.rule.entries


def test_a_pre_ln_change_grows_as_its_stream_sampled() -> None:
    """Real ReLU branches behind a norm: the change and the stream grow by one factor."""
    generator = np.random.default_rng(5)
    width, inner, b, draws = 24, 32, 0.8, 3_000

    def norm(x: Any) -> Any:
        x = x - x.mean()
        return np.sqrt(width) * x / np.linalg.norm(x)

    x = norm(generator.normal(size=width)) * 1.5
    dx = generator.normal(size=width)
    dx -= dx.mean() + (dx @ x) / (x @ x) * x  # in the directions that the norm keeps
    dx *= 1e-4 / np.linalg.norm(dx)
    sizes, changes = [], []
    for _ in range(draws):
        big_w = generator.normal(0, np.sqrt(2 / width), (width, inner))
        big_v = generator.normal(0, b / np.sqrt(inner), (inner, width))
        after, moved = (y + np.maximum(norm(y) @ big_w, 0) @ big_v for y in (x, x + dx))
        sizes.append(after @ after / (x @ x))
        changes.append(((moved - after) @ (moved - after)) / (dx @ dx))
    found = {
        s.name: s
        for s in moment_route(
            Selection(optimizer="sgd", method="moments", placement="pre-ln")
        ).steps
    }
    step = found["change-growth"]
    names = {str(symbol): symbol for symbol in step.rhs.free_symbols}
    values = {"v": b, "w": 1, "d": width, "norm_x_l": np.linalg.norm(x)}
    exact = float(step.rhs.subs({names[key]: value for key, value in values.items()}))
    for samples in (sizes, changes):
        assert abs(np.mean(samples) - exact) < 4 * np.std(samples) / np.sqrt(draws)
