"""A short training run as a table and a verdict."""

from __future__ import annotations

import textwrap
from typing import Any

from deepnet_theory.report.terminal import table


def training_text(training: Any) -> str:
    """First, last and held-out loss of every run, beside the unigram entropy."""
    translates = any(run.shuffled is not None for run in training.runs)
    heads = ("run", "steps", "first", "last", "held out")
    rows = []
    for run in training.runs:
        first, last = run.losses[:1], run.losses[-1:]
        losses = [*(first or [None]), *(last or [None]), run.held_out]
        losses += [run.shuffled] if translates else []
        shown = ("-" if loss is None else f"{loss:.3f}" for loss in losses)
        rows.append((run.rule, str(len(run.losses)), *shown))
    lines = table((*heads, "another's source") if translates else heads, rows)
    lines += ["", f"  unigram entropy {training.baseline:.3f} (nats per byte)"]
    lines += [f"  {run.rule}: {run.finding}" for run in training.runs if run.finding]
    verdict = f"{training.verdict.value}: {training.because}; {training.seconds:.0f} s"
    return "\n".join([*lines, "", *textwrap.wrap(verdict, 80)])
