"""Stacks: parts of N or M layers, each layer a group of residual sublayers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.sublayer import Sublayer, sublayer


@dataclass(frozen=True)
class Part:
    """An encoder or a decoder: ``depth`` is the symbol of its number of layers.

    ``uses`` says how many times each of its layers is used, in that symbol: ``"1"``, ``"N"`` for
    one layer in all places, ``"N/6"`` for a block of six that is looped, ``"4"`` for four loops.
    """

    name: str
    depth: str
    layer: tuple[Sublayer, ...]
    causal: bool
    parallel: tuple[bool, ...]  # of each sublayer: its branch joins the sum of the one before it
    uses: str = "1"

    @property
    def sublayers_per_layer(self) -> int:
        return len(self.layer)

    @property
    def sums(self) -> tuple[int, ...]:
        """How many branches each residual sum of one layer has."""
        starts = [i for i, joins in enumerate(self.parallel) if not joins] + [len(self.layer)]
        return tuple(end - start for start, end in pairwise(starts))

    @property
    def described(self) -> str:
        """The layer in words: its sublayers, a plus between the branches of one sum."""
        names = (s.name for s in self.layer)
        return described_layer(zip(names, self.parallel, strict=True))

    def distinct(self, layers: int) -> int:
        """How many layers have parameters of their own; :class:`InputError` where none fit."""
        times, _, block = self.uses.partition("/")
        own = int(block or 1) if times == self.depth else layers // int(times)
        if not own or layers % own or (times != self.depth and own * int(times) != layers):
            raise InputError(
                f"{layers} layers of the {self.name} cannot be layers that are used {self.uses} "
                "times each"
            )
        return own

    @property
    def squares(self) -> str:
        """How S·r² is written, S·n·r² where n_u uses of one layer add alike."""
        return "S*r^2" if self.uses == "1" else "S*n_u*r^2"

    @property
    def crossings(self) -> int:
        return sum(sublayer.reads_memory for sublayer in self.layer)


@dataclass(frozen=True)
class Stack:
    """A whole model body; with two parts the second attends to the first."""

    name: str
    parts: tuple[Part, ...]

    @property
    def depths(self) -> tuple[str, ...]:
        """The depth symbols, in the order of a depth ``N,M``."""
        return tuple(part.depth for part in self.parts)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """The sublayers of all parts, each once."""
        return tuple(dict.fromkeys(s for part in self.parts for s in part.layer))


_PARTS: dict[str, tuple[tuple[str, str, str, bool], ...]] = {
    "encoder": (("encoder", "N", "attention,ffn", False),),
    "decoder": (("decoder", "M", "attention,ffn", True),),
    "encoder-decoder": (
        ("encoder", "N", "attention,ffn", False),
        ("decoder", "M", "attention,cross,ffn", True),
    ),
}


STACKS = tuple(_PARTS)
USES = r"[1-9]\d{0,5}|[NM](/[1-9]\d{0,5})?"


def parse_layer(text: str) -> tuple[tuple[Sublayer, ...], tuple[bool, ...]]:
    """A layer from its description, and which branches join the sum of the one before.

    ``"attention,ffn:swiglu"`` are two residual sums, ``"attention+ffn"`` is one of two branches,
    which have no order.
    """
    sums = [[name.strip() for name in names.split("+")] for names in text.split(",")]
    if not all(name for names in sums for name in names):
        raise InputError(f"the layer {text!r} is empty or has an empty sublayer")
    parallel = tuple(place > 0 for names in sums for place in range(len(names)))
    by_name = (sorted(map(sublayer, names), key=lambda s: s.name) for names in sums)
    return tuple(s for branches in by_name for s in branches), parallel


def described_layer(of: Iterable[tuple[str, bool]], between: str = ", ") -> str:
    """A layer as it is written, by the name of each sublayer and whether it is parallel."""
    text = "".join(("+" if parallel else between) + name for name, parallel in of)
    return text.removeprefix(between)


def stack(name: str, layer: str | None = None, uses: str = "1") -> Stack:
    """The stack called ``name``; ``layer`` replaces the layer of its last part.

    In ``uses`` N or M is the number of layers of the part at hand, in each part its own.
    Cross-attention needs a part to attend to, so it may stand only in the decoder of an
    encoder–decoder stack; a layer with cross-attention asks for that stack.
    """
    if name not in STACKS:
        raise unknown("stack", name, STACKS)
    if not re.fullmatch(USES, uses):
        raise InputError(
            f"the uses {shown(uses)} are no number of times that a layer is used: a number, N (one "
            "layer in all places) or N divided by the number of distinct layers, such as N/6"
        )
    parts = []
    last = len(_PARTS[name]) - 1
    for index, (part, depth, default, causal) in enumerate(_PARTS[name]):
        chosen, parallel = parse_layer(layer if layer is not None and index == last else default)
        new = Part(part, depth, chosen, causal, parallel, re.sub("[NM]", depth, uses))
        if new.crossings and len(_PARTS[name]) == 1:
            raise InputError(
                f"the layer {layer!r} has cross-attention, which the stack {name!r} "
                "has nothing to attend with; the stack 'encoder-decoder' has"
            )
        parts.append(new)
    return Stack(name, tuple(parts))
