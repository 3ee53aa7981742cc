"""One's own models against the width: which parameter is off, by how much, what would mend it."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from deepnet_theory.definitions.measurement import Exponent, ModelMeasurement
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.laboratory.measuring import measure
from deepnet_theory.laboratory.model_steps import ANSWER

V = 16
IDS = torch.arange(4).view(1, 4)
WIDTHS = [64, 128, 256]


class Net(nn.Module):
    """Embedding, ``depth`` feed-forward layers beside the stream, norm and head; no biases."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(V, width), nn.Linear(width, V, bias=False)
        self.up, self.down = (
            nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        for m in (self.head, *self.up, *self.down):
            nn.init.normal_(m.weight, std=width**-0.5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(F.relu(up(x)))
        return self.head(self.norm(x))


def standard(depth: int, width: int) -> tuple[nn.Module, torch.Tensor]:
    torch.set_num_threads(1)
    return Net(depth, width), IDS


def small_head(depth: int, width: int) -> tuple[nn.Module, torch.Tensor]:
    net, ids = standard(depth, width)
    with torch.no_grad():
        net.head.weight.mul_((WIDTHS[0] / width) ** 0.5)
    return net, ids


def adam(model: nn.Module) -> torch.optim.Optimizer:
    """1/width on matrices, but for the embedding."""
    width = model.norm.weight.shape[0]
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, p in model.named_parameters():
        groups[p.dim() == 2 and "embedding" not in name].append(p)
    return torch.optim.Adam(
        [{"params": groups[True], "lr": 1e-3 / width}, {"params": groups[False], "lr": 1e-3}],
        lr=1e-3, eps=1e-12,
    )  # fmt: skip


@pytest.fixture(scope="module")
def found() -> dict[str, ModelMeasurement]:
    return {
        "standard": measure(standard, widths=WIDTHS, optimizer="adam", seeds=4),
        "ruled": measure(small_head, widths=WIDTHS, optimizer=adam, seeds=4),
    }


def exponents(m: ModelMeasurement) -> dict[str, Exponent]:
    return {e.share: e for e in m.exponents}


def test_what_is_off_is_told_with_its_mending(found: dict[str, ModelMeasurement]) -> None:
    m = found["standard"]
    by = exponents(m)
    assert m.verdict is Verdict.REFUTED
    for name in ("up.*.weight", "down.*.weight", "head.weight"):
        e = by[name]
        assert e.verdict is Verdict.REFUTED and e.estimate == pytest.approx(1, abs=0.15)
        assert e.because.startswith("its learning rate should scale as width^-")
    answer = by[ANSWER]
    assert answer.estimate == pytest.approx(0.5, abs=0.15)
    assert answer.because.startswith("the head's initial size")
    assert by["norm.bias"].verdict is Verdict.SUPPORTED


def test_the_rule_moves_every_parameter_alike(found: dict[str, ModelMeasurement]) -> None:
    by = exponents(found["ruled"])
    assert Verdict.REFUTED not in {e.verdict for e in by.values()}
    for e in by.values():
        assert e.estimate == pytest.approx(0, abs=0.15), e.share


def test_the_json_has_the_width_of_every_point(found: dict[str, ModelMeasurement]) -> None:
    told = json.loads(found["ruled"].to_json())
    assert [p["depth"] for p in told["points"]] == [{"d": width} for width in WIDTHS]
    assert {e["in"] for e in told["exponents"]} == {"d"}
    assert told["exponent"]["share"] == "all"


def test_depth_and_width_at_once() -> None:
    m = measure(standard, [1, 2], widths=[16, 32, 64], update="-eta*g", seeds=2)
    assert [p.depth for p in m.points[:2]] == [{"N": 1, "d": 16}, {"N": 1, "d": 32}]
    assert {(e.variable, e.share) for e in m.exponents} >= {("d", "all"), ("N", "all")}


def of_width_alone(width: int) -> tuple[nn.Module, torch.Tensor]:
    return standard(1, width)


def test_a_factory_may_take_the_width_alone() -> None:
    m = measure(of_width_alone, widths=[16, 32, 64], update="-eta*sign(g)", seeds=2)
    assert len(m.points) == 3


@pytest.mark.parametrize(
    ("factory", "given", "sentence"),
    [
        (standard, {}, "give depths, such as 6,12,24, or widths"),
        (standard, {"widths": [64, 128]}, "give no exponent: 3 or more are needed"),
        (standard, {"widths": "a"}, "the widths 'a' cannot be read"),
        (lambda depth: standard(depth, 16), {"widths": [16, 32, 64]}, "takes no width"),
        (lambda depth, width: standard(depth, 16), {"widths": [16, 32, 64]},
         "gives the same parameters at 16 and at 32: does it use the width"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(factory, given, sentence) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=sentence):
        measure(factory, optimizer="adam", seeds=2, **given)
