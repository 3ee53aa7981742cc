"""What is predicted and measured: estimates, exponents, and the one result of every experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.outcome import Verdict, exit_code_after

VERIFICATION, MODEL, PREDICTION = (
    f"deepnet-theory/{kind}/1" for kind in ("verification", "model", "prediction")
)
QUANTITY = "‖ΔF‖/η per token"

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


# -------------------------------------------------------------------------------- what is measured


@dataclass(frozen=True)
class Estimate:
    """A size with its 95 % interval over seeds, and each seed's value.

    ``at`` is its depth and width by their symbols, or the part and the name of the parameters that
    were stepped alone. ``predicted`` is the absolute size from single sublayers, with its interval
    over layers alone.
    """

    at: dict[str, Any]
    mean: float
    low: float
    high: float
    predicted: tuple[float, float, float] | None = None
    values: tuple[float, ...] = ()
    finding: str = ""  # e.g. where a value became infinite or NaN

    def to_dict(self) -> dict[str, Any]:
        """The JSON of a point, or of a share, which has a name in place of a depth."""
        names = ("predicted", "predicted_low", "predicted_high")
        return {
            **(self.at if "name" in self.at else {"depth": self.at}),
            **{name: getattr(self, name) for name in ("mean", "low", "high", "values", "finding")},
            **dict(zip(names, self.predicted or (None,) * 3, strict=True)),
            "seeds": len(self.values),
        }


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


@dataclass(frozen=True)
class Provenance:
    """What a result was measured on, in how many seconds, and what ended it early, in words."""

    device: str = "cpu"
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    stopped: str = ""

    @property
    def ran(self) -> str:
        """The device and the time, in words."""
        return f"{self.device}, {self.seconds:.1f} s"


class Concluded(Displayed):
    """A result with a verdict, whole or what there was when the work was stopped."""

    provenance: Provenance
    verdict: Verdict

    @property
    def stopped(self) -> str:
        return self.provenance.stopped

    @property
    def exit_code(self) -> int:
        """The verdict's, or 130 after an interruption."""
        return exit_code_after(self.stopped, self.verdict.exit_code)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        data = super().to_dict()
        data |= data.pop("provenance")
        complete = not data.pop("stopped")
        return {**data, "verdict": self.verdict, "complete": complete}


@dataclass(frozen=True, repr=False)
class Result(Concluded):
    """What ``verify``, ``predict`` or ``measure`` found, as its ``schema`` says.

    ``of`` is the selection and the rule, or the model and its optimizer. ``points`` hold ‖ΔF‖/η per
    token, ``exponents`` their log–log slopes, whose first has the verdict of a verification,
    and ``shares`` the same size where parameters are stepped alone, at the last point.
    """

    schema: str
    of: dict[str, Any]
    settings: dict[str, Any]
    points: tuple[Estimate, ...]
    exponents: tuple[Exponent, ...] = ()
    shares: tuple[Estimate, ...] = ()
    verdict: Verdict = Verdict.UNDECIDED
    provenance: Provenance = field(default_factory=Provenance)
    assumptions: tuple[AssumptionResult, ...] = ()
    updates: tuple[Following, ...] = ()  # the first updates of the models of each depth

    @property
    def whole(self) -> tuple[Exponent, ...]:
        """The exponents of the whole ‖ΔF‖, one a depth that varies."""
        return tuple(e for e in self.exponents if e.share == "all")

    @property
    def constant(self) -> bool:
        """Whether ‖ΔF‖ was shown to be constant in depth: another question than the verdict."""
        return not self.stopped and bool(self.whole) and all(e.constant for e in self.whole)

    @property
    def exit_code(self) -> int:
        """The verdict's, or 130 after an interruption; a prediction is judged by nothing."""
        return 0 if self.schema == PREDICTION else super().exit_code

    @property
    def trend(self) -> str:
        """What ‖ΔF‖ does with depth, and whether a rule predicted that, in words."""
        if self.schema == MODEL:
            return self.exponents[0].growth if self.exponents else "was measured at too few depths"
        return "; ".join(e.trend for e in self.whole)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON; a prediction has no verdict."""
        data = super().to_dict()
        data = {**data.pop("of"), "measure": data.pop("settings"), **data}
        data["points"] = [point.to_dict() for point in self.points]
        data["shares"] = [share.to_dict() for share in self.shares]
        if self.schema == PREDICTION:
            del data["verdict"]
            return data
        first = data["exponents"][0] if self.exponents else None
        return {**data, "exponent": first, "constant": self.constant}
