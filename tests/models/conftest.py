"""Small models in the styles that people write."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

D, HEADS, VOCAB = 32, 4, 61


class Attention(nn.Module):
    """nanoGPT's: one packed matrix, the scores written out or in one call."""

    def __init__(self, d: int = D, fused: bool = True, bias: bool = False) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, HEADS, C // HEADS).transpose(1, 2) for t in (q, k, v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
            past = torch.ones(T, T, dtype=torch.bool).tril()
            y = F.softmax(scores.masked_fill(~past, float("-inf")), dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MLP(nn.Module):
    def __init__(self, d: int = D, bias: bool = False) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    """A block whose residual line is given: ``line(x, branch, norm)``."""

    def __init__(self, line: Callable[..., Tensor], d: int = D, fused: bool = True) -> None:
        super().__init__()
        self.attn, self.mlp = Attention(d, fused), MLP(d)
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.line = line

    def forward(self, x: Tensor) -> Tensor:
        x = self.line(x, self.attn, self.ln_1)
        return self.line(x, self.mlp, self.ln_2)


class GPT(nn.Module):
    """nanoGPT-like: pre-LN unless another residual line is given."""

    def __init__(
        self,
        layers: int = 3,
        line: Callable[..., Tensor] = lambda x, branch, norm: x + branch(norm(x)),
        d: int = D,
        fused: bool = True,
        final: bool = True,
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, d), nn.Embedding(64, d)
        self.h = nn.ModuleList(Block(line, d, fused) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d) if final else nn.Identity()
        self.lm_head = nn.Linear(d, VOCAB, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


@pytest.fixture(scope="session")
def gpt() -> type[GPT]:
    return GPT
