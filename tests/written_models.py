"""Models as people write them, shared by the tests that read, audit, step and mend them."""

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
    """nanoGPT's attention: queries, keys and values of one matrix."""

    def __init__(self, d, bias=False):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)

    def forward(self, x):
        q, k, v = map(heads, self.c_attn(x).chunk(3, dim=-1))
        return self.c_proj(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class MLP(nn.Module):
    def __init__(self, d, bias=False):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class SwiGLU(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gate, self.up = (nn.Linear(d, 4 * d, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * d, d, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A block whose residual line is given: ``line(x, branch, norm)``; branches by their width."""

    def __init__(self, line=pre, d=32, norm=nn.LayerNorm, bias=False, attn=None, mlp=None):
        super().__init__()
        self.attn = Packed(d, bias) if attn is None else attn(d)
        self.mlp = MLP(d, bias) if mlp is None else mlp(d)
        self.ln_1, self.ln_2, self.line = norm(d), norm(d), line

    def forward(self, x):
        x = self.line(x, self.attn, self.ln_1)
        return self.line(x, self.mlp, self.ln_2)


class Lone(Block):
    """A feed-forward sublayer alone."""

    def forward(self, x):
        return self.line(x, self.mlp, self.ln_2)


class Stack(nn.Module):
    """Blocks of vectors, and a norm behind them or none."""

    def __init__(self, layers=3, line=pre, d=32, final=True, block=Block, **options):
        super().__init__()
        self.h = nn.ModuleList(block(line, d, **options) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d) if final else nn.Identity()

    def forward(self, x):
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


def with_inner_norms(model, d=32):
    """Sub-LN's: one more norm before the last matrix of a branch."""
    for block in model.h:
        block.attn.c_proj = nn.Sequential(nn.LayerNorm(d), block.attn.c_proj)
        block.mlp.c_proj = nn.Sequential(nn.LayerNorm(4 * d), block.mlp.c_proj)
    return model


class GPT(Stack):
    """nanoGPT-like, from tokens to logits: pre-LN unless another residual line is given.

    ``std`` is that of rows and head, torch's own where it is None; ``start`` and ``end``
    multiply the stream's start and the logits in the forward pass.
    """

    def __init__(
        self, layers=3, line=pre, d=32, *, vocab=VOCAB, tied=False, std=None, start=1.0,
        end=1.0, **options,
    ):  # fmt: skip
        super().__init__(layers, line, d, **options)
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.start, self.end = start, end
        if tied:
            self.lm_head.weight = self.wte.weight
        for p in (self.wte.weight, self.wpe.weight, self.lm_head.weight):
            if std is not None:
                nn.init.normal_(p, 0, std)

    def first(self, ids):
        where = torch.arange(ids.shape[1], device=ids.device)
        return self.start * (self.wte(ids) + self.wpe(where))

    def forward(self, ids):
        return self.end * self.lm_head(super().forward(self.first(ids)))


class Normed(GPT):
    """BERT-like: a norm where the stream starts."""

    def __init__(self, *given, d=32, **options):
        super().__init__(*given, d=d, **options)
        self.ln_0 = nn.LayerNorm(d)

    def first(self, ids):
        return self.ln_0(super().first(ids))


class Grouped(nn.Module):
    """Llama's attention, of fewer keys than queries, without its rotary positions."""

    def __init__(self, d):
        super().__init__()
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, d // 2, bias=False) for _ in range(2))

    def forward(self, x):
        q, k, v = heads(self.q(x)), heads(self.k(x), HEADS // 2), heads(self.v(x), HEADS // 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(joined(y))


class Llama(GPT):
    """RMS norms, grouped keys and SwiGLU, and no table of positions."""

    def __init__(self, layers=3, line=pre, d=32, **options):
        own = {"norm": nn.RMSNorm, "attn": Grouped, "mlp": SwiGLU}
        super().__init__(layers, line, d, **own, **options)
        del self.wpe
        self.ln_f = nn.RMSNorm(d)

    def first(self, ids):
        return self.start * self.wte(ids)


class Sum(nn.Module):
    """F = x + scale·Σ xWᵢ: one sign step of all Wᵢ, whose gradients agree, moves it by scale·N."""

    def __init__(self, depth, scale=1.0, d=16):
        super().__init__()
        self.embedding = nn.Embedding(32, d).requires_grad_(False)
        self.head = nn.Linear(d, 32).requires_grad_(False)  # the same at all depths
        self.maps = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(depth))
        for m in self.maps:
            nn.init.zeros_(m.weight)
        self.scale = scale

    def forward(self, ids):
        x = self.embedding(ids)
        return self.head(x + self.scale * sum(m(x) for m in self.maps))
