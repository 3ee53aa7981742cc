"""A small GPT as people write one, a rule put into it, its optimizer and its training.

    deepnet-theory measure nano_gpt.py:make --depths 6,12,24 --optimizer adamw
    deepnet-theory measure nano_gpt.py:ruled --depths 6,12,24 --optimizer nano_gpt.py:adamw
    deepnet-theory transfer nano_gpt.py:train_setup --depths 4,16 --widths 32,64 --rates 1e-3:6e-2

What is not of a layer is drawn first: with torch's generator at one seed, the tokens, the
embeddings and the head are the same at every depth, and few seeds suffice.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.models.applying import Applied
from deepnet_theory.laboratory.text import Text

WIDTH, HEADS, VOCAB, TOKENS, BATCH = 64, 4, 256, 32, 4
BASE = 32  # the width that learning rates are relative to in training


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        maps = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.q, self.k, self.v, self.c_proj = maps

    def forward(self, x: Tensor) -> Tensor:  # (batch, tokens, width)
        heads = (m(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A pre-LN layer: x + attention(norm(x)), then the same with the feed-forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.c_proj = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    """Token ids (batch, tokens) to logits; GPT-2's initialisation, 0.02 and 0.02/sqrt(2N)."""

    def __init__(self, depth: int, width: int = WIDTH) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, width), nn.Embedding(TOKENS, width)
        self.lm_head = nn.Linear(width, VOCAB, bias=False)
        self.h = nn.ModuleList(Block(width) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        outer = [self.wte.weight, self.wpe.weight, self.lm_head.weight]
        generator = torch.Generator().manual_seed(torch.initial_seed())
        for p in outer:
            nn.init.normal_(p, 0, 0.02, generator=generator)
        for name, p in self.h.named_parameters():
            if p.dim() > 1:
                last = name.endswith("c_proj.weight")
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * depth) if last else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def make(depth: int) -> tuple[GPT, Tensor]:
    """The model as it is, and a batch for it."""
    ids = torch.randint(VOCAB, (BATCH, TOKENS))
    return GPT(depth), ids


def rule(depth: int, width: int = WIDTH, base: int | None = None) -> dt.Constants:
    """The constants of AdamW's recommended rule."""
    selection = dt.Selection(optimizer="adamw", placement="pre-ln", stack="decoder",
                             closure="complete")  # fmt: skip
    return dt.export(selection, depth, width=width, heads=HEADS, base=base)


def put_right(model: GPT, ids: Tensor) -> Applied:
    """The rule, put into the model; embedding and head are drawn alike at every depth."""
    generator = torch.Generator().manual_seed(torch.initial_seed())
    return apply_(model, rule(len(model.h)), inputs=ids, generator=generator)


def layers_alone(depth: int) -> tuple[GPT, Tensor]:
    """The model with the rule in its layers, embeddings and head as they were."""
    model, ids = make(depth)
    apply_(model, rule(depth), inputs=ids, outer=False)
    return model, ids


def ruled(depth: int) -> tuple[GPT, Tensor]:
    """The model with the rule in it."""
    model, ids = make(depth)
    put_right(model, ids)
    return model, ids


def adamw(model: GPT) -> torch.optim.AdamW:
    """AdamW at the rule's rates, by kind of parameter."""
    return torch.optim.AdamW(parameter_groups(model, lr=1e-3), lr=1e-3)


def train_setup(
    depth: int, width: int, lr: float, seed: int, steps: int
) -> tuple[Callable[[], Tensor], Callable[[], Tensor], float]:
    """One run as people train, on the next byte of a text: warm-up, clipping, weight decay.

    Learning rates are relative to the base width. The text's unigram entropy is what a model has
    that ignores its input.
    """
    text, draws = Text(None, TOKENS), torch.Generator().manual_seed(seed)
    model = GPT(depth, width)
    apply_(model, rule(depth, width, BASE), inputs=text.batch(1, draws).tokens)
    groups = parameter_groups(model, lr, weight_decay=0.1)
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(10 * (at + 1) / steps, 1, 1.1 - at / steps)
    )

    def loss(generator: torch.Generator, held_out: bool = False) -> Tensor:
        batch = text.batch(BATCH, generator, held_out=held_out)
        logits = model(batch.tokens) * BASE / width  # what enters the head, times the base's share
        return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())

    def step() -> Tensor:
        optimizer.zero_grad()
        now = loss(draws)
        now.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return now.detach()

    @torch.no_grad()
    def evaluate() -> Tensor:
        same = torch.Generator().manual_seed(0)  # the same windows for every run
        return torch.stack([loss(same, held_out=True) for _ in range(16)]).mean()

    return step, evaluate, text.baseline
