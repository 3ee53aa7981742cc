"""Models as people write them, shared by the tests that read, audit, step and mend them."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

HEADS, VOCAB = 4, 61


def pre(x, branch, norm):
    return x + branch(norm(x))


def post(x, branch, norm):
    return norm(x + branch(x))


def heads(x, n=HEADS):
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


class Packed(nn.Module):
    """nanoGPT's attention: one packed matrix, its parts in an order, scores as one call or not."""

    def __init__(self, d, fused=True, bias=False, times=1.0, order="qkv"):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        self.fused, self.times, self.order = fused, times, order

    def forward(self, x):
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
    def __init__(self, d, bias=False):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    """A block whose residual line is given: ``line(x, branch, norm)``."""

    def __init__(
        self, line = pre, d = 32, norm = nn.LayerNorm,
        bias = False, **attention,
    ):  # fmt: skip
        super().__init__()
        self.attn, self.mlp = Packed(d, bias=bias, **attention), MLP(d, bias)
        self.ln_1, self.ln_2, self.line = norm(d), norm(d), line

    def forward(self, x):
        x = self.line(x, self.attn, self.ln_1)
        return self.line(x, self.mlp, self.ln_2)


class Parallel(Block):
    """GPT-J's: attention and feed-forward of one stream."""

    def forward(self, x):
        return x + self.attn(self.ln_1(x)) + self.mlp(self.ln_2(x))


class Stack(nn.Module):
    """Blocks of vectors, and a norm behind them or none."""

    def __init__(
        self, layers = 3, line = pre, d = 32, final = True,
        block = Block, **options,
    ):  # fmt: skip
        super().__init__()
        self.h = nn.ModuleList(block(line, d, **options) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d) if final else nn.Identity()

    def forward(self, x):
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class GPT(Stack):
    """nanoGPT-like, from tokens to logits: pre-LN unless another residual line is given."""

    def __init__(self, layers=3, line=pre, d=32, **options):
        super().__init__(layers, line, d, **options)
        self.wte, self.wpe = nn.Embedding(VOCAB, d), nn.Embedding(64, d)
        self.lm_head = nn.Linear(d, VOCAB, bias=False)

    def forward(self, ids):
        return self.lm_head(super().forward(self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))))
