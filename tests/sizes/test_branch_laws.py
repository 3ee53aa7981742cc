"""The laws of branches and residual equations, against explicit matrices."""

import math
import random

import numpy as np
import pytest

from deepnet_theory.definitions.placement import Placement, placements
from deepnet_theory.definitions.sublayer import norm, sublayers
from deepnet_theory.sizes import laws

TOKENS, WIDTH = 3, 4


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def normalised(x):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True))


FUNCTIONS = {
    "phi": lambda a: np.where(a > 0, a, 0.3 * a),  # homogeneous, and no token dies
    "softmax": softmax,
    "norm": normalised,
    "T": np.transpose,
    "hadamard": np.multiply,
}


def output(placement, name, gains, moved, by):
    """A sublayer's output on explicit matrices, one parameter moved by ``by`` in a direction."""
    of, rng = sublayers()[name], np.random.default_rng(3)
    matrix = lambda *shape: rng.standard_normal(shape) / 2  # noqa: E731
    x, memory = matrix(TOKENS, WIDTH), matrix(TOKENS, WIDTH)
    x, memory = normalised(x), normalised(memory)
    values = {"x": x, "memory": memory}
    for one in of.matrices:
        values[one.name] = gains[one.name] * matrix(WIDTH, WIDTH)
        values[one.name] = values[one.name] + by * matrix(WIDTH, WIDTH) * (one.name == moved)
    for vector in of.vectors:
        values[vector.name] = by * np.ones((TOKENS, 1)) * matrix(1, WIDTH) * (vector.name == moved)
    gain = 1 + by * matrix(1, WIDTH) * (moved == "norm_gain")

    def branch(argument):
        code = of.branch.replace("*", "@")
        return eval(code, {**FUNCTIONS, **values, "x": argument})  # our own formulas

    def learnt(start):
        return start + by * rng.standard_normal(WIDTH) * (moved == "residual_gain")

    names = {"branch": branch, "norm": lambda a: gain * normalised(a), "alpha": gains["alpha"]}
    return eval(placement.expression.text, {**names, "learnt": learnt, "x": x})


@pytest.mark.parametrize("name", ["attention", "cross", "ffn", "ffn-swiglu"])
@pytest.mark.parametrize("placement", placements().values(), ids=lambda p: p.name)
def test_responses_are_those_of_explicit_matrices(placement, name):
    """Each response scales with α and every gain as its monomial says, near the identity."""
    law = laws.law(placement, sublayers()[name], norm("rms"))
    small = {m.name: 0.1 for m in law.sublayer.matrices} | {"query": 1.0, "key": 1.0}
    base = {**small, "alpha": 100.0 if law.has_alpha else 1.0}

    def response(gains, parameter):
        step = 1e-4 * gains.get(parameter, 1.0)
        far, near = (output(placement, name, gains, parameter, s) for s in (step, -step))
        return float(np.linalg.norm(far - near)) / (2 * step)

    assert "key_bias" not in law.responses  # which moves nothing
    for parameter in law.responses:
        if parameter == "norm_bias":
            continue
        for knob in (k for k in base if k not in ("query", "key")):
            moved = {**base, knob: base[knob] * 2}
            found = math.log2(response(moved, parameter) / response(base, parameter))
            wanted = {float(size.exponent(knob)) for size in law.responses[parameter]}
            assert min(abs(found - w) for w in wanted) < 0.05, (parameter, knob, found, wanted)


def test_a_stream_that_is_multiplied_is_seen_to_the_next_order():
    """alpha/sqrt(1 + alpha²) = 1 - 1/(2 alpha²) + …, and (1 - 1/alpha) as it stands."""
    u_mup = Placement("own", "(alpha*x + branch(x))*(1 + alpha**2)**(-1/2)", True)
    times = laws.law(u_mup, sublayers()["ffn"]).multiplied
    assert times is not None
    random.seed(1)
    for alpha in (random.uniform(30, 60) for _ in range(3)):
        series = sum(float(c) * alpha ** float(p) for (p, _), c in times.terms)
        assert math.isclose(series, alpha / math.sqrt(1 + alpha**2), rel_tol=1e-7)
