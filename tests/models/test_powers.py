"""Branches without a formula: their powers and their response, measured by computing them again."""

import json

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import deepnet_theory as dt
from deepnet_theory.models import read

pytestmark = pytest.mark.usefixtures("unmeasured")

D = 16
X = torch.randn(2, 6, D, generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    """Layers x + G(norm(x)) of parameters a, b, c and a formula of them."""

    def __init__(self, formula, layers=2, **start):
        super().__init__()
        torch.manual_seed(0)
        drawn = {name: torch.randn(D, D) / D**0.5 for name in "abc"} | start
        self.layers = nn.ModuleList(
            nn.ParameterDict({n: nn.Parameter(v.clone()) for n, v in drawn.items()})
            for _ in range(layers)
        )
        self.formula, self.norm = formula, nn.LayerNorm(D, elementwise_affine=False)

    def forward(self, x):
        for own in self.layers:
            x = x + self.formula(self.norm(x), own)
        return x


def squared(x, p):
    return F.relu(F.relu(x @ p["a"]).square() @ p["b"]) @ p["c"]


def normed(x, p):
    inner = F.layer_norm(F.relu(x @ p["a"]) @ p["b"], (D,))
    return F.relu(inner) @ p["c"]


@pytest.mark.parametrize(
    ("formula", "expected"), [(squared, (2, 1, 1)), (normed, (0, 0, 1))], ids=["squared", "normed"]
)
def test_whole_powers_are_found(formula, expected):
    first, second = read(Model(formula), X).sublayers
    assert second.measured is None  # another of the same kind
    for name, power in zip("abc", expected, strict=True):
        found, spread = first.measured.powers[f"layers.0.{name}"]
        assert found == pytest.approx(power, abs=1e-3) and spread < 1e-3


def mamba(depth):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": D, "num_hidden_layers": depth, "vocab_size": 61, "state_size": 4}
    return transformers.MambaModel(transformers.MambaConfig(**sizes))


IDS = torch.randint(61, (2, 9), generator=torch.Generator().manual_seed(0))


def test_powers_of_a_state_space_are_those_of_its_derivatives():
    """The power at t = 1 is Σ W ∂ln rms(G)/∂W, here by torch's own derivatives."""
    model = mamba(2)
    measured = read(model, IDS).sublayers[0].measured
    layer = model.layers[0]
    x = model.embeddings(IDS).detach()
    layer.mixer(layer.norm(x)).square().mean().sqrt().log().backward()
    for name, (power, spread) in measured.powers.items():
        p = model.get_parameter(name)
        assert power == pytest.approx(float((p.detach() * p.grad).sum()), abs=0.01 + spread)
    assert measured.powers["layers.0.mixer.out_proj.weight"][0] == pytest.approx(1, abs=1e-3)
    assert "layers.0.norm.weight" not in measured.powers  # a norm's gain is no part of it


def test_an_audit_says_what_was_measured():
    audit = dt.audit(mamba(2), IDS, optimizer="adamw")
    data = json.loads(json.dumps(audit.to_dict()))
    first, second = data["sublayers"]
    assert set(first["measured"]) == {"powers", "response", "low", "high"}
    assert second["measured"] is None
    assert "of layers.0.mixer.in_proj.weight and is linear in " in audit.refusal
    assert "layers.0.mixer.out_proj.weight: no sublayer here has such a law" in audit.refusal
    assert "A branch without a formula here, measured (decoder, layer 0)" in str(audit)
