"""What was trained: losses against rate and depth, and a rule compared with its rivals."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.errors import INTERRUPTED
from deepnet_theory.spec.results.result import Measured
from deepnet_theory.spec.results.verification import Exponent
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from deepnet_theory.report.svg import Plot


@dataclass(frozen=True)
class Curve:
    """Held-out loss against learning rate at one depth, nats a byte.

    ``values`` has one row a rate and one loss a seed in it, NaN where a run diverged; ``losses``
    are the means over seeds. ``best`` is the geometric mean of the seeds' best rates, with its
    interval over seeds, NaN where the grid does not bracket them; ``best_loss`` the loss there.
    ``first_failing`` is the least rate above the best one where a seed diverged or the mean
    loss is no better than the unigram entropy, None where none of the grid fails. ``collapsed`` is
    how many seeds of each rate ended no better than it, those that diverged too. ``common_mode``
    is the largest R of each rate over steps and seeds, ``token_cosine`` the largest mean cosine
    between tokens at the output; None where no model of ours was trained.
    """

    depth: dict[str, int]
    rates: tuple[float, ...]
    losses: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    best: float = nan
    low: float = nan
    high: float = nan
    best_loss: float = nan
    best_by_seed: tuple[float, ...] = ()
    first_failing: float | None = None
    slack: float = 0.0  # the seeds' mean, in log η: where a best rate is one of the grid
    finding: str = ""  # where a best rate is not within the grid
    collapsed: tuple[int, ...] = ()
    common_mode: tuple[float, ...] | None = None
    token_cosine: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Cost:
    """What depth costs: the loss of the deepest above that of the shallowest, nats a byte.

    Both at ``rate``, of the grid the nearest to the shallowest one's best; ``low`` and ``high``
    are the interval over seeds, paired. A run of the deepest that diverged counts as having learnt
    nothing, the baseline's loss. NaN where nothing was measured.
    """

    rate: float = nan
    estimate: float = nan
    low: float = nan
    high: float = nan


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
    exponents: tuple[Exponent, ...] = ()  # in the width and in the depth, where both vary


@dataclass(frozen=True)
class Transfer(Measured):
    """Loss against learning rate after a fixed number of steps, by closure and depth.

    ``measure`` and ``select`` say what was trained; ``baseline`` is the unigram entropy of the
    held-out windows, which no model has a loss below that ignores its input, or of a model of
    one's own what its factory gives, None where it gives none. Plain data: ``to_json`` writes the
    public form, ``plot`` draws it.
    """

    schema = "deepnet-theory/transfer/1"

    select: dict[str, Any]
    measure: dict[str, Any]
    closures: tuple[ClosureTransfer, ...]
    baseline: float | None
    device: str
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    stopped: str = ""  # what ended the training before its end, in words
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """The verdict of the first closure that was asked for."""
        return self.closures[0].verdict

    def plot(self) -> Plot:
        """Loss against rate, a line a depth, the closures side by side."""
        from deepnet_theory.report.panels import panels
        from deepnet_theory.report.training import figure

        return panels(figure(self))

    def __repr__(self) -> str:
        told = "; ".join(f"{c.closure}: {c.exponent.because}" for c in self.closures)
        return f"<Transfer {told}: {self.verdict.value}>"


@dataclass(frozen=True)
class Run:
    """One rule's curve, the mean over its seeds.

    ``losses`` is the mean cross-entropy per byte in nats, one value a step; it ends where a
    loss was not finite, and ``finding`` then names the step. ``held_out`` is the loss on
    text that no step has seen, ``held_out_by_seed`` that of each seed; ``shuffled`` the same
    where every target is given the source of another. ``reads_source`` tells whether an
    encoder–decoder reads its source: whether another's source made the loss higher in every one
    of the held-out batches of every seed, which a decoder that does not notice would pass once
    in 2^batches. ``common_mode`` is R, the summed weight of what the branches add to all tokens
    alike, the largest over the seeds, at ``common_mode_steps``; ``token_cosine`` the mean cosine
    between tokens at the output there.
    """

    rule: str
    placement: str
    losses: tuple[float, ...]
    held_out: float | None = None
    shuffled: float | None = None
    reads_source: bool | None = None
    finding: str = ""
    held_out_by_seed: tuple[float, ...] = ()
    common_mode_steps: tuple[int, ...] = ()
    common_mode: tuple[float, ...] = ()
    token_cosine: tuple[float, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The rule's held-out loss minus a rival's, paired by seed: below 0 the rule is better.

    ``low`` and ``high`` are Student's 95 % interval of the mean over seeds, in nats a byte; all
    three are None where one of the two has no loss, and the last two where one seed was run.
    """

    rival: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    would_decide: str = ""  # where the interval holds 0, in words: "try 12 seeds"

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.rival}: not compared"
        word = "above" if self.difference > 0 else "below"
        told = f"{abs(self.difference):.3f} {word} {self.rival}"
        if self.low is None or self.high is None:
            return f"{told} (one seed gives no interval)"
        more = f"; {self.would_decide}" * bool(self.would_decide)
        return f"{told} ({self.low:+.3f} to {self.high:+.3f}{more})"


@dataclass(frozen=True)
class Training(Measured):
    """Runs on the same batches, and the verdict on the first of them, the constants' own."""

    schema = "deepnet-theory/training/1"

    runs: tuple[Run, ...]
    baseline: float  # unigram entropy of the targets, in nats
    verdict: Verdict
    because: str
    conditions: dict[str, Any]
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    stopped: str = ""  # what ended it early
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Done, or interrupted: a short run on one text is no verdict on the rule at large."""
        return 0 if self.complete else INTERRUPTED
