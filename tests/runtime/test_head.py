"""A head's bias: made, started at the text's frequencies, stepped at its own rate."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import deepnet_theory as dt
from deepnet_theory.runtime import Constants, build, parameter_groups, start_head_
from deepnet_theory.spec.errors import InputError


def constants(**architecture: object) -> Constants:
    sizes = {"width": 32, "heads": 4, "vocab": 256, **architecture}
    return dt.export("adam", depth=2, **sizes)


def test_the_builder_has_a_bias_where_it_is_asked_for() -> None:
    assert build(constants()).head.bias is None
    model = build(constants(head_bias=True, bias=False))
    assert model.head.bias is not None
    assert model.head.bias.tolist() == [0.0] * 256
    (group,) = (g for g in parameter_groups(model, 1.0) if g["role"] == "head-bias")
    assert group["params"][0] is model.head.bias
    assert group["lr"] == 1.0


def test_the_bias_starts_at_the_log_of_the_frequencies() -> None:
    counts = torch.zeros(256, dtype=torch.long)
    counts[:3] = torch.tensor([99, 49, 0])
    model = build(constants(head_bias=True), seeds=2)
    start_head_(model.head, counts)
    own = nn.Linear(8, 256)
    start_head_(own, counts)
    for bias in (*model.head.bias, own.bias):
        p = torch.softmax(bias.double(), -1)
        expected = (counts + 1) / (counts + 1).sum()
        torch.testing.assert_close(p, expected.double(), rtol=1e-5, atol=1e-9)
        assert abs(bias.mean()) < 1e-5


@pytest.mark.parametrize(
    ("head", "counts", "says"),
    [
        (nn.Linear(4, 8, bias=False), torch.ones(8), "has no bias"),
        (nn.Linear(4, 8), torch.ones(7), "one number from 0 on"),
        (nn.Linear(4, 8), -torch.ones(8), "one number from 0 on"),
    ],
)
def test_what_is_no_head_or_no_count_is_refused(
    head: nn.Module, counts: torch.Tensor, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        start_head_(head, counts)


def test_the_first_loss_is_the_unigram_entropy() -> None:
    small = dataclasses.replace(constants(head_bias=True), optimizer="adam")
    told = dt.train(small, steps=1, seeds=1, batch=8, tokens=64, processes=1)
    plain = dt.train(constants(), steps=1, seeds=1, batch=8, tokens=64, processes=1)
    started, zero = (t.runs[0].losses[0] for t in (told, plain))
    assert zero > 5.5  # ln 256 and what the head draws
    assert started < 4.2  # the text's unigram entropy is 3.2


def test_relative_to_a_base_the_bias_keeps_its_rate() -> None:
    wide = constants(width=128, heads=16, head_bias=True, base=32)
    assert wide.outer["head_bias"].rate == pytest.approx(1.0)
    assert "head_bias" not in constants(width=128, heads=16, base=32).outer
