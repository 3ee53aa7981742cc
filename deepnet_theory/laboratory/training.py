"""Training runs of the builder's models, and your own, one at each size and rate.

``train_setup(depth, width, lr, seed)`` gives ``step()``, which trains once, and ``evaluate()``,
whose lowest number is the best. A plain factory of models is trained on text with an optimizer.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.measurement import sized
from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.optimizer import optimizer as named
from deepnet_theory.definitions.outcome import InputError, Refusal, ran_out_of_memory, shown
from deepnet_theory.laboratory.measuring import theirs
from deepnet_theory.laboratory.model_steps import FirstStep, first_step, follow
from deepnet_theory.laboratory.optimum import require_steps
from deepnet_theory.laboratory.runs import CommonMode, Ended, is_taken, trained, watching
from deepnet_theory.laboratory.settings import Depth, Settings, depth_key
from deepnet_theory.laboratory.stepping import RATE, stepping
from deepnet_theory.laboratory.text import BYTES, Text, Windows, entropy
from deepnet_theory.laboratory.trial import generator_for
from deepnet_theory.models.applying import start_
from deepnet_theory.models.factory import Factory, alone, factory_of, talking_aside, told
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
    """Runs of the builder's models, whose ``constants`` are known by the key of their place.

    ``rho`` is the relative update of a scaled matrix, in units of the learning rate.
    """

    name: str
    constants: Mapping[str, Constants]
    course: Course
    rho: str = ""
    is_constant = True  # the learning rate, from the first step to the last

    @property
    def steps(self) -> int:
        return self.course.steps

    def depends_on(self, place: Depth) -> object:
        """What a run depends on beside its rate and seed."""
        constants = self.constants[depth_key(place)]
        digest = self.course.corpus(len(constants.parts)).digest
        course = replace(self.course, steps=place.get("T", self.steps))
        return "transfer", constants, course, digest

    def train(self, place: Depth, rate: float, seed: int) -> Ended:
        """One model on windows of its own, the same under all constants and rates."""
        constants, course = self.constants[depth_key(place)], self.course
        settings, validation = course.settings, course.validation(len(constants.parts))
        sequences, steps = settings.batch, place.get("T", course.steps)
        if (budget := constants.budget) is not None:  # as many sequences in all at each batch
            sequences, steps = int(budget.batch or sequences), round(steps * budget.steps)
        size = sequences * settings.tokens * constants.architecture.width
        baseline = entropy(torch.stack([batch.targets for batch in validation]))
        with (
            alone(), torch.random.fork_rng(), machine.threads(machine.fitting_threads(size)),
            machine.repeatable(settings.torch_device),
        ):  # fmt: skip
            torch.manual_seed(seed)  # of dropout
            corpus, model = course.corpus(len(constants.parts)), begun(constants, course, seed)
            optimizer = ruled(course.optimizer, model, rate)
            taken = list[CommonMode]()

            def loss_at(step: int) -> Tensor:
                windows = corpus.batch(sequences, generator_for(seed, f"batch {step}"))
                idle = nullcontext(list[CommonMode]())
                with watching(model, step) if is_taken(step) else idle as found:
                    loss = cross_entropy(model, windows)
                if loss.isfinite():
                    taken.extend(found)
                return loss

            def update(loss: Tensor) -> None:
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()

            def evaluate() -> float:
                model.eval()
                with torch.no_grad():
                    return fmean(float(cross_entropy(model, batch)) for batch in validation)

            ended = trained(steps, loss_at, update, evaluate, baseline)
        return replace(ended, taken=(*taken,))


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


def ruled(kind: Optimizer, model: nn.Module, rate: float = RATE) -> torch.optim.Optimizer:
    """What steps a model at the rates of the constants that are in it."""
    kept = ("params", "lr", "lr_scale")
    groups = [{k: g[k] for k in kept} for g in parameter_groups(model, rate)]
    return stepping(kind)(groups, lr=rate)


def cross_entropy(model: nn.Module, windows: Windows) -> Tensor:
    """The mean cross-entropy per byte, in nats."""
    device = next(model.parameters()).device
    tokens, targets, source = (None if x is None else x.to(device) for x in windows)
    assert targets is not None
    logits = model(tokens) if source is None else model(tokens, source)  # (batch, tokens, vocab)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


UNVARIED = {"depth": 4, "width": 64}  # what a factory is given that asks for one of these alone


@dataclass(frozen=True)
class Setup:
    """Runs of a factory, ``steps`` long; ``dtype`` is torch's default one.

    A factory of models alone is trained on text by ``stepped``. Of ``constants``, by the key of
    their place, each model is drawn anew, and trained at their rates.
    """

    factory: Factory
    steps: int
    dtype: torch.dtype
    stepped: FirstStep | None = None
    constants: Mapping[str, Constants] = field(default_factory=dict)
    rho = ""

    def train(self, place: Depth, rate: float, seed: int) -> Ended:
        """One run in one thread; :class:`InputError` for a factory that keeps no contract."""
        where = f"{self.name} at {sized(place)}, lr {rate:g}, seed {seed}"
        with theirs(self.dtype), torch.random.fork_rng():
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
        steps = place.get("T", self.steps)
        known = self.factory.depends_on("transfer", self.dtype, steps, self.stepped)
        return None if known is None else (known, place, self.constants.get(depth_key(place)))

    @property
    def is_constant(self) -> bool:
        """Whether the learning rate is known to be: a run of your own may have a schedule."""
        return self.stepped is not None

    def _trained(self, place: Depth, rate: float, seed: int, where: str) -> Ended:
        steps = place.get("T", self.steps)
        if self.stepped is not None:  # a plain model, trained as ``measure`` follows its updates
            made, step = (
                self.factory.seeded(seed, place.get("N"), width=place.get("d")),
                self.stepped,
            )
            if (c := self.constants.get(depth_key(place))) is not None:
                # as apply_ draws it, but a wrong rule may start badly
                _, lines = start_(made.module, c, inputs=made.keywords or made.inputs)
                if lines:
                    raise Refusal(f"{where}: the rule needs a line in the forward pass: {lines[0]}")
                step = FirstStep(step.name, partial(ruled, named(c.optimizer)))
            return follow(made, step, steps, rate, seed, watched=False)
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

        return trained(steps, loss_at, lambda _: None, value, baseline)

    def arguments(self, place: Depth, rate: float, seed: int) -> dict[str, Any]:
        """What the factory takes of what there is, by name; it must take what varies."""
        offered = {"lr": rate, "seed": seed, "steps": place.get("T", self.steps)}
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
