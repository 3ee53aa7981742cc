"""What a training run hands back: loss curves beside the unigram entropy."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from deepnet_theory.spec.verdict import Verdict

SCHEMA = "deepnet-theory/training/1"


@dataclass(frozen=True)
class Run:
    """One model's curve.

    ``losses`` is the mean cross-entropy per byte in nats, one value a step; it ends where a
    loss was not finite, and ``finding`` then says at which step. ``held_out`` is the loss on
    text that no step has seen; ``shuffled`` the same where every target is given the source
    of another. ``reads_source`` tells whether an encoder–decoder reads its source: whether
    another's source made the loss higher in every one of the held-out batches, which a decoder
    that does not notice would pass once in 2^batches.
    """

    rule: str
    placement: str
    losses: tuple[float, ...]
    held_out: float | None = None
    shuffled: float | None = None
    reads_source: bool | None = None
    finding: str = ""


@dataclass(frozen=True)
class Training:
    """Runs on the same batches, and the verdict on the first of them, the constants' own."""

    runs: tuple[Run, ...]
    baseline: float  # unigram entropy of the targets, in nats
    verdict: Verdict
    because: str
    conditions: dict[str, Any]
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        return {"schema": SCHEMA, **asdict(self), "verdict": self.verdict.value}

    def to_json(self) -> str:
        """The JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def judge(own: Run, baseline: float, steps: int) -> tuple[Verdict, str]:
    """SUPPORTED where the held-out loss is below the unigram entropy, which needs the input.

    An encoder–decoder must read its source as well: a decoder alone, a language model of the
    targets, goes below the entropy too. A loss that stopped being finite is REFUTED; anything
    else is UNDECIDED, because more steps might bring it about.
    """
    if own.finding:
        return Verdict.REFUTED, f"{own.rule}: {own.finding}"
    if own.held_out is None or not math.isfinite(own.held_out):
        return Verdict.UNDECIDED, f"stopped after {len(own.losses)} of {steps} steps"
    told = f"held-out loss {own.held_out:.3f}, unigram entropy {baseline:.3f}"
    if own.shuffled is not None:
        told += f", {own.shuffled:.3f} with another's source"
    if own.held_out >= baseline:
        return Verdict.UNDECIDED, f"{told} after {len(own.losses)} steps"
    if own.reads_source is False:
        return Verdict.UNDECIDED, f"{told}: the decoder does not read its source"
    return Verdict.SUPPORTED, told
