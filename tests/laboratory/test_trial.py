"""Trials: paired seeds, twins and draws of their own, real bytes, Gaussian tokens."""

from dataclasses import replace

import pytest
import torch
from published_rules import SMALL, rule

from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.text import text_bytes, text_windows
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
