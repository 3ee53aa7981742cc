"""What an audit measures: one step of the model as it is over one step of a fixed copy."""

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn

import deepnet_theory as dt
from deepnet_theory.definitions.subject import Difference, Wanted
from deepnet_theory.models.effect import Effects
from deepnet_theory.models.factory import made
from deepnet_theory.models.reading import read

WIDTH, LAYERS, TOKENS = 32, 4, 12
ALPHA, BETA = (2 * LAYERS) ** 0.25, (8 * LAYERS) ** -0.25
X = torch.randn(2, TOKENS, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
STEPS = {"sgd": lambda g: g, "signsgd": torch.sign}


class Net(nn.Module):
    """Post-LN feed-forwards at DeepNorm's constants, α in the code; a branch may read c·x."""

    def __init__(self, alpha=ALPHA, reads=1.0):
        super().__init__()
        self.alpha, self.reads = alpha, reads
        self.up = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(LAYERS))
        self.down = nn.ModuleList(nn.Linear(4 * WIDTH, WIDTH) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        generator = torch.Generator().manual_seed(0)
        for layer in (*self.up, *self.down):
            nn.init.xavier_normal_(layer.weight, BETA, generator=generator)
            nn.init.zeros_(layer.bias)
        self.double()

    def forward(self, x):
        for up, down, norm in zip(self.up, self.down, self.norms, strict=True):
            x = norm(self.alpha * x + down(torch.relu(up(self.reads * x))))
        return x


def step_of(net, update, draws=6):
    """‖ΔF‖/η of one step on random directions, by a derivative and none of the package's code."""
    sizes = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(100 + seed)
        toward = torch.randn(*X.shape, generator=generator, dtype=torch.float64)
        parameters = dict(net.named_parameters())
        out = net(X)
        grads = torch.autograd.grad((out * toward).sum(), parameters.values())
        steps = {n: update(g) for n, g in zip(parameters, grads, strict=True)}
        at = tuple({n: p.detach() for n, p in parameters.items()} for _ in range(1))
        _, change = torch.func.jvp(lambda w: torch.func.functional_call(net, w, (X,)), at, (steps,))
        sizes.append(change.norm(dim=-1).mean().item())
    return math.exp(sum(map(math.log, sizes)) / draws)


@pytest.mark.parametrize("optimizer", STEPS)
@pytest.mark.parametrize("fault", ["gain", "alpha"])
def test_an_effect_is_that_of_a_real_step(fault, optimizer):
    """For α the copy carries it in its last matrices: as the code with the right α steps."""
    right, wrong = Net(), Net(1.0 if fault == "alpha" else ALPHA)
    if fault == "gain":
        with torch.no_grad():
            for up in wrong.up:
                up.weight.div_(BETA)
    different = differences(wrong, fault)
    rule = Wanted("rule", "", "post-ln", (), degrees(optimizer), selection=dt.Selection(optimizer))
    found = Effects(made(wrong, X), read(wrong, X), rule, {}).of(different)
    update = STEPS[optimizer]
    assert found.mean == pytest.approx(step_of(wrong, update) / step_of(right, update), rel=0.1)
    assert found.low <= found.mean <= found.high


def degrees(optimizer):
    return {"sgd": (1.0, 0.0), "signsgd": (0.0, 0.0)}[optimizer]


def differences(net, fault):
    reading = read(net, X)
    for index, s in enumerate(reading.sublayers):
        if fault == "alpha":
            yield Difference(index, "alpha", s.alpha / ALPHA, s.alpha, ALPHA)
        else:
            (m,) = (m for m in s.matrices if m.role == "fc1")
            yield Difference(index, "fc1", 1 / BETA, 1.0, BETA, m)


def test_what_no_weights_fix_and_what_no_library_steps_has_no_number():
    net = Net()
    reading = read(net, X)
    rule = Wanted("rule", "", "post-ln", (), (0.0, 0.0), selection=dt.Selection("signsgd"))
    effects = partial(Effects, made(net, X), reading)
    assert effects(rule, {}).of([Difference(0, "norms", 1.0, 1.0, 1.0)]) is None
    nameless = Wanted("rule", "", "post-ln", ())
    assert effects(nameless, {}).of([*differences(net, "gain")]) is None


def test_an_audit_leaves_the_model_as_it_was():
    net = Net(1.0)
    before = copy.deepcopy(net.state_dict())
    audit = dt.audit(net, X, optimizer="sgd")
    assert audit.effect_low <= audit.effect <= audit.effect_high
    assert all(torch.equal(before[n], p) for n, p in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters()) and net.training
    assert "measured, one update changes the output" in " ".join(str(audit).split())
