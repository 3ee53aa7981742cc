"""What ``practice.py`` trains: models by rule, head and positions, as people train them.

AdamW (0.9, 0.95), warm-up over a tenth of the steps, cosine to a tenth, clipping, weight decay.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import deepnet_theory as dt
from deepnet_theory import parameter_groups, start_head_
from deepnet_theory.definitions.constants import Constants, SublayerConstants
from deepnet_theory.definitions.scheme import scheme
from deepnet_theory.definitions.sublayer import Role, sublayer
from deepnet_theory.laboratory.runs import watching
from deepnet_theory.laboratory.text import Text, Windows
from deepnet_theory.laboratory.training import cross_entropy
from deepnet_theory.laboratory.transfer import plain
from deepnet_theory.runtime import build, described
from deepnet_theory.runtime.linear import Linear, Make, Site, normalise
from deepnet_theory.runtime.model import Embedding, Model

HEADS, DECAY, CLIP, WARMUP, FLOOR = 4, 0.1, 1.0, 0.1, 0.1
STD = 0.02  # GPT-2's, and Llama's
EVERY = 4  # steps between two takings of R
HELD_OUT = 8  # batches of 32 windows
ONE = "one matrix"


@dataclass(frozen=True)
class Arm:
    """What is trained, without rate and seed."""

    rule: str
    depth: int = 16
    head: str = "xavier"  # its size: xavier, 0.02, 0, or tied to the embedding
    bias: bool = False  # on the head, started at the log-unigram
    width: int = 64
    constant: float = 1.0  # in front of 1/N
    positions: str = "learned"  # as large as the tokens; raw: no norm; or sinusoids, not learnt
    embedding: float = STD  # standard deviation of tokens and positions; 0: 1/√width
    linear_bias: bool = False  # in the branches
    activation: str = "relu"
    warmup: bool = True
    optimizer: str = "adamw"  # of hidden matrices; AdamW of the rest
    outer: float = 0.0  # rate of the rest, embedding and head; 0: that of the hidden matrices
    batch: int = 8
    tokens: int = 64
    steps: int = 150


@dataclass(frozen=True)
class Run:
    """What one seed came to at one rate."""

    loss: float  # of validation, in nats; NaN where the run diverged
    weight: float  # the largest R of the branches' common direction
    cosine: float  # between tokens at the output, at the end
    seconds: float


class Learned(Embedding):
    """Tokens and learned positions, drawn alike; the sum is normalised, or enters as it is."""

    def __init__(self, model: Model, tokens: int, normed: bool) -> None:
        super().__init__(model.constants, Make())
        self.weight, self.normed = model.embed.weight, normed
        made, fans = Make().empty(tokens, self.width), (self.width, self.width)
        site = Site("embedding")
        self.positions = self.own("positions", made, site, Role.EMBEDDING, "embedding", fans=fans)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) → (batch, tokens, width)."""
        x = F.embedding(tokens, self.weight) + self.positions
        return normalise(math.sqrt(self.width) * x, self.norm) if self.normed else x


class OneMatrix(nn.Module):
    """W relu(x), of this token or, in every second sublayer, of the one before."""

    def __init__(self, width: int, layer: int, generator: torch.Generator) -> None:
        super().__init__()
        site = Site("decoder", layer, 0, "ffn")
        self.fc2, self.back = Linear(width, width, Make(), site, "fc2", Role.SCALED), layer % 2
        nn.init.normal_(self.fc2.weight, 0.0, width**-0.5, generator)

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """(batch, tokens, width) → the same."""
        y: Tensor = self.fc2(F.relu(F.pad(x, (0, 0, self.back, 0))[:, : x.shape[1]]))
        return y


@cache
def complete(placement: str, depth: int, width: int) -> Constants:
    """The recommended rule: post-LN with α = 2N, pre-LN with branches of 1/(2N)."""
    of = {"stack": "decoder", "placement": placement, "norm": "rms", "closure": "complete"}
    return dt.export(
        dt.derive(optimizer="adamw", **of), depth=depth, width=width, heads=HEADS, bias=False
    )


def with_constant(s: SublayerConstants, post: bool, constant: float) -> SublayerConstants:
    """A sublayer of the rule with ``constant``/N in place of 1/N, shared by two matrices."""
    if post or constant == 1.0:
        return replace(s, alpha=s.alpha / constant)
    f, own = math.sqrt(constant), dict(s.parameters)
    for name in own.keys() & {"value", "output", "fc1", "fc2"}:
        p = own[name]
        own[name] = replace(p, gain=p.gain * f, rate=p.rate * f, weight_decay=p.weight_decay / f)
    return replace(s, beta=s.beta * f, rate=s.rate * f, parameters=own)


def placed(placement: str, like: Constants) -> Constants:
    """α = β = 1 and one learning rate."""
    return replace(plain(like), placement=placement)


def gpt_2(like: Constants) -> Constants:
    """Plain pre-LN with the scheme's gain of last matrices; N counts layers of two sublayers."""
    (part,), bare = scheme("gpt-2").parts, placed("pre-ln", like)
    (gain,), parts = {*part.gains.values()}, []
    for p in bare.parts:
        value = scheme("gpt-2").value(gain, N=p.layers * len(p.sublayers) / 2)
        last = (replace(s, gains={sublayer(s.kind).last_map[0]: value}) for s in p.sublayers)
        parts.append(replace(p, sublayers=tuple(last)))
    return replace(bare, parts=tuple(parts))


def constants(arm: Arm) -> Constants:
    """The constants of an arm's rule."""
    n, post = arm.depth, complete("post-ln", arm.depth, arm.width)

    def both(alpha: float, beta: float) -> list[SublayerConstants]:
        return [SublayerConstants(kind, alpha, beta) for kind in ("attention", "ffn")]

    match arm.rule:
        case "post-LN complete" | "pre-LN complete":
            c, is_post = complete(arm.rule[:-9].lower(), n, arm.width), arm.rule[:4] == "post"
            own = [with_constant(s, is_post, arm.constant) for s in c.parts[0].sublayers]
        case "CompleteP":
            c, own = placed("branch-multiplier", post), both(float(n), 1.0)
        case "DeepNorm":
            to, values = scheme("deepnorm"), ("(2*N)**(1/4)", "(8*N)**(-1/4)")
            c, own = placed("post-ln", post), both(*(to.value(x, N=n) for x in values))
        case "GPT-2":
            c = gpt_2(post)
            own = list(c.parts[0].sublayers)
        case "one matrix, 1/√N" | "one matrix, 1/N":
            alpha, rate = (n**0.5, n**-0.5) if "√" in arm.rule else (float(n), 1.0)
            c, own = placed("branch-multiplier", post), [SublayerConstants("ffn", alpha, 1.0, rate)]
        case "Xavier pre-LN" | "Llama" | "plain post-LN":
            c, own = placed(f"{'post' if 'post' in arm.rule else 'pre'}-ln", post), both(1.0, 1.0)
        case _:
            raise ValueError(arm.rule)
    sizes = {"tied_head": arm.head == "tied", "head_bias": arm.bias, "bias": arm.linear_bias}
    sizes["activation"] = arm.activation
    a, part = replace(c.architecture, **sizes), replace(c.parts[0], sublayers=tuple(own))
    return replace(c, parts=(part,), architecture=a, condition="", warning="")


def generator(seed: int, index: int) -> torch.Generator:
    """A generator of its own for every purpose and step, the same in every arm."""
    return torch.Generator().manual_seed((seed * 10_000_019 + index) % 2**63)


@torch.no_grad()
def model_of(arm: Arm, seed: int) -> Model:
    """The model of an arm, drawn."""
    outer, inner = generator(seed, 2**20), generator(seed, 2**20 + 1)
    model = build(constants(arm), generator=inner, embedding_generator=outer)
    small, head = arm.rule in ("GPT-2", "Llama"), model.head.weight
    if arm.rule.startswith(ONE):
        for index, residual in enumerate(model.residuals()):
            residual.branch = OneMatrix(arm.width, index, inner)
    if arm.positions != "sinusoids":
        model.embed = Learned(model, arm.tokens, not small and arm.positions != "raw")
        model.embed.positions.normal_(0.0, arm.width**-0.5, generator=outer)
    if arm.embedding and not small:
        for p in model.embed.parameters():
            p.mul_(arm.embedding * arm.width**0.5)
    for p, d in described(model):
        if small and d.is_matrix:
            p.mul_(STD * d.gain / d.std)
    if arm.head in ("0", "0.02"):
        head.mul_(float(arm.head) / float(head.std()))
    elif arm.head == "xavier" and small:
        head.mul_(math.sqrt(2 / sum(head.shape)) / STD)
    if arm.bias:
        start_head_(model.head, text(arm.tokens).counts)
    return model


def optimizers(arm: Arm, model: Model, rate: float) -> Iterator[torch.optim.Optimizer]:
    """AdamW, and Muon of the hidden matrices where the arm says so, at the rule's multipliers."""
    groups = parameter_groups(model, rate, eps=1e-8, weight_decay=DECAY)
    muon, rest = [], []
    for group in groups:
        hidden = group["name"].split("/")[1] in (Role.SCALED.value, Role.UNSCALED.value)
        if arm.outer and not hidden:
            group["lr"] *= arm.outer / rate
        (muon if hidden and arm.optimizer == "muon" else rest).append(group)
    yield torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), fused=True)
    if muon:
        own = [{k: v for k, v in group.items() if k != "eps"} for group in muon]
        yield torch.optim.Muon(own, lr=rate, adjust_lr_fn="match_rms_adamw")


def schedule(arm: Arm, step: int) -> float:
    """What the rate is multiplied by: linear warm-up, and a cosine to a tenth."""
    first = round(WARMUP * arm.steps) if arm.warmup else 0
    if step < first:
        return (step + 1) / first
    done = (step - first) / max(1, arm.steps - first)
    return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2


def train(arm: Arm, rate: float, seed: int) -> Run:
    """One run."""
    began, corpus, model = time.perf_counter(), text(arm.tokens), model_of(arm, seed)
    steppers, largest = list(optimizers(arm, model, rate)), 0.0
    plans = [torch.optim.lr_scheduler.LambdaLR(o, lambda s: schedule(arm, s)) for o in steppers]
    for step in range(arm.steps):
        with watching(model) if step % EVERY == 0 else nullcontext([]) as seen:
            loss = cross_entropy(model, corpus.batch(arm.batch, generator(seed, step)))
        largest = max(largest, *(one.weight for one in seen), 0.0)
        if not math.isfinite(float(loss.detach())):
            return Run(math.nan, largest, math.nan, time.perf_counter() - began)
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for o, plan in zip(steppers, plans, strict=True):
            o.step()
            plan.step()
    with torch.no_grad(), watching(model) as seen:
        losses = [cross_entropy(model, b) for b in held_out(arm.tokens)]
        found = statistics.fmean(map(float, losses))
    return Run(found, largest, seen[-1].cosine, time.perf_counter() - began)


@cache
def text(tokens: int) -> Text:
    """The text in windows."""
    return Text(None, tokens)


@cache
def held_out(tokens: int) -> list[Windows]:
    """What every model is judged on."""
    return [text(tokens).batch(32, generator(0, -1 - i), held_out=True) for i in range(HELD_OUT)]
