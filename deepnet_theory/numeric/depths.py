"""Depth lists: ``8,16,32``, a geometric range ``8:1000``, and ``8x6,16x6`` for two parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.errors import shown as written
from deepnet_theory.spec.stack import MAX_LAYERS, Stack

Depth = dict[str, int]
MOST_WIDTH = 2**20
FEWEST = 3  # widths that show whether a line is one
_T = TypeVar("_T")


def parse_depths(depths: str | Iterable[object], stack: Stack) -> tuple[Depth, ...]:
    """The depths of a text or of a sequence, sorted, without repetition.

    An item is a number of layers, or a pair ``NxM``, tuple or mapping where the stack has two
    parts; ``a:b`` are depths in equal ratios close to 2. Raises :class:`InputError`.
    """
    whole = written(depths) if isinstance(depths, str) else None
    try:
        items: list[object] = list(depths.split(",") if isinstance(depths, str) else depths)
    except TypeError:
        raise InputError(f"the depths {written(depths)} are not a list") from None
    found: set[tuple[int, ...]] = set()
    shown = whole or "[]"
    try:
        if not items:
            raise ValueError("it is empty")
        for item in items:
            shown = whole or written(item)
            found.update(_item(item, stack))
    except ValueError as why:
        form = (
            "pairs such as 8x6,16x6 (encoder x decoder layers)"
            if len(stack.parts) > 1
            else "whole numbers of layers from 1, such as 8,16,32 or 8:1000"
        )
        raise InputError(f"the depths {shown} cannot be read: {why}; valid are {form}") from None
    return tuple(dict(zip(stack.depths, d, strict=True)) for d in sorted(found))


def parse_widths(widths: str | Iterable[object], fewest: int = FEWEST) -> tuple[int, ...]:
    """The widths of a text, ``64,128`` or ``64:1024``, each twice the one before, or of a sequence.

    Sorted, once each. Raises :class:`InputError` for anything else, and for less than ``fewest``.
    """
    found: set[int] = set()
    try:
        for item in widths.split(",") if isinstance(widths, str) else widths:
            first, _, last = str(item).partition(":")
            width, end = _width(first), _width(last or first)
            while width <= end:
                found.add(width)
                width *= 2
    except (TypeError, ValueError):
        found.clear()
    if not found:
        raise InputError(
            f"the widths {written(widths)} cannot be read: valid are whole numbers from 2 to "
            f"{MOST_WIDTH}, such as 64,128,256 or 64:1024"
        )
    if len(found) < fewest:
        raise InputError(
            f"the widths {written(widths)} give no exponent: {fewest} or more are needed"
        )
    return tuple(sorted(found))


def _width(word: str) -> int:
    word = word.strip()
    if not (word.isascii() and word.isdigit() and 2 <= int(word[:9]) <= MOST_WIDTH):
        raise ValueError(word)
    return int(word[:9])


def depth_key(depth: Mapping[str, int]) -> str:
    """A depth as text, ``8`` or ``8x6``: the key of its measurements."""
    return "x".join(str(n) for n in depth.values())


def by_depth(rows: Mapping[str, _T]) -> dict[str, _T]:
    """Rows kept under :func:`depth_key`, in the order of the depths as numbers."""
    return dict(sorted(rows.items(), key=lambda row: tuple(map(int, row[0].split("x")))))


def default_depths(stack: Stack) -> str:
    if len(stack.parts) == 1:
        return "8,16,32,64,128"
    return "8x8,16x8,32x8,64x8,8x16,8x32,8x64"


def wanted_depths(depths: str | Iterable[object] | None, stack: Stack) -> tuple[Depth, ...]:
    return parse_depths(default_depths(stack) if depths is None else depths, stack)


def _item(item: object, stack: Stack) -> list[tuple[int, ...]]:
    """The depths of one item; raises ValueError that says what is wrong with it."""
    numbers: list[object] = [item]
    if isinstance(item, str):
        text = item.strip()
        if len(stack.parts) == 1 and ":" in text:
            first, _, last = text.partition(":")
            return _geometric(_layers(first), _layers(last))
        numbers = list(text.split("x"))
    elif isinstance(item, Mapping):
        if set(item) != set(stack.depths):
            raise ValueError(f"a depth has {' and '.join(stack.depths)}")
        numbers = [item[symbol] for symbol in stack.depths]
    elif isinstance(item, (tuple, list)):
        numbers = list(item)
    if len(numbers) != (parts := len(stack.parts)):
        raise ValueError(f"a depth of this stack is {parts} number{'s' * (parts > 1)}")
    return [tuple(map(_layers, numbers))]


def _layers(number: object) -> int:
    value: object = number
    if isinstance(number, str):
        number = number.strip()
        if not number:
            raise ValueError("a depth is missing")
        value = int(number[:20]) if number.isascii() and number.isdigit() else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{written(number)} is not a positive whole number")
    if not 1 <= value <= MAX_LAYERS:
        raise ValueError(f"{written(value)} is not from 1 to {MAX_LAYERS}")
    return value


def _geometric(first: int, last: int) -> list[tuple[int, ...]]:
    if last <= first:
        raise ValueError(f"the range from {first} to {last} does not rise")
    steps = max(1, round(math.log2(last / first)))
    ratio = (last / first) ** (1 / steps)
    return [*((round(first * ratio**i),) for i in range(steps)), (last,)]
