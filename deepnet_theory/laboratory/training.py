"""The builder's models in training: a stack of seeds, one step after another, on real text."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.outcome import InputError, unknown
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.common_mode import CommonMode, Watch, columns, is_taken
from deepnet_theory.laboratory.optimum import Losses, require_steps
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.stepping import going
from deepnet_theory.laboratory.text import BYTES, Text, Windows
from deepnet_theory.laboratory.trial import generator_for
from deepnet_theory.models.factory import alone
from deepnet_theory.models.groups import parameter_groups
from deepnet_theory.runtime import build, described, start_head_
from deepnet_theory.runtime.linear import Make
from deepnet_theory.runtime.model import Model

OUTER = ("stepped", "held")  # what becomes of embedding and head
HELD_OUT_BATCHES = 8


@dataclass(frozen=True)
class Course:
    """What every model goes through: ``steps`` of the optimizer on windows of a text.

    At the full learning rate from the first step: no warm-up, decay or clipping. ``outer``
    embedding and head are ``stepped`` at their multipliers, or ``held`` as drawn. ``seeds`` are
    those of the settings where they are None.
    """

    optimizer: Optimizer
    settings: Settings
    steps: int
    text: str | None = None
    outer: str = "stepped"
    seeds: int | None = None

    def __post_init__(self) -> None:
        going(self.optimizer)  # one that is known by its first step alone is refused
        require_steps(self.steps)
        if self.outer not in OUTER:
            raise unknown("outer", self.outer, OUTER)
        if self.settings.correlation is not None:
            raise InputError(
                f"the data {self.settings.data!r} have nothing to learn; valid is: text"
            )

    @property
    def count(self) -> int:
        return self.settings.seeds if self.seeds is None else self.seeds

    def corpus(self, parts: int = 1) -> Text:
        return Text(self.text, self.settings.tokens, parts)

    def validation(self, parts: int = 1) -> list[Windows]:
        """The windows that every model is judged on."""
        corpus, settings = self.corpus(parts), self.settings
        drawn = (generator_for(settings.seed, f"held out {i}") for i in range(HELD_OUT_BATCHES))
        return [corpus.batch(settings.batch, one, held_out=True) for one in drawn]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what changes no result."""
        others = ("draws", "data", "updates", "eta")
        settings = {k: v for k, v in self.settings.to_dict().items() if k not in others}
        return {**settings, "steps": self.steps, "text": self.text, "outer": self.outer}


@dataclass(frozen=True)
class Trained:
    """A stack of seeds at one rate: validation ``losses`` by seed, NaN where one diverged.

    ``curve`` is the mean training loss of each step, until one is not finite; ``weights`` and
    ``cosines`` are the largest R and the mean cosine between tokens at ``taken`` steps.
    """

    losses: Losses
    curve: tuple[float, ...]
    taken: tuple[int, ...]
    weights: tuple[float, ...]
    cosines: tuple[float, ...]


def train_stack(constants: Constants, rate: float, course: Course) -> Trained:
    """Train the models of all seeds together, each on windows of its own.

    A seed has the same embedding, head and windows under all constants and rates.
    """
    settings, corpus = course.settings, course.corpus(len(constants.parts))
    model = stacked(constants, course)
    outer = (Role.EMBEDDING, Role.HEAD) if course.outer == "held" else ()
    held = {id(p) for p, d in described(model) if d.role in outer}
    rates = [
        (p, rate * group["lr"])
        for group in parameter_groups(model, 1.0)
        for p in group["params"]
        if id(p) not in held
    ]
    steps = going(course.optimizer)(rates)
    curve, taken = list[float](), dict[int, tuple[CommonMode, ...]]()
    ended = False
    with alone(), torch.random.fork_rng(), steps.stepping(model):
        torch.manual_seed(settings.seed)  # of dropout
        for step in range(course.steps):
            watch = Watch(model) if is_taken(step) else None
            with nullcontext() if watch is None else watch.watching():
                losses = cross_entropies(model, _windows(corpus, course, step))
            if watch is not None:
                taken[step] = watch.found
            finite = losses.detach().isfinite()
            if finite.all() and len(curve) == step:
                curve.append(float(losses.detach().mean()))
            if ended := not finite.any():
                break
            steps.step(losses)
    ends = (math.nan,) * course.count if ended else _evaluated(model, course)
    kept = {step: found for step, found in taken.items() if step < len(curve)}
    common = columns([*kept], [*zip(*kept.values(), strict=True)])
    return Trained(
        ends, tuple(curve), common["common_mode_steps"], common["common_mode"],
        common["token_cosine"],
    )  # fmt: skip


def _windows(corpus: Text, course: Course, step: int) -> Windows:
    settings = course.settings
    each = [
        corpus.batch(settings.batch, generator_for(settings.seed + seed, f"batch {step}"))
        for seed in range(course.count)
    ]
    tokens, targets, sources = zip(*each, strict=True)
    source = None if None in sources else torch.stack(sources)
    return Windows(torch.stack(tokens), torch.stack(targets), source)


@torch.no_grad()
def _evaluated(model: Model, course: Course) -> Losses:
    """The mean validation loss of every seed; NaN where one diverged."""
    model.eval()
    seeds, batches = course.count, course.validation(len(model.parts))
    mean = torch.zeros(seeds, dtype=torch.float64)
    for batch in batches:
        tokens, targets, source = (None if x is None else x.expand(seeds, -1, -1) for x in batch)
        assert tokens is not None and targets is not None
        losses = cross_entropies(model, Windows(tokens, targets, source))
        mean += losses.double().cpu() / len(batches)
    mean[~mean.isfinite()] = math.nan
    return tuple(mean.tolist())


def cross_entropies(model: nn.Module, windows: Windows) -> Tensor:
    """The mean cross-entropy per byte of every model of a stack, in nats: (k,)."""
    device = next(model.parameters()).device
    tokens, targets, source = (None if x is None else x.to(device) for x in windows)
    assert targets is not None
    logits = model(tokens) if source is None else model(tokens, source)  # (k, batch, tokens, vocab)
    losses = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return losses.view(targets.shape[0], -1).mean(1)


@torch.no_grad()
def stacked(constants: Constants, course: Course) -> Model:
    """The models of all seeds, each drawn as if it were alone."""
    settings, a = course.settings, constants.architecture
    vectors = settings.step == "all"
    make = Make(course.count, settings.torch_device, settings.torch_dtype, vectors, a.bias)
    model = Model(constants, make)
    counts = course.corpus(len(constants.parts)).counts if a.head_bias else None
    for seed in range(course.count):
        outer, inner = (
            generator_for(settings.seed + seed, what) for what in ("embedding and head", "branches")
        )
        single = build(
            constants, generator=inner, embedding_generator=outer, trainable_vectors=vectors
        )
        if counts is not None:
            start_head_(single.head, F.pad(counts, (0, a.vocab - BYTES)))
        for ours, drawn in zip(model.parameters(), single.parameters(), strict=True):
            ours[seed] = drawn.to(ours)
    return model
