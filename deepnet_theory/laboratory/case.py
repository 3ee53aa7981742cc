"""What a measurement is of: a rule at one depth, as its whole stack or as sampled layers see it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from deepnet_theory.definitions.constants import Architecture, Constants, PartConstants, Placed
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.scheme import Scheme, SchemePart
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import sublayer
from deepnet_theory.laboratory.settings import Depth, Settings, depth_key

VOCAB = 256  # bytes


@dataclass(frozen=True)
class Case:
    """The stack of ``selection`` under ``rule`` at one ``depth``, on what ``settings`` say.

    A published ``scheme`` stands in place of the rule, with each layer's own equation and numbers.
    """

    selection: Selection
    rule: Rule
    depth: Depth
    settings: Settings
    scheme: Scheme | None = field(default=None, kw_only=True)

    @cached_property
    def constants(self) -> Constants:
        """The constants of the stack, in the settings' sizes.

        Raises :class:`~deepnet_theory.definitions.outcome.InputError` where the rule has no
        positive, finite value, or says nothing of a sublayer.
        """
        sizes = Architecture(
            width=self.settings.width,
            heads=self.settings.heads,
            ffn_ratio=self.settings.ffn_ratio,
            vocab=VOCAB,
            activation=self.settings.activation,
        )
        scheme = self.scheme
        if scheme is None:
            return Constants.of(self.selection, self.rule, self.depth, sizes)
        alike = Rule(scheme.name, tuple(RuleEntry(p.name, "*", "1", "1") for p in scheme.parts))
        constants = Constants.of(self.selection, alike, self.depth, sizes)
        rates = {role: scheme.value(text, **self.depth) for role, text in scheme.rates.items()}
        parts = (replace(p, multipliers=rates) for p in constants.parts)
        return replace(constants, parts=tuple(parts))

    def layer(self, part: PartConstants, index: float) -> Sequence[Placed]:
        """The sublayers of one layer of a part, from 0; of a block of them, its middle."""
        if self.scheme is None:
            return [Placed(self.selection.the_placement, s) for s in part.sublayers]
        return self.scheme.layer_at(self._of_scheme(part.name), index + 1, **self.depth)

    def layers(self, part: PartConstants) -> Sequence[Sequence[Placed]]:
        """The layers of a part that have parameters of their own, from the bottom to the top."""
        return [self.layer(part, index) for index in range(part.layers)]

    def input_size(self, part: str) -> float:
        if self.scheme is None:
            return 1.0
        return self.scheme.value(self._of_scheme(part).embedding, **self.depth)

    def _of_scheme(self, part: str) -> SchemePart:
        assert self.scheme is not None
        return next(p for p in self.scheme.parts if p.name == part)

    @property
    def normalises(self) -> bool:
        """Whether a norm stands on the stream in every layer."""
        if self.scheme is not None:
            return self.scheme.placement.normalises_sum
        return self.selection.the_placement.normalises_sum

    @property
    def select(self) -> dict[str, object]:
        """What was selected, as plain data; a scheme's placement has a name, or is its equation."""
        select = self.selection.to_dict()
        if self.scheme is None:
            return select
        placement = self.scheme.named_placement or self.scheme.equation
        return {**select, "placement": placement, "scheme": self.scheme.name}

    @property
    def alike(self) -> bool:
        """Whether layers have one equation and the same sublayers: m of them are one, √m as large.

        No law of such a block is known where the stream is multiplied and neither a norm nor the
        branch's own weight takes it back, or where a layer depends on its index.
        """
        if self.scheme is None:
            return True
        x, branch = self.scheme.placement.coefficients(2.0)
        kept = x == 1 or math.isclose(x * x + branch * branch, 1)  # the stream, or its variance
        indexed = any(part.indexed for part in self.scheme.parts)
        return not indexed and (kept or self.normalises)

    @property
    def eta_factor(self) -> float:
        return self.rule.eta_at(**self.depth)

    @property
    def branches(self) -> str:
        """What the generator of the branch weights is called: they are drawn for one depth."""
        return f"branches {depth_key(self.depth)}"


SAMPLED = 2  # layers of a part: the least that have a product of two layers' changes
# A layer by itself is 7 % short of post-LN under SGD at 8 layers, where S·r² is 1/4, and a quarter
# short of sandwich-LN, where it is 1: the blocks take that in to first order in S·r².
NEAR = 1.5  # up to this S·r² a block between two sampled layers is one layer


class Group(NamedTuple):
    """One layer of the short stack: the ``copy``-th sampled one, or a block for ``layers``."""

    copy: int | None
    layers: float


@dataclass(frozen=True)
class Sampled(Case):
    r"""Two layers of each part of a case, at relative ``places`` u ≤ v, between blocks.

    The L − 2 others are shared out as u : v − u : 1 − v, and m of them are one layer with branches
    :math:`\sqrt m` times as large, as independent branches add up to: the size does not depend on
    the depth. ``index`` tells draws of branch weights apart; the same ones are drawn at every
    depth.
    """

    places: tuple[float, float] = (1 / 3, 2 / 3)
    index: int = 0

    def groups(self, layers: int) -> Iterator[Group]:
        count = min(SAMPLED, layers)
        ends = (0.0, *self.places[:count], 1.0)
        for copy in range(count + 1):
            if (others := (layers - count) * (ends[copy + 1] - ends[copy])) > 0:
                yield Group(None, others)
            if copy < count:
                yield Group(copy, 1.0)

    def layers(self, part: PartConstants) -> Sequence[Sequence[Placed]]:
        layers, below = [], 0.0
        for group in self.groups(part.layers):
            whole = self.layer(part, max(0.0, below + (group.layers - 1) / 2))
            if group.copy is None:
                whole = [_standing_for(s, group.layers) for s in whole]
            layers.append(whole)
            below += group.layers
        return layers

    def copy_of(self, part: PartConstants, layer: int) -> int | None:
        return list(self.groups(part.layers))[layer].copy

    @property
    def branches(self) -> str:
        """The same draws at every depth: what differs between two depths is the depth."""
        return f"sampled layers {self.index}"


def _standing_for(placed: Placed, layers: float) -> Placed:
    """The sublayer whose branch is as large as that of several together."""
    where, s = placed
    size = math.sqrt(layers)
    weighted = where.coefficients(s.alpha)[0] != 1 and not where.normalises_sum
    # a branch that is normalised does not feel its gains; a stream weighted against its branch
    # keeps its variance where alpha says it
    if "output" in where.norms or weighted:
        return placed._replace(constants=replace(s, alpha=_weaker(where, s.alpha, size)))
    last = sublayer(s.kind).scaled[-1].name
    gains = {**s.gains, last: s.gain(last) * size}
    return placed._replace(constants=replace(s, gains=gains))


def _weaker(where: Placement, alpha: float, size: float) -> float:
    """The α of a branch that is ``size`` times as large against the stream.

    What multiplies the stream over what multiplies the branch is affine in α: α itself, or α − 1.
    """
    first, second, its = (x / branch for x, branch in map(where.coefficients, (1.0, 2.0, alpha)))
    return 1 + (its / size - first) / (second - first)
