"""Steps of models as people write them: what an audit measures, and what a factor in the code asks.

A matrix whose input or output the code multiplies by c steps c times as far, whatever its size.
"""

import math
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import GPT, HEADS, VOCAB, heads, joined

import deepnet_theory as dt
from deepnet_theory.models import effect

WIDTH, LAYERS = 32, 3
IDS = torch.randint(VOCAB, (2, 16), generator=torch.Generator().manual_seed(0))


class Counted(GPT):
    """A GPT as torch makes it, that counts the forward passes of all its copies."""

    def __init__(self, layers, passes):
        super().__init__(layers)
        self.passes = passes

    def forward(self, ids):
        self.passes.append(ids.shape)
        return super().forward(ids)

    def __deepcopy__(self, memo):
        copy = Counted(len(self.h), self.passes)
        copy.load_state_dict(self.state_dict())
        return copy


class Alone(GPT):
    """A GPT that cannot be copied, as one that holds a lock or a file cannot."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle '_thread.lock' object")


def test_an_audit_passes_forward_a_few_times_however_much_differs():
    passes = []
    found = dt.audit(Counted(3, passes), IDS, optimizer="adamw")
    assert len(found.differences) >= 4 and found.effect_low < found.effect < found.effect_high
    assert len(passes) <= 40


def test_a_model_that_cannot_be_copied_is_judged_without_a_number():
    found = dt.audit(Alone(3), IDS, optimizer="adamw")
    assert found.verdict == "REFUTED" and found.differences and found.effect is None


def test_an_error_of_ours_in_a_measured_step_is_no_missing_number(monkeypatch):
    def fails(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr(effect, "_update", fails)
    with pytest.raises(RuntimeError, match="ours"):
        dt.audit(GPT(3), IDS, optimizer="adamw")


class Factored(nn.Module):
    """A pre-LN decoder whose code multiplies scores, what the feed-forward reads and gives."""

    def __init__(self, scores=1.0, reads=1.0, ends=1.0):
        super().__init__()
        self.scores, self.reads, self.ends = scores / math.sqrt(WIDTH // HEADS), reads, ends
        self.table, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.layers, self.final = nn.ModuleList(), nn.LayerNorm(WIDTH)
        for _ in range(LAYERS):
            shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
            maps = nn.ModuleList(nn.Linear(*shape, bias=False) for shape in shapes)
            self.layers.append(nn.ModuleList([maps, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)]))
        self.double()

    def forward(self, ids):
        x = self.table(ids)
        for (q, k, v, o, up, down), first, second in self.layers:
            h = first(x)
            scores = heads(q(h)) @ heads(k(h)).transpose(-2, -1) * self.scores
            past = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            mixed = scores.masked_fill(~past, float("-inf")).softmax(-1) @ heads(v(h))
            x = x + o(joined(mixed))
            x = x + down(self.ends * F.gelu(up(self.reads * second(x))))
        return self.head(self.final(x))


FACTORS = {"scores": 8.0, "reads": 3.0, "ends": 0.25}


def stepped(net, optimizer):
    """The logits of a model with constants before and after one step of its groups."""
    rule = dt.derive(optimizer=optimizer, placement="pre-ln", stack="decoder")
    c = dt.export(rule, depth=LAYERS, width=WIDTH, vocab=VOCAB)
    generator = torch.Generator().manual_seed(0)
    dt.apply_(net, c, inputs=IDS, initialise=True, generator=generator)
    kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer]
    groups = kind(dt.parameter_groups(net, lr=0.01))
    assert dt.audit(net, IDS, optimizer=groups, constants=c).verdict == "SUPPORTED"
    assert dt.audit(net, IDS, optimizer=groups).verdict == "SUPPORTED"
    before = net(IDS)
    F.cross_entropy(before.flatten(0, 1), IDS.roll(-1, 1).flatten()).backward()
    groups.step()
    return before.detach(), net(IDS).detach()


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("name", FACTORS)
def test_with_constants_and_groups_a_factor_in_the_code_changes_no_step(name, optimizer):
    plain, factored = (
        stepped(Factored(), optimizer),
        stepped(Factored(**{name: FACTORS[name]}), optimizer),
    )
    assert torch.allclose(factored[0], plain[0], rtol=0, atol=1e-9)
    assert torch.allclose(factored[1], plain[1], rtol=0, atol=1e-9)
    assert not torch.allclose(plain[1], plain[0], rtol=0, atol=1e-4)


def test_weights_that_a_factor_divides_ask_for_a_rate():
    net = Factored(reads=3.0)
    stepped(net, "sgd")
    found = dt.audit(net, IDS, optimizer="sgd")
    assert [f.size for f in found.differences] == [pytest.approx(9.0)]
    assert "rate of fc1" in found.differences[0].where


# ------------------------------------------------------------------ the effect of a fault


class Net(nn.Module):
    """Feed-forward sublayers on vectors: pre-LN, at the gains that constants ask for."""

    def __init__(self, constants):
        super().__init__()
        torch.manual_seed(0)
        gains = constants.parts[0].sublayers[0]
        self.up = nn.ModuleList(nn.Linear(64, 256, bias=False) for _ in range(DEPTH))
        self.down = nn.ModuleList(nn.Linear(256, 64, bias=False) for _ in range(DEPTH))
        for name, maps in (("fc1", self.up), ("fc2", self.down)):
            for own in maps:
                nn.init.xavier_normal_(own.weight, gains.gain(name))

    def forward(self, x):
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(F.relu(up(F.layer_norm(x, (64,)))))
        return F.layer_norm(x, (64,))


DEPTH = 6
X = torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(1))


def one_forgotten(net):
    net.down[-1].weight.mul_(4)


def zero_outputs(net):
    for own in net.down:
        own.weight.zero_()


def every_second_zero(net):
    for own in net.down[::2]:
        own.weight.zero_()


def graded(net):
    for index, own in enumerate(net.down):
        own.weight.mul_(0.5 * 1.4**index)


def far(net):
    for own in (*net.up, *net.down[:-1]):
        own.weight.mul_(6)


CHANGED = {
    "one layer forgotten": one_forgotten,
    "outputs of zero": zero_outputs,
    "every second output of zero": every_second_zero,
    "gains that grow with the layer": graded,
    "far from the identity": far,
}


def one_step(net):
    """‖ΔF‖ of one sign step, as its derivative, over tokens of random targets."""
    generator = torch.Generator().manual_seed(2)
    sizes = []
    for _ in range(4):
        x, target = (torch.randn(1, 32, 64, generator=generator) for _ in range(2))
        net.zero_grad()
        out = net(x)
        (out * target).sum().backward()
        steps = {n: p - 1e-6 * p.grad.sign() for n, p in net.named_parameters()}
        change = torch.func.functional_call(net, steps, (x,)) - out
        sizes.append(change.norm(dim=-1).mean().item())
    return fmean(sizes)


@pytest.fixture(scope="module")
def of_ffn():
    rule = dt.Selection("adam", placement="pre-ln", layer="ffn")
    return dt.export(rule, DEPTH, width=64, vocab=61)


@pytest.mark.parametrize("name", CHANGED)
def test_an_effect_is_that_of_a_real_step(name, of_ffn):
    torch.set_default_dtype(torch.float64)
    try:
        right, wrong = Net(of_ffn), Net(of_ffn)
        with torch.no_grad():
            CHANGED[name](wrong)
        audit = dt.audit(wrong, X.double(), optimizer="adam")
        assert audit.verdict == "REFUTED"
        assert audit.effect == pytest.approx(one_step(wrong) / one_step(right), rel=0.3)
    finally:
        torch.set_default_dtype(torch.float32)
