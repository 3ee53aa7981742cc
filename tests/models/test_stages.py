"""Stages of several widths: one stack where a norm behind the matrix between them starts anew."""

import copy
import re
import warnings
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from written_models import Block

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.models import read

pytestmark = pytest.mark.usefixtures("unmeasured")

D = 16
X = torch.randn(2, 8, D, generator=torch.Generator().manual_seed(0))
PIXELS = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def behind(x, branch, norm):
    return x + norm(branch(x))


class Stages(nn.Module):
    """Two stages: between them two tokens become one of twice the width, and a norm or none."""

    def __init__(self, way):
        super().__init__()
        self.h = nn.ModuleList(Block(behind, d) for d in (D, 2 * D))
        self.merge, self.norm = nn.Linear(2 * D, 2 * D), nn.LayerNorm(2 * D)
        self.ln_f, self.way = nn.LayerNorm(2 * D), way

    def forward(self, x):
        y = self.h[0](x)
        y = torch.cat([y[:, 0::2], (x if self.way == "skip" else y)[:, 1::2]], -1)
        y = self.merge(self.norm(y)) if self.way == "before" else self.merge(y)
        return self.ln_f(self.h[1](y if self.way == "before" else self.norm(y)))


def test_a_stream_that_a_norm_starts_anew_is_one_stack():
    found = read(Stages("behind"), X)
    assert found.understood and found.layers == {"decoder": 2}
    assert [m.fan_in for s in found.sublayers[::2] for m in s.matrices] == [D] * 4 + [2 * D] * 4


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("before", r"goes through the matrix merge.weight, in Stages at test_stages.py:\d+: "
                   "where no norm starts it anew behind a matrix it has no law here"),
        ("skip", r"is put together with another tensor, in Stages at test_stages.py:\d+: "
                 "that has no law here"),
    ],
)  # fmt: skip
def test_a_stream_of_another_size_or_of_a_skip_behind_a_matrix_is_refused(way, why):
    (said,) = read(Stages(way), X).skips
    assert re.fullmatch(f"between two residual sums the stream {why}", said)


def swin(layers):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(layers)
    config = transformers.Swinv2Config(
        image_size=32, patch_size=2, embed_dim=32, depths=[layers // 2] * 2, num_heads=[2, 4],
        window_size=4, drop_path_rate=0.0,
    )  # fmt: skip
    return transformers.Swinv2Model(config)


def exported(layers, optimizer):
    rule = dt.Selection(optimizer, placement="res-post-gain", stack="encoder")
    return dt.export(rule, layers, width=32, heads=2)


def real_step(optimizer, model):
    """‖ΔF‖ of a step of the branches' matrices at the rule's rates, the mean over batches."""
    model, sizes = copy.deepcopy(model).double().eval(), []
    own = {p for n, p in model.named_parameters() if ".blocks." in n and p.dim() == 2
           and "continuous" not in n}  # fmt: skip
    with warnings.catch_warnings(action="ignore"):
        groups = parameter_groups(model, 1e-6)
    rates = {p: g["lr"] for g in groups for p in g["params"] if p in own}
    for batch in range(4):
        g = torch.Generator().manual_seed(batch)
        x, head = torch.randn(1, 3, 32, 32, generator=g), torch.randn(64, 64, generator=g) / 8
        model.zero_grad()
        y = model(x.double()).last_hidden_state[0]
        targets = torch.randint(64, (len(y),), generator=g)
        F.cross_entropy(y @ head.double(), targets).backward()
        after = copy.deepcopy(model)
        with torch.no_grad():
            for p, q in zip(model.parameters(), after.parameters(), strict=True):
                if p in rates:
                    q -= rates[p] * (p.grad if optimizer == "sgd" else p.grad.sign())
            moved = after(x.double()).last_hidden_state[0] - y
        sizes.append(moved.norm(dim=-1).mean().item())
    return fmean(sizes)


@pytest.mark.slow
@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_stages_take_the_rule_of_all_their_sublayers(optimizer):
    sizes = []
    for layers in (4, 8, 16):
        model = swin(layers)
        constants = exported(layers, optimizer)
        apply_(model, constants, inputs=PIXELS)
        assert dt.audit(model, PIXELS, constants=constants).verdict == "SUPPORTED"
        sizes.append(real_step(optimizer, model))
    assert max(sizes) < 1.25 * min(sizes)


def test_matrices_between_stages_are_left_as_they_are():
    pytest.importorskip("transformers")
    model = swin(2)
    before = model.get_parameter("encoder.layers.0.downsample.reduction.weight").clone()
    apply_(model, exported(2, "adam"), inputs=PIXELS)
    assert torch.equal(model.encoder.layers[0].downsample.reduction.weight, before)
