"""The steps of an optimizer on somebody's model: the first one, seen at F, and several."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from inspect import isclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.optimizer import custom_optimizer
from deepnet_theory.definitions.optimizer import optimizer as named
from deepnet_theory.definitions.outcome import InputError, shown
from deepnet_theory.laboratory.model_update import ALL
from deepnet_theory.laboratory.runs import CommonMode, Ended, common_to, is_taken, trained, weighed
from deepnet_theory.laboratory.stepping import RATE, stepping
from deepnet_theory.laboratory.text import Text, entropy
from deepnet_theory.models.factory import Made, load_known_factory
from deepnet_theory.models.reading import Reader
from deepnet_theory.models.recording import record
from deepnet_theory.models.step import FinalState

# ---- an optimizer's step ----

Changes = list[tuple[str, nn.Parameter, Tensor]]  # name, parameter, and its change


@dataclass(frozen=True)
class FirstStep:
    """What steps a model: ``make`` gives its optimizer.

    ``code`` is a digest of the caller's own code, None where it is not known.
    """

    name: str
    make: Callable[[nn.Module], object]
    code: str | None = ""

    def optimizer(self, model: nn.Module) -> tuple[torch.optim.Optimizer, float]:
        """A model's optimizer, and its own default learning rate: groups may have others."""
        given = self.make(model)
        if not isinstance(given, torch.optim.Optimizer):
            raise InputError(f"the function gave {shown(given)} in place of a model's optimizer")
        rate = float(given.defaults.get("lr", given.param_groups[0].get("lr", 0)))
        if not rate > 0:
            raise InputError(f"{type(given).__name__} has no learning rate above 0")
        return given, rate

    def changes(self, model: nn.Module) -> tuple[Changes, float]:
        """The change of every parameter that moves, from its gradient, and the learning rate.

        The model is left as it is.
        """
        moving = [(n, p) for n, p in model.named_parameters() if p.grad is not None]
        before = [p.detach().clone() for _, p in moving]
        optimizer, rate = self.optimizer(model)
        try:
            optimizer.step()
        except TypeError:  # LBFGS asks for the loss again and again
            raise InputError(f"{type(optimizer).__name__} has no step of one gradient") from None
        changes = []
        with torch.no_grad():
            for (n, p), old in zip(moving, before, strict=True):
                changes.append((n, p, p - old))
                p.copy_(old)
        return changes, rate

    def going(self, model: nn.Module, eta: float | None) -> Callable[[], object]:
        """Takes one step after another of a model that has gradients, at a learning rate.

        Without ``eta`` it is the optimizer's own; else all groups keep their ratios to it.
        """
        optimizer, rate = self.optimizer(model)
        for group in optimizer.param_groups if eta is not None else ():
            group["lr"] *= (eta or rate) / rate
        return optimizer.step


def first_step(optimizer: object, expression: str | None = None) -> FirstStep:
    """The steps of an ``optimizer``, or of an update of your own in eta, g and theta.

    An optimizer is a name of ours (its library's optimizer where there is one), a class of
    ``torch.optim`` or one like it, a function that receives a model and gives its optimizer, or
    ``FILE.py:FUNCTION``, its name.
    Raises :class:`InputError` for anything else.
    """
    if (optimizer is None) == (expression is None):
        raise InputError("give exactly one of optimizer and update")
    if expression is not None:
        own = stepping(custom_optimizer(expression))
        return FirstStep(expression, partial(_of_class, own, RATE))
    if isinstance(optimizer, str) and ":" in optimizer:
        factory = load_known_factory(optimizer)
        name = getattr(factory.function, "__name__", factory.name)
        return FirstStep(name, factory, factory.code)
    if isinstance(optimizer, str):
        ours = named(optimizer)
        return FirstStep(ours.name, partial(_of_class, stepping(ours), RATE))
    kind = optimizer.func if isinstance(optimizer, partial) else optimizer
    code = "" if str(getattr(kind, "__module__", "")).startswith("torch.") else None
    if isclass(kind) and issubclass(kind, torch.optim.Optimizer):
        rate = optimizer.keywords.get("lr", RATE) if isinstance(optimizer, partial) else RATE
        return FirstStep(kind.__name__, partial(_of_class, optimizer, rate), code)
    if callable(optimizer):
        return FirstStep(getattr(optimizer, "__name__", "own"), optimizer, code)
    raise InputError(
        f"{shown(optimizer)} is no optimizer: give a name, a class of torch.optim, or a function "
        "that receives a model and gives its optimizer"
    )


def _of_class(kind: Any, rate: float, model: nn.Module) -> object:
    return kind([p for p in model.parameters() if p.grad is not None], lr=rate)


# ---- the first step, seen at F ----

SAME_TWICE = 1e-4  # of ‖F‖: two forward passes differ by rounding, and far less than this
ANSWER = "the loss, by a move of F"
SEEN = 0.1  # of the whole step's ‖ΔF‖, by a step that should move F as far
SHORT = 1e-3  # ‖ΔF‖/‖F‖ aimed at: far above float32's rounding, far below curvature
LINEAR = 0.01  # the part of ΔF that is not linear is kept under this
WIDE = 30.0  # how many times more or less is accepted where the step is linear


class Stepped:
    r"""A model with the change Δθ of its optimizer's first step.

    F is seen at :math:`\theta + (\eta/\eta_0)\Delta\theta`, where η₀ is the learning rate of
    Δθ: along the step, as short as is needed for the change to be linear.
    """

    def __init__(self, made: Made, step: FirstStep, generator: torch.Generator) -> None:
        self.model = model = made.module
        self.final = FinalState(made, generator)
        model.zero_grad()
        state, loss = self.final.with_loss()
        if not loss.requires_grad:
            raise InputError("no gradient reaches the model's parameters: are all of them frozen?")
        loss.backward()  # type: ignore[no-untyped-call]
        self.changes, self.rate = step.changes(model)
        self.slopes = {n: float((p.grad * c).double().sum()) for n, p, c in self.changes
                       if p.grad is not None}  # fmt: skip
        model.zero_grad()
        if not self.changes:
            raise InputError("no gradient reaches the model's parameters: are all of them frozen?")
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
        """The names of what moves: of one of :meth:`patterns`, or all."""
        return [n for n, _, _ in self.changes if pattern in (ALL, in_all_layers(n))]

    def patterns(self) -> list[str]:
        """The names of what moves, one for all layers: numbers are ``*``."""
        return list(dict.fromkeys(in_all_layers(name) for name, _, _ in self.changes))

    @torch.no_grad()
    def change(self, scale: float, pattern: str = ALL) -> Tensor:
        """ΔF where what a pattern tells moves by ``scale`` times its change: as F, float64."""
        kept, moves = [], set(self.moving(pattern))
        for name, p, change in self.changes:
            if name in moves:
                kept.append((p, p.detach().clone()))
                p.add_(change * scale)
        try:
            return (self.final() - self.before).double()
        finally:
            for p, old in kept:
                p.copy_(old)

    def size_of(self, scale: float, pattern: str = ALL) -> float:
        """‖ΔF‖, its root of the sum of squares over the width, averaged over tokens."""
        return float(self.change(scale, pattern).norm(dim=-1).mean())

    def moves(self, names: Iterable[str], scale: float) -> dict[str, float]:
        """What each name moves by itself at a ``scale`` of the whole step: ‖ΔF‖/‖F‖.

        F is compared with its own size: a readout may divide what enters it, or its logits, by the
        width, and both are one model. What follows F moves the loss alone, by ⟨g, Δθ⟩.
        ``ANSWER`` is by how much the loss answers all that moves F. What moves F by its rounding
        alone, as a key bias does, is left out: longer steps show it.
        """
        own, whole = float(self.before.double().norm(dim=-1).mean()), self.size_of(scale)
        moves, behind = {ALL: whole / own}, 0.0
        for name in names:
            size = self.size_of(scale, name)
            if not size:
                slope = math.fsum(self.slopes[one] for one in self.moving(name))
                moves[name] = abs(slope) * scale
                behind += slope
                continue
            times = max(1.0, whole / size)
            size = self.size_of(times * scale, name)
            if size > SEEN * whole:
                moves[name] = size / times / own
        answer = abs(math.fsum(self.slopes.values()) - behind) * scale
        return {**moves, ANSWER: answer / moves[ALL]}

    def linear_rate(self) -> tuple[float, float]:
        r"""A share of the step where F changes linearly, and how far from that it is there.

        .. math:: \Delta F(s) - 2\,\Delta F(s/2) = \tfrac12 s^2 F'' + O(s^3)

        as a part of ΔF, NaN where no step moves F by a finite amount. The share is a power of two,
        which a gain of 1 or a weight takes without rounding.
        """
        own, share, tried = self.before.double().norm(), 1.0, dict[float, float]()
        # a larger step drowns rounding, a smaller one curvature
        for times in (1, 1, 1, 1, 4, 1 / 16):
            share = 2.0 ** round(math.log2(share * times))
            whole = self.change(share)
            bend = float(2 * (whole - 2 * self.change(share / 2)).norm() / whole.norm())
            moved = float(whole.norm() / own)
            if 0 < moved < math.inf:
                tried[share] = bend
                if bend < LINEAR and 1 / WIDE < moved / SHORT < WIDE:
                    break
            share *= min(max(SHORT / moved, 1e-3), 1e3) if moved > 0 else 1e3
            if math.isnan(moved) or not 1e-30 < share < 1e15:
                break
        best = min(tried, key=tried.__getitem__, default=1.0)
        return best, tried.get(best, math.nan)


def in_all_layers(name: str) -> str:
    return re.sub(r"\b\d+\b", "*", name)


# ---- several steps ----

WINDOWS = 32  # of text an update, where the inputs are our own token ids
VALIDATED = 8  # batches of windows that nothing is trained on


def on_text(made: Made, seed: int) -> Made:
    """A model with windows of text for each update, where it was given token ids of our own.

    They are bytes, folded into the ids that the model takes; for validation below update 0.
    """
    ids = [x for x in made.inputs if not x.is_floating_point()] if made.drawn else []
    if len(ids) != 1:
        return made
    (like,) = ids

    def windows(step: int) -> Tensor:
        generator = torch.Generator().manual_seed((seed * (step >= 0) + 1) * 1_000_003 + step)
        tokens = Text(None, like.shape[-1]).batch(WINDOWS, generator, held_out=step < 0).tokens
        return (tokens % (int(like.max()) + 1)).to(like)

    return replace(made, batches=windows)


def follow(
    made: Made, step: FirstStep, updates: int, eta: float | None, seed: int, watched: bool = True
) -> Ended:
    """Train somebody's model for some ``updates``, evaluated without dropout.

    Each update takes its own batch where ``made`` has batches, windows of text where it was given
    token ids of our own, and else the one batch again and again. Where it is ``watched``, what its
    tokens come to share is taken, and the loss behind the last update is its value and the last of
    its losses; else its value is the loss on windows that were not trained on, or the next batch.
    """
    of, taken, take = on_text(made, seed), list[CommonMode](), list[Callable[[], object]]()
    held_out = [*range(-VALIDATED, 0)] if of is not made else [updates]

    def seen(index: int, watch: bool = False) -> Tensor:
        """The loss on the batch of an update."""
        now = of.at(index)
        generator = torch.Generator().manual_seed(seed)  # of a head that is always the same
        state, loss = FinalState(now, generator).with_loss()
        if watch and loss.isfinite():
            taken.append(common_mode(now, state.detach(), index))
        return loss

    def update(loss: Tensor) -> None:
        of.module.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if not take:
            take.append(step.going(of.module, eta))
        take[0]()

    def last() -> float:
        if watched:
            return float(seen(updates, watch=True).detach())
        with torch.no_grad():
            return fmean(float(seen(index).detach()) for index in held_out)

    baseline = None
    if of is not made and not watched:
        windows = [of.at(index).inputs[0] for index in held_out]
        baseline = entropy(torch.stack(windows)[..., 1:].cpu())
    ended = trained(
        updates, lambda index: seen(index, watched and is_taken(index)), update, last, baseline
    )
    losses = (*ended.losses, ended.value) if watched and not ended.why else ended.losses
    return replace(ended, losses=losses, taken=(*taken,))


@torch.no_grad()
def common_mode(made: Made, state: Tensor, step: int = 0) -> CommonMode:
    """R of the last stack's branches, and the tokens' cosine in ``state``.

    Raises :class:`InputError` where no forward pass shows a residual stream.
    """
    reader = Reader(record(made), made.module)
    chain = reader.chains()[-1]
    *_, row = reader.reading().stacks.values()
    normed = all("sum" in s.around for s in row)
    terms, carried = list[Tensor](), 1.0
    for s in chain:
        carried = s.stream.coefficient * (1.0 if normed else carried)
        beside = (s if normed else chain[0]).stream.node.value
        terms += [weighed(b.node.value, b.coefficient / carried, beside) for b in s.branches]
    return common_to(terms, state, normed, step)
