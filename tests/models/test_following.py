"""R of your own models over updates: as the laboratory takes it, and warned of in time."""

import json

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.laboratory.common_mode import Watch
from deepnet_theory.laboratory.model_steps import common_mode
from deepnet_theory.models.factory import made
from deepnet_theory.runtime import build

LAYERS, WIDTH, VOCAB = 3, 16, 64
IDS = torch.randint(VOCAB, (4, 12), generator=torch.Generator().manual_seed(1))
PLACEMENTS = ("post-ln", "pre-ln", "branch-multiplier", "res-post-ln", "sandwich-ln")


def built(placement, layers=LAYERS, alpha=3.0, seed=0):
    alpha = 1.0 if placement == "pre-ln" else alpha
    rows = tuple(SublayerConstants(kind, alpha, 1.0) for kind in ("attention", "ffn"))
    part = PartConstants("decoder", layers, True, rows)
    sizes = Architecture(width=WIDTH, heads=2, vocab=VOCAB)
    constants = Constants("decoder", placement, "rms", (part,), sizes, "adam")
    return build(constants, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_recorded_pass_has_the_common_mode_that_hooks_take(placement):
    model = built(placement)
    for p in model.parameters():  # gains and all: nothing is at its start
        p.data += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
    watch, states = Watch(model), []
    handle = model.head.register_forward_pre_hook(lambda _, given: states.append(given[0]))
    with watch.watching():
        model(IDS)
    handle.remove()
    expected = watch.found
    found, normed = common_mode(made(model, IDS), states[0].detach())
    assert normed is (placement == "post-ln")
    assert found.weight == pytest.approx(expected.weight, rel=1e-3)
    assert found.cosine == pytest.approx(expected.cosine, abs=1e-5)


def factory(depth):
    return built("post-ln", depth, alpha=1.0, seed=int(torch.randint(99, ())))


def test_a_model_that_drowns_is_warned_of_in_one_sentence():
    asked = {"optimizer": "adamw", "seeds": 1, "updates": 9}
    told = dt.measure(factory, [1, 3], **asked, eta=0.05)
    data = json.loads(told.to_json())
    assert [row["depth"] for row in data["updates"]] == [{"N": 1}, {"N": 3}]
    for row in data["updates"]:
        assert row["common_mode_steps"] == [0, 1, 2, 4, 8, 9] and len(row["losses"]) == 10
        assert row["token_cosine"][-1] > 0.9 > row["token_cosine"][0]
    (sentence,) = [w for w in told.provenance.warnings if "one direction" in w]
    assert sentence.startswith("at N = 1; N = 3: at step") and "start_head_" in sentence
    assert "cosh(R)" in sentence
    calm = dt.measure(factory, [1, 3], **asked, eta=1e-5)
    assert not any("one direction" in w for w in calm.provenance.warnings)
    assert calm.points == told.points  # what is followed changes nothing that is measured
    page = told._repr_html_()
    assert "tokens, over the updates" in page and page.count("<svg") == 1  # the points alone


def test_each_update_takes_its_own_batch():
    asked = []

    def batches(step):
        asked.append(step)
        return IDS.roll(step)

    told = dt.measure(factory, [2, 4], optimizer="sgd", inputs=batches, seeds=1, updates=3)
    assert sorted(set(asked)) == [0, 1, 2, 3]
    first, second = (row.losses for row in told.updates)
    assert len(set(first)) == len(first) == len(second) == 4
    with pytest.raises(InputError, match="batch 2 failed: ZeroDivisionError"):
        failing = lambda step: IDS if step < 2 else 1 // 0  # noqa: E731
        dt.measure(factory, [2, 4], optimizer="sgd", inputs=failing, seeds=1, updates=3)
