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


def small_head(depth, width):
    net, ids = standard(depth, width)
    with torch.no_grad():
        net.head.weight.mul_((WIDTHS[0] / width) ** 0.5)
    return net, ids


def adam(model):
    """1/width on matrices, but for the embedding."""
    width = model.norm.weight.shape[0]
    groups = {True: [], False: []}
    for name, p in model.named_parameters():
        groups[p.dim() == 2 and "embedding" not in name].append(p)
    return torch.optim.Adam(
        [{"params": groups[True], "lr": 1e-3 / width}, {"params": groups[False], "lr": 1e-3}],
        lr=1e-3, eps=1e-12,
    )  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return {
        "standard": measure(standard, widths=WIDTHS, optimizer="adam", seeds=4),
        "ruled": measure(small_head, widths=WIDTHS, optimizer=adam, seeds=4),
    }


def exponents(m):
    return {e.share: e for e in m.exponents}


def test_what_is_off_is_told_by_its_power(found):
    m = found["standard"]
    by = exponents(m)
    assert m.verdict is Verdict.REFUTED
    for name in ("up.*.weight", "down.*.weight", "head.weight"):
        e = by[name]
        assert e.verdict is Verdict.REFUTED and e.estimate == pytest.approx(1, abs=0.15)
    answer = by[ANSWER]
    assert answer.estimate == pytest.approx(0.5, abs=0.15)
    assert by["norm.bias"].verdict is Verdict.SUPPORTED


def test_the_rule_moves_every_parameter_alike(found):
    by = exponents(found["ruled"])
    assert Verdict.REFUTED not in {e.verdict for e in by.values()}
    for e in by.values():
        assert e.estimate == pytest.approx(0, abs=0.15), e.share


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


def test_mu_p_is_one_model_however_its_readout_is_written():
    found = {}
    for spelling in ("inside", "outside", "none"):
        make = partial(mu_p, spelling)
        found[spelling] = measure(make, widths=WIDTHS, optimizer=mu_p_adam, seeds=4)
    *right, wrong = found.values()
    for m in right:
        assert Verdict.REFUTED not in {e.verdict for e in m.exponents}
    inside, outside = ({e.share: e.estimate for e in m.exponents} for m in right)
    assert inside == pytest.approx(outside, abs=0.01)
    off = {e.share for e in wrong.exponents if e.verdict is Verdict.REFUTED}
    assert off == {"head.weight", ANSWER}


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
