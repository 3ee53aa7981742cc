"""What a search of the learning rate trains, and what of it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stepping.trajectory import running_of
from deepnet_theory.processes import MISSING, Cache, per_seed
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.files import read_bytes
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.training.corpus import MAX_BYTES, Text

MOST = 2**20
OUTER = ("stepped", "held")  # what becomes of embedding and head

Losses = tuple[float, ...]  # one a seed


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

    ``outer`` says what becomes of embedding and head: ``stepped`` at their derived multipliers,
    or ``held`` as they are drawn, so that the stack alone learns.
    """

    optimizer: Optimizer
    settings: Settings
    steps: int
    text: str | None = None
    outer: str = "stepped"

    def __post_init__(self) -> None:
        running_of(self.optimizer)
        if type(self.steps) is not int or not 1 <= self.steps <= MOST:
            raise InputError(
                f"steps must be a whole number from 1 to {MOST}, not {shown(self.steps)}"
            )
        if self.outer not in OUTER:
            raise unknown("outer", self.outer, OUTER)
        if self.settings.correlation is not None:
            raise InputError(
                f"the data {self.settings.data!r} have nothing to learn; valid is: text"
            )

    def corpus(self) -> Text:
        """The text in windows of the settings' tokens."""
        return Text(self.text, self.settings.tokens)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what changes no result."""
        others = ("draws", "data", "updates", "eta")
        settings = {k: v for k, v in self.settings.to_dict().items() if k not in others}
        return {**settings, "steps": self.steps, "text": self.text, "outer": self.outer}


@dataclass
class Record:
    """The losses of what is trained, by closure, depth and rate; ``cache`` has those of before."""

    course: Course
    threads: int
    cache: Cache | None = None
    losses: dict[tuple[str, str], dict[float, Losses]] = field(default_factory=dict)

    @cached_property
    def _learnt_from(self) -> str:
        """The digest of the text, whose name says nothing of its content."""
        path = self.course.text
        return "" if path is None else sha256(read_bytes(path, MAX_BYTES)).hexdigest()

    def _depends_on(self, candidate: Candidate, depth: str, rate: float) -> object:
        constants = candidate.constants[depth]
        return ("transfer", constants, rate, self.course, self._learnt_from, self.threads)

    def find(self, candidate: Candidate, depth: str, rate: float) -> None:
        """Take the losses that the cache has."""
        if self.cache is not None:
            fits = partial(per_seed, seeds=self.course.settings.seeds)
            found = self.cache.get(self._depends_on(candidate, depth, rate), Losses, fits)
            if found is not MISSING:
                self.losses.setdefault((candidate.closure, depth), {})[rate] = found

    def keep(self, candidate: Candidate, depth: str, found: Mapping[float, Losses]) -> None:
        """Take the losses of some rates, and keep them."""
        self.losses.setdefault((candidate.closure, depth), {}).update(found)
        if self.cache is not None:
            for rate, losses in found.items():
                self.cache.put(self._depends_on(candidate, depth, rate), losses)

    def of(self, closure: str, depth: str) -> dict[float, Losses]:
        """The losses at a depth, by rate."""
        return self.losses.get((closure, depth), {})
