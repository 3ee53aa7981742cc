"""Results: the public JSON of every one, and what is predicted and measured against depth."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.outcome import Verdict, exit_code_after
from deepnet_theory.definitions.record import written


class Result(Displayed):
    """What a command hands back: plain data, whose JSON is its public form.

    Of a dataclass it is the fields by their names, with the name of its ``schema``.
    """

    schema: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        return {"schema": self.schema, **written(self)}

    def to_json(self) -> str:
        """The JSON text; NaN and infinity, which JSON lacks, are written as null."""
        data = written(self.to_dict(), finite=True)
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


class Measured(Result):
    """A result with a verdict, whole or what there was when the work was ``stopped``, in words."""

    stopped: str
    verdict: Verdict

    @property
    def complete(self) -> bool:
        return not self.stopped

    @property
    def exit_code(self) -> int:
        """The verdict's, or 130 after an interruption."""
        return exit_code_after(self.stopped, self.verdict.exit_code)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        data = {**super().to_dict(), "verdict": self.verdict, "complete": self.complete}
        del data["stopped"]
        return data


class AtSeveralSizes(Measured):
    """What was measured at several depths or widths, with an exponent in each of them."""

    exponents: tuple[Exponent, ...]

    @property
    def whole(self) -> tuple[Exponent, ...]:
        """The exponents of the whole ‖ΔF‖, one a depth that varies."""
        return tuple(e for e in self.exponents if e.share == "all")

    @property
    def constant(self) -> bool:
        """Whether ‖ΔF‖ was shown to be constant in depth: another question than the verdict."""
        return self.complete and bool(self.whole) and all(e.constant for e in self.whole)

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        first = data["exponents"][0] if self.exponents else None
        return {**data, "exponent": first, "constant": self.constant}


# ------------------------------------------------------------------------------- what is predicted


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


# -------------------------------------------------------------------------------- what is measured


@dataclass(frozen=True)
class Point:
    """‖ΔF‖/η per token at one depth: mean over seeds, interval, and each seed's value.

    ``low`` and ``high`` hold the scatter of the data; those of ``predicted`` that of layers alone.
    """

    depth: dict[str, int]
    mean: float
    low: float
    high: float
    seeds: int
    values: tuple[float, ...] = ()
    finding: str = ""  # e.g. where a value became infinite or NaN
    predicted: float | None = None  # from single sublayers, in absolute size
    predicted_low: float | None = None
    predicted_high: float | None = None


@dataclass(frozen=True)
class Level:
    """‖ΔF‖ over what single sublayers predict of it, where the two are furthest apart."""

    depth: dict[str, int]
    ratio: float
    low: float
    high: float
    verdict: Verdict
    because: str = ""


@dataclass(frozen=True)
class MeasuredShare:
    """‖ΔF‖/η at the deepest depth when one kind of parameter of one part is stepped alone.

    ``ratio`` is measured over predicted, paired; None where nothing moves, as LAMB's bias of 0.
    """

    part: str
    name: str
    mean: float
    low: float
    high: float
    predicted: float
    predicted_low: float
    predicted_high: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


@dataclass(frozen=True)
class Exponent:
    """A measured log–log slope with its interval, and what was predicted."""

    variable: str = field(metadata={"json": "in"})
    share: str
    estimate: float
    low: float
    high: float
    predicted: float | None
    verdict: Verdict
    because: str = ""
    fitted_from: int | None = None  # the least depth that entered the fit
    rivals: tuple[tuple[str, float], ...] = ()  # what other optimizers' rules would have
    constant: bool = False  # shown: the interval lies within the tolerance of 0
    here: float | None = None  # the slope over the measured depths that single sublayers predict
    would_decide: str = ""  # where it is UNDECIDED, in words: "try 12 seeds"

    @property
    def growth(self) -> str:
        """What the measured quantity does with depth."""
        if self.estimate != self.estimate:
            return f"was not measured at enough depths in {self.variable}"
        exponent = _unsigned_zero(self.estimate, 2)
        if not math.isfinite(self.high - self.low):
            return f"scales as {self.variable}^{exponent}, of one seed, which gives no interval"
        interval = f"(95 %: {_unsigned_zero(self.low, 3)} to {_unsigned_zero(self.high, 3)})"
        if self.constant:
            return f"is CONSTANT in {self.variable}, exponent {exponent} {interval}"
        power = f"{self.variable}^{exponent} {interval}"
        if self.low > 0:
            return f"GROWS as {power}"
        if self.high < 0:
            return f"FALLS as {power}"
        return f"may be constant in {self.variable}: exponent {exponent} {interval}"

    @property
    def trend(self) -> str:
        if self.verdict is Verdict.SUPPORTED:
            return f"{self.growth}, as predicted"
        if self.predicted is None or self.estimate != self.estimate:
            return self.growth
        expected = f"{self.variable}^{_unsigned_zero(self.predicted, 2)}"
        return f"{self.growth}; {expected} was predicted"


def _unsigned_zero(value: float, digits: int) -> str:
    """A number to the given digits; −0.001 to two of them is 0.00, not −0.00."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


@dataclass(frozen=True)
class AssumptionResult:
    """A measured assumption."""

    name: str
    verdict: Verdict
    estimate: float | None
    low: float | None
    high: float | None
    statement: str = ""
    because: str = ""


@dataclass(frozen=True, repr=False)
class Verification(AtSeveralSizes):
    """The result of ``verify``: points, exponents, assumptions, and a verdict.

    ``points`` hold ‖ΔF‖/η per token, ``exponents`` their log–log slopes, the first with the
    verdict; ``level`` the absolute sizes against single sublayers'. ``measure``, ``device`` and
    ``versions`` say what it was measured on.
    """

    schema = "deepnet-theory/verification/1"

    select: dict[str, Any]
    measure: dict[str, Any]
    rule: dict[str, Any]
    points: tuple[Point, ...]
    exponents: tuple[Exponent, ...]
    assumptions: tuple[AssumptionResult, ...]
    verdict: Verdict
    device: str
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    checks: dict[str, Any] = field(default_factory=dict)  # linearity, real-optimizer difference …
    warnings: tuple[str, ...] = ()
    stopped: str = ""  # what ended the measuring before its end, in words
    level: Level | None = None  # absolute size, beside the exponents
    shares: tuple[MeasuredShare, ...] = ()  # of every kind of parameter, at the last point
    rows: dict[str, str] = field(default_factory=dict)  # rules by name, that measured first
    others: tuple[Verification, ...] = ()  # other parametrisations, where the width varies

    @property
    def trend(self) -> str:
        """What ‖ΔF‖ does with depth, and whether that was predicted, in words."""
        return "; ".join(e.trend for e in self.whole)


@dataclass(frozen=True)
class Share:
    """‖ΔF‖/η per token where the parameters of one name pattern move alone, at one depth."""

    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Following:
    """The first updates of the models of one depth, as far as all seeds went.

    ``losses`` are before each update and behind the last, means over seeds; the rest is as in
    :class:`~deepnet_theory.definitions.training.Run`.
    """

    depth: dict[str, int]
    losses: tuple[float, ...]
    common_mode_steps: tuple[int, ...]
    common_mode: tuple[float, ...]
    token_cosine: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class ModelMeasurement(AtSeveralSizes):
    """‖ΔF‖/η per token of a family of models at each depth, and whether it is constant.

    The ``verdict`` is that of the first exponent. ``shares`` are each name pattern's at the deepest
    point, ``updates`` what the tokens come to share after several.
    """

    schema = "deepnet-theory/model/1"

    model: str
    optimizer: str
    measure: dict[str, Any]
    points: tuple[Point, ...]
    exponents: tuple[Exponent, ...]
    shares: tuple[Share, ...]
    verdict: Verdict
    device: str
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    stopped: str = ""  # what ended the measuring before its end, in words
    updates: tuple[Following, ...] = ()

    @property
    def trend(self) -> str:
        return self.exponents[0].growth if self.exponents else "was measured at too few depths"
