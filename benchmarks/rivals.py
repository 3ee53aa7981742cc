"""What ``certificate.py`` trains: the rule, standard practice and rules that are wrong.

Decoders with RMS norms, SwiGLU and sinusoids, by ``build``; bytes of the standard library's
modules; warm-up over a tenth of the steps, cosine to 0, no clipping, decay 0.1. The wrong rules are
those of ``transfer --rivals`` (:mod:`deepnet_theory.sizes.rivals`).
"""

from __future__ import annotations

import gc
import hashlib
import math
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import deepnet_theory as dt
from deepnet_theory import parameter_groups, start_head_
from deepnet_theory.definitions.constants import Address, Constants
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.runtime import build
from deepnet_theory.runtime.model import Model, sinusoids
from deepnet_theory.sizes.rivals import WRONG as TABLE
from deepnet_theory.sizes.rivals import of_another, standard, with_factors, wrong

STD, DECAY, VOCAB, HEAD_WIDTH, FFN_RATIO = 0.02, 0.1, 256, 32, 2.6875
SLOWER = 5  # Muon's rate over the one of AdamW for the other parameters
HELD_OUT = 8  # batches that a model is judged on
Size = tuple[int, int]  # width and layers


class Form(NamedTuple):
    """Sizes of the models and of a run: the base; larger in width, in depth, and in both."""

    base: Size
    wide: Size
    deep: Size
    both: Size
    steps: int
    batch: int
    window: int


class Arm(NamedTuple):
    """A rule to train by.

    ``start`` is where the search of the base's best rate begins; 0: the arm is the rule there.
    """

    name: str
    start: float = 0.0
    optimizer: str = "adamw"
    placement: str = "pre-ln"

    @property
    def family(self) -> str:
        """Arms of one family have one rule."""
        return f"{self.placement}, {self.optimizer[:4]}"

    @property
    def is_standard(self) -> bool:
        return self.name.endswith(STANDARD)


RULE, STANDARD = "the rule", "standard practice"
MUON, POST, SGD = "Muon, the rule", "post-LN, the rule", "the rule of SGD"
WRONG = (*TABLE, SGD)
ALL = (
    Arm(RULE, 8e-3),
    Arm(STANDARD, 2e-3),
    *map(Arm, WRONG),
    Arm(MUON, 40e-3, "muon"),
    Arm(f"Muon, {STANDARD}", 4e-3, "muon-moonlight"),
    Arm(POST, 8e-3, placement="post-ln"),
)
ARMS = {arm.name: arm for arm in ALL}
RULES = {ARMS[name].family: name for name in (RULE, MUON, POST)}


# ---- constants ----


@cache
def exported(arm: Arm, size: Size, form: Form, optimizer: str = "adamw") -> Constants:
    """The package's constants of the rule, for an arm's placement, at a size over the base."""
    selection = Selection(
        optimizer, placement=arm.placement, norm="rms", stack="decoder",
        layer="attention,ffn:swiglu", closure="complete",
    )  # fmt: skip
    return dt.export(
        selection, size[1], base=form.base, width=size[0],
        heads=size[0] // HEAD_WIDTH, vocab=VOCAB, ffn_ratio=FFN_RATIO, activation="silu",
        bias=False, head_bias=arm.placement == "post-ln",
    )  # fmt: skip


@cache
def constants(arm: Arm, size: Size, form: Form) -> Constants:
    """The constants of an arm: the rule's, a wrong rule's, or those of standard practice."""
    c, base = exported(arm, size, form), exported(arm, form.base, form)
    if arm.name == SGD:
        return of_another(c, base, *(exported(arm, at, form, "sgd") for at in (size, form.base)))
    if arm.name in TABLE:
        return wrong(arm.name, c, base)
    if not arm.is_standard:
        return c
    start, sizes = base.rows, {row: standard(c, row) for row in c.rows}
    own = {
        row: (STD * sizes[row] / start[row].gain if is_matrix(c, row) else 1.0, 1 / start[row].rate)
        for row in sizes
    }
    return replace(with_factors(c, base, own), head_multiplier=1.0)


def is_matrix(c: Constants, row: Address) -> bool:
    """Whether standard practice has a size of its own for it."""
    return standard(c, row) != 1


@cache
def forecast(arm: Arm, size: Size, form: Form) -> tuple[float, float]:
    """What the tables alone say: the best rate over the base's, and the distance from the rule.

    Where an arm's rates are too large on average, its best rate is as much smaller. The distance at
    the base's best rate is the root mean square over the branch matrices of how far rate and size
    are from the rule's, in factors of 2.
    """
    if arm.name not in WRONG and not arm.is_standard:
        return 1.0, 0.0
    own, own_base = (constants(arm, at, form).rows for at in (size, form.base))
    c = exported(arm, size, form, arm.optimizer)
    rule, base = c.rows, exported(arm, form.base, form, arm.optimizer).rows
    off = [
        [math.log2(getattr(own[row], knob) / getattr(own_base[row], knob)
                   * getattr(base[row], knob) / getattr(rule[row], knob))
         for row in rule if row[1] is not None and is_matrix(c, row)]
        for knob in ("rate", "gain")
    ]  # fmt: skip
    squares = [x**2 + y**2 for x, y in zip(*off, strict=True)]
    return 2.0 ** -fmean(off[0]), math.sqrt(fmean(squares))


# ---- one run ----


class Run(NamedTuple):
    """What is trained: an arm at a size, with a rate and a seed."""

    arm: str
    size: Size
    rate: float
    seed: int


@cache
def text(device: str) -> tuple[Tensor, int, str]:
    """The standard library's modules in a fixed order; where validation begins; a digest.

    Its tests are left out.
    """
    root, skipped = (
        Path(sysconfig.get_paths()["stdlib"]),
        {"test", "tests", "site-packages", "dist-packages"},
    )
    names = (file.relative_to(root) for file in root.rglob("*.py"))
    kept = [name.as_posix() for name in names if not skipped & {*name.parts}]
    kept.sort(key=lambda name: hashlib.sha256(name.encode()).digest())
    raw = bytearray(b"\n".join((root / name).read_bytes() for name in kept))
    whole = torch.frombuffer(raw, dtype=torch.uint8).to(device)
    return whole, len(raw) * 19 // 20, hashlib.sha256(raw).hexdigest()[:16]


@torch.no_grad()
def model_of(run: Run, form: Form, device: str) -> Model:
    """The model of a run, drawn; in standard practice the stream starts at tokens + positions."""
    generator, arm = torch.Generator(device).manual_seed(run.seed), ARMS[run.arm]
    c = replace(constants(arm, run.size, form), warning="")
    model = build(c, generator=generator, device=device)
    if arm.is_standard:
        table, width = model.embed.weight, run.size[0]
        table.mul_(STD * math.sqrt(width))
        places = math.sqrt(2) * STD * sinusoids(form.window, width, table)
        model.embed.forward = lambda tokens: F.embedding(tokens, table) + places  # type: ignore
    if model.head.bias is not None:
        whole, cut, _ = text(device)
        start_head_(model.head, torch.bincount(whole[:cut].int(), minlength=VOCAB))
    if device == "cuda":  # cast what a branch reads once, and not for each of its matrices
        for residual in model.residuals():
            residual.branch.register_forward_pre_hook(lambda _, x: (x[0].bfloat16(), *x[1:]))
    return model


def steppers(arm: Arm, model: Model, rate: float) -> Iterator[torch.optim.Optimizer]:
    """AdamW, and Muon for the matrices of the branches where the arm has it."""
    if arm.optimizer == "muon":
        rates, of_role = {"muon": rate, "adamw": rate / SLOWER}, {"hidden": "muon", "*": "adamw"}
        groups = parameter_groups(model, rates, weight_decay=DECAY, optimizers=of_role)
    else:
        groups = parameter_groups(model, rate, weight_decay=DECAY)
    hidden = {id(p) for p in model.parts.parameters() if p.dim() == 2 and arm.optimizer != "adamw"}
    muon: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for group in groups:
        (muon if id(group["params"][0]) in hidden else rest).append(group)
    if muon:
        shape = "match_rms_adamw" if arm.is_standard else "original"
        yield torch.optim.Muon(muon, rate, adjust_lr_fn=shape)
    yield torch.optim.AdamW(rest, rate, (0.9, 0.95), fused=True)


def train(run: Run, form: Form, device: str, until: float) -> dict[str, Any] | None:
    """The validation loss of a run, None where it diverged; no answer where the time was over."""
    torch.set_num_threads(2 if device == "cuda" else 1)
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()  # the other processes need what the run before left
    model, (whole, cut, _) = model_of(run, form, device), text(device)
    optimizers = list(steppers(ARMS[run.arm], model, run.rate))
    steps, first, began = form.steps, form.steps // 10, time.time()

    def factor(step: int) -> float:
        cosine = math.cos(math.pi * max(0, step - first) / (steps - first))
        return min((step + 1) / first, (1 + cosine) / 2)

    plans = [torch.optim.lr_scheduler.LambdaLR(o, factor) for o in optimizers]

    def loss_of(low: int, high: int, generator: torch.Generator) -> Tensor:
        span, shape = torch.arange(form.window + 1, device=device), (form.batch, 1)
        start = torch.randint(high - low - form.window, shape, generator=generator, device=device)
        window = whole[low + start + span].long()  # (batch, window + 1)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(window[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), window[:, 1:].flatten())

    generator = torch.Generator(device).manual_seed(run.seed + 1)
    for step in range(steps):
        loss = loss_of(0, cut, generator)
        if step % 20 == 0:
            if time.time() > until:
                return None
            if not math.isfinite(loss.item()):
                break
        loss.backward()
        for optimizer, plan in zip(optimizers, plans, strict=True):
            optimizer.step()
            plan.step()
        model.zero_grad()
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        held_out = [loss_of(cut, len(whole), generator) for _ in range(HELD_OUT)]
    loss = torch.stack(held_out).mean()
    found = round(loss.item(), 5) if loss.isfinite() else None
    return {"loss": found, "seconds": round(time.time() - began, 2)}
