"""Negative controls: the opposite is planted in a claim's file, and its verdict turns."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.scheme import Scheme
from deepnet_theory.laboratory import trial
from paper_checks.shared import stacks, symbolic, wide
from paper_checks.shared.batch import normal
from paper_checks.shared.bench import Lab
from paper_checks.shared.check import claims
from paper_checks.shared.gaussian import FeedForward
from paper_checks.shared.stacks import Net
from paper_checks.shared.wide import MUP, STEPPED, Network, Powers, adam, polar, sgd, size

REFUTED, SUPPORTED, PROVED = Verdict.REFUTED, Verdict.SUPPORTED, Verdict.PROVED


class Narrow(FeedForward):
    """A second matrix of another variance."""

    def __init__(self, d, m):
        super().__init__(d, m)
        self.variances |= dict.fromkeys(self.V, self.v**2 / (m + 1))


class Shallow(Net):
    """A third of the layers, with few seeds."""

    def trial(self, layers, s):
        return super().trial(layers // 3, replace(s, seeds=8))


def aligned(trial):
    """Branches that all point one way."""
    x = trial.inputs[0].double()
    return [(r.site, (t + 1) * x, x) for t, r in enumerate(trial.model.residuals())]


def magnitudes(growth):
    """Runs at α = 1 in which the magnitude of one matrix grows by so much."""
    noise = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    seen = SimpleNamespace(growth={10: growth * (1e-3 * noise).exp()})
    return lambda lab: {("alpha = 1", 10.0, n): seen for n in (8, 24, 72)}


def trained_to(nats):
    """A training of which every loss is so much."""
    return lambda net, steps, rate, seeds, **_: (
        nats + 1e-3 * torch.randn(steps, seeds, generator=torch.Generator().manual_seed(0)),
        None,
    )


def shallow(lab):
    """Stacks of fewer layers and seeds."""
    return [(16, lab.small(data=data, seeds=8)) for data in ("text", "gaussian:0")]


def linear_decay(optimizer):
    """Rows of which the decay goes with B where the rate goes with its root."""
    return [{"rate": "B**(1/2)", "decay": "B"}]


HALVED = Scheme("keel", "norm(x/2 + branch(norm(x)))", False, optimizer="adamw")  # the stream
ENCODER = ("3**(-1/4)*(N**4*M)**(1/16)", "3**(1/4)*2**(-1/2)*(N**4*M)**(-1/16)")

PLANTED = [
    ("common-mode", {"divided": lambda _, r: math.exp(r)}, {"Euler": REFUTED}),
    (
        "common-and-own",
        {"apart": lambda squares, *_: squares, "LAYERS": (4, 8)},
        {"less than 1/10": REFUTED},
    ),
    ("cake-ffn-moment", {"FeedForward": Narrow}, {"E z_i²": REFUTED, "E z_i = αx_i": PROVED}),
    ("cake-ffn-input", {"FeedForward": Narrow}, {"the true ReLU mask": REFUTED}),
    (
        "cake-ffn-parameters",
        {"FeedForward": Narrow},
        {"independent centred": REFUTED, "in closed form": REFUTED},
    ),
    ("cake-ln-jacobian", {"top_of": lambda _: 1}, {"no ε": REFUTED}),
    ("cake-xavier-forward", {"entry_square": lambda variance: variance}, {"2/(n_in": REFUTED}),
    ("norms-growth", {"residual_sums": aligned, "Net": Shallow}, {"grows as √t": REFUTED}),
    ("deepnet-encoder-decoder", {"ENCODER": ENCODER}, {"encoder:": REFUTED, "0.81": REFUTED}),
    ("deepnet-trains", {"train_model": trained_to(3.3)}, {"DeepNorm of 24": REFUTED}),
    ("su-escape", {"runs": magnitudes(1.1)}, {"it may": REFUTED}),
    ("su-escape", {"runs": magnitudes(50.0)}, {"it may": SUPPORTED}),
    ("retold-notation", {"HERE": (1, 1, 3)}, {"with the ind": PROVED}),
    (
        "retold-roles",
        {"net": lambda point, optimizer="sgd": Net("32", repr(point[0]), optimizer)},
        {"α scales": REFUTED},
    ),
    ("schemes-quartic", {"SCALED": {"ffn": 4}}, {"m scaled maps": REFUTED}),
    ("schemes-keel-vanishing", {"KEEL": HALVED, "stacks": shallow}, {"keeps": REFUTED}),
    ("width-mup-adam", {"adam": sgd}, {"a step of each role": REFUTED}),
    (
        "width-lamb",
        {"lamb": lambda theta, g: -polar(g)},
        {"at one rate": SUPPORTED, "as √n": REFUTED},
    ),
    (
        "width-coordinate-check",
        {"POWERS": dict.fromkeys(("right", "frozen"), MUP.rates(hidden=-1))},
        {"stepped alone": REFUTED},
    ),
    ("batch-gain", {"polar": lambda y: y}, {"there the best rate": REFUTED}),
    ("batch-momentum", {"BETA": 0.0}, {"a run does as": SUPPORTED}),
    ("batch-muon", {"single": lambda lab: normal(lab.seed, 48, 48)}, {"more than three": REFUTED}),
    ("batch-timescale", {"across_batch": linear_decay}, {"as the package": REFUTED}),
    ("batch-weight-rms", {"series": lambda: 19.0}, {"the sign's factor": REFUTED}),
]


LONG = {"batch-weight-rms", "batch-momentum", "common-and-own"}  # seconds each


@pytest.mark.parametrize(
    ("claim", "planted", "expected"),
    [pytest.param(*row, marks=[pytest.mark.slow] * (row[0] in LONG)) for row in PLANTED],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_a_planted_opposite_turns_the_verdict(monkeypatch, plant, claim, planted, expected):
    monkeypatch.setattr(wide, "widths", lambda lab: (64, 512))
    judge = plant(claim, **planted)
    assert {words: judge(words) for words in expected} == expected


DERIVED = """
    cake-constants cake-step-size deepnet-decoder-only deepnet-encoder-decoder schemes-quartic
    su-adafactor su-prenorm su-table
"""


@pytest.mark.parametrize("name", DERIVED.split())
def test_another_optimizers_rule_is_refuted(monkeypatch, name):
    """The engine is not its own witness: each claim has α and β by a road of its own."""
    right = symbolic.derive

    def other(asked):
        return right(replace(asked, optimizer="sgd" if asked.optimizer == "lamb" else "lamb"))

    monkeypatch.setattr(symbolic, "derive", other)
    proved = [part for part in claims()[name].parts if part.quick is PROVED]
    assert any(part.check(Lab()).verdict is REFUTED for part in proved)


def test_tokens_that_are_secretly_correlated_are_seen(monkeypatch, plant):
    draw = trial.gaussian_tokens
    monkeypatch.setattr(trial, "gaussian_tokens", lambda shape, rho, g: draw(shape, 0.5, g))
    judge = plant("su-averaging", lots=lambda s, count: stacks.lots(s, count)[:2])
    assert judge("(1−ρ)²/d") is REFUTED


@pytest.mark.parametrize("role", STEPPED)
def test_the_derivative_along_a_step_is_a_difference_of_outputs(role):
    exponents = {"embedding": 0.2, "hidden": -0.1, "head": -0.4}
    net = Network(Powers({"hidden": -0.3, "head": 0.2}, exponents), 32, 4, Lab().generator())
    steps = {name: s for name, s in net.steps(adam).items() if name in STEPPED[role][0]}
    found, symbols = net.moved(steps), net.symbols.double()
    start = {name: theta.detach().double() for name, theta in net.parameters.items()}
    ends = [
        net.forward({n: t + eta * steps[n] if n in steps else t for n, t in start.items()}, symbols)
        for eta in (1e-6, -1e-6)
    ]
    for name, moved in found.items():
        difference = size(ends[0][name] - ends[1][name]).float() / 2e-6
        torch.testing.assert_close(moved, difference, rtol=1e-4, atol=0.0)
