"""One model in training: its step, its losses, and what a run is taken up from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

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
        with torch.random.fork_rng():  # dropout is the same in a resumed run
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

    def take_up(self, saved: dict[str, Any], done: int) -> None:
        """Go on from what was saved after ``done`` steps; raises where that does not fit."""
        losses, finding = saved["losses"], saved["finding"]
        whole = len(losses) == done or (finding and len(losses) < done)
        if not (type(done) is int and whole and isinstance(finding, str)):
            raise ValueError("the losses are not those of so many steps")
        if not all(type(loss) is float and math.isfinite(loss) for loss in losses):
            raise ValueError("a loss is not finite")
        for parameter in self.model.parameters():  # a step of nothing makes the optimizer's state
            parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad()
        own = self.optimizer.state_dict()
        if _shapes(saved["optimizer"]) != _shapes(own["state"]) and losses:
            raise ValueError("the optimizer's state is of other parameters")
        self.optimizer.load_state_dict({**own, "state": saved["optimizer"]})
        self.model.load_state_dict(saved["model"])
        self.losses, self.finding = list(losses), finding

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


def _shapes(state: dict[int, dict[str, Any]]) -> dict[int, dict[str, object]]:
    """What an optimizer keeps of each parameter, by its shape; what is no tensor by its type."""
    return {
        i: {k: v.shape if isinstance(v, Tensor) else type(v) for k, v in kept.items()}
        for i, kept in state.items()
    }
