"""What training hands back: loss curves, and the constants' rule compared with its rivals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deepnet_theory.numeric.judging.statistics import t_interval
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


def mean_run(seeds: Sequence[Run]) -> Run:
    """One rule's runs with several seeds as one: every number the mean over them."""
    first = seeds[0]
    found = next((run for run in seeds if run.finding), first)
    losses = zip(*(run.losses for run in seeds), strict=False)  # as far as all of them went
    mean = replace(
        first, losses=tuple(map(statistics.fmean, losses)),
        held_out=None, shuffled=None, finding=found.finding,
    )  # fmt: skip
    held_out = [run.held_out for run in seeds if run.held_out is not None]
    if len(held_out) < len(seeds):
        return mean
    shuffled = [run.shuffled for run in seeds if run.shuffled is not None]
    return replace(
        mean,
        held_out=statistics.fmean(held_out),
        held_out_by_seed=tuple(held_out),
        shuffled=statistics.fmean(shuffled) if shuffled else None,
        reads_source=all(run.reads_source for run in seeds) if shuffled else None,
    )


def compare(own: Run, rival: Run) -> Comparison:
    """The rule's held-out loss beside a rival's, seed by seed."""
    pairs = zip(own.held_out_by_seed, rival.held_out_by_seed, strict=False)
    differences = [a - b for a, b in pairs]
    if not differences:
        return Comparison(rival.rule)
    interval = t_interval(differences)
    ends = (interval.low, interval.high)
    low, high = (end if math.isfinite(end) else None for end in ends)
    return Comparison(rival.rule, interval.estimate, low, high)


def judge(
    runs: Sequence[Run], comparisons: Sequence[Comparison], baseline: float
) -> tuple[Verdict, str]:
    """SUPPORTED where the first run's loss is below every rival's, REFUTED where above one's.

    Below and above are said of the whole interval of the difference. SUPPORTED needs all rivals
    beaten at once, and REFUTED errs at most as often as its two intervals together, once in
    twenty. A loss that stopped being finite is REFUTED, and a rival's is beaten. An
    encoder–decoder must read its source as well: a decoder alone is a language model of the
    targets. Anything else is UNDECIDED.
    """
    own, *rivals = runs
    if own.finding:
        return Verdict.REFUTED, f"{own.rule}: {own.finding}"
    if own.held_out is None:
        return Verdict.UNDECIDED, f"stopped after {len(own.losses)} steps"
    told = f"held-out loss {own.held_out:.3f}"
    beaten = {rival.rule for rival in rivals if rival.finding}
    beaten |= {c.rival for c in comparisons if c.high is not None and c.high < 0}
    better = [c for c in comparisons if c.low is not None and c.low > 0]
    shown = better or [c for c in comparisons if c.difference is not None]
    told += "".join(f", {c}" for c in shown)
    told += "".join(f"; {rival.rule}: {rival.finding}" for rival in rivals if rival.finding)
    told += f"; unigram entropy {baseline:.3f}"
    if own.shuffled is not None:
        told += f", {own.shuffled:.3f} with another's source"
    if better:
        return Verdict.REFUTED, f"{' and '.join(c.rival for c in better)} is better: {told}"
    if own.reads_source is False:
        return Verdict.UNDECIDED, f"{told}: the decoder does not read its source"
    if len(beaten) == len(rivals):
        return Verdict.SUPPORTED, f"better than its rivals: {told}"
    close = " and ".join(r.rule for r in rivals if r.rule not in beaten)
    return Verdict.UNDECIDED, f"not told apart from {close}: {told}"
