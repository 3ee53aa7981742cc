"""The multipliers of every kind of parameter, from the rule to a step."""

import warnings

import pytest
import torch

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.outcome import UnstableWarning
from deepnet_theory.runtime import build


def test_no_epsilon_overtakes_a_gradient():
    """What it is to the gradient is the same at every depth, kind by kind; unmultiplied, not."""
    found = {}
    for depth in (4, 32):
        constants = dt.export(
            dt.derive("adam", closure="complete"), depth=depth, width=16, heads=2, vocab=16
        )
        generator = torch.Generator().manual_seed(depth)
        model = build(constants, dtype=torch.float64, generator=generator)
        tokens = torch.randint(16, (4, 16), generator=torch.Generator().manual_seed(0))
        logits = model(tokens)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.roll(1).flatten()).backward()
        for group in parameter_groups(model, 1e-3):
            sizes = [p.grad.square().mean().item() for p in group["params"]]
            size = (sum(sizes) / len(sizes)) ** 0.5
            found.setdefault(group["name"], []).append((size, group["eps"]))
    blocks = [name for name in found if name.split("/")[0] == "encoder" and "key" not in name]
    assert {"encoder/scaled", "encoder/unscaled", "encoder/output-bias"} <= set(blocks)
    for name in blocks:
        (shallow, its), (deep, own) = found[name]
        assert 1 / 2 < (deep / own) / (shallow / its) < 2, name
        if "norm" not in name:
            assert deep / shallow < 1 / 4, name


def test_python_exports_the_complete_rule_and_warns_of_an_unstable_one():
    named = dt.derive("adam", closure="symmetric")
    with pytest.warns(UnstableWarning, match="take the closure complete"):
        unstable = dt.export(named, 4, width=16, heads=2)
    assert unstable.parts[0].sublayers[0].alpha == 8**0.5
    assert named.training.entries == dt.derive("adam", closure="complete").rule.entries
    assert dt.derive("lamb").trains  # its own rule is stable
    with pytest.warns(UnstableWarning, match="rho scales as"):
        build(unstable)
    with warnings.catch_warnings(action="error", category=UnstableWarning):
        for given in ("adam", dt.derive("adam")):
            found = dt.export(given, 4, width=16, heads=2)
            assert build(found).constants.parts[0].sublayers[0].alpha == 8.0
