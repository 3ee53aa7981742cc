"""What a measurement is of: the rule of a selection at one depth, in given sizes."""

from __future__ import annotations

from dataclasses import dataclass

from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.constants import Architecture, Constants
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection

VOCAB = 256  # bytes


@dataclass(frozen=True)
class Case:
    """The stack of ``selection`` under ``rule`` at one ``depth``, on what ``settings`` say."""

    selection: Selection
    rule: Rule
    depth: Depth
    settings: Settings

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
        return Constants.of(self.selection, self.rule, self.depth, sizes)

    @property
    def eta_factor(self) -> float:
        """What the rule multiplies the learning rate by at this depth."""
        return self.rule.eta_at(**self.depth)

    @property
    def branches(self) -> str:
        """What the generator of the branch weights is called: they are drawn for one depth."""
        return f"branches {depth_key(self.depth)}"
