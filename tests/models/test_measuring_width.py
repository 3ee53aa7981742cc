"""One's own models against the width: which parameter is off, and by how much."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.laboratory.measuring import measure
from deepnet_theory.laboratory.model_steps import ANSWER

V = 16
IDS = torch.arange(4).view(1, 4)
WIDTHS = [64, 128, 256]


class Net(nn.Module):
    """Embedding, ``depth`` feed-forward layers beside the stream, norm and head; no biases."""

    def __init__(self, depth, width):
        super().__init__()
        self.embedding, self.head = nn.Embedding(V, width), nn.Linear(width, V, bias=False)
        self.up, self.down = (
            nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        for m in (self.head, *self.up, *self.down):
            nn.init.normal_(m.weight, std=width**-0.5)

    def forward(self, ids):
        x = self.embedding(ids)
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(F.relu(up(x)))
        return self.head(self.norm(x))


def standard(depth, width):
    torch.set_num_threads(1)
    return Net(depth, width), IDS


class Readout(nn.Linear):
    """A head with mu-P's multiplier, on what enters it or on its logits."""

    before = True

    def forward(self, x):
        times = WIDTHS[0] / self.in_features
        return super().forward(x * times) if self.before else times * super().forward(x)


class After(Readout):
    before = False


def mu_p(spelling, depth, width):
    net, ids = standard(depth, width)
    nn.init.normal_(net.head.weight)
    if spelling != "none":
        head = (Readout if spelling == "inside" else After)(width, V, bias=False)
        head.load_state_dict(net.head.state_dict())
        net.head = head
    return net, ids


def mu_p_adam(model):
    """1/width on the hidden matrices."""
    width = model.norm.weight.shape[0]
    hidden = [p for n, p in model.named_parameters() if n.startswith(("up", "down"))]
    others = [p for n, p in model.named_parameters() if not n.startswith(("up", "down"))]
    groups = [{"params": hidden, "lr": 1e-3 / width}, {"params": others, "lr": 1e-3}]
    return torch.optim.Adam(groups, lr=1e-3, eps=1e-12)


def grown(make, optimizer):
    """The exponent of every share, and the names of those that are refuted."""
    m = measure(make, widths=WIDTHS, optimizer=optimizer, seeds=4)
    off = {e.share for e in m.exponents if e.verdict is Verdict.REFUTED}
    return {e.share: e.estimate for e in m.exponents}, off


def test_mu_p_is_one_model_however_its_readout_is_written_and_moves_every_parameter_alike():
    inside, refuted = grown(partial(mu_p, "inside"), mu_p_adam)
    outside, too = grown(partial(mu_p, "outside"), mu_p_adam)
    assert refuted == too == set() and inside == pytest.approx(outside, abs=0.01)
    assert inside == pytest.approx(dict.fromkeys(inside, 0), abs=0.15)
    assert grown(partial(mu_p, "none"), mu_p_adam)[1] == {"head.weight", ANSWER}


def test_what_is_off_is_told_by_its_power():
    found, off = grown(standard, "adam")
    assert {"up.*.weight", "down.*.weight", "head.weight"} <= off and "norm.bias" not in off
    assert [found[f"{name}.weight"] for name in ("up.*", "down.*", "head")] == pytest.approx(
        [1] * 3, abs=0.15
    )
    assert found[ANSWER] == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    ("factory", "given", "sentence"),
    [
        (standard, {}, "give depths, such as 6,12,24, or widths"),
        (standard, {"widths": [64, 128]}, "give no exponent: 3 or more are needed"),
        (standard, {"widths": "a"}, "the widths 'a' cannot be read"),
        (lambda depth: standard(depth, 16), {"widths": [16, 32, 64]}, "takes no width"),
        (lambda depth, width: standard(depth, 16), {"widths": [16, 32, 64]},
         "gives the same parameters at 16 and at 32: does it use the width"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(factory, given, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        measure(factory, optimizer="adam", seeds=2, **given)
