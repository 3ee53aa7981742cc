"""Your own training runs, at every size and rate.

``train_setup(depth, width, lr, seed)`` gives ``step()``, which trains once, and ``evaluate()``,
whose lowest number is the best. A plain factory of models is trained on text with an optimizer.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from deepnet_theory.definitions.measurement import sized
from deepnet_theory.definitions.outcome import InputError, ran_out_of_memory, shown
from deepnet_theory.laboratory.measuring import default_dtype
from deepnet_theory.laboratory.model_steps import FirstStep, Going, first_step
from deepnet_theory.laboratory.optimum import require_steps
from deepnet_theory.laboratory.runs import Ended, trained
from deepnet_theory.laboratory.settings import Depth
from deepnet_theory.models.factory import Factory, alone, factory_of, talking_aside, told
from deepnet_theory.runtime import machine

UNVARIED = {"depth": 4, "width": 64}  # what a factory is given that asks for one of these alone


@dataclass(frozen=True)
class Setup:
    """Runs of a factory, ``steps`` long; ``dtype`` is torch's default one.

    A factory of models alone is trained on text by ``stepped``.
    """

    factory: Factory
    steps: int
    dtype: torch.dtype
    stepped: FirstStep | None = None

    def train(self, place: Depth, rate: float, seed: int) -> Ended:
        """One run in one thread; :class:`InputError` for a factory that keeps no contract."""
        where = f"{self.name} at {sized(place)}, lr {rate:g}, seed {seed}"
        with alone(), machine.threads(1), default_dtype(self.dtype), torch.random.fork_rng():
            torch.manual_seed(seed)
            try:
                return self._trained(place, rate, seed, where)
            except ArithmeticError as error:  # as people say that a loss is no number
                return Ended(math.nan, None, told(error))

    @property
    def name(self) -> str:
        return self.factory.name

    def depends_on(self, place: Depth) -> object:
        """What a run depends on beside its rate and seed; None where the code is not known."""
        if self.stepped is not None and self.stepped.code is None:
            return None
        known = self.factory.depends_on("transfer", self.dtype, self.steps, self.stepped)
        return None if known is None else (known, place)

    def _trained(self, place: Depth, rate: float, seed: int, where: str) -> Ended:
        if self.stepped is not None:  # a plain model, trained as ``measure`` follows its updates
            made = self.factory.seeded(seed, place.get("N"), width=place.get("d"))
            going = Going(made, self.stepped, rate, seed)
            last = partial(going.validate, self.steps)
            return trained(self.steps, going.loss_at, going.update, last, going.baseline)
        with _theirs(f"{where} failed"):
            given = self.factory.function(**self.arguments(place, rate, seed))
        step, evaluate, *rest = _contract(given, where)
        baseline = _number(rest[0], f"the baseline of {where}") if rest else None

        def loss_at(index: int) -> float | None:
            with _theirs(f"{where}: step() failed at step {index}", ArithmeticError):
                loss = step()
            return None if loss is None else _number(loss, f"{where}: step()")

        def value() -> float:
            with _theirs(f"{where}: evaluate() failed", ArithmeticError):
                result = evaluate()
            return _number(result, f"{where}: evaluate()")

        return trained(self.steps, loss_at, lambda _: None, value, baseline)

    def arguments(self, place: Depth, rate: float, seed: int) -> dict[str, Any]:
        """What the factory takes of what there is, by name; it must take what varies."""
        offered = {"lr": rate, "seed": seed, "steps": self.steps}
        offered |= {name: place[s] for name, s in (("depth", "N"), ("width", "d")) if s in place}
        takes: Mapping[str, inspect.Parameter] = {}
        with suppress(TypeError, ValueError):
            takes = inspect.signature(self.factory.function).parameters
        if any(p.kind is p.VAR_KEYWORD for p in takes.values()):
            return offered
        needed = [
            n for n, p in takes.items() if p.default is p.empty and p.kind != p.VAR_POSITIONAL
        ]
        there = {**{name: UNVARIED[name] for name in needed if name in UNVARIED}, **offered}
        for name, what in {"lr": "learning rate", "depth": "depth", "width": "width"}.items():
            if name in offered and name not in takes:
                raise InputError(
                    f"{self.name} takes no {name}, so that its {what} cannot be varied; "
                    "def train_setup(depth, width, lr, seed) takes each by its name, and a plain "
                    "factory of models is trained on text with an optimizer: give one"
                )
        return {name: value for name, value in there.items() if name in takes}


@contextmanager
def _theirs(sentence: str, but: type[Exception] = MemoryError) -> Iterator[None]:
    """Somebody's code runs within: errors ``but`` these, or of memory, end in this sentence."""
    try:
        with talking_aside():
            yield
    except (Exception, SystemExit) as error:
        if isinstance(error, but) or ran_out_of_memory(error):
            raise
        raise InputError(f"{sentence}: {told(error)}") from error


def _contract(given: object, where: str) -> tuple[Any, ...]:
    """The functions step and evaluate, and the baseline where there is one."""
    if isinstance(given, tuple) and len(given) in (2, 3) and all(map(callable, given[:2])):
        return given
    raise InputError(
        f"{where} gives {shown(given)}; it should end in: return step, evaluate; two functions, "
        "and behind them the baseline where one is known, what a model has that ignores its input"
    )


def _number(value: object, what: str) -> float:
    try:
        if not isinstance(value, str | bytes):
            return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise InputError(f"{what} gives {shown(value)}, which is no number")


def setup_of(
    train_setup: Callable[..., object] | str, steps: int, place: Depth, optimizer: object = None,
    update: str | None = None,
) -> Setup:  # fmt: skip
    """The runs of a factory, as :func:`~deepnet_theory.cli.experiments.transfer` takes it.

    Raises :class:`InputError` for what cannot be trained at such a place.
    """
    require_steps(steps)
    stepped = None if optimizer is update is None else first_step(optimizer, update)
    setup = Setup(factory_of(train_setup), steps, torch.get_default_dtype(), stepped)
    if stepped is None:  # a factory of models says by itself what it lacks
        setup.arguments(place, 0.0, 0)
    return setup
