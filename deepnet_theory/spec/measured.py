"""What the laboratory measured of published schemes, as ``benchmarks/schemes.py`` records it.

Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = "deepnet-theory/measured-schemes/1"
RECORD = Path(__file__).parent / "schemes_measured.json"


@dataclass(frozen=True)
class Measured:
    """One measured exponent of ‖ΔF‖/η in a depth, beside what was predicted of it.

    ``predicted`` is that of great depth, ``here`` what single sublayers predict over the measured
    depths, None where they do not reach; the estimate is None where there is no exponent.
    ``because`` says what keeps it from SUPPORTED.
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


@cache
def recorded() -> dict[str, dict[str, tuple[Measured, ...]]]:
    """What was found, by scheme and optimizer: one exponent, or one a part."""
    return {
        name: {optimizer: tuple(Measured(**one) for one in own) for optimizer, own in of.items()}
        for name, of in _data()["schemes"].items()
    }


def measured(scheme: str, optimizers: Sequence[str]) -> tuple[str, tuple[Measured, ...]]:
    """The first of ``optimizers`` that a scheme was stepped by, and what was found; empty of none.

    Those of one class share their exponents in depth.
    """
    of = recorded().get(scheme, {})
    return next(((name, of[name]) for name in optimizers if name in of), ("", ()))


def conditions() -> str:
    """What was measured on, in words."""
    of = _data()["measure"]
    first, *_, last = of["depths"]
    return f"{first} to {last} layers of width {of['width']}, {of['seeds']} seeds, on {of['data']}"


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return data
