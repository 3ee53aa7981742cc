"""Norms within a branch: what they take back, and the rules that follow."""

import pytest

from deepnet_theory.definitions.expression import Call, Name, parts
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import sublayer, sublayers
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import table

LAYER = "attention-sub-ln,ffn-sub-ln"
SUBLAYERS = Monomial.number(2) * Monomial.of("N")


@pytest.mark.parametrize("name", sublayers())
def test_no_norm_within_a_branch_divides_what_a_rule_makes_small(name):
    """So its epsilon never overtakes what it divides, at whatever depth."""
    own = sublayers()[name]
    norms = [n for n in parts(own.expression.root) if isinstance(n, Call) and n.function == "norm"]
    inside = {n.name for norm in norms for n in parts(norm.arguments[0]) if isinstance(n, Name)}
    assert not inside & {m.name for m in own.scaled}
    assert bool(norms) == name.endswith(("-sub-ln", "-norm", "-latent"))


def test_a_matrix_before_a_norm_moves_the_branch_by_the_reciprocal_of_its_own_gain():
    jet = laws.branch(sublayer("ffn-sub-ln"))
    fc1, fc2 = Monomial.of("fc1"), Monomial.of("fc2")
    assert jet.size == fc2 and jet.moved["fc1"].size == fc2 / fc1
    assert jet.moved["fc2"].size == ONE
    assert {jet.moved[v].size for v in ("inner_gain", "inner_bias")} == {fc2}
    plain = laws.branch(sublayer("ffn"))
    assert plain.size == fc1 * fc2 and plain.moved["fc1"].size == fc2
    values = laws.branch(sublayer("attention-qkv-norm"))
    assert values.moved["value"].size == Monomial.of("output") / Monomial.of("value")


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon"])
def test_where_no_gain_changes_a_step_the_learning_rate_does(optimizer):
    found = solve_rule(Selection(optimizer, placement="pre-ln", layer=LAYER))
    (part,) = found.parts
    (kind,) = part.kinds
    assert found.closure.name == part.closure.name == "complete"
    assert kind.beta == kind.rate == ONE / SUBLAYERS
    post = solve_rule(Selection(optimizer, layer=LAYER, closure="unit-init"))
    p = {"sgd": 1}.get(optimizer, 0)
    assert post.parts[0].kinds[0].alpha ** (1 + p) == SUBLAYERS


def test_the_order_of_sublayers_does_not_pick_the_closure():
    layers = ("ffn,attention-sub-ln", "attention-sub-ln,ffn")
    found = [solve_rule(Selection("adamw", placement="pre-ln", layer=layer)) for layer in layers]
    assert [rule.closure.name for rule in found] == ["complete", "complete"]
    betas = [{k.name: k.beta for k in rule.parts[0].kinds} for rule in found]
    assert betas[0] == betas[1] and betas[0]["attention-sub-ln"] == ONE / SUBLAYERS


def test_gain_and_bias_of_a_norm_within_have_rows_of_their_own():
    rows = {r.parameter: r for r in table(Selection("adamw", layer=LAYER)).parameters}
    assert rows["inner_gain"].size == ONE and rows["inner_bias"].size is None
    assert rows["inner_gain"].gradient == rows["fc1"].gradient
    rms = table(Selection("adamw", layer=LAYER, norm="rms")).parameters
    assert "inner_gain" in {r.parameter for r in rms}
    assert not {"inner_bias", "norm_bias"} & {r.parameter for r in rms}
