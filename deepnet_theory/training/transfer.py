"""Loss against learning rate at several depths: stacks of seeds trained for a few steps."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import product
from typing import Any, Unpack

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.numeric.common_mode import CommonMode, Watch, is_taken
from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.numeric.settings import (
    Settings,
    available_bytes,
    fitting_processes,
    fitting_threads,
)
from deepnet_theory.numeric.stepping import Trajectory, running_of
from deepnet_theory.processes import (
    MISSING,
    Cache,
    Job,
    Work,
    cache_of,
    per_seed,
    run_until_stopped,
)
from deepnet_theory.runtime import build, described, parameter_groups
from deepnet_theory.runtime.linear import Make
from deepnet_theory.runtime.machine import LARGE, in_threads
from deepnet_theory.runtime.model import Model
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import (
    INTERRUPTION,
    InputError,
    shown,
    unknown,
)
from deepnet_theory.spec.files import read_bytes
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.record import LARGEST
from deepnet_theory.spec.results.training import ClosureTransfer, Transfer
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role
from deepnet_theory.training.corpus import HELD_OUT_BATCHES, MAX_BYTES, Batch, Text, entropy
from deepnet_theory.training.optimum import Losses, judged

MOST = 2**20
FEWEST_RATES = 3  # a best rate and its neighbours
OUTER = ("stepped", "held")  # what becomes of embedding and head


@dataclass(frozen=True)
class Candidate:
    """A rule under the name of its closure, and its constants by depth."""

    closure: str
    rule: dict[str, Any]  # as plain data
    rho: str
    failing: float | None  # the exponent in depth that is predicted of the failing rate
    constants: Mapping[str, Constants]  # by depth key


@dataclass(frozen=True)
class Course:
    """What every model goes through: ``steps`` of the optimizer on windows of a text.

    ``outer`` embedding and head are ``stepped`` at their multipliers, or ``held`` as drawn.
    """

    optimizer: Optimizer
    settings: Settings
    steps: int
    text: str | None = None
    outer: str = "stepped"

    def __post_init__(self) -> None:
        running_of(self.optimizer)
        require_steps(self.steps)
        if self.outer not in OUTER:
            raise unknown("outer", self.outer, OUTER)
        if self.settings.correlation is not None:
            raise InputError(
                f"the data {self.settings.data!r} have nothing to learn; valid is: text"
            )

    def corpus(self) -> Text:
        return Text(self.text, self.settings.tokens)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what changes no result."""
        others = ("draws", "data", "updates", "eta")
        settings = {k: v for k, v in self.settings.to_dict().items() if k not in others}
        return {**settings, "steps": self.steps, "text": self.text, "outer": self.outer}


@dataclass(frozen=True)
class Trained:
    """Held-out losses by seed, NaN where one diverged; the largest common mode and cosine taken."""

    losses: Losses
    common_mode: float
    token_cosine: float


@dataclass
class Record:
    """What has been trained, by closure, depth and rate; ``cache`` has what was before."""

    course: Course
    threads: int
    cache: Cache | None = None
    trained: dict[tuple[str, str], dict[float, Trained]] = field(default_factory=dict)

    @cached_property
    def _learnt_from(self) -> str:
        path = self.course.text
        return "" if path is None else sha256(read_bytes(path, MAX_BYTES)).hexdigest()

    def _depends_on(self, candidate: Candidate, depth: str, rate: float) -> object:
        constants = candidate.constants[depth]
        return ("transfer", constants, rate, self.course, self._learnt_from, self.threads)

    def find(self, candidate: Candidate, depth: str, rate: float) -> None:
        """Take what the cache has."""
        if self.cache is not None:
            fits = partial(per_seed, seeds=self.course.settings.seeds)
            found = self.cache.get(self._depends_on(candidate, depth, rate), Trained, fits)
            if found is not MISSING:
                self.trained.setdefault((candidate.closure, depth), {})[rate] = found

    def keep(self, candidate: Candidate, depth: str, found: Mapping[float, Trained]) -> None:
        """Take what some rates end with, and keep it."""
        self.trained.setdefault((candidate.closure, depth), {}).update(found)
        if self.cache is not None:
            for rate, trained in found.items():
                self.cache.put(self._depends_on(candidate, depth, rate), trained)

    def of(self, closure: str, depth: str) -> dict[float, Trained]:
        """What was trained at a depth, by rate."""
        return self.trained.get((closure, depth), {})

    def judged(
        self, candidate: Candidate, depths: Sequence[Depth], rates: Sequence[float], baseline: float
    ) -> ClosureTransfer:
        """The candidate's curves, with the common mode of each rate, and what they say."""
        rows = [self.of(candidate.closure, depth_key(depth)) for depth in depths]
        losses = [{rate: one.losses for rate, one in row.items()} for row in rows]
        found = judged(
            depths, rates, losses, baseline, candidate.failing,
            candidate.closure, candidate.rule, candidate.rho,
        )  # fmt: skip
        return replace(found, curves=tuple(
            replace(
                curve,
                common_mode=tuple(row[rate].common_mode for rate in curve.rates),
                token_cosine=tuple(row[rate].token_cosine for rate in curve.rates),
            )
            for curve, row in zip(found.curves, rows, strict=True)
        ))  # fmt: skip


FREE = 0.6  # of the memory that one stack of models may take
KEPT = 22  # numbers of the width that a token leaves in a sublayer for the backward pass, at most


def transfer(
    selection: Selection,
    candidates: Sequence[Candidate],
    depths: Sequence[Depth],
    rates: Sequence[float],
    course: Course,
    **work: Unpack[Work],
) -> Transfer:
    """Train every candidate at every depth with every rate, and say which rates transfer.

    All seeds of a run, and several rates, are one stack of models. A seed has the same embedding,
    head and batches everywhere. An interrupt (Ctrl-C) gives the partial result, UNDECIDED; the
    cache of ``work`` keeps every rate by itself. Raises :class:`InputError` for what cannot be
    trained.
    """
    began = time.perf_counter()
    settings = course.settings
    # no model that ignores its input has a lower loss on these very windows
    baseline = entropy(torch.stack([batch.targets for batch in held_out(course)]))
    repeated = len(candidates) * len(rates) * course.steps
    layers = [{s: n for s, n in depth.items() if s != "d"} for depth in depths]
    layers *= min(repeated, 10_000)
    work["processes"] = fitting_processes(work.get("processes", 1), layers, settings)
    with fitting_threads(settings) as threads:
        record = Record(course, threads, cache_of(work.pop("cache", None)))
        for depth, candidate, rate in product(depths, candidates, rates):
            record.find(candidate, depth_key(depth), rate)
        jobs = [
            _job(candidate, depth, some, record)
            for depth in depths
            for candidate in candidates
            for some in _stacks(candidate, depth, rates, record)
        ]
        total = sum(job.cost for job in jobs)
        stopped = run_until_stopped(jobs, total, **work)
    if stopped and stopped != INTERRUPTION and not record.trained:
        raise InputError(f"{stopped}: fewer seeds, tokens or layers or a smaller width need less")
    device = settings.torch_device
    widths = sorted({depth["d"] for depth in depths if "d" in depth})
    return Transfer(
        select={k: v for k, v in selection.to_dict().items() if k != "closure"},
        measure={
            **course.to_dict(), "depths": [depth_key(d) for d in depths], "rates": list(rates),
            **({"width": widths} if widths else {}),
        },
        closures=tuple(record.judged(c, depths, rates, baseline) for c in candidates),
        baseline=baseline,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        seconds=time.perf_counter() - began,
        versions={"python": platform.python_version(), "torch": torch.__version__},
        stopped=stopped,
    )  # fmt: skip


def require_steps(steps: object) -> None:
    """Raise :class:`InputError` for a number of steps that is none."""
    if type(steps) is not int or not 1 <= steps <= MOST:
        raise InputError(f"steps must be a whole number from 1 to {MOST}, not {shown(steps)}")


def wanted_rates(rates: str | Iterable[float]) -> tuple[float, ...]:
    """The rates as :func:`parse_rates` reads them; raises :class:`InputError` for too few."""
    rates = rates if isinstance(rates, str) else list(rates)
    grid = parse_rates(rates)
    if len(grid) < FEWEST_RATES:
        raise InputError(
            f"the rates {shown(rates)} can decide nothing: the best rate lies between two others; "
            f"give {FEWEST_RATES} or more, such as 1e-4:1e-2"
        )
    return grid


def parse_rates(rates: str | Sequence[float]) -> tuple[float, ...]:
    """The learning rates of a list or a text: ``1e-4,1e-3``, or in ratios of about 2 ``1e-4:1e-2``.

    ``1e-4:1e-2:9`` are nine. Raises :class:`InputError` for anything else.
    """
    items: list[object] = []
    for item in rates.split(",") if isinstance(rates, str) else rates:
        items += _range(item) if isinstance(item, str) and ":" in item else [item]
    try:
        found = sorted({float(item) for item in items})  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = []
    if not found or not all(0 < rate <= LARGEST for rate in found):
        raise InputError(
            f"the rates {shown(rates)} are not positive numbers, such as 1e-4,1e-3 or 1e-4:1e-2"
        )
    return tuple(found)


def _range(text: str) -> list[float]:
    try:
        first, last, *count = text.split(":")
        low, high = float(first), float(last)
        number = int(*count) if count else 1 + max(1, round(math.log2(high / low)))
        if not (0 < low < high <= LARGEST and 2 <= number <= 1000):
            raise ValueError
    except (ValueError, ArithmeticError, TypeError):
        raise InputError(
            f"the rates {shown(text)} are no range; valid are LOW:HIGH and LOW:HIGH:NUMBER, "
            "such as 1e-4:1e-2"
        ) from None
    ratio = (high / low) ** (1 / (number - 1))
    return [float(f"{low * ratio**i:.6g}") for i in range(number)]


def _stacks(
    candidate: Candidate, depth: Depth, rates: Sequence[float], record: Record
) -> Iterator[tuple[float, ...]]:
    """The rates that are to be trained, as many together as one stack holds."""
    key = depth_key(depth)
    missing = [rate for rate in rates if rate not in record.of(candidate.closure, key)]
    course, settings = record.course, record.course.settings
    free = FREE * available_bytes(settings.torch_device)
    size = int(free / (settings.seeds * _bytes(candidate.constants[key], course)))
    if settings.torch_device.type == "cpu":  # small work is done together, large by itself
        width = candidate.constants[key].architecture.width
        activations = settings.seeds * settings.batch * settings.tokens * width
        size = min(size, LARGE // activations)
    size = max(1, size)
    for first in range(0, len(missing), size):
        yield tuple(missing[first : first + size])


def _bytes(constants: Constants, course: Course) -> int:
    """What training one model takes: weights, gradients, means, and activations of a step."""
    settings = course.settings
    model = build(constants, device="meta")
    sublayers = sum(p.layers * len(p.sublayers) for p in constants.parts)
    weights = sum(p.numel() for p in model.parameters())
    a = constants.architecture
    activations = settings.batch * settings.tokens * (KEPT * sublayers * a.width + 4 * a.vocab)
    return (5 * weights + activations) * settings.torch_dtype.itemsize


def _job(candidate: Candidate, depth: Depth, rates: tuple[float, ...], record: Record) -> Job:
    key = depth_key(depth)
    return Job(
        f"{candidate.closure}, depth {key}, rate {rates[0]:g}"
        + (f" to {rates[-1]:g}" if len(rates) > 1 else ""),
        float(len(rates) * math.prod(depth.values())),
        partial(
            in_threads,
            record.threads,
            partial(train_stack, candidate.constants[key], rates, record.course),
        ),
        lambda found: record.keep(candidate, key, dict(zip(rates, found, strict=True))),
    )


def train_stack(
    constants: Constants, rates: Sequence[float], course: Course
) -> tuple[Trained, ...]:
    """What every seed ends with at each of the rates."""
    settings, corpus = course.settings, course.corpus()
    seeds, device = settings.seeds, settings.torch_device
    model = stacked(constants, course, len(rates))
    k = len(rates) * seeds  # rates by seeds
    eta = torch.tensor(rates, dtype=settings.torch_dtype).repeat_interleave(seeds).to(device)
    outer = (Role.EMBEDDING, Role.HEAD) if course.outer == "held" else ()
    held = {id(p) for p, d in described(model) if d.role in outer}
    trajectory = Trajectory(
        course.optimizer,
        [
            (p, eta * group["lr"])
            for group in parameter_groups(model, 1.0)
            for p in group["params"]
            if id(p) not in held
        ],
    )
    taken: list[tuple[CommonMode, ...]] = []
    found = torch.full((k,), math.nan, device=device, dtype=torch.float64)
    with trajectory.stepping(model):
        for step in range(course.steps):
            windows = [
                corpus.batch(settings.batch, _generator(settings.seed + seed, step))
                for seed in range(seeds)
            ]
            tokens = torch.stack([w.tokens for w in windows]).to(device).repeat(len(rates), 1, 1)
            targets = torch.stack([w.targets for w in windows]).to(device).repeat(len(rates), 1, 1)
            watch = Watch(model) if is_taken(step) else None
            with nullcontext() if watch is None else watch.watching():
                losses = cross_entropies(model, tokens, targets)
            taken += [] if watch is None else [watch.found]
            if not losses.detach().isfinite().any():
                break
            trajectory.step(losses)
        else:
            found = _evaluated(model, course, k)
    return tuple(
        Trained(
            tuple(row),
            _largest(c.weight for step in taken for c in step[i * seeds : (i + 1) * seeds]),
            _largest(c.cosine for step in taken for c in step[i * seeds : (i + 1) * seeds]),
        )
        for i, row in enumerate(found.view(len(rates), seeds).tolist())
    )


def _largest(values: Iterable[float]) -> float:
    """The largest of the finite ones: what a run that diverged had before; NaN without one."""
    return max(filter(math.isfinite, values), default=math.nan)


@torch.no_grad()
def _evaluated(model: nn.Module, course: Course, k: int) -> Tensor:
    """The mean held-out losses of k models, (k,); NaN where one diverged."""
    device = course.settings.torch_device
    found = torch.zeros(k, device=device, dtype=torch.float64)
    for batch in held_out(course):
        targets = batch.targets.to(device).expand(k, -1, -1)
        losses = cross_entropies(model, batch.tokens.to(device), targets)
        found += losses.double() / HELD_OUT_BATCHES
    found[~found.isfinite()] = math.nan
    return found


def held_out(course: Course) -> list[Batch]:
    settings = course.settings
    return course.corpus().trials(settings.batch, partial(_generator, settings.seed))


def cross_entropies(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy per byte of every model of a stack, in nats: (k,)."""
    logits = model(tokens)  # (k, batch, tokens, vocab)
    losses = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return losses.view(targets.shape[0], -1).mean(1)


@torch.no_grad()
def stacked(constants: Constants, course: Course, repeats: int) -> Model:
    """The models of all seeds, ``repeats`` times over, each drawn as if it were alone."""
    settings, a = course.settings, constants.architecture
    vectors = settings.step == "all"
    make = Make(
        repeats * settings.seeds, settings.torch_device, settings.torch_dtype, vectors, a.bias
    )
    model = Model(constants, make)
    for seed in range(settings.seeds):
        outer, inner = (_generator(settings.seed + seed, i) for i in (2**20, 2**20 + 1))
        single = build(
            constants, generator=inner, embedding_generator=outer, trainable_vectors=vectors
        )
        for own, drawn in zip(model.parameters(), single.parameters(), strict=True):
            own[seed :: settings.seeds] = drawn.to(own)
    return model


def _generator(seed: int, index: int) -> torch.Generator:
    """A generator of its own for each purpose and step of each seed."""
    return torch.Generator().manual_seed((seed * 10_000_019 + index) % 2**63)
