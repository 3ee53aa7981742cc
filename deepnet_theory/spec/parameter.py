"""What one kind of parameter starts with and steps with: formulas in depth, and their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from deepnet_theory.spec.expression import DEPTH, evaluate
from deepnet_theory.spec.record import NOT_NEGATIVE
from deepnet_theory.spec.sublayer import Role

KNOBS = ("gain", "rate", "epsilon", "weight_decay")


@dataclass(frozen=True)
class ParameterConstants:
    r"""The numbers of one kind of parameter at one depth.

    ``gain`` is the initial size, on Xavier's law for a matrix, of every entry for a vector. The
    others multiply what the user chooses for a network of one depth:

    .. math:: \mathrm{lr}\cdot\mathrm{rate}, \qquad \varepsilon\cdot\mathrm{epsilon}, \qquad
              \lambda\cdot\mathrm{weight\_decay}

    ``formulas`` are those of the four in N and M, for people.
    """

    gain: Annotated[float, NOT_NEGATIVE] = 1.0
    rate: Annotated[float, NOT_NEGATIVE] = 1.0
    epsilon: Annotated[float, NOT_NEGATIVE] = 1.0
    weight_decay: Annotated[float, NOT_NEGATIVE] = 1.0
    formulas: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ParameterRule:
    """The formulas of one kind of parameter, as texts in N and M.

    ``name`` is that of the sublayer's matrix or vector, or ``norm_gain`` and ``norm_bias``.
    ``epsilon`` scales as the parameter's gradient, so that it never overtakes it, and
    ``weight_decay`` so that one step takes the same share of the weights at every depth; it is
    0 for vectors.
    """

    part: str
    sublayer: str
    name: str
    role: Role
    gain: str
    rate: str
    epsilon: str
    weight_decay: str

    def at(self, **depth: int) -> ParameterConstants:
        """The numbers at a depth; raises :class:`InputError` where one is not finite there."""
        texts = {knob: str(getattr(self, knob)) for knob in KNOBS}
        values = {knob: evaluate(DEPTH.parse(text), **depth) for knob, text in texts.items()}
        return ParameterConstants(**values, formulas=texts)
