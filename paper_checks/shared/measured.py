"""Measured exponents of the published schemes: the record that ``benchmarks/schemes.py`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = "deepnet-theory/measured-schemes/1"
RECORD = Path(__file__).parents[1] / "schemes" / "measured.jsonl"


@dataclass(frozen=True)
class Slope:
    """One measured exponent of ‖ΔF‖/η in a depth, beside its prediction.

    ``predicted`` is the exponent of great depth, ``here`` what single sublayers predict over the
    measured depths, None where they do not reach. The estimate is None where there is no exponent.
    ``because`` says what keeps the verdict from SUPPORTED.
    """

    depth: str  # N or M
    predicted: str
    here: float | None
    estimate: float | None
    low: float | None
    high: float | None
    verdict: str
    because: str = ""

    def __str__(self) -> str:
        if self.estimate is None:
            return f"no exponent, {self.verdict}"
        return f"{self.estimate:+.2f} [{self.low:+.2f}, {self.high:+.2f}] {self.verdict}"


Found = Mapping[str, Mapping[str, Sequence[Slope]]]  # by scheme, then by optimizer


@cache
def _rows() -> list[dict[str, Any]]:
    """What was measured on, then a line an exponent."""
    return [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]


@cache
def recorded() -> Found:
    """The record: one exponent a scheme and optimizer, or one a part."""
    found: dict[str, dict[str, tuple[Slope, ...]]] = {}
    for row in _rows()[1:]:
        named = {name: value for name, value in row.items() if name not in ("scheme", "optimizer")}
        of = found.setdefault(row["scheme"], {})
        of[row["optimizer"]] = (*of.get(row["optimizer"], ()), Slope(**named))
    return found


def conditions() -> str:
    """The depths, width, seeds and data of the measurements, in words."""
    on = _rows()[0]
    first, *_, last = on["depths"]
    return f"{first} to {last} layers of width {on['width']}, {on['seeds']} seeds, on {on['data']}"


def write(found: Found, measured_on: Mapping[str, object], path: Path = RECORD) -> None:
    """Write a record: what was measured on, then a line an exponent."""
    rows = [{"schema": SCHEMA, **measured_on}]
    for scheme, of in found.items():
        for optimizer, own in of.items():
            rows += [{"scheme": scheme, "optimizer": optimizer, **asdict(one)} for one in own]
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
