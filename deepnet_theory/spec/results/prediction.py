"""Predictions: exponents, which measurement receives from derivation, and absolute sizes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deepnet_theory.spec.assumption import Assumption
from deepnet_theory.spec.results.result import Result


@dataclass(frozen=True)
class Prediction:
    r"""The predicted exponent :math:`d\log\|\Delta F\| / d\log N` of the model update; None: none.

    ``variable`` is ``N`` or ``M``, the other held fixed; ``share`` is ``all``, a part or a kind of
    parameter. ``rivals`` are other optimizers' exponents.
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


@dataclass(frozen=True)
class Scaling:
    """How one role starts and steps as the width d grows, all as exponents of d.

    ``size`` and ``multiplier`` are W's and c's of cWx. Predicted of one update: how far it moves
    the role's ``output``, and along its gradient the ``loss``; None where nothing is.
    """

    role: str
    size: Fraction
    multiplier: Fraction
    rate: Fraction
    output: Fraction | None
    loss: Fraction | None


@dataclass(frozen=True)
class PredictedPoint:
    """‖ΔF‖/η per token at one depth from single sublayers, with a 95 % interval over whole seeds.

    ``identity`` is S·r², how far the stack is from the identity.
    """

    depth: dict[str, int]
    mean: float
    low: float
    high: float
    identity: float


@dataclass(frozen=True)
class PredictedShare:
    """‖ΔF‖/η when one kind of parameter of one part is stepped alone; the interval likewise."""

    part: str
    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class UpdatePrediction(Result):
    """‖ΔF‖/η in absolute size at every depth, and the shares of ΔF at the deepest one."""

    schema = "deepnet-theory/prediction/1"

    select: dict[str, Any]
    measure: dict[str, Any]
    rule: dict[str, Any]
    points: tuple[PredictedPoint, ...]
    shares: tuple[PredictedShare, ...]
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    def __repr__(self) -> str:
        shown = [
            f"{'x'.join(map(str, p.depth.values()))}: {p.mean:.4g} ({p.low:.4g} to {p.high:.4g})"
            for p in self.points
        ]
        return "\n  ".join(["<UpdatePrediction of ‖ΔF‖/η per token", *shown]) + ">"
