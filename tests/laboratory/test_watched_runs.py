"""R and the tokens' cosine are those of a planted direction; a drowning run is warned of."""

import math

import pytest
import torch

from deepnet_theory.definitions.placement import placement
from deepnet_theory.laboratory.runs import CommonMode, is_taken, warning, watching
from deepnet_theory.runtime import build

LAYERS, WIDTH = 6, 32


@pytest.fixture
def plain(constants):
    def make(placement, alpha=1.0):
        return constants(
            layers=LAYERS, width=WIDTH, placement=placement, norm="rms", alpha=alpha, beta=1.0
        )

    return make


@pytest.mark.parametrize("name", ("post-ln", "pre-ln", "branch-multiplier", "res-post-ln"))
def test_a_planted_direction_is_seen(plain, name):
    alpha = 1.0 if name == "pre-ln" else 3.0
    model = build(plain(name, alpha), generator=torch.Generator().manual_seed(0))
    direction, weight = torch.ones(WIDTH), 0.4  # a branch of that size for every token
    for residual in model.residuals():
        times = 1.0 if "output" in residual.placement.norms else weight
        residual.branch.forward = lambda x, *_, by=times: by * direction.expand_as(x)
    with watching(model) as seen:
        model(torch.randint(256, (4, 64), generator=torch.Generator().manual_seed(1)))
    each = (1.0 if "output" in placement(name).norms else weight) / alpha
    (found,) = seen
    assert found.weight == pytest.approx(2 * LAYERS * each, rel=1e-3)
    shared = 2 * LAYERS * each
    divided = math.cosh(shared) if name == "post-ln" else math.hypot(1, shared)
    own = 1 - found.cosine  # of unit vectors that share a direction the square of the own part
    assert own == pytest.approx(divided**-2, rel=0.5)  # tokens are alike at first, the stack short


def test_first_steps_are_taken_closely_and_a_warning_says_the_step_and_the_law():
    assert [s for s in range(70) if is_taken(s)] == [0, 1, 2, 4, 8, 16, 32, 48, 64]

    def warned(normed, *weights):
        steps = zip((0, 4), weights, strict=True)
        return warning([CommonMode(weight, 0.0, normed, step) for step, weight in steps])

    assert warned(True, 1.0, 5.0) == warned(False, 1.0, 90.0) == ""
    assert "at step 4" in warned(True, 1.0, 6.0) and "cosh(R) = 202" in warned(True, 1.0, 6.0)
    assert "sqrt(1 + R**2) = 120" in warned(False, 1.0, 120.0)
