"""A short training run as a document: the verdict, and the losses of every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deepnet_theory.report import document as doc
from deepnet_theory.report.numbers import number

if TYPE_CHECKING:
    from deepnet_theory.spec.results.training import Run, Training


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
        (doc.Paragraph(verdict), *_constants(training.conditions.get("constants", {}))),
        (doc.Section("Losses", (*body, doc.Terms(findings)) if findings else body),),
    )


def _constants(constants: Mapping[str, Any]) -> Iterator[doc.Paragraph]:
    """Which rule was trained, the other one beside it, and what training with it needs."""
    origin = constants.get("origin", {})
    own, rows = origin.get("row"), origin.get("rows")  # of a file, which may say anything there
    for name, told in rows.items() if isinstance(rows, dict) else ():
        yield doc.Paragraph(f"{name}{', trained here' * (name == own)}: {told}.")
    if condition := constants.get("condition"):
        yield doc.Paragraph(str(condition))


def _losses(run: Run) -> tuple[str, ...]:
    losses = (*(run.losses[:1] or [None]), *(run.losses[-1:] or [None]), run.held_out, run.shuffled)
    shown = ("-" if loss is None else number(loss, ".3f") for loss in losses)
    return (run.rule, str(len(run.losses)), *shown)
