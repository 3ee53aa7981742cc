"""What a module computes, found by giving it random weights and inputs, in float32.

The weights are drawn because those of a model may hide the answer: a branch that ends in zeros
is the same in parallel and in sequence. The module itself is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.func import functional_call

ROWS = 3
ENDS = ("attn.c_proj", "mlp.c_proj")  # of the branches of a GPT-2-like block
TOLERANCE = 1e-3  # of entries near 1; a float32 forward pass is right to 1e-6


@torch.no_grad()
def adds_and_normalises(end: nn.Module, alpha: float) -> bool:
    """Whether ``end(h, x)`` is LayerNorm(dense(h) + αx)."""
    with _drawn(end) as (weights, generator):
        width, hidden = weights["dense.weight"].shape
        h, x = (_inputs(n, generator).to(weights["dense.weight"]) for n in (hidden, width))
        dense = F.linear(h, weights["dense.weight"], weights.get("dense.bias"))
        expected = _layer_norm(end, weights, "LayerNorm", dense + alpha * x)
        return _same(_output(end, weights, h, x), expected)


@torch.no_grad()
def is_pre_ln_block(block: nn.Module) -> bool:
    """Whether a GPT-2-like block is x + attn(LayerNorm(x)), then the same with mlp.

    One token attends to itself alone, so that what enters ``attn.c_proj`` must be the last
    third of what leaves ``attn.c_attn``: the values, neither scaled nor in another place.
    """
    paths = ("attn.c_attn", "mlp.c_fc", *ENDS)
    entered: dict[str, Tensor] = {}
    left: dict[str, Tensor] = {}

    def watch(path: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            entered[path], left[path] = inputs[0], output

        return keep

    handles = [block.get_submodule(p).register_forward_hook(watch(p)) for p in paths]
    try:
        with _drawn(block) as (weights, generator):
            x = _inputs(weights["ln_1.weight"].shape[0], generator).to(weights["ln_1.weight"])
            output = _output(block, weights, x)
            if len(left) < len(paths) or any(left[p].shape != x.shape for p in ENDS):
                return False
            y = x + left["attn.c_proj"]
            pairs = (
                (entered["attn.c_attn"], _layer_norm(block, weights, "ln_1", x)),
                (entered["attn.c_proj"], left["attn.c_attn"].chunk(3, dim=-1)[2]),
                (entered["mlp.c_fc"], _layer_norm(block, weights, "ln_2", y)),
                (output[0] if isinstance(output, tuple) else output, y + left["mlp.c_proj"]),
            )
            return all(_same(found, expected) for found, expected in pairs)
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def is_layer_norm(module: nn.Module, width: int) -> bool:
    """Whether a module is a LayerNorm over the last axis, with or without gain and bias."""
    with _drawn(module) as (weights, generator):
        x = _inputs(width, generator)
        x = next((x.to(w) for w in weights.values()), x)
        expected = F.layer_norm(
            x, (width,), weights.get("weight"), weights.get("bias"), _eps(module)
        )
        return _same(_output(module, weights, x), expected)


@contextmanager
def _drawn(module: nn.Module) -> Iterator[tuple[dict[str, Tensor], torch.Generator]]:
    """Random weights in place of the module's, which is evaluated meanwhile, without dropout."""
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for name, p in module.named_parameters():
        scale = math.sqrt(2 / sum(p.shape)) if p.dim() == 2 else 0.5
        centre = 1.0 if p.dim() == 1 and name.endswith("weight") else 0.0
        drawn = torch.empty(p.shape).normal_(centre, scale, generator=generator)
        weights[name] = drawn.to(p.device)
    training = [m for m in module.modules() if m.training]
    module.eval()
    try:
        yield weights, generator
    finally:
        for m in training:
            m.training = True


def _inputs(width: int, generator: torch.Generator) -> Tensor:
    """(rows, 1 token, width) of mean 1: an RMS norm, which does not centre, gives another."""
    return torch.empty(ROWS, 1, width).normal_(1.0, 1.0, generator=generator)


def _layer_norm(module: nn.Module, weights: dict[str, Tensor], path: str, x: Tensor) -> Tensor:
    gain, bias = weights.get(f"{path}.weight"), weights.get(f"{path}.bias")
    return F.layer_norm(x, x.shape[-1:], gain, bias, _eps(module.get_submodule(path)))


def _eps(norm: nn.Module) -> float:
    """The norm's own ε where it says so; any small one is within the tolerance."""
    eps = getattr(norm, "eps", getattr(norm, "variance_epsilon", 1e-5))
    return float(eps) if isinstance(eps, float) else 1e-5


def _output(module: nn.Module, weights: dict[str, Tensor], *inputs: Tensor) -> object:
    """What the module gives with these weights; None where it cannot be called so."""
    try:
        return functional_call(module, weights, inputs)
    except Exception:  # somebody else's code fails in its own ways
        return None


def _same(found: object, expected: Tensor) -> bool:
    return (
        isinstance(found, Tensor)
        and found.shape == expected.shape
        and torch.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    )
