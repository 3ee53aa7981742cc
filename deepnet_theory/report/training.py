"""Trainings as documents: whether the best learning rate transfers, and one short run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.document import depth_words, interval, number
from deepnet_theory.report.experiment import COMMON, judged, rows_named

if TYPE_CHECKING:
    from deepnet_theory.definitions.training import ClosureTransfer, Run, Training, Transfer

CURVES = (
    "Loss against the learning rate, a curve a size, the darker the larger. A point is the best "
    "rate, and its bar the 95 % interval over seeds. A curve ends where a run diverged. The dashed "
    "line is the loss of a model that ignores its input."
)
JUDGED = (
    "SUPPORTED: the exponent's interval over seeds lies inside ±1/16. REFUTED: it lies outside, or "
    "at the smallest model's best rate the largest model loses more than a tenth of what the "
    "smallest has learnt."
)
LOSS = "nats a byte"


# ---- does the best rate transfer? ----


def transfer(t: Transfer) -> doc.Document:
    """Every rule's answer, its exponents, and the losses against the rate."""
    stepped = t.select.get("optimizer") or t.select.get("update")
    subject = t.select.get("model") or f"{t.select['placement']}, trained with {stepped}"
    keys = ("steps", "batch", "tokens", "width", "seeds")
    settings = ", ".join(f"{key} {t.measure[key]}" for key in keys if key in t.measure)
    stopped = f"{t.provenance.stopped}: a part of what was asked for." * bool(t.provenance.stopped)
    baseline = f"; baseline {number(t.baseline, '.3f')}" * (t.baseline is not None)
    body: doc.Body = (
        *map(_answer, t.closures),
        f"{settings}. {JUDGED}",
        *(
            doc.Document(f"Exponents, {c.closure}, ρ/η = {c.rho or '-'}", (judged(c.exponents),))
            for c in t.closures
        ),
        doc.Document("Best learning rates", (*transfer_figures(t), _rates(t))),
        *(doc.Document(f"Losses, {c.closure}", (_losses_by_rate(c),)) for c in t.closures),
        doc.Document("Warnings", t.provenance.warnings),
        stopped,
        f"{t.provenance.ran}{baseline}",
    )
    return doc.Document(f"Does the learning rate transfer? {subject}", body)


def transfer_line(t: Transfer) -> str:
    """A transfer as an interpreter shows it."""
    reasons = "; ".join(f"{c.closure}: {c.exponent.because}" for c in t.closures)
    return f"<Transfer {reasons}: {t.verdict.value}>"


def _answer(closure: ClosureTransfer) -> tuple[doc.Inline, ...]:
    scales = "; ".join(
        f"the best rate scales as {e.variable}^{number(e.estimate, '.3f')}, {e.because}"
        for e in closure.exponents
        if math.isfinite(e.estimate)
    )
    scales = scales or f"no exponent of the best rate; {closure.exponent.because}"
    end = "."
    cost = closure.cost
    if math.isfinite(cost.estimate):
        first, last = (depth_words(c.depth) for c in (closure.curves[0], closure.curves[-1]))
        ends = interval(cost.low, cost.high, "+z.3f")
        added = number(cost.estimate, "+z.3f") + f" ({ends})" * (ends != "-")
        end += (
            f" The rate {cost.rate:.3g}, the best at {first}, adds {added} to the loss at {last}."
        )
    return f"{closure.closure}: {scales}: ", closure.verdict, end


def _losses_by_rate(closure: ClosureTransfer) -> doc.Table:
    """The mean loss of every rate, a column a size; "-" where a seed diverged."""
    by_rate = [dict(zip(c.rates, c.losses, strict=True)) for c in closure.curves]
    columns = " | >".join(("rate", *(depth_words(c.depth) for c in closure.curves)))
    rows = (
        (number(rate, ".3g"), *(number(row.get(rate), ".3f") for row in by_rate))
        for rate in sorted({rate for row in by_rate for rate in row})
    )
    return doc.table(columns, rows)


def _rates(t: Transfer) -> doc.Table:
    """The best rate of every curve, or why there is none, and the lowest loss that was measured."""
    rows = []
    for closure in t.closures:
        for c in closure.curves:
            lowest = min(filter(math.isfinite, c.losses), default=math.nan)
            best, ends = c.finding or "-", "-"
            if math.isfinite(c.best):
                best, lowest = number(c.best, ".3g"), c.best_loss
                ends = interval(c.low, c.high, ".3g")
            told = (best, ends, number(lowest, ".3f"), number(c.first_failing))
            rows.append((closure.closure, depth_words(c.depth), *told))
    columns = "closure | depth | >best rate | >95 % interval | >lowest loss | >fails from"
    return doc.table(columns, rows)


def transfer_figures(t: Transfer) -> tuple[doc.Figure]:
    """Loss against rate, a panel a closure, compared with a model that ignores its input."""
    level = None if t.baseline is None else (t.baseline, "baseline")
    y_label = "evaluate()" if "model" in t.select else f"validation loss, {LOSS}"
    panels = tuple((c.closure, tuple(_curves(c))) for c in t.closures)
    return (doc.Figure(panels, "learning rate", y_label, CURVES, True, level),)


def _curves(c: ClosureTransfer) -> Iterator[doc.Series]:
    last = max(1, len(c.curves) - 1)
    for index, curve in enumerate(c.curves):
        best = (doc.Mark(curve.best, curve.best_loss, curve.low, curve.high, True),)
        line = tuple(zip(curve.rates, curve.losses, strict=True))
        marks = best if math.isfinite(curve.best) else ()
        yield doc.Series(depth_words(curve.depth), marks, line, shade=index / last)


# ---- one short run ----


def document(training: Training) -> doc.Document:
    """The verdict, which rule was trained, and the result of every run."""
    constants = training.conditions.get("constants", {})
    origin = constants.get("origin", {})
    formulas = origin.get("rows")  # of a file, which may say anything there
    formulas = formulas if isinstance(formulas, dict) else {}
    columns = "run | >steps | >first | >last | >validation | >largest R"
    losses: doc.Body = (
        doc.table(columns, map(_losses, training.runs)),
        f"Unigram entropy {number(training.baseline, '.3f')} {LOSS}. {COMMON}",
        doc.terms((r.rule, r.finding) for r in training.runs if r.finding),
        *figures(training),
    )
    body: doc.Body = (
        (training.verdict, f": {training.because} ({training.provenance.ran})."),
        *rows_named(formulas, origin.get("row"), "trained here"),
        str(constants.get("condition") or ""),
        *training.provenance.warnings,
        doc.Document("Losses", losses),
    )
    return doc.Document("Training", body)


def _losses(run: Run) -> tuple[str, ...]:
    ends = (*(run.losses[:1] or [None]), *(run.losses[-1:] or [None]), run.held_out)
    largest = number(max(run.common_mode, default=None), ".1f")
    return run.rule, str(len(run.losses)), *(number(loss, ".3f") for loss in ends), largest


def figures(training: Training) -> tuple[doc.Figure, ...]:
    """Loss against step of every run, beside the unigram entropy."""
    series = tuple(
        doc.Series(run.rule, line=tuple(enumerate(run.losses, start=1)), colour=min(index, 3))
        for index, run in enumerate(training.runs)
    )
    if not any(one.line for one in series):
        return ()
    caption = "Training loss, the mean over the seeds. A curve ends where it was not finite."
    level = (training.baseline, "unigram entropy")
    y_label = f"cross-entropy, {LOSS}"
    return (doc.Figure((("Training loss", series),), "step", y_label, caption, True, level),)
