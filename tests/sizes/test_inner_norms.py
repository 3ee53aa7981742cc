"""Norms within a branch: what they take back, and the rules that follow."""

import pytest

from deepnet_theory.definitions.expression import Call, Name, parts
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import sublayers
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.rule import solve_rule

SUBLAYERS = Monomial.number(2) * Monomial.of("N")


@pytest.mark.parametrize("name", sublayers())
def test_no_norm_within_a_branch_divides_what_a_rule_makes_small(name):
    """So its epsilon never overtakes what it divides, at whatever depth."""
    own = sublayers()[name]
    norms = [n for n in parts(own.expression.root) if isinstance(n, Call) and n.function == "norm"]
    inside = {n.name for norm in norms for n in parts(norm.arguments[0]) if isinstance(n, Name)}
    assert not inside & {m.name for m in own.scaled}
    assert bool(norms) == name.endswith(("-sub-ln", "-norm", "-latent"))


def test_the_order_of_sublayers_does_not_pick_the_closure():
    layers = ("ffn,attention-sub-ln", "attention-sub-ln,ffn")
    found = [solve_rule(Selection("adamw", placement="pre-ln", layer=layer)) for layer in layers]
    assert [rule.closure.name for rule in found] == ["complete", "complete"]
    betas = [{k.name: k.beta for k in rule.parts[0].kinds} for rule in found]
    assert betas[0] == betas[1] and betas[0]["attention-sub-ln"] == ONE / SUBLAYERS
