"""The builder's models in training: one after another, on windows of a text."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.placement import placement
from deepnet_theory.laboratory.common_mode import CommonMode, is_taken, watching
from deepnet_theory.laboratory.optimum import require_steps
from deepnet_theory.laboratory.runs import Ended, trained
from deepnet_theory.laboratory.settings import Depth, Settings, depth_key
from deepnet_theory.laboratory.stepping import stepping
from deepnet_theory.laboratory.text import BYTES, Text, Windows, entropy
from deepnet_theory.laboratory.trial import generator_for
from deepnet_theory.models.factory import alone
from deepnet_theory.models.groups import parameter_groups
from deepnet_theory.runtime import build, machine, start_head_
from deepnet_theory.runtime.model import Model

HELD_OUT_BATCHES = 8


@dataclass(frozen=True)
class Course:
    """What every model goes through: ``steps`` of the optimizer on windows of a text.

    At the full learning rate from the first step: no warm-up, decay or clipping.
    """

    optimizer: Optimizer
    settings: Settings
    steps: int
    text: str | None = None

    def __post_init__(self) -> None:
        stepping(self.optimizer)  # a missing extra is said before training
        require_steps(self.steps)
        if self.settings.correlation is not None:
            raise InputError(
                f"the data {self.settings.data!r} have nothing to learn; valid is: text"
            )

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
        return {**settings, "steps": self.steps, "text": self.text}


@dataclass(frozen=True)
class Built:
    """Runs of the builder's models, whose ``constants`` are known by the key of their place."""

    name: str
    constants: Mapping[str, Constants]
    course: Course

    @property
    def steps(self) -> int:
        return self.course.steps

    def depends_on(self, place: Depth) -> object:
        """What a run depends on beside its rate and seed."""
        constants = self.constants[depth_key(place)]
        digest = self.course.corpus(len(constants.parts)).digest
        return "transfer", constants, self.course, digest

    def train(self, place: Depth, rate: float, seed: int) -> Ended:
        """One model on windows of its own, the same under all constants and rates."""
        constants, course = self.constants[depth_key(place)], self.course
        settings, validation = course.settings, course.validation(len(constants.parts))
        size = settings.batch * settings.tokens * constants.architecture.width
        baseline = entropy(torch.stack([batch.targets for batch in validation]))
        with (
            alone(), torch.random.fork_rng(), machine.threads(machine.fitting_threads(size)),
            machine.repeatable(settings.torch_device),
        ):  # fmt: skip
            torch.manual_seed(seed)  # of dropout
            corpus, model = course.corpus(len(constants.parts)), begun(constants, course, seed)
            groups = [{k: g[k] for k in ("params", "lr")} for g in parameter_groups(model, rate)]
            optimizer = stepping(course.optimizer)(groups, lr=rate)
            taken = dict[int, CommonMode]()

            def loss_at(step: int) -> Tensor:
                windows = corpus.batch(settings.batch, generator_for(seed, f"batch {step}"))
                idle = nullcontext(list[CommonMode]())
                with watching(model) if is_taken(step) else idle as found:
                    loss = cross_entropy(model, windows)
                if found and loss.isfinite():
                    taken[step] = found[-1]
                return loss

            def update(loss: Tensor) -> None:
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()

            def evaluate() -> float:
                model.eval()
                with torch.no_grad():
                    return fmean(float(cross_entropy(model, batch)) for batch in validation)

            ended = trained(course.steps, loss_at, update, evaluate, baseline)
        normed = placement(constants.placement).normalises_sum
        return replace(ended, steps=(*taken,), taken=(*taken.values(),), normed=normed)


def begun(constants: Constants, course: Course, seed: int) -> Model:
    """A seed's model: it has the same embedding and head at every depth."""
    settings, a = course.settings, constants.architecture
    outer, inner = (generator_for(seed, what) for what in ("embedding and head", "branches"))
    model = build(
        constants, generator=inner, embedding_generator=outer,
        trainable_vectors=settings.step == "all",
    )  # fmt: skip
    if a.head_bias:
        counts = course.corpus(len(constants.parts)).counts
        start_head_(model.head, F.pad(counts, (0, a.vocab - BYTES)))
    return model.to(settings.torch_device, settings.torch_dtype)


def cross_entropy(model: nn.Module, windows: Windows) -> Tensor:
    """The mean cross-entropy per byte, in nats."""
    device = next(model.parameters()).device
    tokens, targets, source = (None if x is None else x.to(device) for x in windows)
    assert targets is not None
    logits = model(tokens) if source is None else model(tokens, source)  # (batch, tokens, vocab)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())
