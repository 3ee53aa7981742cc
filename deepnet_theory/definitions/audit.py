"""What an audit hands back: what a model is, what a rule wants, and where the two differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.measurement import Estimate
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.reading import Line, Reading
from deepnet_theory.definitions.record import written

DIFFERENCE, REMARK = "difference", "remark"


@dataclass(frozen=True)
class Finding:
    """One difference: where, what, how many times too much or too little, the line that fixes it.

    ``severity`` is ``difference``, or ``remark``, which decides nothing. ``line`` is that of the
    code that adds the sublayer's branch to the stream, where it is known.
    """

    where: str
    what: str
    size: float
    mend: str
    severity: str = DIFFERENCE
    line: Line | None = None


@dataclass(frozen=True)
class PlannedChange:
    """One change of the plan: these outputs of a parameter, times ``factor``."""

    parameter: str
    axis: int
    outputs: tuple[tuple[int, int], ...]
    role: str
    gain: float
    factor: float

    def __str__(self) -> str:
        runs = ", ".join(f"{start}:{end}" for start, end in self.outputs)
        where = runs if self.axis == 0 else f":, {runs}"
        return (
            f"{self.parameter}[{where}] *= {self.factor:.4g}  # {self.role}, gain {self.gain:.4g}"
        )


@dataclass(frozen=True, repr=False)
class Audit(Displayed):
    """Does a model follow a rule, and where not.

    ``follows`` is the optimizer or scheme whose rule fits, ``alike`` others that do, ``against``
    the one that it was held against, or ``refusal`` why none. ``growth`` says how one update of
    what is published grows under the optimizer. ``plan`` is what to change. ``sublayers`` are plain
    data, as the JSON has them: each as it was read, the gains of its matrices with 95 % intervals,
    and the expected gains.
    """

    schema = "deepnet-theory/audit/1"

    model: str
    reading: Reading = field(metadata={"json": None})
    placement: str | None
    optimizer: str | None
    against: str | None
    detail: str
    follows: str | None
    alike: tuple[str, ...]
    sublayers: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]
    plan: tuple[PlannedChange, ...]
    verdict: Verdict
    effect: float | None = None  # ‖ΔF‖ of one update over that of a fixed copy; where measured
    effect_low: float | None = None
    effect_high: float | None = None
    rates: dict[str, float] = field(default_factory=dict)  # learning rates by parameter
    refusal: str = ""
    growth: str = ""
    scheme: str | None = None
    noise: tuple[Estimate, ...] = ()  # B_noise by group, where it was asked for

    @property
    def differences(self) -> tuple[Finding, ...]:
        """The findings that decide the verdict."""
        return tuple(f for f in self.findings if f.severity == DIFFERENCE)

    @property
    def layers(self) -> int:
        return sum(self.reading.layers.values())

    def to_dict(self) -> dict[str, Any]:
        reading, kept = self.reading, ("stream", "embeddings", "head", "unused", "notes", "norms")
        return {
            **super().to_dict(),
            "layers": self.layers,
            "layers_by_stack": reading.layers,
            **{name: written(getattr(reading, name)) for name in kept},
            "noise": [e.to_dict() for e in self.noise],
        }
