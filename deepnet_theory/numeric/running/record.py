"""What has been measured so far: the content of a partial result, and what a run resumes from."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from deepnet_theory.numeric.measuring.model_update import ModelUpdate
from deepnet_theory.numeric.stacks.depths import MOST_LAYERS, by_depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.files import read_text
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verification import SCHEMA, Verification

MAX_BYTES = 50_000_000
LARGEST = sys.float_info.max  # a larger whole number is no float
T = TypeVar("T")


def rule_to_dict(rule: Rule) -> dict[str, Any]:
    """A rule as plain data."""
    return {
        "name": rule.name,
        "entries": [asdict(entry) for entry in rule.entries],
        "eta": rule.eta,
        "meaning": rule.meaning,
    }


@dataclass
class Record:
    """Model updates by depth, and samples by quantity and depth, one value a seed."""

    updates: dict[str, ModelUpdate] = field(default_factory=dict)
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    references: dict[str, dict[str, Any]] = field(default_factory=dict)

    def checks(self) -> dict[str, Any]:
        """The record as plain data, within a verification's ``checks``.

        By depth and by name, whatever came first from several processes.
        """
        return {
            "steps": [u.to_dict() for u in by_depth(self.updates).values()],
            "reference": list(by_depth(self.references).values()),
            "samples": {name: by_depth(self.samples[name]) for name in sorted(self.samples)},
        }


def resume_record(
    resume: Verification | str | Path | None, selection: Selection, rule: Rule, settings: Settings
) -> Record:
    """The record inside an earlier, perhaps partial, result of the same measurement.

    Raises :class:`InputError` where it cannot be read, or was made with another selection,
    rule or setting.
    """
    if resume is None:
        return Record()
    name = "the earlier result"
    if isinstance(resume, Verification):
        data: Any = json.loads(resume.to_json())
    else:
        name = repr(str(resume))
        try:
            data = json.loads(read_text(Path(resume), MAX_BYTES), parse_constant=_no_number)
        except (ValueError, RecursionError) as wrong:
            if isinstance(wrong, InputError):
                raise
            raise InputError(f"{name} is not valid JSON (damaged or truncated?)") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InputError(f"{name} is not a verification with the schema {SCHEMA!r}")
    asked = {
        "select": selection.to_dict(),
        "rule": rule_to_dict(rule),
        "measure": settings.to_dict(),
    }
    for label, value in asked.items():
        earlier = data.get(label)
        if isinstance(earlier, dict):
            earlier = {k: v for k, v in earlier.items() if k != "depths"}
        if earlier != json.loads(json.dumps(value)):
            raise InputError(f"{name} cannot be resumed: its {label!r} differs from what is asked")
    try:
        return _Reader(list(selection.the_stack.depths), settings.seeds).record(data)
    except _Damaged as damage:
        raise InputError(f"{name} cannot be resumed, its record is damaged: {damage}") from None


class _Damaged(Exception):  # noqa: N818  the sentence goes on with it
    """What is not as it was written, and where."""


class _Reader:
    """Reads a record strictly: whatever is missing or not of its kind is damage."""

    def __init__(self, symbols: list[str], seeds: int) -> None:
        self.symbols, self.seeds = symbols, seeds

    def record(self, data: object) -> Record:
        """The record within a verification's plain data."""
        record = Record()
        checks = self.entry(data, "checks", dict)
        points = {self.key(point): point for point in self.entry(data, "points", list)}
        for step in self.entry(checks, "steps", list):
            key = self.key(step)
            if key in record.updates or key not in points:
                raise _Damaged(f"depth {key} has not one point and one step")
            record.updates[key] = ModelUpdate(
                depth=dict(step["depth"]),
                eta=self.number(step, "eta", above=0.0),
                values=self.values(points[key], "values"),
                second_order=self.number(step, "second_order"),
                relative_change=self.number(step, "relative_change"),
                first_draw=self.values(step, "first_draw"),
                losses=self.values(step, "losses"),
                loss_changes=self.values(step, "loss_changes"),
                first_order=self.values(step, "first_order"),
                finding=self.entry(points[key], "finding", str),
            )
        for quantity, rows in self.entry(checks, "samples", dict).items():
            for key in rows if isinstance(rows, dict) else [rows]:
                numbers = str(key).split("x")
                self.key({"depth": dict(zip(self.symbols, map(_whole, numbers), strict=False))})
                if len(numbers) != len(self.symbols):
                    raise _Damaged(f"the depth {shown(key)} of {quantity}")
            record.samples[quantity] = {key: list(self.values(rows, key)) for key in rows}
        for row in self.entry(checks, "reference", list):
            key = self.key(row)
            if not all(isinstance(v, str | float | int | dict | None) for v in row.values()):
                raise _Damaged("the real optimizer's step")
            record.references[key] = dict(row)
        return record

    def entry(self, data: object, name: str, kind: type[T]) -> T:
        """The entry of this name, which is of this kind."""
        found = data.get(name) if isinstance(data, dict) else None
        if not isinstance(found, kind):
            raise _Damaged(f"{name} is {shown(found)}")
        return found

    def key(self, row: object) -> str:
        """The key of a row's depth: a positive whole number for each of the stack's symbols."""
        depth = self.entry(row, "depth", dict)
        fits = all(type(n) is int and 1 <= n <= MOST_LAYERS for n in depth.values())
        if list(depth) != self.symbols or not fits:
            raise _Damaged(f"the depth is {shown(depth)}")
        return depth_key(depth)

    def number(self, row: dict[str, Any], name: str, above: float = -math.inf) -> float:
        """A number, or NaN, which JSON writes as null, where no bound is given."""
        value = row.get(name, "missing")
        if value is None and above == -math.inf:
            return math.nan
        if type(value) not in (int, float) or not above < value <= LARGEST:
            raise _Damaged(f"{name} is {shown(value)}")
        return float(value)

    def values(self, row: dict[str, Any], name: str) -> tuple[float, ...]:
        """One number a seed."""
        found = self.entry(row, name, list)
        if len(found) != self.seeds:
            raise _Damaged(f"{name} has {len(found)} values for {self.seeds} seeds")
        return tuple(self.number({name: value}, name) for value in found)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")
