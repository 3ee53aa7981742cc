"""Trials: paired seeds, windows of a text, Gaussian tokens, and schemes as their equations."""

import math
import tempfile
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from published_rules import SMALL, rule
from torch.nn import functional

from deepnet_theory.cli.experiments import verify
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.scheme import measurable, scheme
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.text import Text, entropy, text_bytes, text_windows
from deepnet_theory.laboratory.trial import Case, Trial, gaussian_tokens
from deepnet_theory.runtime import described


def test_seeds_are_paired_across_depths_and_rules_in_every_draw_of_its_own(adam):
    def trial(name, layers, draw):
        return Trial(Case(adam, rule(name), {"N": layers}, SMALL), draws=[draw])

    def weights(trial, role):
        return next(p for p, d in described(trial.model) if d.role is role)

    a, b, other = trial("adam", 2, 0), trial("sgd", 5, 0), trial("adam", 2, 1)
    for one, two in ((a, b), (other, trial("sgd", 3, 1))):
        assert torch.equal(one.inputs[0], two.inputs[0])
        assert torch.equal(one.batch.targets, two.batch.targets)
        for role in (Role.EMBEDDING, Role.HEAD):
            assert torch.equal(weights(one, role), weights(two, role))
        assert not torch.equal(weights(one, Role.UNSCALED), weights(two, Role.UNSCALED))
    assert not torch.equal(a.inputs[0], other.inputs[0])
    for role in (Role.HEAD, Role.SCALED):
        assert not torch.equal(weights(a, role), weights(other, role))


def test_targets_are_the_next_bytes_and_a_decoder_reads_the_window_after_the_source():
    pair = Selection(optimizer="adam", stack="encoder-decoder")
    two = own_rule(("encoder", "decoder"), "1", "1")
    trial = Trial(Case(pair, two, {"N": 1, "M": 1}, SMALL))
    source, target = trial.batch.inputs
    single = Trial(Case(Selection(optimizer="adam"), rule("adam"), {"N": 1}, SMALL)).batch
    assert torch.equal(single.inputs[0][..., 1:], single.targets[..., :-1])
    assert source.shape == target.shape == trial.batch.targets.shape
    assert torch.equal(target[..., 1:], trial.batch.targets[..., :-1])
    assert not torch.equal(source, target)
    assert trial.output().shape == (3, 1, 8, 16)


@pytest.mark.parametrize("step", ["matrices", "all"])
def test_what_a_step_moves(adam, step):
    trial = Trial(Case(adam, rule("adam"), {"N": 1}, replace(SMALL, step=step)))
    moved = {d.role for _, d in trial.parameters()}
    assert {Role.SCALED, Role.UNSCALED} <= moved and not moved & {Role.EMBEDDING, Role.HEAD}
    assert (Role.NORM_GAIN in moved) == (step == "all")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_windows_are_stretches_of_the_text():
    text = bytes(text_bytes().tolist())
    windows = text_windows(5, 40, generator())
    assert windows.shape == (5, 40) and all(bytes(w) in text for w in windows.tolist())
    assert torch.equal(windows, text_windows(5, 40, generator()))
    assert not torch.equal(windows, text_windows(5, 40, generator(1)))


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 1.0])
def test_gaussian_tokens_have_unit_size_and_the_correlation(rho):
    x = gaussian_tokens((2, 2000, 2, 16), rho, generator())
    assert x.shape == (2, 2000, 2, 16) and abs(x.square().mean().item() - 1) < 0.02
    assert abs((x[:, :, 0] * x[:, :, 1]).mean().item() - rho) < 0.02


LAB = {"width": 32, "heads": 2, "tokens": 16, "seeds": 4}
D, HEADS = 16, 2


def trial_of(given, M=None, **measure):
    """A stack of 8 layers, beside a decoder of M."""
    selection, rule = measurable(given, None, None)
    settings = Settings(**{**LAB, **measure})
    depth = {"N": 8} if M is None else {"N": 8, "M": M}
    return Trial(Case(selection, rule, depth, settings, scheme=given))


def norm(x):
    return functional.layer_norm(x, x.shape[-1:])


def rms(x):
    return functional.rms_norm(x, x.shape[-1:], eps=1e-5)


def attention(w, x, inner=lambda y: y):
    """(tokens, d) → the same, without a mask; ``inner`` stands before the last map."""
    q, k, v = ((x @ w[name].T).view(-1, HEADS, D // HEADS) for name in ("query", "key", "value"))
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(D // HEADS)
    averaged = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(x.shape)
    return inner(averaged) @ w["output"].T


def ffn(w, x, inner=lambda y: y):
    return inner((x @ w["fc1"].T).relu()) @ w["fc2"].T


# a scheme's sublayer as its paper writes it: of x, the branch G, the layer k and N layers
PUBLISHED = {
    "admin": lambda x, G, k, N: norm(math.sqrt(2 * k) * x + G(x)),
    "layernorm-scaling": lambda x, G, k, N: x + G(norm(x) / math.sqrt(k)),
    "modula": lambda x, G, k, N: (1 - 1 / (2 * N)) * x + G(x) / (2 * N),
    "ngpt": lambda x, G, k, N: rms(x + 0.05 * (rms(G(x)) - x)),
    "u-mup": lambda x, G, k, N: math.sqrt(1 - u_mup(k) ** 2) * x + u_mup(k) * G(rms(x)),
    "sub-ln": lambda x, G, k, N: x + G(norm(x), norm),
}


def u_mup(k):
    return math.sqrt(1 / (2 * k + 1))


def plain(trial, name, seed):
    """F of one seed in plain products, and its weights by layer and name, a leaf each."""
    given, weights = scheme(name), defaultdict(dict)
    for p, d in trial.parameters():
        weights[d.layer][d.name] = p.detach()[seed].clone().requires_grad_()
    x = trial.inputs[0][seed, 0]
    for layer, w in sorted(weights.items()):
        for branch in (attention, ffn):
            x = PUBLISHED[name](x, partial(branch, w), layer + 1, len(weights))
    last = {"layer": norm, "rms": rms}[given.norm]
    return (last(x) if given.final_norm else x), weights


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_measured_stack_is_the_published_equation(name):
    """Forward values and gradients of one seed of the stack, against the equation by itself."""
    trial = trial_of(scheme(name), width=D, heads=HEADS, tokens=5, dtype="float64")
    output, weights = plain(trial, name, seed=1)
    trial.model.requires_grad_(True)
    whole = trial.output()
    torch.testing.assert_close(whole[1, 0], output, rtol=0, atol=1e-10)
    at = torch.randn_like(output)
    (output * at).sum().backward()
    (whole[1, 0] * at).sum().backward()
    for p, d in trial.parameters():
        torch.testing.assert_close(p.grad[1], weights[d.layer][d.name].grad, rtol=0, atol=1e-10)


def test_gains_rates_and_inputs_are_those_of_each_matrix_role_and_part():
    """Every matrix is drawn at its own gain: with 0 it is zero."""
    last, zero = (dict.fromkeys(("output", "fc2"), gain) for gain in (1 / 4, 0.0))
    for name, gains in (("gpt-2", last), ("zero-outputs", zero)):
        for parameter, d in trial_of(scheme(name)).parameters():
            if d.is_matrix and (name == "gpt-2" or d.name in gains):
                assert d.gain == pytest.approx(gains.get(d.name, 1))
                assert float(parameter.std()) == pytest.approx(d.std, rel=0.1)
    trial = trial_of(replace(scheme("u-mup"), rates={"scaled": "1/N", "unscaled": "2/N"}))
    rates = {d.role: trial.rate(p) for p, d in trial.parameters()}
    assert rates == {Role.SCALED: 1 / 8, Role.UNSCALED: 2 / 8}
    sizes = [float(x.square().mean().sqrt()) for x in trial_of(scheme("t-fixup"), M=2).inputs]
    assert sizes == pytest.approx([(9 * 8) ** (-1 / 4), (9 * 2) ** (-1 / 4)], rel=1e-3)


def test_the_measured_exponent_is_the_judged_one():
    (found,) = verify("adam", (4, 16), scheme="gpt-2", draws=2, **LAB).exponents
    assert found.predicted == 1 and found.estimate == pytest.approx(1, abs=0.1)


@given(st.integers(0, 5000), st.integers(1, 40), st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_held_out_text_is_never_trained_on(extra, tokens, parts):
    """Every window is found by its places: bytes are the text's, places are the tensor's."""
    length = 10 * (parts * tokens + 1) + extra
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.txt"
        path.write_bytes(bytes(length))
        corpus = Text(path, tokens, parts)
    places = torch.arange(length)[: corpus.train.numel() + corpus.held_out.numel()]
    places = places.view(corpus.cycles, -1)
    corpus.train, corpus.held_out = places.split([9 * corpus.piece, corpus.piece], dim=1)
    seen = [corpus.batch(200, generator(), held_out=held) for held in (False, True)]
    train, held = (set(torch.cat([b.tokens, b.targets], 1).flatten().tolist()) for b in seen)
    assert not train & held
    assert len(held) <= length / 10
    for b in seen:  # each window is one stretch of the text, and a decoder goes on from a source
        whole = b.tokens if b.source is None else torch.cat([b.source, b.tokens], 1)
        assert whole.shape == (200, parts * tokens) and (whole.diff() == 1).all()
        assert torch.equal(b.targets, b.tokens + 1)


def test_held_out_windows_are_spread_through_the_text(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(bytes(place * 200 // 40_000 for place in range(40_000)))  # a topic a place
    corpus, mean = Text(path, 8), {}
    for held_out in (True, False):
        topics = corpus.batch(400, generator(), held_out=held_out).targets.flatten().tolist()
        # planted error: a last tenth would be {4}
        assert {topic // 40 for topic in topics} == {0, 1, 2, 3, 4}
        mean[held_out] = sum(topics) / len(topics)
    assert abs(mean[True] - mean[False]) < 200 / 10


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_the_entropy_is_that_of_the_counts(counts):
    symbols = torch.tensor([i for i, n in enumerate(counts) for _ in range(n)])
    total = sum(counts)
    expected = -sum(n / total * math.log(n / total) for n in counts)
    assert entropy(symbols) == pytest.approx(expected, abs=1e-12)


def test_short_or_unreadable_texts_are_named(tmp_path):
    (tmp_path / "short").write_bytes(b"too short")
    (tmp_path / "empty").write_bytes(b"")
    for name in ("short", "empty", "absent", "."):
        with pytest.raises(InputError, match=str(tmp_path)):
            Text(tmp_path / name, 16)
