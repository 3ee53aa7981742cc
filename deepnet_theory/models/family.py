"""The models of a factory, each made and stepped by itself: jobs that depend on nothing else."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

import torch
from torch import Tensor

from deepnet_theory.models.factory import Factory, Made
from deepnet_theory.models.final_state import FinalState
from deepnet_theory.models.first_step import FirstStep
from deepnet_theory.models.following import Followed, follow
from deepnet_theory.numeric.judging import ALL
from deepnet_theory.numeric.model_update import FIRST_ETA, ModelUpdate, find_linear_step
from deepnet_theory.numeric.settings import Depth, depth_key
from deepnet_theory.processes.identity import Seen, identity, seen, watched
from deepnet_theory.runtime import machine
from deepnet_theory.spec.errors import InputError

SAME_TWICE = 1e-4  # of ‖F‖: two forward passes differ by rounding, and far less than this
ANSWER = "the loss, by a move of F"
SEEN = 0.1  # of the whole step's ‖ΔF‖, by a step that should move F as far


class Stepped:
    r"""A model with the change Δθ of its optimizer's first step.

    F is seen at :math:`\theta + (\eta/\eta_0)\Delta\theta`, where η₀ is the learning rate of
    Δθ: along the step, as short as is needed for the change to be linear.
    """

    def __init__(
        self, made: Made, step: FirstStep, final_state: str | None, generator: torch.Generator
    ) -> None:
        self.model = model = made.module
        self.final = FinalState(model, (made.inputs, made.keywords), final_state, generator)
        model.zero_grad()
        state, loss = self.final.with_loss()
        if not loss.requires_grad:
            raise InputError("no gradient reaches the model's parameters: are all of them frozen?")
        loss.backward()  # type: ignore[no-untyped-call]
        self.changes, self.rate = step.of(model)
        self.slopes = {n: float((p.grad * c).double().sum()) for n, p, c in self.changes
                       if p.grad is not None}  # fmt: skip
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

    def moves(self, names: Iterable[str], scale: float) -> dict[str, float]:
        """What each name moves by itself at a ``scale`` of the whole step: ‖ΔF‖/√d, per entry of F.

        What stands behind F moves the loss alone, by ⟨g, Δθ⟩. ``ANSWER`` is by how much the loss
        answers all that moves F. What moves F by its rounding alone, as a key bias does, is left
        out: longer steps show it.
        """
        root, whole = math.sqrt(self.before.shape[-1]), self.size_of(scale)
        found, behind = {ALL: whole / root}, 0.0
        for name in names:
            size = self.size_of(scale, name)
            if not size:
                slope = math.fsum(self.slopes[one] for one in self.moving(name))
                found[name] = abs(slope) * scale
                behind += slope
                continue
            times = max(1.0, whole / size)
            size = self.size_of(times * scale, name)
            if size > SEEN * whole:
                found[name] = size / times / root
        answer = abs(math.fsum(self.slopes.values()) - behind) * scale
        return {**found, ANSWER: answer / found[ALL]}

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


@dataclass(frozen=True)
class Scale:
    """How the first model was stepped; all others begin from it.

    ``unit`` is its optimizer's learning rate, ``eta`` the η that made its step linear, and
    ``threads`` suits the number of its F's entries.
    """

    unit: float = 0.0  # the model's own
    eta: float = FIRST_ETA
    threads: int = 1


@dataclass(frozen=True)
class Measured:
    """One seed at one depth: ``sizes`` are ‖ΔF‖/η by what was stepped.

    ``update`` is the step of the seed that looked for a linear one. ``shapes`` is a digest of the
    parameters' names and shapes, ``weights`` tells weights drawn anew, ``entries`` are F's,
    ``width`` its last axis; ``seen`` is all that the factory's process has read.
    """

    sizes: dict[str, float]
    update: ModelUpdate | None
    eta: float
    unit: float
    shapes: str
    weights: float
    entries: int
    width: int
    device: str
    seen: Seen


@dataclass(frozen=True)
class Family:
    """The models of a factory, and how they are stepped; ``dtype`` is torch's default one."""

    factory: Factory
    step: FirstStep
    inputs: object
    final_state: str | None
    shares: tuple[str, ...]
    dtype: torch.dtype

    def measure(
        self, depth: Depth, seed: int, scale: Scale, eta: float | None, patterns: bool
    ) -> Measured:
        """Step one model by ``eta``, or where there is none, find how long a step is linear.

        With ``patterns`` each of :meth:`Stepped.patterns` is stepped alone, too.
        """
        with machine.threads(scale.threads), default_dtype(self.dtype), watched():
            stepped = self._stepped(depth, seed)
            unit, update = scale.unit or stepped.rate, None
            if eta is None:
                step = partial(stepped.update, depth, unit=unit)
                update = find_linear_step(step, scale.eta)
                eta = update.eta
            names = (*self.shares, *(stepped.patterns() if patterns else ()))
            if "d" in depth:
                sizes = stepped.moves(names, eta / unit)
            else:
                sizes = {name: stepped.size_of(eta / unit, name) for name in (ALL, *names)}
            return Measured(
                sizes={n: size if n == ANSWER else size / eta for n, size in sizes.items()},
                update=update,
                eta=eta,
                unit=unit,
                shapes=identity([(n, tuple(p.shape)) for n, p in stepped.model.named_parameters()]),
                weights=stepped.weights,
                entries=stepped.before.numel(),
                width=stepped.before.shape[-1],
                device=str(stepped.before.device),
                seen=seen(),
            )

    def follow(
        self, depth: Depth, seed: int, updates: int, eta: float | None, threads: int
    ) -> Followed:
        """Take several updates of one model, and see what all its tokens come to share."""
        with machine.threads(threads), default_dtype(self.dtype), watched():
            return follow(self._made(depth, seed), self.step, updates, eta, self.final_state, seed)

    def depends_on(self) -> object:
        """As :meth:`Factory.depends_on`."""
        if self.step.code is None:
            return None
        beside = (self.step, _plain(self.inputs), self.final_state, self.shares)
        return self.factory.depends_on("measure", self.dtype, *beside)

    def _made(self, depth: Depth, seed: int) -> Made:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.factory.make(depth.get("N"), self.inputs, seed, depth.get("d"))

    def _stepped(self, depth: Depth, seed: int) -> Stepped:
        made = self._made(depth, seed)
        generator = torch.Generator().manual_seed(seed)
        stepped = Stepped(made, self.step, self.final_state, generator)
        for pattern in self.shares:
            if not stepped.moving(pattern):
                raise InputError(
                    f"no parameter that moves is called {pattern!r}; they are called: "
                    + ", ".join(stepped.patterns())
                )
        return stepped


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Within this context tensors are of this type where none is named."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _plain(inputs: object) -> object:
    """Inputs with a digest in each tensor's place."""
    if isinstance(inputs, Tensor):
        raw = inputs.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        digest = hashlib.sha256(raw).hexdigest()
        return ("tensor", str(inputs.dtype), str(inputs.device), tuple(inputs.shape), digest)
    if isinstance(inputs, Mapping):
        return {name: _plain(one) for name, one in inputs.items()}
    if isinstance(inputs, tuple | list):
        return [type(inputs).__name__, *map(_plain, inputs)]
    return inputs
