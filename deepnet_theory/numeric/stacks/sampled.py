"""A stack as its sampled layers see it: two of them, and blocks that stand for all the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.spec.constants import PartConstants
from deepnet_theory.spec.expression import Call, Node, Operation, Power
from deepnet_theory.spec.layers import Placed
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import sublayer

SAMPLED = 2  # layers of a part: the least that have a product of two layers' changes
NEAR = 1.5  # S·r² up to which the blocks between two sampled layers are one layer each
BLOCK = 0.5  # S·r² of a block where there are more


class Group(NamedTuple):
    """One layer of the short stack: the ``copy``-th sampled one, or a block for ``layers``."""

    copy: int | None
    layers: float


@dataclass(frozen=True)
class Sampled(Case):
    r"""Two layers of each part of a case, at relative ``places`` u ≤ v, between blocks.

    The L − 2 other layers are shared out before, between and behind them as u : v − u : 1 − v, and
    m of them are one layer whose branches are :math:`\sqrt m` times as large: as many
    independent branches add up to that size. The short stack's size does not depend on the depth.
    ``index`` tells its branch weights from those of other ones, and the same ones are drawn at
    every depth.

    Where the stream grows from layer to layer, S·r² is a logarithm of the depth, which no bound
    holds; where constants are powers of the layer's index, layers differ on that scale too.
    With the ``growth`` b², what a layer adds to the squared size of the first one's stream,

    .. math:: X_l^2 = 1 + b^2 l, \qquad \tau(l) = \sum_{k<l} r_k^2 = \log(1 + b^2 l),

    places are relative in τ, not in l, and no block is larger than ``BLOCK`` in it.
    """

    places: tuple[float, float] = (1 / 3, 2 / 3)
    index: int = 0
    growth: float = 0.0

    def groups(self, layers: int) -> Iterator[Group]:
        """The layers of the short stack of a part, from the bottom to the top."""
        count = min(SAMPLED, layers)
        ends = (0.0, *self.places[:count], 1.0)
        for copy in range(count + 1):
            for low, high in self._blocks(ends[copy], ends[copy + 1], layers):
                if (others := (layers - count) * (high - low)) > 0:
                    yield Group(None, others)
            if copy < count:
                yield Group(copy, 1.0)

    def _blocks(self, start: float, end: float, layers: int) -> Iterator[tuple[float, float]]:
        """The ends of the blocks between two places, as shares of all layers."""
        count = max(1, math.ceil((end - start) * self._distance(layers) / BLOCK))
        cuts = [start + (end - start) * i / count for i in range(count + 1)]
        yield from pairwise(self._share(place, layers) for place in cuts)

    def _distance(self, layers: int) -> float:
        """τ of the whole part, 0 where the stream does not grow."""
        return math.log1p(self.growth * layers)

    def _share(self, place: float, layers: int) -> float:
        """The share of all layers that lie below a place."""
        if not self.growth:
            return place
        return math.expm1(place * self._distance(layers)) / (self.growth * layers)

    def stands_for(self, copy: int, layers: int) -> float:
        r"""How many layers a sampled one stands for where its change is summed over all of them.

        They are those of a unit of its place: :math:`dl/du = \tau(L)\,(1/b^2 + l)`.
        """
        if not self.growth:
            return float(layers)
        below = self._share(self.places[copy], layers) * layers
        return self._distance(layers) * (1 / self.growth + below)

    def layers(self, part: PartConstants) -> Sequence[Sequence[Placed]]:
        """The layers of the short stack."""
        found, below = [], 0.0
        for group in self.groups(part.layers):
            whole = self.layer(part, max(0.0, below + (group.layers - 1) / 2))
            one = group.copy is not None
            found.append([s if one else _standing_for(s, group.layers) for s in whole])
            below += group.layers
        return found

    def copy_of(self, part: PartConstants, layer: int) -> int | None:
        """Which sampled one a layer of the short stack is; None for a block."""
        return list(self.groups(part.layers))[layer].copy

    @property
    def branches(self) -> str:
        """The same draws at every depth: what differs between two depths is the depth."""
        return f"sampled layers {self.index}"


def _standing_for(placed: Placed, layers: float) -> Placed:
    """The sublayer whose branch is as large as that of so many together."""
    where, s, _ = placed
    size = math.sqrt(layers)
    weighted = where.coefficients(s.alpha)[0] != 1 and not where.normalises_sum
    # a branch that is normalised does not feel its gains; a stream weighted against its branch
    # keeps its variance where alpha says it
    if _normed(where.expression.root) or weighted:
        return placed._replace(constants=replace(s, alpha=_weaker(where, s.alpha, size)))
    last = sublayer(s.kind).scaled[-1].name
    gains = {**s.gains, last: s.gain(last) * size}
    return placed._replace(constants=replace(s, gains=gains))


def _weaker(where: Placement, alpha: float, size: float) -> float:
    """The α of a branch that is ``size`` times as large against the stream.

    What multiplies the stream over what multiplies the branch is affine in α: α itself, or α − 1.
    """
    first, second, own = (x / branch for x, branch in map(where.coefficients, (1.0, 2.0, alpha)))
    return 1 + (own / size - first) / (second - first)


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
