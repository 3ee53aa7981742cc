"""What a search of the learning rate over depths hands back: curves, exponents, verdicts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.errors import exit_code_after
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.results.verification import Exponent
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from deepnet_theory.report.figures.svg import Plot

SCHEMA = "deepnet-theory/transfer/1"


@dataclass(frozen=True)
class Curve:
    """Held-out loss against learning rate at one depth, nats a byte.

    ``values`` has one row a rate and one loss a seed in it, NaN where a run diverged; ``losses``
    are the means over seeds. ``best`` is the geometric mean of the seeds' best rates, with its
    interval over seeds, NaN where the grid does not bracket them; ``best_loss`` the loss there.
    ``first_failing`` is the least rate above the best one at which a seed diverged or the mean
    loss is no better than the unigram entropy, None where none of the grid fails.
    """

    depth: dict[str, int]
    rates: tuple[float, ...]
    losses: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    best: float
    low: float
    high: float
    best_loss: float
    best_by_seed: tuple[float, ...]
    first_failing: float | None
    slack: float = 0.0  # the seeds' mean, in log η: where a best rate is one of the grid
    finding: str = ""  # where a best rate is not within the grid


@dataclass(frozen=True)
class Cost:
    """What depth costs: the loss of the deepest above that of the shallowest, nats a byte.

    Both at ``rate``, of the grid the nearest to the shallowest one's best; ``low`` and ``high``
    are the interval over seeds, paired. A run of the deepest that diverged counts as having learnt
    nothing, the baseline's loss. NaN where nothing was measured.
    """

    rate: float
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class ClosureTransfer:
    """One rule's curves, the exponents of its best and its failing rate, and the verdict.

    SUPPORTED: the learning rate transfers, the exponent's interval lies inside ±1/16. REFUTED:
    it lies outside, or at the shallowest stack's best rate the deepest one is worse by more than
    a tenth of what the shallowest has learnt, the whole interval over seeds.
    """

    closure: str
    rule: dict[str, Any]
    rho: str  # relative update of a scaled matrix, in units of eta
    curves: tuple[Curve, ...]
    exponent: Exponent
    failing: Exponent
    cost: Cost
    verdict: Verdict


@dataclass(frozen=True)
class Transfer(Result):
    """Loss against learning rate after a fixed number of steps, by closure and depth.

    ``measure`` and ``select`` say what was trained; ``baseline`` is the unigram entropy of the
    held-out windows, which no model has a loss below that ignores its input. Plain data:
    ``to_json`` writes the public form, ``plot`` draws it.
    """

    select: dict[str, Any]
    measure: dict[str, Any]
    closures: tuple[ClosureTransfer, ...]
    baseline: float
    device: str
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    stopped: str = ""  # what ended the training before its end, in words

    @property
    def verdict(self) -> Verdict:
        """The verdict of the first closure that was asked for."""
        return self.closures[0].verdict

    @property
    def exit_code(self) -> int:
        """The first closure's verdict's, or 130 after an interruption."""
        return exit_code_after(self.stopped, self.verdict.exit_code)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        closures = []
        for c in self.closures:
            row = {**asdict(c), "verdict": c.verdict.value}
            for name, exponent in (("exponent", c.exponent), ("failing", c.failing)):
                row[name] = exponent.to_dict()
            closures.append(row)
        return {
            "schema": SCHEMA,
            "select": self.select,
            "measure": self.measure,
            "closures": closures,
            "baseline": self.baseline,
            "complete": not self.stopped,
            "verdict": self.verdict.value,
            "device": self.device,
            "seconds": self.seconds,
            "versions": self.versions,
        }

    def plot(self) -> Plot:
        """Loss against rate, a line a depth, the closures side by side."""
        from deepnet_theory.report.notebook import transfer_plot

        return transfer_plot(self)

    def _repr_html_(self) -> str:
        from deepnet_theory.report.notebook import transfer_html

        return transfer_html(self)

    def __repr__(self) -> str:
        told = "; ".join(f"{c.closure}: {c.exponent.because}" for c in self.closures)
        return f"<Transfer {told}: {self.verdict.value}>"
