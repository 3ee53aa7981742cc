"""Frozen dataclasses as plain data: their annotations say what they hold, how they are read.

One way in and one way out for every file and every result: :func:`require` holds a value against
its annotation, :func:`read` makes it of JSON, :func:`written` makes JSON of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from deepnet_theory.spec.errors import InputError, shown

T = TypeVar("T")
LARGEST = 1e37  # a float32 holds ten times as much; so do weights, a few standard deviations wide
LEVELS = 20  # of plain data that no annotation describes


@dataclass(frozen=True)
class Within:
    """A mark in an annotation: the ends of the numbers that a field takes."""

    least: float
    most: float = LARGEST


OPTIONAL = {"optional": True}  # of a field that JSON has only where it is not the default
POSITIVE, NOT_NEGATIVE = Within(1 / LARGEST), Within(0)


@cache
def hints(kind: type) -> dict[str, Any]:
    """The annotations of a dataclass's fields, with their marks."""
    known = get_type_hints(kind, include_extras=True)
    return {one.name: known[one.name] for one in fields(kind)}


@cache
def _kind(hint: Any) -> tuple[Any, tuple[Any, ...], bool, Within | None]:
    """What an annotation is of: a type, its arguments, whether None will do, and the ends."""
    ends = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Within)), None)
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    optional = get_origin(hint) in (Union, UnionType)
    hint = get_args(hint)[0] if optional else hint
    return get_origin(hint) or hint, get_args(hint), optional, ends


# ------------------------------------------------------------------------------- what is valid


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # half of a surrogate pair, which no file can hold
        return False


def _is_plain(value: object, levels: int = LEVELS) -> bool:
    """Whether JSON can hold it in the given number of levels."""
    if isinstance(value, dict):
        keys, values = list(value), list(value.values())
        return levels > 0 and all(map(_is_text, keys)) and _is_plain(values, levels)
    if isinstance(value, list | tuple):
        return levels > 0 and all(_is_plain(v, levels - 1) for v in value)
    return value is None or isinstance(value, bool) or _is_text(value) or _is_number(value)


_SINGLE: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: type(value) is bool, "a boolean"),
    int: (lambda value: type(value) is int, "a whole number"),
    float: (_is_number, f"a number from -{LARGEST:.0e} to {LARGEST:.0e}"),
    str: (_is_text, "text"),
    Any: (_is_plain, f"plain data, at most {LEVELS} levels deep"),
}


def require(value: object, hint: Any, what: str) -> None:
    """Raise :class:`InputError` where a value is not as its annotation says.

    ``what`` begins the sentence; the fields of a dataclass are named behind it, and the items of a
    tuple by their own ``name`` or ``kind``.
    """
    kind, arguments, optional, ends = _kind(hint)
    if value is None and optional:
        return
    if kind in _SINGLE:
        fits, words = _SINGLE[kind]
        valid = fits(value)
        if ends is not None:
            valid = valid and ends.least <= value <= ends.most  # type: ignore[operator]
            words = f"from {ends.least:.7g} to {ends.most:.7g}"
        if not valid:
            raise InputError(f"{what} must be {words}, not {shown(value)}")
    elif not isinstance(value, kind):
        raise InputError(f"{what} must be a {kind.__name__}, not {shown(value)}")
    elif isinstance(value, tuple):
        for item in value:
            label = getattr(item, "name", None) or getattr(item, "kind", "")
            require(item, arguments[0], f"{what}: {label}" if label else what)
    elif isinstance(value, dict):
        for key, item in value.items():
            require(key, str, f"a name in {what}")
            require(item, arguments[1], f"{what}: {key!r}")
    else:
        for name, inner in hints(kind).items():
            require(getattr(value, name), inner, f"{what}: {name}")


# ------------------------------------------------------------------------------------ reading


def read(hint: Any, data: Any, what: str) -> Any:
    """Plain data as what an annotation says; the dataclasses check what they hold themselves.

    Raises :class:`InputError` for another shape, a name that no field has and one that is missing.
    """
    kind, arguments, optional, _ = _kind(hint)
    if kind is tuple:
        if not isinstance(data, list | tuple):
            raise InputError(f"{what} must be a JSON list, not {shown(data)}")
        return tuple(read(arguments[0], item, what) for item in data)
    if (kind is not dict and not is_dataclass(kind)) or (optional and data is None):
        return data
    if not isinstance(data, dict):
        raise InputError(f"{what} must be a JSON object, not {shown(data)}")
    if kind is dict:
        return {key: read(arguments[1], item, what) for key, item in data.items()}
    made: Any = kind
    known = hints(made)
    for name in data.keys() - known.keys():
        raise InputError(f"{what} has no {shown(name)}; valid are: {', '.join(known)}")
    for one in fields(made):
        needed = one.default is MISSING and one.default_factory is MISSING
        if needed and one.name not in data:
            raise InputError(f"{what} lacks {one.name!r}")
    return made(**{name: read(known[name], item, f"{what}: {name}") for name, item in data.items()})


# ------------------------------------------------------------------------------------ writing


def written(value: Any, finite: bool = False) -> Any:
    """Plain data of dataclasses, tuples and dictionaries; what is single stays as it is.

    A field's ``json`` in its metadata is its name there; None leaves it out. ``finite`` makes NaN
    and infinity, which JSON lacks, null.
    """
    if is_dataclass(value) and not isinstance(value, type):
        row = {}
        for one in fields(value):
            item, name = getattr(value, one.name), one.metadata.get("json", one.name)
            factory = one.default_factory
            default = one.default if factory is MISSING else factory()
            if name and not ("optional" in one.metadata and item == default):
                row[name] = item
        value = row
    if isinstance(value, dict):
        return {key: written(item, finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item, finite) for item in value]
    return None if finite and isinstance(value, float) and not math.isfinite(value) else value
