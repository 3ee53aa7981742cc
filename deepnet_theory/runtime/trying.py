"""What a reading does not say of a branch, tried: that attention averages its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.runtime.fitting import Fitted
from deepnet_theory.spec.results.reading import Matrix

TOLERANCE = 1e-2  # of a size; a weighted mean of equal values is right to the type's rounding


@torch.no_grad()
def multiplied_values(model: nn.Module, run: Callable[[], Any], rows: Sequence[Fitted]) -> str:
    """An attention that multiplies its values by a number, and which; no word where none does.

    The values of all tokens are made those of one token while ``run`` is the forward pass: the
    weights of a softmax then make nothing of them but these values, which must enter the output
    matrix at their size. Attention whose maps are not modules that are called is not tried.
    """
    made: dict[int, float] = {}
    entered: dict[int, float] = {}
    handles = []
    for index, row in enumerate(rows):
        maps = {m.role: m for m in row.read.matrices}
        if {"value", "output"} <= maps.keys():
            value, output = (_owner(model, maps[role]) for role in ("value", "output"))
            alike = partial(_alike, made, index, maps["value"])
            handles.append(value.register_forward_hook(alike))
            handles.append(output.register_forward_pre_hook(partial(_keep, entered, index)))
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
        for m in training:
            m.training = True
    for index in made.keys() & entered.keys():
        ratio = entered[index] / made[index] if made[index] else 1.0
        if abs(ratio - 1) > TOLERANCE:
            return f"{rows[index].where} multiplies its values by {ratio:.3g}"
    return ""


def _owner(model: nn.Module, matrix: Matrix) -> nn.Module:
    return model.get_submodule(matrix.name.rpartition(".")[0])


def _alike(
    made: dict[int, float], index: int, value: Matrix, _: nn.Module, __: object, out: object
) -> Tensor | None:
    """The output of the values' map with the values of the first token everywhere."""
    if not isinstance(out, Tensor) or out.shape[-1] < value.outputs[-1][1]:
        return None
    out = out.clone()
    squares = []
    for start, end in value.outputs:
        first = out.flatten(0, -2)[0, start:end].clone()
        out[..., start:end] = first
        squares.append(first.float().square())
    made[index] = float(torch.cat(squares).mean().sqrt())
    return out


def _keep(entered: dict[int, float], index: int, _: nn.Module, inputs: tuple[Any, ...]) -> None:
    if inputs and isinstance(inputs[0], Tensor):
        entered[index] = float(inputs[0].float().square().mean().sqrt())
