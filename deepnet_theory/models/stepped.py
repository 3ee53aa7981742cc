"""One model of one's own, stepped once: how far its output moves."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from deepnet_theory.models.factory import Made
from deepnet_theory.models.final_state import FinalState
from deepnet_theory.models.first_step import FirstStep
from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.numeric.judging import ALL
from deepnet_theory.numeric.model_update import ModelUpdate
from deepnet_theory.spec.errors import InputError

SAME_TWICE = 1e-4  # of ‖F‖: two forward passes differ by rounding, and far less than this
HALVES = (torch.float16, torch.bfloat16)


class Stepped:
    r"""A model with the change Δθ of its optimizer's first step.

    F is seen at :math:`\theta + (\eta/\eta_0)\Delta\theta`, where η₀ is the learning rate of
    Δθ: along the step, as short as is needed for the change to be linear. The model is evaluated
    without dropout, in single precision where its own is lower.
    """

    def __init__(
        self, made: Made, step: FirstStep, final_state: str | None, generator: torch.Generator
    ) -> None:
        self.model = model = made.module
        model.eval()
        if any(p.dtype in HALVES for p in model.parameters()):
            model.float()
        self.final = FinalState(model, (made.inputs, made.keywords), final_state, generator)
        model.zero_grad()
        state, loss = self.final.with_loss()
        if not loss.requires_grad:
            raise InputError("no gradient reaches the model's parameters: are all of them frozen?")
        loss.backward()  # type: ignore[no-untyped-call]
        self.changes, self.rate = step.of(model)
        model.zero_grad()
        if not self.changes:
            raise InputError("no gradient reaches the model's parameters: are all of them frozen?")
        self.kept = [p.detach().clone() for _, p, _ in self.changes]
        self.before = self.final()
        if not self.before.any():
            raise InputError("F is zero: nothing that a step changes could be compared with it")
        twice = (self.before - state.detach()).double().norm() / self.before.double().norm()
        if twice > SAME_TWICE:
            raise InputError(
                "two forward passes of the same model on the same batch differ by "
                f"{float(twice):.1%}: is there dropout or noise that eval() does not switch off?"
            )

    @property
    def weights(self) -> float:
        """A number that tells weights drawn anew from the same ones."""
        return float(sum(p.detach().double().abs().sum() for p in self.model.parameters()))

    def moving(self, pattern: str) -> list[str]:
        """The names of what moves: of one of :meth:`patterns`, fitting a pattern, or "all"."""
        names = [name for name, _, _ in self.changes]
        if pattern in self.patterns():
            return [name for name in names if _in_all_layers(name) == pattern]
        return [name for name in names if pattern == ALL or fnmatchcase(name, pattern)]

    def patterns(self) -> list[str]:
        """The names of what moves, one for all layers: numbers are ``*``."""
        return list(dict.fromkeys(_in_all_layers(name) for name, _, _ in self.changes))

    @torch.no_grad()
    def change(self, scale: float, pattern: str = ALL) -> Tensor:
        """ΔF where what a pattern tells moves by ``scale`` times its change: as F, float64."""
        moves = set(self.moving(pattern))
        moved = [(p, change, old) for (name, p, change), old
                 in zip(self.changes, self.kept, strict=True) if name in moves]  # fmt: skip
        for p, change, _ in moved:
            p.add_(change, alpha=scale)
        try:
            return (self.final() - self.before).double()
        finally:
            for p, _, old in moved:
                p.copy_(old)

    def size_of(self, scale: float, pattern: str = ALL) -> float:
        """‖ΔF‖, its root of the sum of squares over the width, averaged over tokens."""
        return float(self.change(scale, pattern).norm(dim=-1).mean())

    def update(self, depth: Depth, eta: float, unit: float) -> ModelUpdate:
        """The step at η, with the part of it that is not linear, as the laboratory tells it."""
        whole, half = self.change(eta / unit), self.change(eta / unit / 2)
        size = float(whole.norm())
        value = float(whole.norm(dim=-1).mean()) / eta
        finding = ""
        if not torch.isfinite(whole).all():
            when = "after" if torch.isfinite(self.before).all() else "before"
            finding = f"{when} the step, at depth {depth_key(depth)}: F is not finite"
        return ModelUpdate(
            depth=depth,
            eta=eta,
            values=(value,),
            second_order=2 * float((whole - 2 * half).norm()) / size if size else 0.0,
            relative_change=size / float(self.before.double().norm()),
            first_draw=(value,),
            losses=(),
            loss_changes=(),
            first_order=(),
            finding=finding,
        )


def _in_all_layers(name: str) -> str:
    return re.sub(r"\b\d+\b", "*", name)
