"""Trainings as documents: whether the best learning rate transfers, and one short run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.document import SIGNED, depth_words, interval, number, true_signs
from deepnet_theory.report.experiment import COMMON, rows_named, to_decide

if TYPE_CHECKING:
    from deepnet_theory.definitions.measurement import Exponent
    from deepnet_theory.definitions.training import ClosureTransfer, Curve, Run, Training, Transfer

CURVES = (
    "against the learning rate, a curve a size, the darker the larger. A point is the best rate, "
    "and its bar the 95 % interval over seeds. A curve ends where a run diverged."
)


# does the best rate transfer?


def transfer_document(t: Transfer) -> doc.Document:
    """Every rule's answer, its exponents, and the losses against the rate."""
    own_model, m = "model" in t.select, t.measure
    stepped = t.select.get("optimizer") or t.select.get("update")
    subject = t.select["model"] if own_model else f"{t.select['placement']}, stepped by {stepped}"
    trained = f"{m['steps']} steps, {m['seeds']} seeds"
    if not own_model:
        widths = m["width"] if isinstance(m["width"], list) else [m["width"]]
        trained = (
            f"{m['steps']} steps of {m['batch']} windows of {m['tokens']} bytes, width "
            f"{', '.join(map(str, widths))}, {m['seeds']} seeds, no warm-up"
        )
    trained += ". SUPPORTED: the exponent's interval over seeds lies inside ±1/16. REFUTED: it "
    trained += "lies outside"
    ran = f"{t.provenance.device}, {t.provenance.seconds:.0f} s"
    if t.baseline is not None:
        trained += (
            ", or at the smallest model's best rate the largest model loses more than a tenth of "
            "what the smallest has learnt"
        )
        ran += f"; {_level(t)} {number(t.baseline, '.3f')}{'' if own_model else ' nats a byte'}"
    stopped = f"{t.stopped}: a part of what was asked for." * bool(t.stopped)
    exponents = [(c, e) for c in t.closures for e in (*c.exponents, c.failing)]
    reasons = ((f"{c.closure}, {_what(e)}", true_signs(e.because)) for c, e in exponents)
    columns = "closure | ρ/η | exponent of | >measured | >95 % interval | >derived"
    table = doc.table(columns, (_exponent(c, e) for c, e in exponents))
    return doc.Document(
        f"Does the learning rate transfer? {subject}",
        (*doc.paragraphs(map(_answer, t.closures)), doc.Paragraph(f"{trained}.", aside=True)),
        (
            doc.Section("Exponents", (table, doc.Terms(tuple(reasons)))),
            doc.Section("Best learning rates", (*transfer_figures(t), _rates(t))),
            *(doc.Section(f"Losses, {c.closure}", (_losses_by_rate(c),)) for c in t.closures),
            doc.Section("Warnings", doc.paragraphs(t.provenance.warnings)),
        ),
        doc.paragraphs((stopped, ran)),
    )


def transfer_line(t: Transfer) -> str:
    """A transfer as an interpreter shows it."""
    reasons = "; ".join(f"{c.closure}: {c.exponent.because}" for c in t.closures)
    return f"<Transfer {reasons}: {t.verdict.value}>"


def _level(t: Transfer) -> str:
    return "baseline" if "model" in t.select else "unigram entropy"


def _what(e: Exponent) -> str:
    return f"{e.share} in {e.variable}"


def _answer(closure: ClosureTransfer) -> tuple[doc.Inline, ...]:
    scales = "; ".join(
        f"the best rate scales as {e.variable}^{number(e.estimate, '.3f')}, {e.because}"
        for e in closure.exponents
        if math.isfinite(e.estimate)
    )
    scales = scales or f"no exponent of the best rate; {closure.exponent.because}"
    end = to_decide(closure.verdict, closure.exponents or (closure.exponent,))
    cost = closure.cost
    if math.isfinite(cost.estimate):
        first, last = (depth_words(c.depth) for c in (closure.curves[0], closure.curves[-1]))
        ends = interval(cost.low, cost.high, "+.3f")
        added = number(cost.estimate, "+.3f") + f" ({ends})" * (ends != "-")
        rate = number(cost.rate, ".3g")
        end += f" The rate {rate}, the best at {first}, adds {added} to the loss at {last}."
    return f"{closure.closure}: {true_signs(scales)}: ", closure.verdict, end


def _exponent(c: ClosureTransfer, e: Exponent) -> tuple[doc.Words, ...]:
    estimate = "-" if math.isnan(e.estimate) else number(e.estimate, SIGNED)
    derived = number(e.predicted, "+.4g") if e is c.failing else "-"
    rho = doc.Code(c.rho) if c.rho else "-"
    return c.closure, rho, _what(e), estimate, interval(e.low, e.high, SIGNED), derived


def _losses_by_rate(closure: ClosureTransfer) -> doc.Table:
    """The mean loss of every rate, a column a size; "-" where a seed diverged."""
    curves = closure.curves
    by_rate = [dict(zip(c.rates, c.losses, strict=True)) for c in curves]
    columns = " | >".join(("rate", *(depth_words(c.depth) for c in curves)))
    rows = (
        (number(rate, ".3g"), *(number(row.get(rate), ".3f") for row in by_rate))
        for rate in sorted({rate for c in curves for rate in c.rates})
    )
    return doc.table(columns, rows)


def _rates(t: Transfer) -> doc.Table:
    """The best rate of every curve, or why there is none, and the lowest loss that was measured."""
    rows = []
    for closure in t.closures:
        for c in closure.curves:
            best, ends, loss = c.finding or "-", "-", min(filter(math.isfinite, c.losses),
                                                          default=math.nan)  # fmt: skip
            if math.isfinite(c.best):
                best, loss = number(c.best, ".3g"), c.best_loss
                ends = interval(c.low, c.high, ".3g")
            row = (closure.closure, depth_words(c.depth), best, ends, number(loss, ".3f"))
            rows.append((*row, number(c.first_failing)))
    columns = "closure | depth | >best rate | >95 % interval | >lowest loss | >fails from"
    return doc.table(columns, rows)


def transfer_figures(t: Transfer) -> tuple[doc.Figure]:
    """Loss against rate, a panel a closure, beside the loss of a model that ignores its input."""
    own_model = "model" in t.select
    caption = f"{'The value of evaluate()' if own_model else 'Validation loss'} {CURVES}"
    level = None if t.baseline is None else (t.baseline, _level(t))
    if level is not None:
        caption += f" The dashed line is the {level[1]}: the model ignores its input."
    y_label = "evaluate()" if own_model else "validation loss, nats a byte"
    return (doc.Figure(tuple(_panels(t)), "learning rate", y_label, caption, True, level),)


def _panels(t: Transfer) -> Iterator[tuple[str, tuple[doc.Series, ...]]]:
    """A panel a closure, or of one closure at several depths and widths a panel a width."""
    for c in t.closures:
        sizes = {s: sorted({curve.depth[s] for curve in c.curves}) for s in c.curves[0].depth}
        apart = len(t.closures) == 1 and all(len(sizes.get(s, ())) > 1 for s in ("N", "d"))
        for width in sizes["d"] if apart else (None,):
            curves = [curve for curve in c.curves if width in (None, curve.depth.get("d"))]
            title = c.closure if width is None else f"width {width}"
            yield title, tuple(_curves(curves, without="d" if apart else ""))


def _curves(curves: Sequence[Curve], without: str) -> Iterator[doc.Series]:
    last = max(1, len(curves) - 1)
    for index, c in enumerate(curves):
        label = depth_words({s: n for s, n in c.depth.items() if s != without})
        best = (doc.Mark(c.best, c.best_loss, c.low, c.high, True),) * math.isfinite(c.best)
        line = tuple(zip(c.rates, c.losses, strict=True))
        yield doc.Series(label, best, line, shade=index / last)


# one short run


def document(training: Training) -> doc.Document:
    """The verdict, which rule was trained, and the result of every run."""
    columns = "run | >steps | >first | >last | >validation | >largest R"
    rows = map(_losses, training.runs)
    constants = training.conditions.get("constants", {})
    origin = constants.get("origin", {})
    formulas = origin.get("rows")  # of a file, which may say anything there
    formulas = formulas if isinstance(formulas, dict) else {}
    condition = str(constants.get("condition") or "")
    entropy = f"unigram entropy {number(training.baseline, '.3f')} (nats per byte)"
    findings = doc.Terms(tuple((r.rule, r.finding) for r in training.runs if r.finding))
    table = doc.table(columns, rows)
    words = (doc.Paragraph(entropy), doc.Paragraph(COMMON, aside=True))
    return doc.Document(
        "Training",
        (
            doc.Paragraph((training.verdict, f": {training.because}; {training.provenance.ran}")),
            *rows_named(formulas, origin.get("row"), "trained here"),
            *doc.paragraphs((condition, *training.provenance.warnings)),
        ),
        (doc.Section("Losses", (table, *words, findings, *figures(training))),),
    )


def _losses(run: Run) -> tuple[str, ...]:
    ends = (*(run.losses[:1] or [None]), *(run.losses[-1:] or [None]), run.held_out)
    largest = number(max(run.common_mode, default=None), ".1f")
    losses = (number(loss, ".3f") for loss in ends)
    return run.rule, str(len(run.losses)), *losses, largest


def figures(training: Training) -> tuple[doc.Figure, ...]:
    """Loss against step of every run, the mean over seeds, beside the unigram entropy.

    A point is the mean over the steps since the point before; they begin a tenth of the way on.
    """
    if not any(run.losses for run in training.runs):
        return ()
    first = max(len(r.losses) for r in training.runs) / 10
    series = []
    for index, run in enumerate(training.runs):
        ends = sorted({round(2 ** (k / 2)) for k in range(40)} | {len(run.losses)})
        # as far apart as they are far: what a logarithmic axis shows evenly
        windows = [(a, b) for a, b in pairwise([0, *ends]) if a < b <= len(run.losses)]
        line = tuple((float(b), fmean(run.losses[a:b])) for a, b in windows if b >= first)
        name = run.rule.split(", ")[-1]  # "the constants' rule", "plain pre-LN"
        series.append(doc.Series(name, line=line, colour=min(index, 3)))
    caption = (
        "Training loss, the mean over the seeds and over the steps since the point before. The "
        "dashed line is the text's unigram entropy, the loss of a model that ignores its input. A "
        "curve ends where its loss was not finite."
    )
    level = None if training.baseline is None else (training.baseline, "unigram entropy")
    panel = ("Training loss, the mean over seeds", tuple(series))
    return (doc.Figure((panel,), "step", "cross-entropy, nats a byte", caption, True, level),)
