"""The form of a result: what the annotation of the work promises, and whether a value has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict


def promised(work: Callable[..., Any]) -> Any:
    """The type that an annotation promises; a type variable stands for what its argument gives."""
    if not isinstance(work, partial):
        return get_type_hints(work).get("return", Any)
    found = promised(work.func)
    if isinstance(found, TypeVar):
        return promised(next(one for one in work.args if callable(one)))
    return found


def conforms(value: object, kind: Any) -> bool:
    """Whether a value, with all that it holds, is of the type ``kind``."""
    origin, within = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(conforms(value, one) for one in within)
    if origin is tuple and within[-1] is not Ellipsis:
        return type(value) is tuple and _each(value, within)
    if origin in (tuple, list, Sequence):
        wanted = (tuple, list) if origin is Sequence else (origin,)
        return isinstance(value, wanted) and all(conforms(one, within[0]) for one in value)
    if origin in (dict, Mapping):
        return type(value) is dict and all(_each(pair, within) for pair in value.items())
    if is_typeddict(kind):
        hints = get_type_hints(kind)
        if type(value) is not dict or not kind.__required_keys__ <= value.keys() <= hints.keys():
            return False
        return all(conforms(one, hints[name]) for name, one in value.items())
    if kind is float:
        return type(value) in (float, int)
    if not is_dataclass(kind) and not _named(kind):
        return type(value) is kind
    hints = _fields(kind)
    if type(value) is not kind:
        return False
    held = value if _named(kind) else [vars(value).get(name) for name in hints]
    return (_named(kind) or vars(value).keys() == hints.keys()) and _each(held, hints.values())


def per_seed(value: object, seeds: int) -> bool:
    """Whether every list and tuple of numbers within a value has one number a seed."""
    if isinstance(value, Mapping):
        return bool(value) and all(per_seed(one, seeds) for one in value.values())
    if is_dataclass(value):
        return all(per_seed(one, seeds) for one in vars(value).values())
    if not isinstance(value, list | tuple):
        return True
    if any(isinstance(one, list | tuple | Mapping) or is_dataclass(one) for one in value):
        return all(per_seed(one, seeds) for one in value)
    return len(value) == seeds


def classes(kind: Any) -> Iterator[type]:
    """The classes that a value of this type may hold, beside Python's own."""
    for one in get_args(kind):
        yield from classes(one)
    if isinstance(kind, type) and (is_dataclass(kind) or _named(kind)):
        yield kind
        for one in _fields(kind).values():
            yield from classes(one)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        yield kind


def _each(values: Any, kinds: Any) -> bool:
    pairs = list(kinds)
    return len(values) == len(pairs) and all(map(conforms, values, pairs))


def _named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _fields(kind: Any) -> dict[str, Any]:
    names = kind._fields if _named(kind) else [f.name for f in fields(kind)]
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}
