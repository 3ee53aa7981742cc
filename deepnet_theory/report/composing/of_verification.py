"""A measurement as a document: the verdict, the points and exponents, what was assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.numbers import (
    depth_words,
    number,
    power,
    predicted,
    signed,
    signed_interval,
    true_signs,
)
from deepnet_theory.report.update import (
    measured_network,
    measured_range,
    rule_words,
    shares_figure,
    update_figure,
)
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from deepnet_theory.spec.results.verification import (
        AssumptionResult,
        Exponent,
        Point,
        Verification,
    )


def document(verification: Verification, rivals: Sequence[Verification] = ()) -> doc.Document:
    """The whole measurement; ``rivals`` are measurements of other rules on the same network."""
    v = verification
    ran = f" ({v.device}, {v.seconds:.1f} s)"
    assumed = (assumptions(v.assumptions),) if v.assumptions else ()
    return doc.Document(
        f"‖ΔF‖/η per token, {measured_network(v) or rule_words(v)}",
        (
            *_rows(v.rows),
            doc.Paragraph(answer(v)),
            *((doc.Paragraph(level(v)),) if v.level else ()),
            doc.Paragraph(_measured_on(v), aside=True),
        ),
        (*measurement(v, rivals), doc.Section("Assumptions", assumed)),
        (doc.Paragraph((v.verdict, ran)),),
    )


def _rows(named: Mapping[str, str]) -> Iterator[doc.Paragraph]:
    """The rule that was measured, and the one to train with."""
    measured = ", measured here"
    for name, told in named.items():
        yield doc.Paragraph(f"{name}{measured}: {told}.")
        measured = ""


def three_lines(verification: Verification) -> str:
    """The measurement as an interpreter shows it: of what, the exponent judged, the range."""
    of = f"<Verification of {measured_network(verification)}, {rule_words(verification)}"
    return measured_range(of, answer(verification), verification)


def answer(verification: Verification) -> tuple[doc.Inline, ...]:
    """What the model update does with depth, and the verdict on what was predicted of it."""
    if not verification.exponents:
        return (verification.verdict, ": no exponent was measured.")
    return true_signs(f"‖ΔF‖ {verification.trend}: "), verification.verdict, "."


def level(verification: Verification) -> tuple[doc.Inline, ...]:
    """The verdict on the absolute size, and where measured and predicted are furthest apart."""
    found = verification.level
    if found is None:
        return ()
    return f"In absolute size, against single sublayers: {found.because}: ", found.verdict, "."


def measurement(
    verification: Verification, rivals: Sequence[Verification] = ()
) -> tuple[doc.Section, ...]:
    """The figures, the exponents with their verdicts, other rules, and the points."""
    exponents = verification.exponents
    reasons = doc.Terms(tuple((_where(e), _because(e)) for e in exponents))
    many = len(exponents) > 2
    folded = doc.Section("Why these verdicts", (reasons,), folded=True)
    variables = dict.fromkeys(e.variable for e in exponents)
    figures = [update_figure(verification, variable, rivals) for variable in variables]
    if figures:  # the first one tells how to read them all
        figures[0] = replace(figures[0], caption=f"{figures[0].caption} {_legend(rivals)}")
    judged = (*figures, _exponents(exponents), folded if many else reasons)
    return (
        doc.Section("Exponents", judged if exponents else ()),
        doc.Section("Other rules", _rivals(rivals)),
        doc.Section("Points", (points(verification.points),), folded=True),
        *_by_kind(verification),
        doc.Section("Warnings", tuple(doc.Paragraph(warning) for warning in verification.warnings)),
    )


def _legend(rivals: Sequence[Verification]) -> str:
    measured = " (other marks, measured on the first of the same seeds)" if rivals else ""
    return (
        "Bars are 95% intervals over seeds; lines have the predicted slopes, solid for this rule, "
        f"dashed for other rules on the same network{measured}; the broad band is the "
        "absolute size that single sublayers predict on the same data, without a free constant."
    )


def points(measured: Sequence[Point]) -> doc.Table:
    """‖ΔF‖/η at every depth beside what was predicted of it, and findings where there are any."""
    columns = ["depth", "mean", "95% interval", "seeds"]
    if predicted_too := any(p.predicted is not None for p in measured):
        columns += ["predicted", "its interval"]
    if found := any(p.finding for p in measured):
        columns += ["finding"]
    rows = []
    for p in measured:
        row = [depth_words(p.depth), number(p.mean), _interval(p.low, p.high), str(p.seeds)]
        if predicted_too:
            row += ["-" if p.predicted is None else number(p.predicted)]
            row += [_interval(p.predicted_low, p.predicted_high)]
        rows.append((*row, p.finding) if found else tuple(row))
    numbers = tuple(range(1, len(columns) - found))
    return doc.Table(tuple(columns), tuple(rows), numbers, (len(columns) - 1,) if found else ())


def _by_kind(v: Verification) -> tuple[doc.Section, ...]:
    """What each kind of parameter moves, stepped alone at the deepest depth."""
    if not v.shares or not v.points:
        return ()
    several = len({s.part for s in v.shares}) > 1
    rows = tuple(
        (f"{s.part} {s.name}" if several else s.name,
         number(s.mean), _interval(s.low, s.high), number(s.predicted),
         "-" if s.ratio is None else number(s.ratio), _interval(s.ratio_low, s.ratio_high))
        for s in v.shares
    )  # fmt: skip
    head = ("parameters", "‖ΔF‖/η", "95% interval", "predicted", "ratio", "its interval")
    title = f"Stepped alone, at {depth_words(v.points[-1].depth)}"
    return (doc.Section(title, (doc.Table(head, rows, (1, 2, 3, 4, 5)), *shares_figure(v))),)


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{number(low)} to {number(high)}"


def _where(exponent: Exponent) -> str:
    return f"in {exponent.variable}, {exponent.share}"


def _exponents(exponents: Sequence[Exponent]) -> doc.Table:
    rows = tuple(_exponent(_where(e), e.verdict, e) for e in exponents)
    head = ("exponent", "verdict", "measured", "95% interval", "predicted")
    return doc.Table(head, rows, numbers=(2, 3, 4))


def _exponent(name: str, verdict: doc.Inline, e: Exponent) -> tuple[doc.Words, ...]:
    measured = (signed(e.estimate), signed_interval(e.low, e.high), predicted(e.predicted, "none"))
    return name, verdict, *measured


def _because(exponent: Exponent) -> str:
    start = exponent.fitted_from
    parts = [] if start is None else [f"fitted from {exponent.variable} = {start}"]
    rivals = ", ".join(f"{name} {power(e)}" for name, e in exponent.rivals)
    parts += [true_signs(exponent.because)] if exponent.because else []
    parts += [f"other optimizers' rules here: {rivals}"] if rivals else []
    return "; ".join(parts)


def _rivals(rivals: Sequence[Verification]) -> tuple[doc.Block, ...]:
    if not rivals:
        return ()
    seeds, draws = (rivals[0].measure.get(key) for key in ("seeds", "draws"))
    rows = tuple(
        _exponent(f"{rule_words(r)}, in {e.variable}", "-" if e.predicted is None else e.verdict, e)
        for r in rivals
        for e in r.exponents
        if e.share == "all"
    )
    told = (
        "The rules of other optimizers and the plain network, stepped by this optimizer, are no "
        f"part of the verdict; they were measured on {seeds} of the same seeds, {draws} draws each."
    )
    head = ("rule", "its prediction", "measured", "95% interval", "predicted")
    table = doc.Table(head, rows, numbers=(2, 3, 4))
    why_not = tuple(
        doc.Paragraph(f"No slope is predicted of {rule_words(r)}: {r.warnings[0]}.", aside=True)
        for r in rivals
        if r.warnings and any(e.predicted is None for e in r.exponents)
    )
    if len(rivals[0].points[0].depth) == 1:
        return doc.Paragraph(told), table, *why_not
    mixed = (
        "The output sums the shares of two parts: the larger power, which is predicted, shows "
        "only at depths at which its part dominates."
    )
    return doc.Paragraph(told), table, *why_not, doc.Paragraph(mixed, aside=True)


def assumptions(
    measured: Sequence[AssumptionResult], stated: Mapping[str, str] | None = None
) -> doc.Table:
    """Every assumption with what its measurement says; ``stated`` ones may be unmeasured."""
    found = {a.name: a for a in measured}
    statements = dict(stated or {}) | {a.name: a.statement for a in measured if a.statement}
    rows: list[tuple[doc.Words, ...]] = []
    for name in dict.fromkeys((*statements, *found)):
        a = found.get(name)
        verdict, told = Verdict.ASSUMED, "not measured"
        if a is not None:  # the reason tells the interval
            verdict, told = a.verdict, true_signs(a.because)
        rows.append((name, verdict, statements.get(name, ""), told))
    head = ("assumption", "verdict", "statement", "measured")
    return doc.Table(head, tuple(rows), sentences=(2, 3))


def _measured_on(v: Verification) -> str:
    known = [
        f"{key} {v.measure[key]}" for key in ("data", "width", "tokens", "step") if key in v.measure
    ]
    return f"Measured after one step: {', '.join(known)}."
