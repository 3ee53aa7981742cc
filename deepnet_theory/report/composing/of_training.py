"""A short training run as a document: the verdict, and the losses of every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.numbers import number

if TYPE_CHECKING:
    from deepnet_theory.training.result import Run, Training


def document(training: Training) -> doc.Document:
    """First, last and held-out loss of every run, beside the unigram entropy."""
    translates = any(run.shuffled is not None for run in training.runs)
    head: tuple[str, ...] = ("run", "steps", "first", "last", "held out", "another's source")
    head = head if translates else head[:-1]
    rows = tuple(_losses(run)[: len(head)] for run in training.runs)
    findings = tuple((run.rule, run.finding) for run in training.runs if run.finding)
    entropy = doc.Paragraph(f"unigram entropy {number(training.baseline, '.3f')} (nats per byte)")
    body = (doc.Table(head, rows, numbers=tuple(range(1, len(head)))), entropy)
    verdict = (training.verdict, f": {training.because}; {training.seconds:.0f} s")
    return doc.Document(
        "Training",
        (doc.Paragraph(verdict),),
        (doc.Section("Losses", (*body, doc.Terms(findings)) if findings else body),),
    )


def _losses(run: Run) -> tuple[str, ...]:
    losses = (*(run.losses[:1] or [None]), *(run.losses[-1:] or [None]), run.held_out, run.shuffled)
    shown = ("-" if loss is None else number(loss, ".3f") for loss in losses)
    return (run.rule, str(len(run.losses)), *shown)
