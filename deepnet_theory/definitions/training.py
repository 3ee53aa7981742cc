"""What was trained: losses against rate and depth, and a rule compared with its rivals."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import Any

from deepnet_theory.definitions.measurement import Concluded, Exponent, Provenance
from deepnet_theory.definitions.outcome import INTERRUPTED, Verdict


@dataclass(frozen=True)
class Curve:
    """Held-out loss against learning rate at one depth, nats a byte.

    ``values`` has a row a rate and a loss a seed, NaN where one diverged; ``losses`` are the means.
    ``best`` is the geometric mean of the seeds' best rates, NaN outside the grid; ``best_loss`` the
    loss there. ``first_failing`` is the least rate above where a seed diverged or the mean does not
    beat the unigram entropy, ``collapsed`` the number of such seeds a rate. ``common_mode`` and
    ``token_cosine`` are the largest of each rate; None where no model of ours was trained.
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
    """What depth costs: the loss of the deepest above that of the shallowest, nats a byte, paired.

    At the ``rate`` of the grid nearest to the shallowest one's best. A deep run that diverged has
    learnt nothing: the baseline's loss. NaN where nothing was measured.
    """

    rate: float = nan
    estimate: float = nan
    low: float = nan
    high: float = nan


@dataclass(frozen=True)
class ClosureTransfer:
    """One rule's curves, the exponents of its best rate, and the verdict.

    REFUTED where the best rate's exponent lies outside ±1/16, or at the shallowest one's best rate
    the deepest stack loses more than a tenth of what the shallowest has learnt.
    """

    closure: str
    rule: dict[str, Any]
    rho: str  # relative update of a scaled matrix, in units of eta
    curves: tuple[Curve, ...]
    exponent: Exponent
    cost: Cost
    verdict: Verdict
    exponents: tuple[Exponent, ...] = ()  # in the width and in the depth, where both vary


@dataclass(frozen=True, repr=False)
class Transfer(Concluded):
    """Loss against learning rate after a fixed number of steps, by closure and depth.

    ``measure`` and ``select`` say what was trained; ``baseline`` is the held-out unigram entropy,
    or what a factory of your own gives, or None.
    """

    schema = "deepnet-theory/transfer/1"

    select: dict[str, Any]
    measure: dict[str, Any]
    closures: tuple[ClosureTransfer, ...]
    baseline: float | None
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """The verdict of the first closure that was asked for."""
        return self.closures[0].verdict


@dataclass(frozen=True)
class Run:
    """One rule's curve, the mean over its seeds.

    ``losses`` is the mean cross-entropy per byte in nats a step, until one is not finite, which
    ``finding`` says; ``held_out`` that on unseen text. ``common_mode``, the largest R of the seeds,
    and ``token_cosine`` at the output are those at ``common_mode_steps``.
    """

    rule: str
    placement: str
    losses: tuple[float, ...]
    held_out: float | None = None
    finding: str = ""
    held_out_by_seed: tuple[float, ...] = ()
    common_mode_steps: tuple[int, ...] = ()
    common_mode: tuple[float, ...] = ()
    token_cosine: tuple[float, ...] = ()


@dataclass(frozen=True)
class Training(Concluded):
    """Runs on the same batches, and the verdict on the first of them, the constants' own."""

    schema = "deepnet-theory/training/1"

    runs: tuple[Run, ...]
    baseline: float  # unigram entropy of the targets, in nats
    verdict: Verdict
    because: str
    conditions: dict[str, Any]
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def exit_code(self) -> int:
        """Done, or interrupted: a short run on one text is no verdict on the rule at large."""
        return INTERRUPTED if self.stopped else 0
