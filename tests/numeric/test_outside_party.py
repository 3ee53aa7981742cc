"""The same measure on ``torch.nn.TransformerEncoder``, which knows nothing of this package."""

import pytest
import torch
from torch import nn

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import measure_model_update
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.runtime import unstack
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection

SETTINGS = Settings(width=32, heads=4, tokens=16, seeds=3)
LAYERS = 6


def torchs_encoder(norm_first):
    layer = nn.TransformerEncoderLayer(
        32, 4, 128, dropout=0.0, activation="relu", batch_first=True, norm_first=norm_first
    )
    final = nn.LayerNorm(32) if norm_first else None
    encoder = nn.TransformerEncoder(layer, LAYERS, norm=final, enable_nested_tensor=False)
    for name, p in encoder.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(p)  # as in the papers; torch's own draws are uniform
    for p in encoder.parameters():  # the packed query, key, value is three matrices
        p.requires_grad_(p.dim() == 2)
        for chunk in p.data.chunk(3) if p.shape == (96, 32) else [p.data]:
            if p.dim() == 2:
                nn.init.xavier_normal_(chunk)
    return encoder


def copy_weights(encoder, model):
    for theirs, ours in zip(encoder.layers, model.parts["encoder"].layers, strict=True):
        attention, ffn = (residual.branch for residual in ours)
        packed = [attention.query.weight, attention.key.weight, attention.value.weight]
        theirs.self_attn.in_proj_weight.data.copy_(torch.cat(packed))
        theirs.self_attn.out_proj.weight.data.copy_(attention.output.weight)
        theirs.linear1.weight.data.copy_(ffn.fc1.weight)
        theirs.linear2.weight.data.copy_(ffn.fc2.weight)


def one_step(encoder, trial, k, eta):
    """As a user would write it: torch's encoder, torch's Adam, ‖ΔF‖/η of one seed."""
    matrices = [p for p in encoder.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(matrices, lr=eta)
    x = trial.inputs[0][k]
    before = encoder(x)
    logits = before @ trial.model.head.weight[k].T
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), trial.batch.targets[k].flatten())
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        return ((encoder(x) - before).norm(dim=-1).mean() / eta).item()


@pytest.mark.parametrize(("placement", "norm_first"), [("post-ln", False), ("pre-ln", True)])
def test_torchs_encoder_with_our_weights_gives_our_numbers(placement, norm_first):
    selection = Selection(optimizer="adam", placement=placement)
    vanilla = own_rule(("encoder",), "1", "1")
    ours = measure_model_update(Case(selection, vanilla, {"N": LAYERS}, SETTINGS))
    trial = Trial(Case(selection, vanilla, {"N": LAYERS}, SETTINGS), twin=True)
    for k in range(3):
        encoder = torchs_encoder(norm_first)
        copy_weights(encoder, unstack(trial.model, k))
        theirs = one_step(encoder, trial, k, ours.eta)
        assert theirs == pytest.approx(ours.values[k], rel=1e-3)
