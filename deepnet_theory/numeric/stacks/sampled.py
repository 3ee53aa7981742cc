"""A stack as its sampled layers see it: two of them, and blocks that stand for all the others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.spec.constants import Constants, PartConstants, SublayerConstants
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.expression import Call, Node, Operation, Power
from deepnet_theory.spec.sublayer import sublayer

SAMPLED = 2  # layers of a part: the least that have a product of two layers' changes
MOST_SUBLAYERS = 12  # of a layer: constants hold 64 in a part


class Group(NamedTuple):
    """One layer of the short stack: the ``copy``-th sampled one, or a block for ``layers``."""

    copy: int | None
    layers: float


@dataclass(frozen=True)
class Sampled(Case):
    r"""Two layers of each part of a case, at relative ``places`` u ≤ v, between blocks.

    The L − 2 other layers are shared out before, between and behind them as u : v − u : 1 − v, and
    m of them are one layer whose branches are :math:`\sqrt m` times as large: as many
    independent branches add up to that size. The short stack is a part of one layer, whose
    sublayers are those of the groups; its size does not depend on the depth. ``index`` tells
    its branch weights from those of other ones, and the same ones are drawn at every depth.
    """

    places: tuple[float, float] = (1 / 3, 2 / 3)
    index: int = 0

    def groups(self, layers: int) -> Iterator[Group]:
        """The layers of the short stack of a part, from the bottom to the top."""
        count = min(SAMPLED, layers)
        ends = (0.0, *self.places[:count], 1.0)
        for copy in range(count + 1):
            if (others := (layers - count) * (ends[copy + 1] - ends[copy])) > 0:
                yield Group(None, others)
            if copy < count:
                yield Group(copy, 1.0)

    @cached_property
    def whole(self) -> Constants:
        """The constants of the stack itself."""
        return super().constants

    @property
    def constants(self) -> Constants:
        """The constants of the short stack."""
        whole = self.whole
        return replace(whole, parts=tuple(self._short(part) for part in whole.parts))

    def _short(self, part: PartConstants) -> PartConstants:
        if len(part.sublayers) > MOST_SUBLAYERS:
            raise Refusal(
                f"a prediction takes layers of at most {MOST_SUBLAYERS} sublayers, and the "
                f"{part.name}'s has {len(part.sublayers)}"
            )
        normed = _normed(self.selection.the_placement.expression.root)
        sublayers = (
            s if group.copy is not None else _standing_for(s, group.layers, normed)
            for group in self.groups(part.layers)
            for s in part.sublayers
        )
        return replace(part, layers=1, sublayers=tuple(sublayers))

    def copy_of(self, part: str, position: int) -> int | None:
        """Which sampled layer a sublayer of the short stack belongs to; None for a block's."""
        own = next(p for p in self.whole.parts if p.name == part)
        return list(self.groups(own.layers))[position // len(own.sublayers)].copy

    @property
    def branches(self) -> str:
        """The same draws at every depth: what differs between two depths is the depth."""
        return f"sampled layers {self.index}"


def _standing_for(s: SublayerConstants, layers: float, normed: bool) -> SublayerConstants:
    """The sublayer whose branch is as large as that of so many together."""
    size = math.sqrt(layers)
    if normed:  # of which the gains of the branch tell nothing
        return replace(s, alpha=s.alpha / size)
    last = sublayer(s.kind).scaled[-1].name
    return replace(s, gains={**s.gains, last: s.gain(last) * size})


def _normed(node: Node) -> bool:
    """Whether a placement's equation normalises the branch alone."""
    match node:
        case Call("norm", (Call("branch", _),)):
            return True
        case Call(_, arguments):
            return any(map(_normed, arguments))
        case Operation(_, left, right):
            return _normed(left) or _normed(right)
        case Power(base, _):
            return _normed(base)
    return False
