"""What has been measured so far: the content of a partial result, and what a run resumes from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deepnet_theory.numeric.measuring.model_update import ModelUpdate
from deepnet_theory.numeric.stacks.depths import by_depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.files import read_text
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verification import SCHEMA, Verification

MAX_BYTES = 50_000_000


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
            data = json.loads(read_text(Path(resume), MAX_BYTES))
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
        return _read(data)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise InputError(f"{name} cannot be resumed: its record is damaged") from None


def _read(data: Mapping[str, Any]) -> Record:
    record = Record()
    points = {depth_key(p["depth"]): p for p in data["points"]}
    for step in data["checks"]["steps"]:
        key = depth_key(step["depth"])
        numbers = {
            name: tuple(_number(v) for v in step[name])
            for name in ("first_draw", "losses", "loss_changes", "first_order")
        }
        record.updates[key] = ModelUpdate(
            depth={k: int(n) for k, n in step["depth"].items()},
            eta=float(step["eta"]),
            values=tuple(_number(v) for v in points[key]["values"]),
            second_order=_number(step["second_order"]),
            relative_change=_number(step["relative_change"]),
            finding=str(points[key]["finding"]),
            **numbers,
        )
    for quantity, rows in data["checks"]["samples"].items():
        record.samples[quantity] = {k: [_number(v) for v in vs] for k, vs in rows.items()}
    for row in data["checks"]["reference"]:
        record.references[depth_key(row["depth"])] = dict(row)
    return record


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)  # JSON has no NaN: it was null
