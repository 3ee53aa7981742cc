"""B_noise: each sequence's gradient written out, planted noise, who sees a row or an expert."""

import json
import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models.generated import VOCAB, Model, sentence
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from written_models import GPT, Llama

import deepnet_theory as dt
from deepnet_theory.cli import main
from deepnet_theory.definitions.measurement import Estimate
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.laboratory.measuring import measure
from deepnet_theory.laboratory.model_steps import on_text
from deepnet_theory.laboratory.noise import CLASSES, at_batch, b_noise, noise_of
from deepnet_theory.laboratory.statistics import ratio_interval, t_interval
from deepnet_theory.models.factory import made
from deepnet_theory.models.step import FinalState


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Quadratic(nn.Module):
    """The loss |θ − x|²/2: the gradient of a sequence x is θ − x."""

    def __init__(self, theta):
        super().__init__()
        self.theta = nn.Parameter(theta)

    def forward(self, x):
        away = self.theta - x
        return away, away.square().sum(-1).mean() / 2


def planted(seed, of_signal=1.0, n=32):
    """θ of size ``of_signal``, and n sequences with a noise of three sizes: tr Σ is 4 · 5.25."""
    deviations = torch.tensor([2.0, 1.0, 0.5]).repeat(4)
    theta = of_signal * torch.ones(12) / math.sqrt(12)
    return Quadratic(theta), deviations * torch.randn(n, 12, generator=generator(seed))


def quadratic(seed, of_signal=1.0, n=32):
    model, x = planted(seed, of_signal, n)
    g = (model.theta - x).detach().double().numpy()
    return b_noise("", "", (g**2).sum(1), g @ g.sum(0))


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), n=st.integers(8, 12), scale=st.floats(0.01, 100))
def test_signal_and_noise_are_those_of_all_pairs_of_sequences(seed, n, scale):
    model, x = planted(seed, n=n)
    g = (model.theta - x).detach().double().numpy()
    signal = np.mean([a @ b for a, b in permutations(g, 2)])
    noise = np.var(g, axis=0, ddof=1).sum()
    (whole, same) = noise_of(made(model, x), n)
    expected = noise / signal if signal > 0 else math.inf
    assert whole.mean == pytest.approx(expected, rel=1e-4) and whole.mean == same.mean
    assert whole.low <= whole.mean <= whole.high
    # in other units of the gradient it is the same
    (other, _) = noise_of(made(Quadratic(scale * model.theta.detach()), scale * x), n)
    assert (other.low, other.high) == pytest.approx((whole.low, whole.high), rel=1e-3)


def test_planted_noise_lies_inside_the_interval_as_often_as_it_says():
    found = [quadratic(seed, of_signal=3.0) for seed in range(400)]
    inside = sum(e.low <= 21 / 9 <= e.high for e in found)
    assert 0.92 <= inside / 400 <= 0.98
    # planted error: twice the noise is seen
    more = [quadratic(seed, of_signal=3.0, n=400) for seed in range(5)]
    assert all(e.low < 21 / 9 < e.high < 2 * 21 / 9 for e in more)


def test_without_a_signal_it_is_undecided():
    found = [quadratic(seed, of_signal=0.0) for seed in range(400)]
    assert sum(e.high == math.inf and "UNDECIDED" in e.finding for e in found) >= 360
    result = measure(lambda: planted(1, 0.0), noise=True)
    assert result.verdict is Verdict.UNDECIDED and result.exit_code == 3
    # its lower end still holds: 2 sequences are fewer than any B_noise of it
    assert all(e.low >= 0 for e in found) and "above" in str(result)


def brute(model, ids):
    """B_noise of groups of names, by the matrix of all gradients of single windows."""
    weights = {n: p.detach() for n, p in model.named_parameters()}

    def loss(weights, one):
        logits = torch.func.functional_call(model, weights, one[None], tie_weights=True)[0, :-1]
        return nn.functional.cross_entropy(logits, one[1:])

    with sdpa_kernel(SDPBackend.MATH):
        rows = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, ids)

    def of(*words):
        names = [n for n in rows if any(word in n for word in words)]
        g = torch.cat([rows[n].flatten(1) for n in names], 1).double()
        noise = float(g.var(0).sum())
        return noise / (float(g.mean(0).square().sum()) - noise / len(g))

    return of


@pytest.mark.parametrize("tied", [False, True])
def test_a_models_noise_is_that_of_many_other_windows_of_its_text(tied):
    torch.manual_seed(0)
    model = GPT(2, d=16, vocab=128, tied=tied)
    text = on_text(made(model), 0)
    found = {(e.at["group"], e.at["role"]): e for e in noise_of(text, 48)}
    of = brute(model, torch.cat([text.at(step).inputs[0] for step in range(10, 26)]))
    names = {
        ("all", "all"): ("",),
        ("decoder attention", "query+key+value"): ("c_attn",),
        ("decoder ffn", "fc1"): ("c_fc",),
        ("decoder ffn", "fc2"): ("mlp.c_proj",),
        ("embedding" if tied else "head", "token-embedding" if tied else "head"): (
            "wte" if tied else "lm_head",
        ),
    }
    for key, words in names.items():
        e = found[key]
        assert 0.9 * e.low < of(*words) < 1.1 * e.high < 4 * e.low
    if not tied:  # rows that fewer sequences see are noisier
        rows = [e for e in found.values() if e.at["role"] == "token-embedding"]
        assert [e.at["group"] for e in rows] == [f"embedding, {name}" for name in CLASSES]
        assert rows[0].mean < rows[1].mean < rows[2].mean
    # every position is seen by every sequence, and those behind them by none
    (positions,) = (e.at["group"] for e in found.values() if e.at["role"] == "position-embedding")
    assert positions == f"embedding, {CLASSES[0]}"


@pytest.mark.parametrize("way", ["apart", "stacked"])
def test_experts_are_apart_by_who_reaches_them(way):
    words = {"feed": "ffn@2/4", "placement": "pre-ln", "stack": "decoder", "beside": False}
    model = Model(sentence(3, 1, experts=way, attention="attention", **words))
    ids = torch.randint(VOCAB, (48, 2), generator=generator())  # few, which few experts see
    found = {(e.at["group"], e.at["role"]): e for e in noise_of(made(model, ids), 48)}
    experts = {group for group, role in found if role == "fc1"}
    assert experts == {f"decoder ffn@2/4, {name}" for name in CLASSES[:2]}
    assert ("decoder ffn@2/4", "router") in found
    often, seldom = (found[f"decoder ffn@2/4, {name}", "fc1"] for name in CLASSES[:2])
    assert often.mean < seldom.mean


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), shared=st.floats(-1, 1), size=st.floats(0.3, 3))
def test_at_the_ends_of_an_interval_the_difference_has_an_end_at_0(seed, shared, size):
    x = np.random.default_rng(seed).normal(size, 1, 20)
    y = 2 + shared * x + np.random.default_rng(seed + 1).normal(size=20)
    found = ratio_interval(y, x)
    for end in (found.low, found.high):
        if 0 < end < math.inf:
            zero = t_interval(y - end * x)
            assert min(abs(zero.low), abs(zero.high)) < 1e-6 * (1 + end)
    assert math.isfinite(found.high) == (t_interval(x).low > 0)


@settings(max_examples=20)
@given(
    signal=st.lists(st.floats(0.1, 10), min_size=2, max_size=2),
    noise=st.lists(st.floats(0.1, 100), min_size=2, max_size=2),
    batch=st.floats(1, 64),
)
def test_one_rate_for_all_costs_what_a_quadratic_says(signal, noise, batch):
    """Under SGD a rate gains η|G|² − η²(|G|² + tr Σ/B)/2 in a group, and one rate both sums."""

    def gain(rate, g, s):
        return rate * g - rate**2 / 2 * (g + s / batch)

    def best(g, s):
        return g / (g + s / batch)

    one = best(sum(signal), sum(noise))
    sizes = [(sum(signal), sum(noise)), *zip(signal, noise, strict=True)]
    rows = [Estimate({}, s / g, s / g, s / g) for g, s in sizes]
    for (g, s), row in [*zip(sizes, at_batch(rows, batch, 1.0), strict=True)][1:]:
        left = gain(one, g, s) / gain(best(g, s), g, s)
        assert f"{one / best(g, s):.2g} of its best" in row.finding
        assert (f"{left:.0%}" if one < 2 * best(g, s) else "undoes") in row.finding
        assert ("noise dominates" in row.finding) == (s / g > batch)


@pytest.mark.usefixtures("unmeasured")
def test_an_audit_says_what_noise_dominates_and_leaves_the_model_alone():
    torch.manual_seed(0)
    model = GPT(1, d=16, vocab=128, bias=True).train()
    found = dt.audit(model, optimizer="adamw", noise=True, batch=8)
    plain = dt.audit(model, optimizer="adamw")
    assert model.training and replace(found, noise=()) == plain and not plain.noise
    rows = {(e.at["group"], e.at["role"]): e.finding for e in found.noise}
    assert rows["all", "all"].endswith("at a batch of 8")
    assert "signal dominates; one rate" in rows["ln_f.bias", "final-norm-bias"]
    assert "noise dominates; one rate" in rows[f"embedding, {CLASSES[1]}", "token-embedding"]
    assert found.to_dict()["noise"][1]["finding"] and "Gradient noise" in str(found)
    # a batch of its own stands for the one that is not named
    ids = torch.randint(128, (24, 8), generator=generator())
    (whole, *_) = dt.audit(model, ids, noise=True).noise
    assert whole.finding.endswith("at a batch of 24")
    with pytest.raises(InputError, match="give the sequences of a step"):
        dt.audit(model, noise=True)


def differently(of):
    """A model whose output and loss, of nine sequences, are made into something else."""
    model = Quadratic(torch.zeros(12))
    plain = model.forward
    model.forward = lambda x: of(*plain(x), len(x))
    return made(model, torch.ones(9, 12))


BAD = {
    "was given 4 sequences, and its noise needs 8": lambda: noise_of(made(*planted(0, n=4)), 64),
    "has no loss of its own": lambda: noise_of(differently(lambda y, loss, n: y), 9),
    "a mean over sequences": lambda: noise_of(differently(lambda y, loss, n: (y, n * loss)), 9),
    "sequences 4 is not": lambda: measure(planted, noise=True, sequences=4),
    "optimizer was given with noise alone": lambda: measure(planted, noise=True, optimizer="sgd"),
    "give depths": lambda: measure(planted, optimizer="sgd"),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_is_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence) as error:
        BAD[sentence]()
    assert "\n" not in str(error.value)


def test_batches_are_a_function_of_the_step_and_a_batch_is_taken_apart():
    model = Llama(1, vocab=32)
    ids = torch.randint(32, (24, 8), generator=generator())
    one = noise_of(made(model, ids), 24)
    same = noise_of(made(model, lambda step: ids[8 * step : 8 * step + 8]), 24)
    assert [e.mean for e in one] == pytest.approx([e.mean for e in same], rel=1e-4)
    whole = made(model, {"ids": ids})
    assert whole.sequences == 24 and whole.sequence(3).keywords["ids"].shape == (1, 8)
    final = FinalState(whole, generator())
    losses = [float(final.sequence(i).with_loss()[1].detach()) for i in range(24)]
    assert np.mean(losses) == pytest.approx(float(final.with_loss()[1].detach()), rel=1e-5)


def test_the_command_prints_a_group_a_row_and_the_depths_take_it_too(tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text(
        "import torch\n\n\nclass Net(torch.nn.Sequential):\n    def forward(self, x):\n"
        "        y = super().forward(x)\n        return y, (y - 1).square().mean()\n\n\n"
        "def make(depth=2):\n    maps = [torch.nn.Linear(4, 4) for _ in range(depth)]\n"
        "    return Net(*maps), torch.randn(16, 3, 4)\n"
    )
    assert main(["measure", f"{file}:make", "--noise", "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["points"] == [] and printed["measure"]["sequences"] == 16
    assert [row["group"] for row in printed["noise"]] == ["all", "*.weight", "*.bias"]
    assert {"group", "role", "b_noise", "low", "high"} <= printed["noise"][0].keys()
    assert main(["measure", f"{file}:make", "--noise", "--no-cache"]) == 0
    assert "B_noise of all parameters" in capsys.readouterr().out
    both = measure(f"{file}:make", [1, 2], update="-eta*g", seeds=2, noise=True)
    assert both.points and both.noise[0].at["role"] == "all"
