"""What is predicted and measured: estimates, exponents, and the one result of every experiment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean
from typing import Any

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.outcome import Verdict, exit_code_after
from deepnet_theory.definitions.record import written

VERIFICATION, MODEL, PREDICTION, TRANSFER, TRAINING = (
    f"deepnet-theory/{kind}/1"
    for kind in ("verification", "model", "prediction", "transfer", "training")
)
QUANTITY = "‖ΔF‖/η per token"
_POINTS = ("points", "exponents", "shares")
FINDINGS = {  # what each kind of result holds
    VERIFICATION: (*_POINTS, "assumptions", "exponent", "constant", "because", "verdict"),
    MODEL: (*_POINTS, "runs", "noise", "exponent", "constant", "verdict"),
    PREDICTION: ("points", "shares"),
    TRANSFER: ("closures", "baseline", "verdict", "because"),
    TRAINING: ("runs", "baseline", "because", "verdict"),
}


def sized(place: Mapping[str, int]) -> str:
    """A depth and a width in words: ``N = 8, d = 64``."""
    return ", ".join(f"{symbol} = {n}" for symbol, n in place.items())


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
        """The JSON of a point, or of a share, which has a name in place of a depth.

        A noise has a group of parameters in its place, and is B_noise.
        """
        if "group" in self.at:
            ends = {"low": self.low, "high": self.high, "finding": self.finding}
            return {**self.at, "b_noise": self.mean, **ends}
        names = ("predicted", "predicted_low", "predicted_high")
        return {
            **(self.at if "name" in self.at else {"depth": self.at}),
            **{name: getattr(self, name) for name in ("mean", "low", "high", "values", "finding")},
            **dict(zip(names, self.predicted or (None,) * 3, strict=True)),
            "seeds": len(self.values),
        }


@dataclass(frozen=True)
class Exponent:
    r"""The exponent :math:`d\log\|\Delta F\| / d\log N`, predicted, and measured with its interval.

    ``variable`` is ``N``, ``M`` or ``d``, the others held fixed; ``share`` is ``all``, a part or a
    kind of parameter. ``rivals`` are what other optimizers' rules would have.
    """

    variable: str = field(metadata={"json": "in"})
    share: str
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    predicted: float | None = None
    verdict: Verdict = Verdict.UNDECIDED
    because: str = ""
    fitted_from: int | None = None  # the smallest depth of the fit
    rivals: tuple[tuple[str, float], ...] = ()
    constant: bool = False  # shown: the interval lies within the tolerance of 0
    here: float | None = None  # the slope over the measured depths that single sublayers predict

    @property
    def growth(self) -> str:
        """What the measured quantity does with depth."""
        if self.estimate != self.estimate:
            return f"was not measured at enough depths in {self.variable}"
        exponent = f"{self.estimate:z.2f}"
        if not math.isfinite(self.high - self.low):
            return f"scales as {self.variable}^{exponent}, of one seed, which gives no interval"
        interval = f"(95 %: {self.low:z.3f} to {self.high:z.3f})"
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
        expected = f"{self.variable}^{self.predicted:z.2f}"
        return f"{self.growth}; {expected} was predicted"


def prediction(
    variable: str,
    share: str,
    exponent: Fraction | None,
    rivals: Iterable[tuple[str, Fraction]] = (),
) -> Exponent:
    """An exponent before it is measured; None where the theory predicts none."""
    numbers = tuple((name, float(rival)) for name, rival in rivals)
    number = None if exponent is None else float(exponent)
    return Exponent(variable, share, predicted=number, rivals=numbers)


@dataclass(frozen=True)
class Predictions:
    """All exponents of one rule under one optimizer, and the premises they rest on."""

    exponents: tuple[Exponent, ...]
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()


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
class Run:
    """A model in training: means over its seeds, up to where all of them went.

    ``losses`` are mean cross-entropies before each update; those of ``measure`` end with the one
    behind the last. ``held_out_by_seed`` are those on unseen text, ``finding`` says where a loss
    was not finite. ``common_mode``, the largest R of the seeds, and ``token_cosine`` at the output
    are those at ``common_mode_steps``.
    """

    rule: str
    depth: dict[str, int]
    losses: tuple[float, ...] = ()
    held_out_by_seed: tuple[float, ...] = ()
    finding: str = ""
    common_mode_steps: tuple[int, ...] = ()
    common_mode: tuple[float, ...] = ()
    token_cosine: tuple[float, ...] = ()

    @property
    def held_out(self) -> float | None:
        """The mean over seeds; None where one was not finite."""
        return fmean(self.held_out_by_seed) if self.held_out_by_seed else None


@dataclass(frozen=True)
class Curve:
    """Validation loss against learning rate at one depth, nats a byte.

    ``values`` has a row a rate and a loss a seed, NaN where one diverged; ``losses`` are the means.
    ``best`` is the geometric mean of the seeds' best rates, NaN outside the grid; ``best_loss`` the
    loss there. ``first_failing`` is the lowest rate above where a seed diverged or the mean is not
    below the unigram entropy, ``collapsed`` the number of such seeds a rate. ``common_mode`` and
    ``token_cosine`` are the largest of each rate; None where no model of ours was trained.
    """

    depth: dict[str, int]
    rates: tuple[float, ...]
    losses: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    best: float = math.nan
    low: float = math.nan
    high: float = math.nan
    best_loss: float = math.nan
    best_by_seed: tuple[float, ...] = ()
    first_failing: float | None = None
    slack: float = 0.0  # the seeds' mean, in log η: where a best rate is one of the grid
    finding: str = ""  # where a best rate is not within the grid
    collapsed: tuple[int, ...] = ()
    common_mode: tuple[float, ...] | None = None
    token_cosine: tuple[float, ...] | None = None


@dataclass(frozen=True)
class ClosureTransfer:
    """One rule's curves, the exponents of its best rate in width and depth, and the verdict.

    ``cost`` is what depth costs: the loss of the deepest above that of the shallowest, nats a byte,
    paired, at the rate of the grid nearest to the shallowest one's best; a deep run that diverged
    has the baseline's loss. REFUTED where an exponent lies outside ±1/16, or the cost is more than
    a tenth of what the shallowest has learnt. Over numbers of steps the longest run costs what it
    loses to its own best rate. ``gap`` is what a wrong rule loses to the rule at
    that rate and the largest size.
    """

    closure: str
    rho: str  # relative update of a scaled matrix, in units of eta
    curves: tuple[Curve, ...]
    exponents: tuple[Exponent, ...]
    cost: Estimate | None  # None where nothing was measured
    verdict: Verdict
    gap: Estimate | None = None  # of a wrong rule
    signal: tuple[Exponent, ...] = ()  # s, the loss falls as T^-s in the number of steps T

    @property
    def exponent(self) -> Exponent:
        """The first exponent, in the width where that varies."""
        return self.exponents[0]

    @property
    def as_rival(self) -> dict[str, Any]:
        """Its JSON beside the rule: the exponent that is furthest off, and the loss above it."""
        e = max(self.exponents, key=lambda e: abs(e.estimate))
        found = {"in": e.variable, "exponent": e.estimate, "low": e.low, "high": e.high}
        gap = None if self.gap is None else self.gap.mean
        return {"name": self.closure, **found, "loss_gap": gap, "verdict": self.verdict}

    def to_dict(self) -> dict[str, Any]:
        """Its JSON, with the first exponent by itself."""
        return {**written(self), "exponent": written(self.exponent)}


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


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """What an experiment found, whole or what there was when it was stopped.

    ``schema`` says which: ``verify``, ``predict``, ``measure``, ``transfer`` or ``train``.
    ``of`` is the selection and the rule, or the model and its optimizer. ``points`` hold ‖ΔF‖/η per
    token, ``exponents`` their log–log slopes, whose first has the verdict of a verification,
    and ``shares`` the same size where parameters are stepped alone, at the last point; ``noise`` is
    B_noise in sequences, by group of parameters. ``runs`` are trainings at one rate, ``closures``
    those at many, ``baseline`` the loss of a model that ignores its input, None where it is not
    known. ``rivals`` are wrong rules, ``power`` how likely one of them would have been refuted.
    """

    schema: str
    of: dict[str, Any]
    settings: dict[str, Any]
    points: tuple[Estimate, ...] = ()
    exponents: tuple[Exponent, ...] = ()
    shares: tuple[Estimate, ...] = ()
    verdict: Verdict = Verdict.UNDECIDED
    provenance: Provenance = field(default_factory=Provenance)
    assumptions: tuple[AssumptionResult, ...] = ()
    runs: tuple[Run, ...] = ()
    noise: tuple[Estimate, ...] = ()
    closures: tuple[ClosureTransfer, ...] = ()
    baseline: float | None = None
    because: str = ""
    rivals: tuple[ClosureTransfer, ...] = ()
    power: float | None = None  # of a transfer with rivals

    @property
    def whole(self) -> tuple[Exponent, ...]:
        """The exponents of the whole ‖ΔF‖, one a depth that varies."""
        return tuple(e for e in self.exponents if e.share == "all")

    @property
    def exponent(self) -> Exponent | None:
        """The first exponent."""
        return self.exponents[0] if self.exponents else None

    @property
    def constant(self) -> bool:
        """Whether ‖ΔF‖ was shown to be constant in depth: another question than the verdict."""
        return not self.stopped and bool(self.whole) and all(e.constant for e in self.whole)

    @property
    def begun(self) -> bool:
        """Whether there is anything to show, of what was interrupted."""
        return bool(self.points or self.runs or self.closures or self.noise)

    @property
    def stopped(self) -> str:
        """What ended the work early, in words."""
        return self.provenance.stopped

    @property
    def exit_code(self) -> int:
        """The verdict's, or 130 after an interruption.

        A prediction is judged by nothing, and a short run on one text is no verdict on its rule.
        """
        done = self.schema in (PREDICTION, TRAINING)
        return exit_code_after(self.stopped, 0 if done else self.verdict.exit_code)

    @property
    def trend(self) -> str:
        """What ‖ΔF‖ does with depth, and whether a rule predicted that, in words."""
        if self.schema == MODEL:
            return self.exponents[0].growth if self.exponents else "was measured at too few depths"
        return "; ".join(e.trend for e in self.whole)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        found = {name: getattr(self, name) for name in FINDINGS[self.schema]}
        for name in {"points", "shares", "noise", "closures"} & {*found}:
            found[name] = [one.to_dict() for one in found[name]]
        if self.rivals:
            found |= {"rivals": [one.as_rival for one in self.rivals], "power": self.power}
        ran = written(self.provenance)
        complete = not ran.pop("stopped")
        of = {"schema": self.schema, **self.of, "measure": self.settings}
        return {**written({**of, **found}), **ran, "complete": complete}


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """What a transfer with rivals would train: runs by rule, and the expected power.

    ``left_out`` are wrong rules that are another rule here, ``needed`` the seeds for enough power.
    """

    runs: dict[str, int]
    left_out: tuple[str, ...]
    seeds: int
    power: float
    needed: int
    schema: str = field(default="deepnet-theory/plan/1", metadata={"json": None})
