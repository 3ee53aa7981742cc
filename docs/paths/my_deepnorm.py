"""A plain DeepNorm: ``faithful``, and ``faulty``, which has one wrong line."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

WIDTH, HEADS, TOKENS = 64, 4, 16


class Layer(nn.Module):
    """norm(alpha x + attention(x)), then norm(alpha x + feed-forward(x))."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def attention(self, x: Tensor) -> Tensor:  # (batch, tokens, width)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(self.alpha * x + self.attention(x))
        return self.norm2(self.alpha * x + self.fc2(F.relu(self.fc1(x))))


class Encoder(nn.Sequential):
    """DeepNet, arXiv 2203.00555, Figure 2: alpha = (2N)^(1/4), beta = (8N)^(-1/4)."""

    def __init__(self, depth: int, qkv_as_one: bool) -> None:
        super().__init__(*(Layer((2 * depth) ** (1 / 4)) for _ in range(depth)))
        beta = (8 * depth) ** (-1 / 4)
        for layer in self:
            if qkv_as_one:  # the mistake: query and key are scaled, and all by the packed fans
                nn.init.xavier_normal_(layer.qkv.weight, gain=beta)
            else:
                for w, gain in zip(layer.qkv.weight.data.chunk(3), (1.0, 1.0, beta), strict=True):
                    nn.init.xavier_normal_(w, gain=gain)
            for linear in (layer.out, layer.fc1, layer.fc2):
                nn.init.xavier_normal_(linear.weight, gain=beta)


def faithful(depth: int) -> tuple[Encoder, Tensor]:
    """Value, output and feed-forward at beta; query and key at 1."""
    return Encoder(depth, qkv_as_one=False), torch.randn(2, TOKENS, WIDTH)


def faulty(depth: int) -> tuple[Encoder, Tensor]:
    """The same, with the packed matrix drawn as one."""
    return Encoder(depth, qkv_as_one=True), torch.randn(2, TOKENS, WIDTH)
