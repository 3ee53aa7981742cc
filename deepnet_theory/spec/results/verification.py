"""What was measured against depth: points, exponents, premises, and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.results.result import AtSeveralSizes
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from deepnet_theory.report.svg import Plot


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


@dataclass(frozen=True)
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

    def plot(self, variable: str | None = None, rivals: tuple[Verification, ...] = ()) -> Plot:
        """‖ΔF‖/η against a depth, log–log, beside predicted slopes and ``rivals``' measurements."""
        from deepnet_theory.report.measurement import update_figure
        from deepnet_theory.report.svg import drawn

        return drawn(update_figure(self, variable, rivals))

    def __repr__(self) -> str:
        from deepnet_theory.report.measurement import three_lines

        return three_lines(self)


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
    :class:`~deepnet_theory.spec.results.training.Run`.
    """

    depth: dict[str, int]
    losses: tuple[float, ...]
    common_mode_steps: tuple[int, ...]
    common_mode: tuple[float, ...]
    token_cosine: tuple[float, ...]
    branch_weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
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

    def plot(self) -> Plot:
        """‖ΔF‖/η against depth, log–log, beside a constant."""
        from deepnet_theory.report.measurement import model_figures
        from deepnet_theory.report.svg import drawn

        return drawn(model_figures(self)[0])

    def __repr__(self) -> str:
        from deepnet_theory.report.measurement import model_lines

        return model_lines(self)
