"""Stacks: parts of N or M layers, each layer a group of residual sublayers."""

from __future__ import annotations

from dataclasses import dataclass

from deepnet_theory.spec.errors import InputError, unknown
from deepnet_theory.spec.sublayer import Sublayer, sublayer


@dataclass(frozen=True)
class Part:
    """An encoder or a decoder: ``depth`` is the symbol of its number of layers."""

    name: str
    depth: str
    layer: tuple[Sublayer, ...]
    causal: bool

    @property
    def sublayers_per_layer(self) -> int:
        """How many residual sublayers one layer has."""
        return len(self.layer)

    @property
    def crossings(self) -> int:
        """How many sublayers of one layer read the memory."""
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


def stacks() -> tuple[str, ...]:
    """The names of the stacks."""
    return tuple(_PARTS)


def parse_layer(text: str) -> tuple[Sublayer, ...]:
    """A layer from its description, such as ``"attention,ffn:swiglu"``."""
    names = [name.strip() for name in text.split(",")]
    if not text.strip() or not all(names):
        raise InputError(f"the layer {text!r} is empty or has an empty sublayer")
    return tuple(sublayer(name) for name in names)


def stack(name: str, layer: str | None = None) -> Stack:
    """The stack called ``name``; ``layer`` replaces the layer of its last part.

    Cross-attention needs a part to attend to, so it may stand only in the decoder of an
    encoder–decoder stack; a layer with cross-attention asks for that stack.
    """
    if name not in stacks():
        raise unknown("stack", name, stacks())
    parts = []
    last = len(_PARTS[name]) - 1
    for index, (part, depth, default, causal) in enumerate(_PARTS[name]):
        chosen = parse_layer(layer if layer is not None and index == last else default)
        new = Part(part, depth, chosen, causal)
        if new.crossings and len(_PARTS[name]) == 1:
            raise InputError(
                f"the layer {layer!r} has cross-attention, which the stack {name!r} "
                "has nothing to attend with; the stack 'encoder-decoder' has"
            )
        parts.append(new)
    return Stack(name, tuple(parts))
