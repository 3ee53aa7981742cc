"""Models as people write them, shared by the tests that read, audit, step and mend them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

HEADS, VOCAB = 4, 61
Line = Callable[..., Tensor]


def pre(x: Tensor, branch: Any, norm: Any) -> Tensor:
    return x + branch(norm(x))


def post(x: Tensor, branch: Any, norm: Any) -> Tensor:
    return norm(x + branch(x))


def heads(x: Tensor, n: int = HEADS) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class Packed(nn.Module):
    """nanoGPT's attention: one packed matrix, its parts in an order, scores as one call or not."""

    def __init__(
        self, d: int, fused: bool = True, bias: bool = False, times: float = 1.0, order: str = "qkv"
    ) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        self.fused, self.times, self.order = fused, times, order

    def forward(self, x: Tensor) -> Tensor:
        parts = dict(zip(self.order, self.c_attn(x).chunk(3, dim=-1), strict=True))
        q, k, v = (heads(parts[name]) for name in "qkv")
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
            past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            y = F.softmax(scores.masked_fill(~past, float("-inf")), dim=-1) @ v
        y = joined(y)
        return self.c_proj(y if self.times == 1 else self.times * y)


class MLP(nn.Module):
    def __init__(self, d: int, bias: bool = False) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    """A block whose residual line is given: ``line(x, branch, norm)``."""

    def __init__(
        self, line: Line = pre, d: int = 32, norm: type[nn.Module] = nn.LayerNorm,
        bias: bool = False, **attention: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attn, self.mlp = Packed(d, bias=bias, **attention), MLP(d, bias)
        self.ln_1, self.ln_2, self.line = norm(d), norm(d), line

    def forward(self, x: Tensor) -> Tensor:
        x = self.line(x, self.attn, self.ln_1)
        return self.line(x, self.mlp, self.ln_2)


class Parallel(Block):
    """GPT-J's: attention and feed-forward of one stream."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(self.ln_1(x)) + self.mlp(self.ln_2(x))


class Stack(nn.Module):
    """Blocks of vectors, and a norm behind them or none."""

    def __init__(
        self, layers: int = 3, line: Line = pre, d: int = 32, final: bool = True,
        block: type[nn.Module] = Block, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.h = nn.ModuleList(block(line, d, **options) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d) if final else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class GPT(Stack):
    """nanoGPT-like, from tokens to logits: pre-LN unless another residual line is given."""

    def __init__(self, layers: int = 3, line: Line = pre, d: int = 32, **options: Any) -> None:
        super().__init__(layers, line, d, **options)
        self.wte, self.wpe = nn.Embedding(VOCAB, d), nn.Embedding(64, d)
        self.lm_head = nn.Linear(d, VOCAB, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.lm_head(super().forward(self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))))
