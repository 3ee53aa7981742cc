"""What a measurement is of: the rule of a selection at one depth, in given sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.constants import Architecture, Constants, PartConstants
from deepnet_theory.spec.layers import Placed
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.scheme import Scheme, SchemePart
from deepnet_theory.spec.selection import Selection

VOCAB = 256  # bytes


@dataclass(frozen=True)
class Case:
    """The stack of ``selection`` under ``rule`` at one ``depth``, on what ``settings`` say.

    A published ``scheme`` stands in place of the rule: each layer has the equation and the numbers
    that it gives there.
    """

    selection: Selection
    rule: Rule
    depth: Depth
    settings: Settings
    scheme: Scheme | None = field(default=None, kw_only=True)

    @property
    def constants(self) -> Constants:
        """The constants of the stack, in the settings' sizes.

        Raises :class:`~deepnet_theory.spec.errors.InputError` where the rule has no positive,
        finite value, or says nothing of a sublayer.
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
        if scheme.gate is not None:
            sizes = replace(sizes, residual_gain=scheme.value(scheme.gate, **self.depth))
        alike = Rule(scheme.name, tuple(RuleEntry(p.name, "*", "1", "1") for p in scheme.parts))
        found = Constants.of(self.selection, alike, self.depth, sizes)
        rates = {role: scheme.value(text, **self.depth) for role, text in scheme.rates.items()}
        return replace(found, parts=tuple(replace(p, multipliers=rates) for p in found.parts))

    def layer(self, part: PartConstants, index: float) -> Sequence[Placed]:
        """The sublayers of one layer of a part, counted from 0; of a block of them, its middle."""
        if self.scheme is None:
            return [Placed(self.equation, s) for s in part.sublayers]
        return self.scheme.layer_at(self._of_scheme(part.name), index + 1, **self.depth)

    def layers(self, part: PartConstants) -> Sequence[Sequence[Placed]]:
        """The layers that the stack has in a part, from the bottom to the top."""
        return [self.layer(part, index) for index in range(part.layers)]

    def input_size(self, part: str) -> float:
        """The size of what enters a part."""
        if self.scheme is None:
            return 1.0
        return self.scheme.value(self._of_scheme(part).embedding, **self.depth)

    def _of_scheme(self, part: str) -> SchemePart:
        assert self.scheme is not None
        return next(p for p in self.scheme.parts if p.name == part)

    @property
    def equation(self) -> Placement:
        """The residual equation, of all layers but the first ones of a scheme that differ."""
        return self.selection.the_placement if self.scheme is None else self.scheme.placement

    @property
    def select(self) -> dict[str, object]:
        """What was selected, as plain data; a scheme's placement has a name, or is its equation."""
        found = self.selection.to_dict()
        if self.scheme is None:
            return found
        placement = self.scheme.named_placement or self.scheme.equation
        return {**found, "placement": placement, "scheme": self.scheme.name}

    @property
    def alike(self) -> bool:
        """Whether layers have one equation, and m of them are one of √m times the branch.

        No law of such a block is known where the stream is multiplied and neither a norm nor the
        branch's own weight takes it back.
        """
        if self.scheme is None:
            return True
        x, branch = self.equation.coefficients(2.0)
        kept = x == 1 or math.isclose(x * x + branch * branch, 1)  # the stream, or its variance
        return self.scheme.first is None and (kept or self.equation.normalises_sum)

    @property
    def indexed(self) -> bool:
        """Whether the numbers of a layer depend on where it stands."""
        return self.scheme is not None and any(part.indexed for part in self.scheme.parts)

    @property
    def eta_factor(self) -> float:
        """What the rule multiplies the learning rate by at this depth."""
        return self.rule.eta_at(**self.depth)

    @property
    def branches(self) -> str:
        """What the generator of the branch weights is called: they are drawn for one depth."""
        return f"branches {depth_key(self.depth)}"
