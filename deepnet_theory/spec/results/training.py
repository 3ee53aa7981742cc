"""What training hands back: loss curves, and the constants' rule compared with its rivals."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from deepnet_theory.spec.errors import INTERRUPTED
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.verdict import Verdict

SCHEMA = "deepnet-theory/training/1"


@dataclass(frozen=True)
class Run:
    """One rule's curve, the mean over its seeds.

    ``losses`` is the mean cross-entropy per byte in nats, one value a step; it ends where a
    loss was not finite, and ``finding`` then says at which step. ``held_out`` is the loss on
    text that no step has seen, ``held_out_by_seed`` that of each seed; ``shuffled`` the same
    where every target is given the source of another. ``reads_source`` tells whether an
    encoder–decoder reads its source: whether another's source made the loss higher in every one
    of the held-out batches of every seed, which a decoder that does not notice would pass once
    in 2^batches.
    """

    rule: str
    placement: str
    losses: tuple[float, ...]
    held_out: float | None = None
    shuffled: float | None = None
    reads_source: bool | None = None
    finding: str = ""
    held_out_by_seed: tuple[float, ...] = ()


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

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.rival}: not compared"
        word = "above" if self.difference > 0 else "below"
        told = f"{abs(self.difference):.3f} {word} {self.rival}"
        if self.low is None or self.high is None:
            return f"{told} (one seed gives no interval)"
        return f"{told} ({self.low:+.3f} to {self.high:+.3f})"


@dataclass(frozen=True)
class Training(Result):
    """Runs on the same batches, and the verdict on the first of them, the constants' own."""

    runs: tuple[Run, ...]
    baseline: float  # unigram entropy of the targets, in nats
    verdict: Verdict
    because: str
    conditions: dict[str, Any]
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    stopped: str = ""  # what ended it early

    @property
    def complete(self) -> bool:
        """Whether all runs came to their end."""
        return not self.stopped

    @property
    def exit_code(self) -> int:
        """Done, or interrupted: a short run on one text is no verdict on the rule at large."""
        return 0 if self.complete else INTERRUPTED

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        found = {**asdict(self), "verdict": self.verdict.value, "complete": self.complete}
        return {"schema": SCHEMA, **found}
