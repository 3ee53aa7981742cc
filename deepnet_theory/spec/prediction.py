"""What measurement receives from derivation: exponents, as numbers, and nothing symbolic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from deepnet_theory.spec.assumption import Assumption


@dataclass(frozen=True)
class Prediction:
    r"""The predicted exponent :math:`d\log\|\Delta F\| / d\log N` of the model update.

    ``variable`` is ``N`` or ``M`` (the other depth held fixed), ``share`` is ``all``, a part's
    name or a kind of parameter. ``rivals`` are the exponents that other optimizers' rules
    would have, by name: a measurement must tell them apart where they differ. ``None`` for
    the exponent means that the theory makes no prediction.
    """

    variable: str
    share: str
    exponent: Fraction | None
    rivals: tuple[tuple[str, Fraction], ...] = ()


@dataclass(frozen=True)
class Predictions:
    """All exponents of one rule under one optimizer, and the premises they rest on."""

    exponents: tuple[Prediction, ...]
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()
