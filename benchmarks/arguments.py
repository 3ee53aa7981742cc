"""Types of the benchmarks' options: a value that makes no sense is one sentence, no traceback."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from pathlib import Path

from deepnet_theory.definitions.files import require_writable
from deepnet_theory.definitions.outcome import InputError

MOST = 10**6


def whole(least: int = 1) -> Callable[[str], int]:
    """A whole number from ``least``."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 8):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number")
        if not least <= int(text) <= MOST:
            raise argparse.ArgumentTypeError(f"{text} is not from {least} to {MOST}")
        return int(text)

    return read


def wholes(text: str) -> list[int]:
    """Whole numbers from 1, separated by commas."""
    return [whole()(word.strip()) for word in text.split(",")]


def depths(text: str) -> str:
    """Depths of an encoder, as ``verify`` takes them."""
    from deepnet_theory.definitions.selection import stack
    from deepnet_theory.laboratory.settings import parse_depths

    try:
        parse_depths(text, stack("encoder"))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def rates(text: str) -> list[float]:
    """Positive numbers, separated by commas."""
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < rate < math.inf for rate in found):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a list of positive numbers")
    return found


def names(valid: Iterable[str]) -> Callable[[str], list[str]]:
    """Some of the ``valid`` names, separated by commas."""
    known = list(valid)

    def read(text: str) -> list[str]:
        for word in text.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(
                    f"unknown name {word[:40]!r}; valid are: {', '.join(known)}"
                )
        return text.split(",")

    return read


def output(text: str) -> Path:
    """A file that can be written, asked before the work."""
    try:
        require_writable(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)
