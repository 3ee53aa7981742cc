"""What the user asked for: the SELECT of the command line, resolved into values.

A stack has parts of N or M layers, each layer a group of residual sublayers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

from deepnet_theory.definitions.discovery import choose
from deepnet_theory.definitions.optimizer import Optimizer, custom_optimizer, optimizer
from deepnet_theory.definitions.outcome import InputError, shown, unknown
from deepnet_theory.definitions.placement import Placement, placement
from deepnet_theory.definitions.record import Option, require, require_valid
from deepnet_theory.definitions.rule import CLOSURES, PUBLISHED, Closure
from deepnet_theory.definitions.sublayer import Norm, Sublayer, norm, sublayer

METHODS = ("probe", "lemma")
ACROSS = ("width", "both")  # dimensions beside the depth alone
# what grows within a model of one width, and its symbol
SHAPES = {"heads": "h", "head-size": "k", "kv-heads": "G", "ffn": "m", "vocab": "V"}
SHAPES |= {"experts": "E", "top-k": "K", "rank": "r"}
ALIGNMENTS = ("full", "none")  # of updates and moved features with what they meet
GRADIENT_NOISE = ("dominant", "none")  # of a batch's gradient beside its mean
RANKS = ("low", "full")  # of a gradient: of fewer tokens than the width, or of as many
_NAMES = ("optimizer", "placement", "norm", "stack", "layer", "method", "closure", "rank")


@dataclass(frozen=True, eq=False)
class Selection:
    """The optimizer (by name or by update expression), placement, norm, stack, method, closure.

    ``closure=None`` asks for the rule recommended for training, ``"published"`` for the one that
    the source of the method would take. ``rank`` is that of a matrix's gradient in width: ``low``
    for fewer tokens than the width, ``full`` for as many. Two are equal where their names are and
    stand for the same: a folder of values may change.
    """

    optimizer: Annotated[
        str | None,
        Option("NAME", "Optimizer; see `deepnet-theory list optimizers`", folder="optimizers"),
    ] = None
    update: Annotated[
        str | None, Option("EXPR", "Or your own first update, in eta, g and theta")
    ] = None
    placement: Annotated[
        str, Option("NAME", "post-ln, pre-ln, res-post-ln or sandwich-ln", folder="placements")
    ] = "post-ln"
    norm: Annotated[str, Option("NAME", "layer or rms", folder="norms")] = "layer"
    stack: Annotated[str, Option("NAME", "encoder, decoder or encoder-decoder", STACKS)] = "encoder"
    layer: Annotated[
        str | None,
        Option(
            "SPEC",
            'Your own layer, e.g. "attention,ffn:swiglu"; in parallel "attention+ffn"; with 2 of 8 '
            'experts "attention,ffn@2/8"; of both parts '
            '"attention,ffn;attention,cross,ffn"',
        ),
    ] = None
    method: Annotated[str, Option("NAME", "probe or lemma", METHODS)] = "probe"
    closure: Annotated[
        str | None,
        Option(
            "NAME",
            "The closure, or published for the source's; the recommended one if not given",
            folder="closures",
        ),
    ] = None
    rank: Annotated[
        str, Option("NAME", "Of gradients in width: low (few tokens a batch) or full", RANKS)
    ] = "low"

    def __post_init__(self) -> None:
        require(self, Selection, "the selection")
        for name in _NAMES:  # kept in one case, the one that is compared everywhere
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, value.lower())
        if (self.optimizer is None) == (self.update is None):
            raise InputError(
                "give exactly one of optimizer, a name such as adam, and update, an expression "
                "such as -eta*g"
            )
        if self.method == "moments":
            raise InputError(
                "the moment route is no method of derive: the claims of the layer cake derive it "
                "(deepnet-theory check cake-update-bound cake-ffn-moment); valid methods are "
                f"{' and '.join(METHODS)}"
            )
        require_valid(self)
        _ = self._known  # each is refused here where it is none

    @cached_property
    def the_optimizer(self) -> Optimizer:
        if self.optimizer is not None:
            return optimizer(self.optimizer)
        assert self.update is not None
        return custom_optimizer(self.update)

    @cached_property
    def the_placement(self) -> Placement:
        return placement(self.placement)

    @cached_property
    def the_norm(self) -> Norm:
        return norm(self.norm)

    @cached_property
    def the_stack(self) -> Stack:
        return stack(self.stack, self.layer)

    @cached_property
    def the_closure(self) -> Closure | None:
        """The closure that is named; None for the recommended one, and for the source's."""
        known = {**CLOSURES, PUBLISHED: None}
        return None if self.closure is None else choose("closure", self.closure, known)

    def has_one_alpha(self, part: Part) -> bool:
        """Whether all sublayers of a part share α, as the branches of one normalised sum do."""
        return self.the_placement.normalises_sum and any(part.parallel)

    @property
    def _known(self) -> tuple[object, ...]:
        """Its names, and what they stand for."""
        values = self.the_optimizer, self.the_placement, self.the_norm
        return (*astuple(self), *values, self.the_stack, self.the_closure)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self._known == other._known

    def __hash__(self) -> int:
        return hash(self._known)

    def to_dict(self) -> dict[str, object]:
        """The selection as plain data, for JSON."""
        return {k: v for k, v in asdict(self).items() if v not in (None, "low")}


# ---- stacks, and their depths ----


@dataclass(frozen=True)
class Part:
    """An encoder or a decoder: ``depth`` is the symbol of its number of layers."""

    name: str
    depth: str
    layer: tuple[Sublayer, ...]
    causal: bool
    parallel: tuple[bool, ...]  # of each sublayer: its branch joins the sum of the one before it

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

    @property
    def crossings(self) -> int:
        """Cross-attentions a layer."""
        return sum(s.reads_memory for s in self.layer)


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


PLAIN_LAYER = "attention,ffn"
_PARTS: dict[str, tuple[tuple[str, str, str, bool], ...]] = {
    "encoder": (("encoder", "N", PLAIN_LAYER, False),),
    "decoder": (("decoder", "M", PLAIN_LAYER, True),),
    "encoder-decoder": (
        ("encoder", "N", PLAIN_LAYER, False),
        ("decoder", "M", "attention,cross,ffn", True),
    ),
}


STACKS = tuple(_PARTS)


def parse_layer(text: str) -> tuple[tuple[Sublayer, ...], tuple[bool, ...]]:
    """A layer from its description, and which branches join the sum of the one before.

    ``"attention,ffn:swiglu"`` are two residual sums, ``"attention+ffn"`` is one of two branches,
    which have no order.
    """
    sums = [[name.strip() for name in one.split("+")] for one in text.split(",")]
    if not all(name for names in sums for name in names):
        raise InputError(f"the layer {text!r} is empty or has an empty sublayer")
    parallel = tuple(place > 0 for names in sums for place in range(len(names)))
    by_name = (sorted(map(sublayer, names), key=lambda s: s.name) for names in sums)
    return tuple(s for branches in by_name for s in branches), parallel


def described_layer(names: Iterable[tuple[str, bool]], between: str = ", ") -> str:
    """A layer as it is written, by the name of each sublayer and whether it is parallel."""
    text = "".join(("+" if parallel else between) + name for name, parallel in names)
    return text.removeprefix(between)


def stack(name: str, layer: str | None = None) -> Stack:
    """The stack called ``name``; ``layer`` replaces the layer of its last part.

    ``"attention,ffn:swiglu;attention,cross,ffn"`` replaces those of both parts. Cross-attention
    needs a part to attend to, so it may stand only in the decoder of an encoder–decoder stack; a
    layer with cross-attention asks for that stack.
    """
    if name not in STACKS:
        raise unknown("stack", name, STACKS)
    given = () if layer is None else layer.split(";")
    if len(given) > len(_PARTS[name]):
        raise InputError(f"{layer!r} says the layers of {len(given)} parts, which {name!r} lacks")
    defaults = [default for _, _, default, _ in _PARTS[name]]
    texts = [*defaults[: len(defaults) - len(given)], *given]
    parts = []
    for index, (part, depth, _, causal) in enumerate(_PARTS[name]):
        chosen, parallel = parse_layer(texts[index])
        new = Part(part, depth, chosen, causal, parallel)
        if new.crossings and index == 0:
            raise InputError(
                f"the layer {layer!r} has cross-attention, which the {part} "
                "has nothing to attend with; the decoder of 'encoder-decoder' has"
            )
        parts.append(new)
    return Stack(name, tuple(parts))


# ------------------------------------------------------------------------------------------ depths


MAX_LAYERS = 10**6

DepthLike = int | str | Sequence[int] | Mapping[str, int]
# a width, (width, depth), or with other shapes (width, depth, {"experts": 8})
BaseLike = int | tuple[int | None, DepthLike | None] | tuple[Any, Any, Mapping[str, int | str]]


def parse_depth(depth: DepthLike | None, stack: Stack) -> dict[str, int]:
    """The number of layers of each part, by depth symbol, in the stack's order.

    ``depth`` is a number, ``"N,M"``, a sequence in that order, or a mapping by symbol. Raises
    :class:`InputError` for anything that is not one whole positive number a part.
    """
    symbols = stack.depths
    words: list[object] = [depth]
    if isinstance(depth, Mapping):
        words = [depth[s] for s in symbols] if set(depth) == set(symbols) else []
    elif isinstance(depth, str):
        words = [word.strip() for word in depth.split(",")]
    elif isinstance(depth, Sequence):
        words = list(depth)
    is_count = re.compile("[0-9]{1,9}").fullmatch
    words = [int(word) if isinstance(word, str) and is_count(word) else word for word in words]
    layers = [n for n in words if type(n) is int and 1 <= n <= MAX_LAYERS]
    if len(layers) != len(symbols) or layers != words:
        example = "200" if len(symbols) == 1 else "18,6"
        given = dict(depth) if isinstance(depth, Mapping) else depth
        raise InputError(
            f"the depth {shown(given)} is not valid: give {','.join(symbols)} as whole numbers of "
            f"layers from 1 to {MAX_LAYERS}, for example {example}"
        )
    return dict(zip(symbols, layers, strict=True))
