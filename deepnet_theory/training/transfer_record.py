"""What a search of the learning rate trains, and what of it is done: what it resumes from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stepping.trajectory import running_of
from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.files import read_text
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.transfer import SCHEMA, Transfer
from deepnet_theory.training.corpus import Text

MOST = 2**20
OUTER = ("stepped", "held")  # what becomes of embedding and head
MAX_BYTES = 50_000_000

Losses = tuple[float, ...]  # one a seed


@dataclass(frozen=True)
class Candidate:
    """A rule under the name of its closure, and its constants by depth."""

    closure: str
    rule: dict[str, Any]  # as plain data: what a resumed result must agree in
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
    """The losses of what is trained, by closure, depth and rate."""

    losses: dict[tuple[str, str], dict[float, Losses]] = field(default_factory=dict)

    def keep(self, closure: str, depth: str, found: Mapping[float, Losses]) -> None:
        """Take the losses of some rates."""
        self.losses.setdefault((closure, depth), {}).update(found)

    def of(self, closure: str, depth: str) -> dict[float, Losses]:
        """The losses at a depth, by rate."""
        return self.losses.get((closure, depth), {})


def resume_record(
    resume: Transfer | str | Path | None,
    selection: Selection,
    candidates: Sequence[Candidate],
    course: Course,
) -> Record:
    """The finished runs of an earlier result; other depths, rates and closures may be in it.

    Raises :class:`InputError` where it cannot be read, is damaged, or was made with another
    selection, rule or setting.
    """
    record = Record()
    if resume is None:
        return record
    name = "the earlier result" if isinstance(resume, Transfer) else repr(str(resume))
    text = resume.to_json() if isinstance(resume, Transfer) else read_text(resume, MAX_BYTES)
    try:
        data: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InputError(f"{name} is not valid JSON (damaged or truncated?)") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InputError(f"{name} is not a transfer with the schema {SCHEMA!r}")
    select = {k: v for k, v in selection.to_dict().items() if k != "closure"}
    for label, asked in (("select", select), ("measure", course.to_dict())):
        earlier = data.get(label)
        if isinstance(earlier, dict):
            earlier = {k: v for k, v in earlier.items() if k not in ("depths", "rates")}
        if earlier != json.loads(json.dumps(asked)):
            raise InputError(f"{name} cannot be resumed: its {label!r} differs from what is asked")
    rules = {c.closure: json.loads(json.dumps(c.rule)) for c in candidates}
    try:
        for row in _list(data, "closures"):
            closure = row["closure"]
            if closure not in rules:
                continue
            if row["rule"] != rules[closure]:
                raise InputError(
                    f"{name} cannot be resumed: its rule of {closure!r} differs from what is asked"
                )
            for curve in _list(row, "curves"):
                found = _losses(curve, course.settings.seeds)
                record.keep(closure, depth_key(_depth(curve["depth"])), found)
    except (KeyError, TypeError, _Damaged) as damage:
        raise InputError(f"{name} cannot be resumed, its record is damaged: {damage}") from None
    return record


class _Damaged(Exception):  # noqa: N818  the sentence goes on with it
    """What is not as it was written, and where."""


def _list(row: Any, name: str) -> list[Any]:
    if not isinstance(row[name], list):
        raise _Damaged(f"{name} is {shown(row[name])}")
    return row[name]  # type: ignore[no-any-return]


def _depth(depth: Any) -> Depth:
    if not isinstance(depth, dict) or not all(type(n) is int and n > 0 for n in depth.values()):
        raise _Damaged(f"the depth is {shown(depth)}")
    return depth


def _losses(curve: Any, seeds: int) -> dict[float, Losses]:
    rates, rows = _list(curve, "rates"), _list(curve, "values")
    if len(rates) != len(rows) or not all(type(r) in (int, float) and r > 0 for r in rates):
        raise _Damaged(f"the rates are {shown(rates)}")
    for row in rows:
        sound = isinstance(row, list) and len(row) == seeds
        if not sound or not all(v is None or type(v) is float for v in row):
            raise _Damaged(f"the losses are {shown(row)}")
    return {
        float(rate): tuple(math.nan if v is None else v for v in row)
        for rate, row in zip(rates, rows, strict=True)
    }


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")
