"""Trainings as documents: whether the best rate transfers over depths, and one short run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from deepnet_theory.report import document as doc
from deepnet_theory.report.measurement import rows_named, to_decide
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

CURVES = (
    "against the learning rate, a curve a size, the darker the larger. A point is the best rate, "
    "and its bar the 95% interval over seeds. A curve ends where a run diverged."
)
COMMON = (
    "R: the summed weight, beside the stream, of what the branches add to all tokens alike; what "
    "is a token's own is divided by cosh(R) with a norm on every sum, by sqrt(1 + R**2) without."
)


def transfer_document(t: Transfer) -> doc.Document:
    """Whether the best rate transfers under every closure, the curves, and every best rate."""
    title = f"Does the learning rate transfer? {_of_what(t)}"
    answer = doc.paragraphs(map(_answer, t.closures))
    exponents = doc.Section("Exponents", tuple(_exponents(t)))
    curves = doc.Section("Loss against learning rate", (figure(t), _rates(t), *_common_mode(t)))
    warned = doc.Section("Warnings", doc.paragraphs(t.warnings))
    ran = f"{t.device}, {t.seconds:.0f} s"
    if t.baseline is not None:
        ran += f"; {_level(t)} {number(t.baseline, '.3f')}{'' if _own(t) else ' nats a byte'}"
    stopped = [f"{t.stopped}: a part of what was asked for."] * bool(t.stopped)
    trained = doc.Paragraph(_trained(t), aside=True)
    closing = doc.paragraphs([*stopped, ran])
    return doc.Document(title, (*answer, trained), (exponents, curves, warned), closing)


def _own(t: Transfer) -> bool:
    """Whether a model of one's own was trained."""
    return "model" in t.select


def _of_what(t: Transfer) -> str:
    if _own(t):
        return str(t.select["model"])
    stepped = t.select.get("optimizer") or t.select.get("update")
    return f"{t.select['placement']}, stepped by {stepped}"


def _level(t: Transfer) -> str:
    return "baseline" if _own(t) else "unigram entropy"


def figure(transfer: Transfer) -> doc.Panels:
    """The curves of every closure in a panel of its own, or those of every width."""
    level = _level(transfer)
    what = "What evaluate() gives" if _own(transfer) else "Held-out loss"
    told = f" The dashed line is the {level}, what a model has that ignores its input."
    return doc.Panels(
        tuple(_panels(transfer, best=True)), "learning rate",
        "evaluate()" if _own(transfer) else "held-out loss, nats a byte", transfer.baseline,
        level, f"{what} {CURVES}{told if transfer.baseline is not None else ''}",
    )  # fmt: skip


def _common_mode(t: Transfer) -> Iterator[doc.Panels]:
    """R against the learning rate, where it was taken."""
    if any(curve.common_mode for c in t.closures for curve in c.curves):
        yield doc.Panels(
            tuple(_panels(t, best=False)), "learning rate", "largest R", None,
            caption=f"The largest R of all steps and seeds, a curve a size, the darker the "
            f"larger. {COMMON}", logarithmic=True,
        )  # fmt: skip


def _panels(t: Transfer, best: bool) -> Iterator[tuple[str, tuple[doc.Curve, ...]]]:
    """A panel a closure, or of one closure at several depths and widths a panel a width."""
    for c in t.closures:
        sizes = {s: sorted({curve.depth[s] for curve in c.curves}) for s in c.curves[0].depth}
        apart = len(t.closures) == 1 and all(len(sizes.get(s, ())) > 1 for s in ("N", "d"))
        for width in sizes["d"] if apart else (None,):
            of = [curve for curve in c.curves if width in (None, curve.depth.get("d"))]
            title = c.closure if width is None else f"width {width}"
            yield title, tuple(_curves(of, best, without="d" if apart else ""))


def _curves(curves: Sequence[Curve], best: bool, without: str) -> Iterator[doc.Curve]:
    last = max(1, len(curves) - 1)
    for index, c in enumerate(curves):
        label = depth_words({s: n for s, n in c.depth.items() if s != without})
        values = c.losses if best else c.common_mode or ()
        points = tuple(zip(c.rates, values, strict=True))
        mark = doc.Mark(c.best, c.best_loss, c.low, c.high) if math.isfinite(c.best) else None
        yield doc.Curve(label, points, index / last, mark if best else None)


def _answer(closure: ClosureTransfer) -> tuple[doc.Inline, ...]:
    found = [e for e in closure.exponents if math.isfinite(e.estimate)]
    told = "; ".join(
        f"the best rate scales as {e.variable}^{number(e.estimate, '.3f')}, {e.because}"
        for e in found
    )
    told = told or f"no exponent of the best rate; {closure.exponent.because}"
    lacks = to_decide(closure.verdict, closure.exponents or (closure.exponent,))
    return f"{closure.closure}: {true_signs(told)}: ", closure.verdict, f"{lacks}{_cost(closure)}"


def _cost(closure: ClosureTransfer) -> str:
    c = closure.cost
    if not math.isfinite(c.estimate):
        return ""
    first, last = (depth_words(curve.depth) for curve in (closure.curves[0], closure.curves[-1]))
    added = f"{signed(c.estimate, '.3f')} ({signed_interval(c.low, c.high, '.3f')})"
    rate = number(c.rate, ".3g")
    return f" The rate {rate}, the best at {first}, adds {added} to the loss at {last}."


def _trained(t: Transfer) -> str:
    m = t.measure
    told = f"{m['steps']} steps, {m['seeds']} seeds"
    if not _own(t):
        told = (
            f"{m['steps']} steps of {m['batch']} windows of {m['tokens']} bytes, width "
            f"{_widths(m)}, {m['seeds']} seeds, no warm-up"
        )
    learnt = "" if t.baseline is None else (
        ", or at the smallest model's best rate the largest one loses more than a tenth of what "
        "the smallest has learnt"
    )  # fmt: skip
    return (
        f"{told}. SUPPORTED: the exponent's interval over seeds lies inside ±1/16. REFUTED: it "
        f"lies outside{learnt}."
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
            rho = doc.Code(c.rho) if c.rho else "-"
            rows.append(doc.cells(c.closure, rho, f"{e.share} in {e.variable}", *shown, expected))
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
    common = doc.Paragraph(COMMON, aside=True)
    figures: tuple[doc.Block, ...] = ()
    if any(run.losses for run in training.runs):
        figures = losses_figure(training), _common_mode_figure(training)
    table = doc.Table(head, rows, numbers=tuple(range(1, len(head))))
    told = (doc.Terms(findings),) if findings else ()
    verdict = (training.verdict, f": {training.because}; {training.seconds:.0f} s")
    constants = training.conditions.get("constants", {})
    origin = constants.get("origin", {})
    named = origin.get("rows")  # of a file, which may say anything there
    rules = rows_named(named if isinstance(named, dict) else {}, origin.get("row"), "trained here")
    needs = [str(condition)] if (condition := constants.get("condition")) else []
    return doc.Document(
        "Training",
        (doc.Paragraph(verdict), *rules, *doc.paragraphs((*needs, *training.warnings))),
        (doc.Section("Losses", (table, entropy, common, *told, *figures)),),
    )


def losses_figure(training: Training) -> doc.Panels:
    """Loss against step of every run, the mean over seeds, beside the unigram entropy.

    A point is the mean over the steps since the point before; they begin a tenth of the way on.
    """
    curves = []
    for index, run in enumerate(training.runs):
        ends = sorted({round(2 ** (k / 2)) for k in range(40)} | {len(run.losses)})
        windows = [(a, b) for a, b in pairwise([0, *ends]) if b <= len(run.losses)]
        first = max(len(r.losses) for r in training.runs) / 10
        points = tuple((float(b), fmean(run.losses[a:b])) for a, b in windows if b >= first)
        curves.append(doc.Curve(_last_words(run), points, colour=index))
    caption = (
        "Training loss, the mean over the seeds and over the steps since the point before. The "
        "dashed line is the text's unigram entropy, what a model has that ignores its input. A "
        "curve ends where its loss was not finite."
    )
    return doc.Panels(
        (("Training loss, the mean over seeds", tuple(curves)),), "step",
        "cross-entropy, nats a byte", training.baseline, "unigram entropy", caption,
    )  # fmt: skip


def _common_mode_figure(training: Training) -> doc.Panels:
    """R of every run at the steps where it was taken."""
    curves = []
    for index, run in enumerate(training.runs):
        taken = zip(run.common_mode_steps, run.common_mode, strict=True)
        points = tuple((step + 1.0, value) for step, value in taken)  # a logarithm has no place 0
        curves.append(doc.Curve(_last_words(run), points, colour=index))
    caption = f"The largest R of the seeds, at the steps where it was taken. {COMMON}"
    return doc.Panels(
        (("R, the largest of the seeds", tuple(curves)),), "step", "R", None, caption=caption,
        logarithmic=True,
    )  # fmt: skip


def _last_words(run: Run) -> str:
    """What tells a long name apart: "the constants' rule", "plain pre-LN"."""
    return run.rule.split(", ")[-1]


def _losses(run: Run) -> tuple[str, ...]:
    ends = (*(run.losses[:1] or [None]), *(run.losses[-1:] or [None]), run.held_out)
    largest = known(max(run.common_mode, default=None), ".1f")
    losses = (*(known(loss, ".3f") for loss in ends), largest, known(run.shuffled, ".3f"))
    return (run.rule, str(len(run.losses)), *losses)
