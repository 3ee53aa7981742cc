"""The models of a factory, each made and stepped by itself: jobs that depend on nothing else."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from deepnet_theory.models.factory import Factory
from deepnet_theory.models.first_step import FirstStep
from deepnet_theory.models.stepped import Stepped
from deepnet_theory.numeric.depths import Depth
from deepnet_theory.numeric.judging import ALL
from deepnet_theory.numeric.model_update import FIRST_ETA, ModelUpdate, find_linear_step
from deepnet_theory.processes.identity import identity, installed
from deepnet_theory.processes.seen import Seen, seen, watched
from deepnet_theory.runtime import machine
from deepnet_theory.spec.errors import InputError


@dataclass(frozen=True)
class Scale:
    """How the first model was stepped, from which all others begin.

    ``unit`` is its optimizer's learning rate, ``eta`` the η at which its step was linear, and
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
    ``seen`` is all that the factory's process has read.
    """

    sizes: dict[str, float]
    update: ModelUpdate | None
    eta: float
    unit: float
    shapes: str
    weights: float
    entries: int
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
        with machine.threads(scale.threads), _default_dtype(self.dtype), watched():
            stepped = self._stepped(depth["N"], seed)
            unit, update = scale.unit or stepped.rate, None
            if eta is None:
                step = partial(stepped.update, depth, unit=unit)
                update = find_linear_step(step, scale.eta)
                eta = update.eta
            names = (ALL, *self.shares, *(stepped.patterns() if patterns else ()))
            return Measured(
                sizes={name: stepped.size_of(eta / unit, name) / eta for name in names},
                update=update,
                eta=eta,
                unit=unit,
                shapes=identity([(n, tuple(p.shape)) for n, p in stepped.model.named_parameters()]),
                weights=stepped.weights,
                entries=stepped.before.numel(),
                device=str(stepped.before.device),
                seen=seen(),
            )

    def depends_on(self) -> object:
        """What its numbers depend on beside a job's own arguments and what was :class:`Seen`.

        None where that is not known.
        """
        if self.factory.code is None or self.step.code is None:
            return None
        by_default = (str(self.dtype), str(torch.get_default_device()))
        inputs = _plain(self.inputs)
        told = (self.factory, self.step, inputs, self.final_state, self.shares, by_default)
        try:
            return ("measure", identity((told, installed())))
        except TypeError:  # a function within a function, say
            return None

    def travels(self) -> bool:
        """Whether other processes can be told of it."""
        try:
            pickle.dumps(self)
        except (pickle.PicklingError, AttributeError, TypeError):
            return False
        return True

    def _stepped(self, depth: int, seed: int) -> Stepped:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            made = self.factory.make(depth, self.inputs, seed)
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
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
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
