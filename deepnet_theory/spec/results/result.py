"""Results as text: the public JSON that every one of them has."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from typing import Any


class Result(ABC):
    """What a command hands back: plain data, whose JSON is its public form."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""

    def to_json(self) -> str:
        """The JSON text; NaN and infinity, which JSON lacks, are written as null."""
        return json.dumps(_finite(self.to_dict()), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
