"""How a result is shown: by the formatters that the package's top level names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.record import written


class Displayed:
    """What a command hands back: it shows itself by the package's formatters, and has JSON.

    The JSON of a dataclass is its fields by their names, with its ``schema``. A dataclass writes a
    ``__repr__`` over this one: give it ``repr=False``.
    """

    schema: str
    formatters: ClassVar[Callable[[], Any]]  # its functions text, html, line: the top level sets it

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
        return str(type(self).formatters().html(self))

    def __str__(self) -> str:
        return str(type(self).formatters().text(self))

    def __repr__(self) -> str:
        return str(type(self).formatters().line(self))
