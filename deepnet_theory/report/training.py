"""Trainings as documents: whether the best rate transfers over depths, and one short run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deepnet_theory.report import document as doc
from deepnet_theory.report.measurement import rows_named
from deepnet_theory.report.numbers import (
    depth_words,
    interval,
    known,
    number,
    predicted,
    signed,
    signed_interval,
    true_signs,
)

if TYPE_CHECKING:
    from deepnet_theory.spec.results.training import (
        ClosureTransfer,
        Curve,
        Run,
        Training,
        Transfer,
    )

CAPTION = (
    "Held-out loss against learning rate, one line a depth; points are the best rates, with "
    "their 95% intervals over seeds. A line ends where a run diverged."
)


def transfer_document(t: Transfer) -> doc.Document:
    """Whether the best rate transfers under every closure, the curves, and every best rate."""
    stepped = t.select.get("optimizer") or t.select.get("update")
    title = f"Does the learning rate transfer? {t.select['placement']}, stepped by {stepped}"
    answer = doc.paragraphs(map(_answer, t.closures))
    exponents = doc.Section("Exponents", tuple(_exponents(t)))
    curves = doc.Section("Loss against learning rate", (figure(t), _rates(t)))
    ran = f"{t.device}, {t.seconds:.0f} s; unigram entropy {number(t.baseline, '.3f')} nats a byte"
    stopped = [f"{t.stopped}: a part of what was asked for."] * bool(t.stopped)
    trained = doc.Paragraph(_trained(t), aside=True)
    closing = doc.paragraphs([*stopped, ran])
    return doc.Document(title, (*answer, trained), (exponents, curves), closing)


def figure(transfer: Transfer) -> doc.Panels:
    """The curves of every closure in a panel of its own."""
    panels = tuple((c.closure, tuple(_curves(c))) for c in transfer.closures)
    return doc.Panels(
        panels, "learning rate", "held-out loss, nats a byte", transfer.baseline,
        "unigram entropy", CAPTION,
    )  # fmt: skip


def _curves(closure: ClosureTransfer) -> Iterator[doc.Curve]:
    last = max(1, len(closure.curves) - 1)
    for index, c in enumerate(closure.curves):
        best = doc.Mark(c.best, c.best_loss, c.low, c.high) if math.isfinite(c.best) else None
        points = tuple(zip(c.rates, c.losses, strict=True))
        yield doc.Curve(depth_words(c.depth), points, index / last, best)


def _answer(closure: ClosureTransfer) -> tuple[doc.Inline, ...]:
    e = closure.exponent
    told = f"{closure.closure}: the best rate scales as {e.variable}^{number(e.estimate, '.3f')}, "
    if e.estimate != e.estimate:
        told = f"{closure.closure}: no exponent of the best rate; "
    return f"{told}{true_signs(e.because)}: ", closure.verdict, f".{_cost(closure)}"


def _cost(closure: ClosureTransfer) -> str:
    c = closure.cost
    if c.estimate != c.estimate:
        return ""
    first, last = (depth_words(curve.depth) for curve in (closure.curves[0], closure.curves[-1]))
    return (
        f" At the rate {number(c.rate, '.3g')}, the best at {first}, {last} adds "
        f"{signed(c.estimate, '.3f')} ({signed_interval(c.low, c.high, '.3f')}) to the loss."
    )


def _trained(t: Transfer) -> str:
    m = t.measure
    return (
        f"{m['steps']} steps of {m['batch']} windows of {m['tokens']} bytes, width {_widths(m)}, "
        f"{m['seeds']} seeds, no warm-up. SUPPORTED: the exponent's interval over seeds lies "
        "inside ±1/16. REFUTED: it lies outside, or at the shallowest stack's best rate the "
        "deepest one loses more than a tenth of what the shallowest has learnt."
    )


def _widths(measure: Mapping[str, Any]) -> str:
    width = measure["width"]
    return ", ".join(map(str, width)) if isinstance(width, list) else str(width)


def _exponents(t: Transfer) -> Iterator[doc.Block]:
    rows = []
    for c in t.closures:
        for e in (*c.exponents, c.failing):
            known = e.estimate == e.estimate
            shown = (signed(e.estimate), signed_interval(e.low, e.high)) if known else ("-", "-")
            expected = predicted(e.predicted, "-") if e is c.failing else "-"
            rows.append(
                doc.cells(
                    c.closure, doc.Code(c.rho), f"{e.share} in {e.variable}", *shown, expected
                )
            )
    head = ("closure", "ρ/η", "exponent of", "measured", "95% interval", "derived")
    yield doc.Table(head, tuple(rows), numbers=(3, 4, 5))
    yield doc.Terms(tuple((f"{c.closure}, {e.share} in {e.variable}", true_signs(e.because))
                          for c in t.closures for e in (*c.exponents, c.failing)))  # fmt: skip


def _rates(t: Transfer) -> doc.Table:
    rows = tuple((c.closure, *_rate(curve)) for c in t.closures for curve in c.curves)
    head = ("closure", "depth", "best rate", "95% interval", "loss there", "fails from")
    return doc.Table(head, rows, numbers=(2, 3, 4, 5))


def _rate(curve: Curve) -> tuple[str, ...]:
    best, ends, loss = "-", "-", "-"
    if math.isfinite(curve.best):
        best, ends = number(curve.best, ".3g"), interval(curve.low, curve.high, ".3g")
        loss = number(curve.best_loss, ".3f")
    return depth_words(curve.depth), best, ends, loss, known(curve.first_failing)


def document(training: Training) -> doc.Document:
    """First, last and held-out loss of every run, beside the unigram entropy."""
    translates = any(run.shuffled is not None for run in training.runs)
    head: tuple[str, ...] = ("run", "steps", "first", "last", "held out", "largest R",
                             "another's source")  # fmt: skip
    head = head if translates else head[:-1]
    rows = tuple(_losses(run)[: len(head)] for run in training.runs)
    findings = tuple((run.rule, run.finding) for run in training.runs if run.finding)
    entropy = doc.Paragraph(f"unigram entropy {number(training.baseline, '.3f')} (nats per byte)")
    common = doc.Paragraph(
        "R: the summed weight, beside the stream, of what the branches add to all tokens alike; "
        "what is a token's own is divided by cosh(R) with a norm on every sum, by sqrt(1 + R**2) "
        "without.",
        aside=True,
    )
    body = (doc.Table(head, rows, numbers=tuple(range(1, len(head)))), entropy, common)
    verdict = (training.verdict, f": {training.because}; {training.seconds:.0f} s")
    constants = training.conditions.get("constants", {})
    origin = constants.get("origin", {})
    named = origin.get("rows")  # of a file, which may say anything there
    rules = rows_named(named if isinstance(named, dict) else {}, origin.get("row"), "trained here")
    needs = [str(condition)] if (condition := constants.get("condition")) else []
    return doc.Document(
        "Training",
        (doc.Paragraph(verdict), *rules, *doc.paragraphs((*needs, *training.warnings))),
        (doc.Section("Losses", (*body, doc.Terms(findings)) if findings else body),),
    )


def _losses(run: Run) -> tuple[str, ...]:
    ends = (*(run.losses[:1] or [None]), *(run.losses[-1:] or [None]), run.held_out)
    largest = known(max(run.common_mode, default=None), ".1f")
    losses = (*(known(loss, ".3f") for loss in ends), largest, known(run.shuffled, ".3f"))
    return (run.rule, str(len(run.losses)), *losses)
