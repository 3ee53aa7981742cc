"""What measuring a model of one's own hands back: points, exponents, shares, and a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.errors import exit_code_after
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.results.verification import Exponent, Point
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from deepnet_theory.report.figures.svg import Plot

SCHEMA = "deepnet-theory/model/1"


@dataclass(frozen=True)
class Share:
    """‖ΔF‖/η per token where the parameters of one name pattern move alone, at one depth."""

    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelMeasurement(Result):
    """‖ΔF‖/η per token of a family of models at each depth, and whether it is constant.

    The ``verdict`` is that of the first of ``exponents``: SUPPORTED where ‖ΔF‖ is constant in
    depth, REFUTED where it grows or falls. ``shares`` say what the parameters of each name
    pattern contribute at the deepest point. Plain data: ``to_json`` writes the public form,
    ``plot`` draws it.
    """

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

    @property
    def trend(self) -> str:
        """What ‖ΔF‖ does with depth, in words."""
        return self.exponents[0].growth if self.exponents else "was measured at too few depths"

    @property
    def exit_code(self) -> int:
        """The verdict's, or 130 after an interruption."""
        return exit_code_after(self.stopped, self.verdict.exit_code)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        exponents = [e.to_dict() for e in self.exponents]
        return {
            "schema": SCHEMA,
            "model": self.model,
            "optimizer": self.optimizer,
            "measure": self.measure,
            "points": [asdict(p) for p in self.points],
            "exponents": exponents,
            "exponent": exponents[0] if exponents else None,
            "shares": [asdict(s) for s in self.shares],
            "warnings": list(self.warnings),
            "constant": bool(self.exponents) and self.exponents[0].constant and not self.stopped,
            "complete": not self.stopped,
            "verdict": self.verdict.value,
            "device": self.device,
            "seconds": self.seconds,
            "versions": self.versions,
        }

    def plot(self) -> Plot:
        """‖ΔF‖/η against depth, log–log, beside a constant."""
        from deepnet_theory.report.notebook import model_plot

        return model_plot(self)

    def _repr_html_(self) -> str:
        from deepnet_theory.report.notebook import model_html

        return model_html(self)

    def __repr__(self) -> str:
        from deepnet_theory.report.composing.of_model import three_lines

        return three_lines(self)
