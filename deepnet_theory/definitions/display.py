"""How a result is shown: one formatter a form, which the package's top level registers."""

from __future__ import annotations

from collections.abc import Callable

Formatter = Callable[[object], str]
_FORMATTERS: dict[str, Formatter] = {}


def register(form: str, formatter: Formatter) -> None:
    """Let ``formatter`` show every result in a form: ``text``, ``html`` or ``line``."""
    _FORMATTERS[form] = formatter


def shown(result: object, form: str) -> str:
    """A result in one of the registered forms."""
    return _FORMATTERS[form](result)


class Displayed:
    """A result that shows itself by the registered formatters.

    A dataclass writes a ``__repr__`` over this one: give it ``repr=False``.
    """

    def _repr_html_(self) -> str:
        return shown(self, "html")

    def __str__(self) -> str:
        return shown(self, "text")

    def __repr__(self) -> str:
        return shown(self, "line")
