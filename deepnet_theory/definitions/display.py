"""How a result is shown: one formatter a form, which the package's top level registers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.record import written

Formatter = Callable[[object], str]
_FORMATTERS: dict[str, Formatter] = {}


def register(form: str, formatter: Formatter) -> None:
    """Let ``formatter`` show every result in a form: ``text``, ``html`` or ``line``."""
    _FORMATTERS[form] = formatter


def shown(result: object, form: str) -> str:
    """A result in one of the registered forms."""
    return _FORMATTERS[form](result)


class Displayed:
    """What a command hands back: it shows itself by the registered formatters, and has JSON.

    The JSON of a dataclass is its fields by their names, with its ``schema``. A dataclass writes a
    ``__repr__`` over this one: give it ``repr=False``.
    """

    schema: str

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends in it: its verdict's, 0 where it has none."""
        return getattr(self, "verdict", Verdict.PROVED).exit_code

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        return {"schema": self.schema, **written(self)}

    def to_json(self) -> str:
        """The JSON text; NaN and infinity, which JSON lacks, are written as null."""
        data = written(self.to_dict(), finite=True)
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)

    def _repr_html_(self) -> str:
        return shown(self, "html")

    def __str__(self) -> str:
        return shown(self, "text")

    def __repr__(self) -> str:
        return shown(self, "line")
