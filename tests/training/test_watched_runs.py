"""R and the tokens' cosine are those of a planted direction; a drowning run is warned of."""

from __future__ import annotations

import json

import pytest
import torch

from deepnet_theory.numeric.common_mode import Watch, is_taken, warning
from deepnet_theory.report.common_mode import layers_figure
from deepnet_theory.runtime import build, unstack
from deepnet_theory.sizes.common_mode import limit
from deepnet_theory.spec.constants import Architecture, Constants, PartConstants, SublayerConstants
from deepnet_theory.spec.placement import placement
from deepnet_theory.training import train

LAYERS, WIDTH = 6, 32
KINDS = ("attention", "ffn")


def constants(name: str, alpha: float = 1.0, optimizer: str = "adam") -> Constants:
    part = PartConstants(
        "decoder", LAYERS, True, tuple(SublayerConstants(kind, alpha, 1.0) for kind in KINDS)
    )
    sizes = Architecture(width=WIDTH, heads=4, vocab=256)
    return Constants("decoder", name, "rms", (part,), sizes, optimizer)


@pytest.mark.parametrize("name", ("post-ln", "pre-ln", "branch-multiplier", "res-post-ln"))
def test_a_planted_direction_is_seen(name: str) -> None:
    alpha = 1.0 if name == "pre-ln" else 3.0
    model = build(constants(name, alpha), generator=torch.Generator().manual_seed(0))
    direction, weight = torch.ones(WIDTH), 0.4  # a branch of that size for every token
    for residual in model.residuals():
        times = 1.0 if "output" in residual.placement.norms else weight
        residual.branch.forward = lambda x, *_, by=times: by * direction.expand_as(x)
    watch = Watch(model)
    with watch.watching():
        model(torch.randint(256, (4, 64), generator=torch.Generator().manual_seed(1)))
    each = (1.0 if "output" in placement(name).norms else weight) / alpha
    (found,) = watch.found
    assert found.weight == pytest.approx(2 * LAYERS * each, rel=1e-3)
    own = 1 - found.cosine  # of unit vectors that share a direction the square of the own part
    expected = limit(placement(name), 2 * LAYERS * each) ** 2
    assert own == pytest.approx(expected, rel=0.5)  # tokens are alike at first, and the stack short


@pytest.mark.parametrize("name", ("post-ln", "pre-ln", "sandwich-ln"))
def test_every_seed_of_a_stack_is_taken_by_itself(name: str) -> None:
    stack = build(constants(name), seeds=3, generator=torch.Generator().manual_seed(0))
    tokens = torch.randint(256, (3, 4, 64), generator=torch.Generator().manual_seed(1))
    taken = []
    for model, own in [(stack, tokens), *((unstack(stack, s), tokens[s]) for s in range(3))]:
        watch = Watch(model)
        with watch.watching():
            model(own)
        taken.append(watch.found)
    together, *alone = taken
    assert len(set(together)) == 3
    for seed, (found,) in zip(together, alone, strict=True):
        assert (found.weight, found.cosine) == pytest.approx((seed.weight, seed.cosine), rel=1e-4)


def test_nothing_stays_behind_a_taking() -> None:
    model = build(constants("post-ln"), generator=torch.Generator().manual_seed(0))
    with Watch(model).watching():
        pass
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_first_steps_are_taken_closely() -> None:
    assert [s for s in range(70) if is_taken(s)] == [0, 1, 2, 4, 8, 16, 32, 48, 64]


def test_a_warning_says_the_step_and_the_law() -> None:
    assert warning("post-ln", (0, 4), (1.0, 5.0)) == ""
    said = warning("post-ln", (0, 4), (1.0, 6.0))
    assert "at step 4" in said
    assert "cosh(R) = 202" in said
    assert warning("pre-ln", (0, 4), (1.0, 90.0)) == ""
    assert "sqrt(1 + R**2) = 120" in warning("pre-ln", (4,), (120.0,))


def test_a_training_follows_it_and_warns() -> None:
    told = train(
        constants("post-ln", 12.0), steps=6, seeds=2, batch=2, tokens=32, lr=0.05, processes=1
    )
    data = json.loads(told.to_json())
    by_rule = {run["rule"]: run for run in data["runs"]}
    own, plain = by_rule["post-ln, the constants' rule"], by_rule["plain post-LN"]
    assert own["common_mode_steps"] == plain["common_mode_steps"] == [0, 1, 2, 4]
    assert max(own["common_mode"]) < max(plain["common_mode"]) / 2
    assert plain["token_cosine"][-1] > 0.99
    assert any(line.startswith("plain post-LN: at step") for line in data["warnings"])


def test_the_page_draws_layers_over_steps() -> None:
    told = train(constants("pre-ln"), steps=3, seeds=1, batch=2, tokens=32, processes=1)
    for run in told.runs:
        assert [len(weights) for weights in run.branch_weights] == [LAYERS] * 3
    # at the start a branch of pre-LN weighs 1/√depth of the stream it is added to, or less
    first, *_, last = told.runs[0].branch_weights[0]
    assert 0 < last < first
    panels = layers_figure([(run.rule, run) for run in told.runs]).panels
    assert [len(curves) for _, curves in panels] == [LAYERS] * 4
    assert panels[0][1][-1].points[0] == (1.0, last)
    assert "a curve a layer" in told._repr_html_()
