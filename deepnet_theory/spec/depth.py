"""A depth such as ``200`` or ``18,6``: the number of layers of each part of a stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.stack import Stack

MAX_LAYERS = 10**6

DepthLike = int | str | Sequence[int] | Mapping[str, int]
BaseLike = int | tuple[int | None, DepthLike | None]  # a width, or a width and a depth


def parse_depth(depth: DepthLike | None, stack: Stack) -> dict[str, int]:
    """The number of layers of each part, by depth symbol, in the stack's order.

    ``depth`` is a number, ``"N,M"``, a sequence in that order, or a mapping by symbol. Raises
    :class:`InputError` for anything that is not one whole positive number a part.
    """
    symbols = stack.depths
    if isinstance(depth, Mapping):
        if set(depth) != set(symbols):
            raise _refuse(dict(depth), symbols)
        words: list[object] = [depth[symbol] for symbol in symbols]
    elif isinstance(depth, str):
        words = [word.strip() for word in depth.split(",")]
    elif isinstance(depth, Sequence):
        words = list(depth)
    else:
        words = [depth]
    layers = [_layers(word) for word in words]
    if len(layers) != len(symbols) or None in layers:
        raise _refuse(depth, symbols)
    return {symbol: n for symbol, n in zip(symbols, layers, strict=True) if n is not None}


def _layers(word: object) -> int | None:
    if isinstance(word, str):
        if not (word.isascii() and word.isdigit() and len(word) <= 9):
            return None
        word = int(word)
    if isinstance(word, bool) or not isinstance(word, int) or not 1 <= word <= MAX_LAYERS:
        return None
    return word


def _refuse(depth: object, symbols: tuple[str, ...]) -> InputError:
    example = "200" if len(symbols) == 1 else "18,6"
    return InputError(
        f"the depth {shown(depth)} is not valid: give {','.join(symbols)} as whole numbers of "
        f"layers from 1 to {MAX_LAYERS}, for example {example}"
    )
