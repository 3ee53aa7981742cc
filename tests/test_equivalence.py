"""W = cW' trained twice with the libraries' own optimizers, and both forms of a rule."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

import deepnet_theory as dt
from deepnet_theory import parameter_groups
from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import MissingExtraError
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.models.step import library_optimizer
from deepnet_theory.runtime import build, described, linear
from deepnet_theory.sizes.update import powers

LIBRARIES = {name: o for name, o in OPTIMIZERS.items() if o.reference is not None}
ROUNDING = 1e-11
STEPS = 5


def real(name):
    """The library's optimizer; Muon's is torch's, which the first update does not stand for."""
    if name == "muon":
        return torch.optim.Muon
    try:
        return library_optimizer(OPTIMIZERS[name].reference)
    except MissingExtraError as missing:
        pytest.skip(str(missing))


def drawn():
    generator = torch.Generator().manual_seed(4)
    shapes = ((6, 5), (5, 6), (STEPS, 7, 5), (STEPS, 7, 5))
    return [torch.randn(s, generator=generator, dtype=torch.float64) / 2 for s in shapes]


def trained(make, scales, group):
    """W after some steps, of W = cW' with each matrix's c in the forward pass."""
    first, second, xs, ys = drawn()
    weights = [torch.nn.Parameter(w / c) for w, c in zip((first, second), scales, strict=True)]
    groups = [{"params": [w], **group(c)} for w, c in zip(weights, scales, strict=True)]
    steps = make(groups)
    for x, y in zip(xs, ys, strict=True):
        one, other = (w * c for w, c in zip(weights, scales, strict=True))
        steps.zero_grad()
        (functional.linear(functional.linear(x, one).tanh(), other) - y).square().sum().backward()
        steps.step()
    return torch.cat([(w * c).detach().flatten() for w, c in zip(weights, scales, strict=True)])


def settings(name, wrong=()):
    """lr, eps and weight decay of W', with the power of c that is planted wrong."""
    of = {**powers(OPTIMIZERS[name])}
    for knob in wrong:
        of[knob] += 1 if knob == "eta" else -1
    base = {"lr": ("eta", 0.02), "weight_decay": ("decay", 0.3)}
    if "epsilon" in of:
        # Muon's is compared with a norm; LAMB's own stands beside a ratio of degree 0 too
        base["eps"] = ("epsilon", {"muon": 30.0, "lamb": 1e-30}.get(name, 0.1))
    return lambda c: {key: value * c ** float(of[knob]) for key, (knob, value) in base.items()}


def distance(name, scales, wrong=()):
    plain, moved = (trained(real(name), c, settings(name, wrong)) for c in ((1.0, 1.0), scales))
    start = torch.cat([w.flatten() for w in drawn()[:2]])
    return ((moved - plain).norm() / (plain - start).norm()).item()


@pytest.mark.parametrize("name", [*LIBRARIES, "muon"])
def test_the_whole_trajectory_is_left_alone(name):
    """With ε and a weight decay that matter; torch's Muon rounds to bfloat16: powers of two."""
    scales = (4.0, 0.25) if name == "muon" else (3.0, 0.7)
    assert distance(name, scales) < ROUNDING
    for knob in ("eta", *(k for k in ("epsilon", "decay") if k in powers(OPTIMIZERS[name]))):
        if (name, knob) != ("lamb", "epsilon"):
            assert distance(name, scales, (knob,)) > 1e-3, knob


def losses(c, name, steps=4):
    """The model of the constants in float64, stepped by the library's optimizer."""
    model = build(c, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    base = {"eps": 1e-30 if name == "lamb" else 1e-3} if name != "momentum" else {}
    groups = parameter_groups(model, 0.01, weight_decay=0.1, **base)
    if name == "muon":  # of matrices alone
        matrices = {id(p) for p, d in described(model) if d.role in (Role.SCALED, Role.UNSCALED)}
        groups = [g for g in groups if all(id(p) in matrices for p in g["params"])]
    optimizer = real(name)(groups)
    generator, found = torch.Generator().manual_seed(2), []
    for _ in range(steps):
        tokens = torch.randint(16, (2, 9), generator=generator)
        loss = functional.cross_entropy(
            model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        ("momentum", "post-ln"),
        ("adam", "post-ln"),
        ("lamb", "branch-multiplier"),
        *(pytest.param(name, "branch-multiplier", marks=pytest.mark.slow)
          for name in ("adamw", "muon")),
    ],
)  # fmt: skip
def test_both_forms_train_alike(name, placement, monkeypatch):
    monkeypatch.setattr(linear, "NORM_EPS", 0.0)  # it would stand beside a smaller variance
    # complete has alpha = 1 under SGD and LAMB, and nothing to move
    closure = "unit-init" if name in ("lamb", "momentum") else "complete"
    derivation = dt.derive(name, placement=placement, closure=closure)
    sizes = {"width": 16, "heads": 2, "vocab": 16}
    sizes["bias"] = name != "lamb"  # whose step of a bias that is 0 is not that of another one
    forward, weights = (dt.export(derivation, 4, form=f, **sizes) for f in ("forward", "weights"))
    assert forward.parts[0].sublayers[0].alpha > 1
    ours = losses(forward, name)
    torch.testing.assert_close(losses(weights, name), ours, rtol=1e-9, atol=0)

    faster = {
        at: replace(row, rate=8 * row.rate) for at, row in weights.rows.items() if row.gain != 1
    }
    wrong = losses(weights.with_rows(faster), name)
    assert (wrong - ours).abs().max() > 1e-4
