"""The laws of branches and residual equations, against the witness's explicit matrices."""

import math
import random

import pytest

from deepnet_theory.definitions.expression import Call, Name, parts
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import SUBLAYERS, norm
from deepnet_theory.proof import witness
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.rule import solve_rule


@pytest.mark.parametrize("name", SUBLAYERS)
@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=lambda p: p.name)
def test_responses_are_those_of_explicit_matrices(placement, name):
    """Each response is the monomial in α and β that a doubled knob shows, near the identity."""
    own = SUBLAYERS[name]
    law, seen = laws.law(placement, own, norm("layer")), witness.sizes(placement, own)
    known = {m.name: Monomial.of("beta") for m in own.scaled} | {m.name: ONE for m in own.unscaled}

    def put(size):
        return size.put({**known, "stream": ONE})

    assert put(law.weight) == seen.weight
    responses = {name: {put(size) for size in sizes} for name, sizes in law.responses.items()}
    assert responses == {name: {size} for name, size in seen.responses.items() if size is not None}


def test_a_stream_that_is_multiplied_is_seen_to_the_next_order():
    """alpha/sqrt(1 + alpha²) = 1 - 1/(2 alpha²) + … as α grows."""
    u_mup = Placement("own", "(alpha*x + branch(x))*(1 + alpha**2)**(-1/2)", True)
    times = laws.law(u_mup, SUBLAYERS["ffn"]).multiplied
    assert times is not None
    random.seed(1)
    for alpha in (random.uniform(30, 60) for _ in range(3)):
        (power, _), c = times.rest
        series = float(times.coefficient) * (1 + float(c) * alpha ** float(power))
        assert math.isclose(series, alpha / math.sqrt(1 + alpha**2), rel_tol=1e-6)


# ---- norms within a branch: what they take back, and the rules that follow ----


@pytest.mark.parametrize("name", SUBLAYERS)
def test_no_norm_within_a_branch_divides_what_a_rule_makes_small(name):
    """So its epsilon never overtakes what it divides, at whatever depth."""
    own = SUBLAYERS[name]
    norms = [n for n in parts(own.expression.root) if isinstance(n, Call) and n.function == "norm"]
    inside = {n.name for norm in norms for n in parts(norm.arguments[0]) if isinstance(n, Name)}
    assert not inside & {m.name for m in own.scaled}
    assert bool(norms) == name.endswith(("-sub-ln", "-norm", "-latent"))


def test_the_order_of_sublayers_does_not_pick_the_closure():
    layers = ("ffn,attention-sub-ln", "attention-sub-ln,ffn")
    found = [solve_rule(Selection("adamw", placement="pre-ln", layer=layer)) for layer in layers]
    assert [rule.closure.name for rule in found] == ["complete", "complete"]
    betas = [{k.name: k.beta for k in rule.parts[0].kinds} for rule in found]
    assert betas[0] == betas[1] and betas[0]["attention-sub-ln"] == ONE / (
        Monomial.number(2) * Monomial.of("N")
    )
