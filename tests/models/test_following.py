"""R of one's own models over updates: as the laboratory takes it, and warned of in time."""

import json

import pytest
import torch
from torch import nn

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
from deepnet_theory.processes import Cache
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
    (expected,) = watch.found
    found, normed = common_mode(made(model, IDS), states[0].detach())
    assert normed is (placement == "post-ln")
    assert found.weight == pytest.approx(expected.weight, rel=1e-3)
    assert found.cosine == pytest.approx(expected.cosine, abs=1e-5)


class Scaled(nn.Module):
    """x → a x + G(x) without a norm: the stream keeps every factor."""

    def __init__(self, a, layers=2):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.a = a
        for m in self.maps:  # the bias alone: the same for every token
            nn.init.zeros_(m.weight)
            nn.init.ones_(m.bias)

    def forward(self, ids):
        x = self.embed(ids)
        for m in self.maps:
            x = self.a * x + m(x)
        return self.head(x)


def test_factors_of_a_stream_without_norms_divide_what_is_added():
    model = Scaled(2.0)
    with torch.no_grad():
        first = model.embed(IDS)
    size = first.square().sum(-1).mean().sqrt()
    found, _ = common_mode(made(model, IDS), first)
    # (1, …, 1) twice, beside 2x and beside 4x
    assert found.weight == pytest.approx(float(WIDTH**0.5 * (1 / 2 + 1 / 4) / size), rel=1e-4)


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


def test_an_update_of_ones_own_is_taken_again_and_again():
    def still(depth):
        torch.manual_seed(0)
        return Scaled(1.0, depth), IDS

    told = dt.measure(still, [1, 2], update="-eta*sign(g)", seeds=1, updates=2, eta=0.01)
    model, _ = still(1)
    for expected in told.updates[0].losses:
        loss = nn.functional.cross_entropy(model(IDS)[:, :-1].flatten(0, 1), IDS[:, 1:].flatten())
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= 0.01 * p.grad.sign()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"optimizer": "muon", "updates": 2}, "goes on from running means"),
        ({"optimizer": "adamw", "updates": -1}, "updates -1 is not a whole number"),
        ({"optimizer": "adamw", "updates": 2, "eta": 0.0}, "eta 0.0 is not a number above 0"),
        ({"optimizer": "adamw", "eta": 0.1}, "is the rate of updates"),
    ],
)
def test_what_cannot_be_followed_is_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        dt.measure(lambda n: (built("pre-ln", n), IDS), [1, 2], seeds=1, **given)


@pytest.mark.filterwarnings("ignore:Unstable")
def test_what_was_followed_is_kept(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\nimport torch.nn as nn\n\n\ndef make(depth):\n"
        "    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)\n"
        "    body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)\n"
        "    return nn.Sequential(nn.Embedding(256, 16), body, nn.Linear(16, 256))\n"
    )
    kept = Cache(tmp_path / "kept")
    asked = {"optimizer": "adamw", "seeds": 1, "updates": 2, "cache": kept}
    first = dt.measure(f"{file}:make", [1, 2], **asked)
    assert first.updates[0].losses and not kept.taken
    assert dt.measure(f"{file}:make", [1, 2], **asked).updates == first.updates
    assert kept.taken == 4  # two depths: each measured, and each followed
    asked["updates"] = 3  # other updates are followed anew
    more = dt.measure(f"{file}:make", [1, 2], **asked)
    assert more.updates[0].losses[:3] == pytest.approx(first.updates[0].losses)
    assert len(more.updates[0].losses) == 4
    assert first.provenance.warnings == ()  # windows of text, where the factory gives no batch
