"""Loss against learning rate at several depths: stacks of seeds trained for a few steps."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import product
from typing import Any, Unpack

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.files import read_bytes
from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.outcome import INTERRUPTION, InputError, unknown
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.definitions.training import ClosureTransfer, Transfer
from deepnet_theory.laboratory.common_mode import CommonMode, Watch, is_taken
from deepnet_theory.laboratory.optimum import Losses, judged, require_steps
from deepnet_theory.laboratory.runs import HELD_OUT_BATCHES, MAX_BYTES, Batch, Text, entropy
from deepnet_theory.laboratory.settings import (
    Depth,
    Settings,
    available_bytes,
    depth_key,
    fitting_processes,
    fitting_threads,
)
from deepnet_theory.laboratory.stepping import Trajectory, running_of
from deepnet_theory.models.groups import parameter_groups
from deepnet_theory.processes import (
    MISSING,
    Cache,
    Job,
    Work,
    cache_of,
    per_seed,
    run_until_stopped,
)
from deepnet_theory.runtime import build, described
from deepnet_theory.runtime.linear import Make
from deepnet_theory.runtime.machine import LARGE, in_threads
from deepnet_theory.runtime.model import Model

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

    def by_rate(self, candidate: Candidate, depth: str) -> dict[float, Trained]:
        return self.trained.setdefault((candidate.closure, depth), {})

    def recall(self, candidate: Candidate, depth: str, rates: Sequence[float]) -> None:
        """Take what the cache has."""
        fits = partial(per_seed, seeds=self.course.settings.seeds)
        for rate in rates if self.cache is not None else ():
            assert self.cache is not None
            kept = self.cache.get(self._depends_on(candidate, depth, rate), Trained, fits)
            if kept is not MISSING:
                self.by_rate(candidate, depth)[rate] = kept

    def keep(
        self, candidate: Candidate, depth: str, rates: Sequence[float], ends: Sequence[Trained]
    ) -> None:
        """Take what some rates end with, and keep each by itself: another grid has other stacks."""
        for rate, trained in zip(rates, ends, strict=True):
            self.by_rate(candidate, depth)[rate] = trained
            if self.cache is not None:
                self.cache.put(self._depends_on(candidate, depth, rate), trained)

    def judged(
        self, candidate: Candidate, depths: Sequence[Depth], rates: Sequence[float], baseline: float
    ) -> ClosureTransfer:
        """The candidate's curves, with the common mode of each rate, and what they say."""
        rows = [self.by_rate(candidate, depth_key(depth)) for depth in depths]
        losses = [{rate: one.losses for rate, one in row.items()} for row in rows]
        closure = judged(
            depths, rates, losses, baseline, candidate.failing,
            candidate.closure, candidate.rule, candidate.rho,
        )  # fmt: skip
        return replace(closure, curves=tuple(
            replace(
                curve,
                common_mode=tuple(row[rate].common_mode for rate in curve.rates),
                token_cosine=tuple(row[rate].token_cosine for rate in curve.rates),
            )
            for curve, row in zip(closure.curves, rows, strict=True)
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
        jobs: list[Job] = []
        for depth, candidate in product(depths, candidates):
            record.recall(candidate, depth_key(depth), rates)
            jobs += _jobs(candidate, depth, rates, record)
        total = sum(job.cost for job in jobs)
        stopped = run_until_stopped(jobs, total, **work)
    if stopped and stopped != INTERRUPTION and not any(record.trained.values()):
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


def _jobs(
    candidate: Candidate, depth: Depth, rates: Sequence[float], record: Record
) -> Iterator[Job]:
    """What is to be trained at a depth, as many rates together as one stack holds."""
    key, course, settings = depth_key(depth), record.course, record.course.settings
    constants, known = candidate.constants[key], record.by_rate(candidate, key)
    missing = [rate for rate in rates if rate not in known]
    free = FREE * available_bytes(settings.torch_device)
    size = int(free / (settings.seeds * _bytes(constants, course)))
    if settings.torch_device.type == "cpu":  # small work is done together, large by itself
        activations = (
            settings.seeds * settings.batch * settings.tokens * constants.architecture.width
        )
        size = min(size, LARGE // activations)
    size = max(1, size)
    for first in range(0, len(missing), size):
        some = tuple(missing[first : first + size])
        last = f" to {some[-1]:g}" if len(some) > 1 else ""
        yield Job(
            f"{candidate.closure}, depth {key}, rate {some[0]:g}{last}",
            float(len(some) * math.prod(depth.values())),
            partial(in_threads, record.threads, partial(train_stack, constants, some, course)),
            partial(record.keep, candidate, key, some),
        )


def _bytes(constants: Constants, course: Course) -> int:
    """What training one model takes: weights, gradients, means, and activations of a step."""
    settings = course.settings
    model = build(constants, device="meta")
    sublayers = sum(p.layers * len(p.sublayers) for p in constants.parts)
    weights = sum(p.numel() for p in model.parameters())
    a = constants.architecture
    activations = settings.batch * settings.tokens * (KEPT * sublayers * a.width + 4 * a.vocab)
    return (5 * weights + activations) * settings.torch_dtype.itemsize


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
    ends = torch.full((k,), math.nan, device=device, dtype=torch.float64)
    with trajectory.stepping(model):
        for step in range(course.steps):
            windows = [
                corpus.batch(settings.batch, _generator(settings.seed + seed, step))
                for seed in range(seeds)
            ]
            tokens, targets = (
                torch.stack(part).to(device).repeat(len(rates), 1, 1)
                for part in zip(*((w.tokens, w.targets) for w in windows), strict=True)
            )
            watch = Watch(model) if is_taken(step) else None
            with nullcontext() if watch is None else watch.watching():
                losses = cross_entropies(model, tokens, targets)
            taken += [] if watch is None else [watch.found]
            if not losses.detach().isfinite().any():
                break
            trajectory.step(losses)
        else:
            ends = _evaluated(model, course, k)

    def largest(what: str, rate: int) -> float:
        """The largest of the finite ones: what a run that diverged had before; else NaN."""
        models = slice(rate * seeds, (rate + 1) * seeds)
        values = (getattr(common, what) for step in taken for common in step[models])
        return max(filter(math.isfinite, values), default=math.nan)

    return tuple(
        Trained(tuple(row), largest("weight", index), largest("cosine", index))
        for index, row in enumerate(ends.view(len(rates), seeds).tolist())
    )


@torch.no_grad()
def _evaluated(model: nn.Module, course: Course, k: int) -> Tensor:
    """The mean held-out losses of k models, (k,); NaN where one diverged."""
    device = course.settings.torch_device
    mean = torch.zeros(k, device=device, dtype=torch.float64)
    for batch in held_out(course):
        targets = batch.targets.to(device).expand(k, -1, -1)
        losses = cross_entropies(model, batch.tokens.to(device), targets)
        mean += losses.double() / HELD_OUT_BATCHES
    mean[~mean.isfinite()] = math.nan
    return mean


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
        for ours, drawn in zip(model.parameters(), single.parameters(), strict=True):
            ours[seed :: settings.seeds] = drawn.to(ours)
    return model


def _generator(seed: int, index: int) -> torch.Generator:
    """A generator of its own for each purpose and step of each seed."""
    return torch.Generator().manual_seed((seed * 10_000_019 + index) % 2**63)
