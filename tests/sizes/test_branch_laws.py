"""The laws of branches and residual equations, against the witness's explicit matrices."""

import math
import random

import pytest

from deepnet_theory.definitions.placement import Placement, placements
from deepnet_theory.definitions.sublayer import norm, sublayers
from deepnet_theory.proof import witness
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import ONE, Monomial


@pytest.mark.parametrize("name", sublayers())
@pytest.mark.parametrize("placement", placements().values(), ids=lambda p: p.name)
def test_responses_are_those_of_explicit_matrices(placement, name):
    """Each response is the monomial in α and β that a doubled knob shows, near the identity."""
    own = sublayers()[name]
    law, seen = laws.law(placement, own, norm("layer")), witness.sizes(placement, own)
    known = {m.name: Monomial.of("beta") for m in own.scaled} | {m.name: ONE for m in own.unscaled}

    def put(size):
        return size.put({**known, "stream": ONE})

    assert put(law.weight) == seen.weight
    responses = {name: {put(size) for size in sizes} for name, sizes in law.responses.items()}
    assert responses == {name: {size} for name, size in seen.responses.items() if size is not None}


def test_a_stream_that_is_multiplied_is_seen_to_the_next_order():
    """alpha/sqrt(1 + alpha²) = 1 - 1/(2 alpha²) + …, and (1 - 1/alpha) as it stands."""
    u_mup = Placement("own", "(alpha*x + branch(x))*(1 + alpha**2)**(-1/2)", True)
    times = laws.law(u_mup, sublayers()["ffn"]).multiplied
    assert times is not None
    random.seed(1)
    for alpha in (random.uniform(30, 60) for _ in range(3)):
        series = sum(float(c) * alpha ** float(p) for (p, _), c in times.terms)
        assert math.isclose(series, alpha / math.sqrt(1 + alpha**2), rel_tol=1e-7)
