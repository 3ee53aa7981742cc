"""The moment route beyond what every derivation shows: the source's values, premises, refusals."""

import derivations
import numpy as np
import pytest
import sympy as sp

from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.algebra import alpha, v, w
from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.moments import Reading, d, m, run_through


def test_the_source_s_moments_come_out():
    of_two = derivations.derivation("moments post-ln, independent")
    values = {step.name: step.rhs for step in of_two.steps}
    names = {str(s): s for rhs in values.values() for s in rhs.free_symbols}
    size = alpha**2 + v**2 * w**2
    x, dx, dv, dw = (names.get(f"norm_{name}") for name in ("x", "dx", "dV", "dW"))
    for kind, kept in (("ffn", 2), ("attention", 1)):
        assert sp.expand(values[f"{kind}-norm"] - size * x**2) == 0
        assert sp.expand(values[f"{kind}-input-term"] - size * dx**2) == 0
        term = w**2 * dv**2 + d * v**2 / (kept * m) * dw**2
        assert sp.expand(values[f"{kind}-parameter-term"] - term) == 0
    assert values["moment-coefficient"] == sp.sqrt(v**2 + w**2) / alpha
    assert str(values["amplification-independent"]) == "sqrt(M)*v_d*w_d/alpha_d"


def test_without_centring_one_direction_is_lost_and_premises_are_stated():
    of_rms = derive(Selection(optimizer="sgd", method="moments", norm="rms"))
    assert of_rms.verdict is Verdict.PROVED and "d ≥ 2" in of_rms.step("norm-jacobian").because
    assert {"independent-update", "independent-mask", "white-input"} <= {
        premise.name for premise in of_rms.assumptions
    }


@pytest.mark.parametrize(
    "equation",
    [
        ("x + branch(x)", False),
        ("x + branch(x)", True),
        ("alpha*x + branch(norm(x))", True),
        ("x + norm(x) + branch(x)", True),
        ("norm(x)*alpha + branch(x)", True),
    ],
)
def test_an_equation_without_a_law_is_refused(equation):
    with pytest.raises(Refusal, match="no law for the placement 'odd'"):
        Reading.of(Placement("odd", *equation))


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ({"layer": "attention,ffn:swiglu"}, "'ffn-swiglu': it is no product of two matrices"),
        ({"stack": "encoder-decoder", "layer": "attention,ffn"}, "no cross-attention"),
    ],
)
def test_a_stack_without_a_law_is_refused(select, says):
    with pytest.raises(Refusal, match=says):
        derive(Selection(optimizer="sgd", method="moments", **select))


def test_a_memory_change_through_a_decoder_sampled():
    """Post-LN with fresh matrices: A² of a fixed change of the memory, self-attention between."""
    generator = np.random.default_rng(6)
    width, layers, residual, draws = 48, 4, 1.6, 200

    def norm(x):
        x = x - x.mean()
        return np.sqrt(width) * x / np.linalg.norm(x)

    start, memory = norm(generator.normal(size=width)), norm(generator.normal(size=width))
    step = generator.normal(size=width)
    step *= 1e-4 / np.linalg.norm(step)
    squares = []
    for _ in range(draws):
        here, moved = start, start
        for reads_memory in (False, True, False) * layers:
            inner, outer = generator.normal(0, width**-0.5, (2, width, width))
            one, two = (memory, memory + step) if reads_memory else (here, moved)
            here = norm(residual * here + one @ inner @ outer)
            moved = norm(residual * moved + two @ inner @ outer)
        squares.append(np.sum((moved - here) ** 2) / np.sum(step**2))
    _, decoder = Selection("lamb", stack="encoder-decoder").the_stack.parts
    exact = run_through(decoder, layers, 1 / residual, normed_sum=True)
    error = np.std(squares) / np.sqrt(draws)
    # the norm takes two of the width's directions away, and ‖z‖ is not its mean exactly
    assert np.mean(squares) == pytest.approx(float(exact), abs=4 * error + 0.04)
    assert exact < 1
