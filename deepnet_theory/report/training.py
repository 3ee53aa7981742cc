"""A short training run as a table and a verdict."""

from __future__ import annotations

import textwrap
from typing import Any

from deepnet_theory.report.terminal import table


def training_text(training: Any) -> str:
    """First, last and held-out loss of every run, beside the unigram entropy."""
    rows = []
    for run in training.runs:
        losses = run.losses
        held_out = "-" if run.held_out is None else f"{run.held_out:.3f}"
        first, last = (f"{losses[i]:.3f}" if losses else "-" for i in (0, -1))
        rows.append((run.rule, str(len(losses)), first, last, held_out))
    lines = table(("run", "steps", "first", "last", "held out"), rows)
    lines += ["", f"  unigram entropy {training.baseline:.3f} (nats per byte)"]
    lines += [f"  {run.rule}: {run.finding}" for run in training.runs if run.finding]
    verdict = f"{training.verdict.value}: {training.because}; {training.seconds:.0f} s"
    return "\n".join([*lines, "", *textwrap.wrap(verdict, 80)])
