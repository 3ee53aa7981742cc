"""The lemma route's increments, balanced and closed, give the published rules."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement, placements
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import stack
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, M, N, alpha, beta, part_symbol, solve
from deepnet_theory.symbolic.laws import placement as matrix_law
from deepnet_theory.symbolic.routes.lemma.placement import directions, placement_steps
from deepnet_theory.symbolic.routes.lemma.route import lemma_route
from deepnet_theory.symbolic.rule.problem import Problem

TWO_PARTS = Selection(method="lemma", optimizer="sgd", stack="encoder-decoder")


def increments(**select: str) -> dict[str, sp.Expr]:
    """The increment of every part per η, its sublayers listed, in the part's own α and β."""
    selection = Selection(method="lemma", **select)  # type: ignore[arg-type]
    route, parts = lemma_route(selection), selection.the_stack.parts
    return {
        part.name: DEPTHS[part.depth]
        * sum(route.increments[s.name].per_eta for s in part.layer).xreplace(
            {s: part_symbol(s.name, part.name, len(parts)) for s in (alpha, beta)}
        )
        for part in parts
    }


def balanced(increment: sp.Expr, a: sp.Symbol, b: sp.Symbol, matrices: int = 2) -> tuple:
    """α and β from ``increment = 1`` and the closure √(Σβ²) = 1/α."""
    solution = solve([(increment, 1), (sp.sqrt(matrices) * b, 1 / a)], (a, b))
    assert solution is not None and solution.unique
    return solution.values[a], solution.values[b]


def same(left: sp.Expr, right: sp.Expr) -> bool:
    return sp.powdenest(sp.expand_power_base(left / right, force=True), force=True) == 1


def test_encoder_of_deepnet() -> None:
    a, b = balanced(increments(optimizer="sgd")["encoder"], alpha, beta)
    assert same(a, (2 * N) ** sp.Rational(1, 4))  # DeepNet, Figure 2
    assert same(b, (8 * N) ** sp.Rational(-1, 4))


def test_decoder_only_of_deepnet() -> None:
    found = increments(optimizer="sgd", stack="decoder")
    a, b = balanced(found["decoder"], alpha, beta)
    assert same(a, (2 * M) ** sp.Rational(1, 4))
    assert same(b, (8 * M) ** sp.Rational(-1, 4))


def test_encoder_and_decoder_of_deepnet_with_the_decimals_as_roundings() -> None:
    found = increments(optimizer="sgd", stack="encoder-decoder")
    knobs = {
        part: [part_symbol(k, part, 2) for k in ("alpha", "beta")]
        for part in ("encoder", "decoder")
    }
    decoder = balanced(found["decoder"], *knobs["decoder"])
    assert same(decoder[0], (3 * M) ** sp.Rational(1, 4))
    assert same(decoder[1], (12 * M) ** sp.Rational(-1, 4))
    weight = (
        lemma_route(TWO_PARTS).weights["cross"].value.subs({alpha: decoder[0], beta: decoder[1]})
    )
    # M cross-attentions that all push one way, once
    encoder = balanced(M * weight * found["encoder"], *knobs["encoder"])
    assert same(encoder[0], (N**4 * M / 27) ** sp.Rational(1, 16))
    assert same(encoder[1], (256 * N**4 * M / 27) ** sp.Rational(-1, 16))
    one = {N: 1, M: 1}
    assert f"{sp.N(encoder[0].subs(one)):.2f}" == "0.81"  # the decimals that DeepNet prints
    assert f"{sp.N(encoder[1].subs(one)):.2f}" == "0.87"
    # the amplification that was passed on grows with the decoder's depth
    assert same(M * weight, (M / 27) ** sp.Rational(1, 4) / 2)


def test_pre_ln_with_sgd() -> None:
    found = increments(optimizer="sgd", placement="pre-ln")["encoder"]
    assert alpha not in found.free_symbols
    solution = solve([(found, 1)], (beta,))
    assert solution is not None and same(solution.values[beta], (4 * N) ** -sp.Rational(1, 2))


def test_a_normalised_branch_has_no_rule_by_beta_alone_under_lamb() -> None:
    found = increments(optimizer="lamb", placement="res-post-ln")["encoder"]
    assert found == 4 * N / alpha


@pytest.mark.parametrize(
    "select",
    [
        {"optimizer": o, "placement": p, "stack": s}
        for o, p, s in product(
            ("sgd", "adam", "lamb"), ("post-ln", "pre-ln"), ("encoder", "decoder")
        )
    ]
    + [
        {"optimizer": "adam", "stack": "encoder-decoder"},
        {"optimizer": "sgd", "stack": "encoder-decoder"},
        {"optimizer": "sgd", "layer": "attention,ffn:swiglu"},
        {"optimizer": "adam", "layer": "ffn:swiglu"},
        {"update": "-eta*g/sqrt(norm(g))", "placement": "post-ln"},
    ],
    ids=str,
)
def test_the_engine_balances_these_increments(select: dict[str, str]) -> None:
    """At the rule that the engine solves for, the lemma's increment of every part is 1."""
    selection = Selection(method="lemma", **select)  # type: ignore[arg-type]
    route = lemma_route(selection)
    parts = Problem(selection).balanced
    values = {k: v for part in parts for k, v in part.values.items()}
    for part in parts:
        total: sp.Expr = sp.S.Zero
        for sublayer in part.part.layer:
            kind = next(k for k in part.kinds if k.name in ("*", sublayer.name))
            own = {alpha: values[kind.alpha], beta: values[kind.beta]}
            total += DEPTHS[part.part.depth] * route.increments[sublayer.name].per_eta.subs(own)
        factor = 1 if part.amplification is None else part.amplification.factor
        at = (factor * total).subs({N: sp.Rational(7, 2), M: sp.Rational(11, 3)})
        assert abs(sp.N(at, 30) - 1) < 1e-25


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ("published", "amplification-aligned"),
        ("worst-case", "amplification-aligned"),
        ("independent", "amplification-independent"),
    ],
)
def test_a_stack_of_two_parts_says_how_they_add(form: str, named: str) -> None:
    selection = Selection(
        method="lemma", optimizer="sgd", stack="encoder-decoder", amplification=form
    )
    route = lemma_route(selection)
    assert route.sums == ("sum-over-sublayers", named)
    uses = {step.name: step.uses for step in route.steps}
    assert uses[named] == ("two-part-bound",)
    assert uses["two-part-bound"] == ("telescoping-unit-jacobians", "cross-attention-response")


@pytest.mark.parametrize("name", placements())
def test_orthogonal_directions_agree_with_the_matrix_law_of_the_placement(name: str) -> None:
    found = directions(placements()[name])
    law = matrix_law.placement_law(placements()[name])
    assert same(found.weight, law.weight)
    assert same(found.leading, law.response)


@pytest.mark.parametrize(
    ("equation", "final_norm"),
    [
        ("norm(branch(x))", False),  # no path
        ("x + branch(branch(x))", True),
        ("x + branch(x)", True),  # the stream grows by a factor in every sublayer
        ("x + branch(norm(x))", False),  # nothing normalises the output
        ("norm(alpha*x)", False),  # no branch
        ("alpha", True),
    ],
)
def test_an_equation_without_a_law_is_refused(equation: str, final_norm: bool) -> None:
    with pytest.raises(Refusal, match="no law for the placement 'odd'"):
        placement_steps(directions(Placement("odd", equation, final_norm)))


def test_a_decoder_that_does_not_attend_is_refused() -> None:
    selection = Selection(
        method="lemma", optimizer="sgd", stack="encoder-decoder", layer="attention,ffn"
    )
    with pytest.raises(Refusal, match="no cross-attention"):
        lemma_route(selection)


def test_two_cross_attentions_in_a_layer_amplify_twice() -> None:
    layer = "attention,cross,cross,ffn"
    assert stack("encoder-decoder", layer).parts[1].crossings == 2
    single, double = (
        next(
            s.rhs
            for s in lemma_route(replace(TWO_PARTS, layer=of)).steps
            if s.name == "amplification-aligned"
        )
        for of in ("attention,cross,ffn", layer)
    )
    assert double == 2 * single
