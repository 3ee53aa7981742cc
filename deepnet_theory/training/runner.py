"""One model in training: its step and its losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.numeric.stepping.gradients import backward
from deepnet_theory.spec.constants import Constants
from deepnet_theory.training.corpus import IGNORED, Batch


@dataclass
class Runner:
    """A model in training."""

    rule: str
    constants: Constants
    model: nn.Module
    optimizer: torch.optim.Optimizer
    losses: list[float] = field(default_factory=list)
    finding: str = ""

    def step(self, batch: Batch) -> None:
        """One step of the optimizer; a loss that is not finite ends the run, and is its finding."""
        if self.finding:
            return
        with torch.random.fork_rng():  # dropout is the same in whichever process
            torch.manual_seed(len(self.losses))
            loss = cross_entropy(self.model, batch)
        value = float(loss.detach())
        if not math.isfinite(value):
            self.finding = f"the loss was {value} at step {len(self.losses)}"
            return
        self.optimizer.zero_grad()
        backward(loss)
        self.optimizer.step()
        self.losses.append(value)

    @torch.no_grad()
    def evaluate(self, batches: list[Batch]) -> list[float]:
        """The loss of every held-out batch."""
        self.model.eval()
        losses = [float(cross_entropy(self.model, b)) for b in batches]
        self.model.train()
        return losses


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """The mean cross-entropy per target byte, in nats."""
    logits = model(batch.tokens, batch.source, memory_padding=batch.source_padding)
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)
