"""What one update moves, as documents: of a rule, of one's own models, predicted, across width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.rule import PLAIN
from deepnet_theory.report import document as doc
from deepnet_theory.report.common_mode import over_updates
from deepnet_theory.report.document import SIGNED, depth_words, interval, number, power, true_signs

if TYPE_CHECKING:
    from deepnet_theory.definitions.measurement import (
        AssumptionResult,
        Exponent,
        ModelMeasurement,
        Point,
        PredictedPoint,
        UpdatePrediction,
        Verification,
    )

P = TypeVar("P", bound="Point | PredictedPoint")
Y_LABEL = "‖ΔF‖/η per token"
ROUNDING = 1e-6  # of the largest share: a bias of the keys moves nothing but the last digits
MOST_SHARES = 12  # on a page; the JSON has all
LEGEND = (
    "Bars are 95% intervals over seeds; lines have the predicted slopes, solid for this rule, "
    "dashed for other rules on the same network{}; the broad band is the absolute size that "
    "single sublayers predict on the same data, without a free constant."
)
MIXED = (
    "The output sums the shares of two parts: the larger power, which is predicted, shows only at "
    "depths where its part dominates."
)


# the four documents


def document(v: Verification, rivals: Sequence[Verification] = ()) -> doc.Document:
    """The whole measurement; ``rivals`` are measurements of other rules on the same network."""
    if "across" in v.select:
        return width_document(v)
    return doc.Document(
        f"{Y_LABEL}, {measured_network(v) or rule_words(v)}",
        (
            *rows_named(v.rows, next(iter(v.rows), None), "measured here"),
            *doc.paragraphs((answer(v), level(v))),
            doc.Paragraph(f"Measured after one step: {_settings(v.measure)}.", aside=True),
        ),
        (*sections(v, rivals), doc.Section("Assumptions", (assumptions(v.assumptions),))),
        (_ran(v),),
    )


def width_document(v: Verification) -> doc.Document:
    """What one update of every role moves at several widths, of each parametrisation."""
    m = v.measure
    basis = (
        f"To first order in the learning rate: {m['tokens']} tokens, batch {m['batch']}, "
        f"{m['seeds']} seeds. A role is judged by its own output, and by what the loss does along "
        "its gradient; both are free of units of the learning rate."
    )
    answers, parts = [], list[doc.Section]()
    for one in (v, *v.others):
        name = one.rule["name"]
        name = "the derived rule" if name == "rule" else f"parametrisation {name}"
        wrong = ", ".join(e.share for e in one.exponents if e.verdict is Verdict.REFUTED)
        right = sum(e.verdict is Verdict.SUPPORTED for e in one.exponents)
        count = f"{name}: {right} of {len(one.exponents)} exponents as predicted"
        answers.append((f"{count}{f', not {wrong}' if wrong else ''}: ", one.verdict, "."))
        table, reasons = _judged(one.exponents)
        parts += [
            doc.Section(f"Exponents, {name}", (table,)),
            doc.Section(f"Why these verdicts, {name}", (reasons,), folded=True),
            doc.Section(
                f"The loss by one update of everything, {name}", (points(one.points),), folded=True
            ),
        ]
    return doc.Document(
        f"One update across the width, {measured_network(v)}",
        (*doc.paragraphs(answers), doc.Paragraph(basis, aside=True)),
        (*parts, doc.Section("Warnings", doc.paragraphs([v.stopped]))),
        (_ran(v),),
    )


def model_document(m: ModelMeasurement) -> doc.Document:
    """Of one's own models: constant or not, and what moves F."""
    deepest = depth_words(m.points[-1].depth) if m.points else "the deepest point"
    exponents = doc.table(
        "parameters | in | >exponent | >95% interval | constant | …because",
        (
            (e.share, e.variable, number(e.estimate, SIGNED), _ends(e), e.verdict, _because(e))
            for e in m.exponents
        ),
    )
    shares = doc.table(
        "name | >mean | >95% interval",
        ((s.name, number(s.mean), interval(s.low, s.high)) for s in m.shares[:MOST_SHARES]),
    )
    left = len(m.shares) - MOST_SHARES
    by_name = "‖ΔF‖/η by name, the parameters of each stepped alone:" * bool(m.shares)
    rest = f"{left} more, each less than these." * (left > 0)
    step = f"one step of {m.optimizer} at {m.measure['seeds']} seeds"
    return doc.Document(
        f"{Y_LABEL}, {m.model}",
        (
            *doc.paragraphs((_constant(m), *(f"Warning: {warning}." for warning in m.warnings))),
            doc.Paragraph(f"Measured after {step}.", aside=True),
        ),
        (
            doc.Section("Points", (*model_figures(m), points(m.points))),
            doc.Section("Exponents", (exponents,) if m.points else ()),
            doc.Section(
                f"What moves F at {deepest}",
                (doc.Paragraph(by_name), shares, doc.Paragraph(rest, aside=True)),
            ),
            doc.Section("What tokens come to share over updates", over_updates(m)),
        ),
        (_ran(m),),
    )


def prediction_document(p: UpdatePrediction) -> doc.Document:
    """A prediction in absolute size: the points, and what each kind of parameter moves."""
    stepped = p.select.get("optimizer") or p.select.get("update")
    basis = (
        f"From single sublayers, with no free constant: {_settings(p.measure)}. Intervals are over "
        f"{p.measure['seeds']} seeds, each with data of its own."
    )
    sizes = doc.table(
        "depth | >‖ΔF‖/η | >95% interval | >S r²",
        (
            (depth_words(q.depth), number(q.mean), interval(q.low, q.high), number(q.identity))
            for q in p.points
        ),
    )
    kinds = doc.table(
        "of | parameters | >‖ΔF‖/η | >95% interval",
        ((s.part, s.name, number(s.mean), interval(s.low, s.high)) for s in p.shares),
    )
    figures = _beside_a_constant("predicted", p.points, Y_LABEL, f"stepped by {stepped}")
    network = f"{p.select['placement']} {p.select['stack']}"
    if "model" in p.select:
        network = f"the {network} that is like {p.select['model']},"
    return doc.Document(
        f"{Y_LABEL}, predicted: {network} stepped by {stepped}",
        (doc.Paragraph(basis, aside=True),),
        (
            doc.Section("Points", (*figures, sizes)),
            doc.Section(f"Stepped alone, at {depth_words(p.points[-1].depth)}", (kinds,)),
            doc.Section("Warnings", doc.paragraphs(p.warnings)),
        ),
    )


# the answer, what was measured, and where


def rows_named(rows: Mapping[str, str], used: str | None, what: str) -> Iterator[doc.Paragraph]:
    """Both rules by name, first the one that was ``used``, with ``what`` was done with it."""
    for name, formulas in sorted(rows.items(), key=lambda row: row[0] != used):
        yield doc.Paragraph(f"{name}{f', {what}' * (name == used)}: {formulas}.")


def _settings(measure: Mapping[str, Any]) -> str:
    keys = ("data", "width", "tokens", "step")
    return ", ".join(f"{key} {measure[key]}" for key in keys if key in measure)


def _ran(measured: Verification | ModelMeasurement) -> doc.Paragraph:
    return doc.Paragraph((measured.verdict, f" ({measured.device}, {measured.seconds:.1f} s)"))


def three_lines(v: Verification) -> str:
    """A verification as an interpreter shows it: of what, its answer, its range."""
    return _range(f"<Verification of {measured_network(v)}, {rule_words(v)}", answer(v), v)


def model_lines(m: ModelMeasurement) -> str:
    """A measurement of one's own models, likewise."""
    return _range(f"<ModelMeasurement of {m.model}, stepped by {m.optimizer}", _constant(m), m)


def _range(first: str, words: Sequence[doc.Inline], m: Verification | ModelMeasurement) -> str:
    depths = " to ".join(depth_words(p.depth) for p in (*m.points[:1], *m.points[1:][-1:]))
    ran = f" {len(m.points)} depths, {depths or 'none'}; {m.device}, {m.seconds:.1f} s>"
    return "\n".join((first, " " + "".join(map(str, words)), ran))


def answer(v: Verification) -> tuple[doc.Inline, ...]:
    """What ‖ΔF‖ does with the depth, and the verdict."""
    if not v.exponents:
        return (v.verdict, ": no exponent was measured.")
    moved = "The loss by one update" if "across" in v.select else "‖ΔF‖"
    return true_signs(f"{moved} {v.trend}: "), v.verdict, to_decide(v.verdict, v.whole)


def to_decide(verdict: Verdict, exponents: Iterable[Exponent]) -> str:
    """What ends a sentence in a verdict: what an UNDECIDED one lacks."""
    lacking = {e.would_decide for e in exponents if e.would_decide}
    if verdict is not Verdict.UNDECIDED or not lacking:
        return "."
    return f": {'; '.join(sorted(lacking))}."


def level(v: Verification) -> tuple[doc.Inline, ...]:
    """The absolute size against what single sublayers predict, where it was compared."""
    if v.level is None:
        return ()
    because = v.level.because
    return f"In absolute size, against single sublayers: {because}: ", v.level.verdict, "."


def _constant(m: ModelMeasurement) -> tuple[doc.Inline, ...]:
    wide = bool(m.points) and "d" in m.points[0].depth
    off = [e.share for e in m.exponents[1:] if e.verdict is Verdict.REFUTED]
    exceptions = f"; off in the width: {', '.join(off)}" if wide and off else ""
    subject = "all of it is constant" if wide else "it is constant"
    sentence = true_signs(f"‖ΔF‖ {m.trend}{exceptions}; that {subject} is ")
    return sentence, m.verdict, to_decide(m.verdict, m.exponents[:1])


def measured_network(v: Verification, nameless: str = "") -> str:
    """Which network was measured, stepped by what; an update has no name but what it says."""
    update = v.select.get("update")
    stepped = v.select.get("optimizer") or (update and (nameless or update))
    words = (v.select.get("placement"), v.select.get("stack"), f"stepped by {stepped}")
    return " ".join(str(word) for word in words) if stepped else ""


def rule_words(v: Verification) -> str:
    """Whose rule was measured; a user's own one shows what it says, if that is short."""
    name, entries = str(v.rule.get("name", "")), v.rule.get("entries", ())
    if name == "custom":  # derived for an update that has no name
        return "derived rule"
    if name == "own":
        formulas = [f"α = {e['alpha']}, β = {e['beta']}" for e in entries]
        return formulas[0] if len(formulas) == 1 and len(formulas[0]) <= 16 else "own rule"
    others = ", ".join(n for n in name.split(", ") if n != PLAIN)
    plain = "α = β = 1" if name.endswith(PLAIN) else ""
    return ", ".join(words for words in (others and f"rule of {others}", plain) if words)


# exponents, points, shares and premises as tables


def sections(v: Verification, rivals: Sequence[Verification] = ()) -> tuple[doc.Section, ...]:
    """Exponents with their figures, the rivals, the points, what each kind moves, warnings."""
    table, reasons = _judged(v.exponents)
    why: doc.Block | doc.Section = reasons
    if len(v.exponents) > 2:
        why = doc.Section("Why these verdicts", (reasons,), folded=True)
    figures = [update_figure(v, variable, rivals) for variable in _variables(v)]
    if figures:  # the first one tells how to read them all
        seen = " (other marks, measured on the first of the same seeds)" * bool(rivals)
        caption = f"{figures[0].caption} {LEGEND.format(seen)}"
        figures[0] = replace(figures[0], caption=caption)
    title = f"Stepped alone, at {depth_words(v.points[-1].depth)}" if v.points else ""
    return (
        doc.Section("Exponents", (*figures, table, why)),
        doc.Section("Other rules", _rivals(rivals)),
        doc.Section("Points", (points(v.points),), folded=True),
        doc.Section(title, (_shares(v), *shares_figure(v)) if title else ()),
        doc.Section("Warnings", doc.paragraphs(v.warnings)),
    )


def _variables(v: Verification) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.variable for e in v.exponents))


def points(measured: Sequence[Point]) -> doc.Table:
    """‖ΔF‖/η at every depth beside what was predicted of it, and findings where there are any."""
    columns = "depth | >mean | >95% interval | >seeds"
    if with_prediction := any(p.predicted is not None for p in measured):
        columns += " | >predicted | >its interval"
    if with_finding := any(p.finding for p in measured):
        columns += " | …finding"
    rows = []
    for p in measured:
        row = [depth_words(p.depth), number(p.mean), interval(p.low, p.high), str(p.seeds)]
        if with_prediction:
            row += [number(p.predicted), interval(p.predicted_low, p.predicted_high)]
        rows.append((*row, *[p.finding] * with_finding))
    return doc.table(columns, rows)


def _shares(v: Verification) -> doc.Table:
    rows = (
        (name, number(s.mean), interval(s.low, s.high), number(s.predicted), number(s.ratio),
         interval(s.ratio_low, s.ratio_high))
        for name, s in _named_shares(v)
    )  # fmt: skip
    columns = "parameters | >‖ΔF‖/η | >95% interval | >predicted | >ratio | >its interval"
    return doc.table(columns, rows)


def _named_shares(v: Verification, floor: float = -1.0) -> list[tuple[str, Any]]:
    """The shares above ``floor`` by name; the part belongs to it where there are several."""
    shares = [s for s in v.shares if min(s.mean, s.predicted) > floor]
    several = len({s.part for s in shares}) > 1
    return [(f"{s.part} {s.name}" if several else s.name, s) for s in shares]


def _judged(exponents: Sequence[Exponent]) -> tuple[doc.Table, doc.Terms]:
    """Exponents with their verdicts, and why each has the one that it has."""
    names = [f"in {e.variable}, {e.share}" for e in exponents]
    rows = (_exponent(name, e.verdict, e) for name, e in zip(names, exponents, strict=True))
    reasons = doc.Terms(tuple(zip(names, map(_because, exponents), strict=True)))
    return _exponents("exponent | verdict", rows), reasons


def _exponents(first: str, rows: Iterable[tuple[doc.Words, ...]]) -> doc.Table:
    return doc.table(f"{first} | >measured | >95% interval | >predicted", rows)


def _exponent(name: str, verdict: doc.Inline, e: Exponent) -> tuple[doc.Words, ...]:
    predicted = number(e.predicted, "+.4g", "none")
    return name, verdict, number(e.estimate, SIGNED), _ends(e), predicted


def _ends(e: Exponent) -> str:
    return interval(e.low, e.high, SIGNED)


def _because(e: Exponent) -> str:
    start = e.fitted_from
    parts = [] if start is None else [f"fitted from {e.variable} = {start}"]
    rivals = ", ".join(f"{name} {power(slope)}" for name, slope in e.rivals)
    parts += [true_signs(s) for s in (e.because, e.would_decide) if s]
    parts += [f"other optimizers' rules here: {rivals}"] if rivals else []
    return "; ".join(parts)


def _rivals(rivals: Sequence[Verification]) -> tuple[doc.Block, ...]:
    if not rivals:
        return ()
    # Rivals see the same data, embedding and head: what a seed does to one rule it does to the
    # other, so that a difference of rules is free of it.
    seeds, draws = (rivals[0].measure.get(key) for key in ("seeds", "draws"))
    rows = (
        _exponent(f"{rule_words(r)}, in {e.variable}", "-" if e.predicted is None else e.verdict, e)
        for r in rivals
        for e in r.whole
    )
    basis = (
        "The rules of other optimizers and the plain network, stepped by this optimizer, are no "
        f"part of the verdict; they were measured on {seeds} of the same seeds, {draws} draws each."
    )
    asides = [
        f"No slope is predicted of {rule_words(r)}: {r.warnings[0]}."
        for r in rivals
        if r.warnings and any(e.predicted is None for e in r.exponents)
    ]
    asides += [MIXED] * (len(rivals[0].points[0].depth) > 1)
    table = _exponents("rule | its prediction", rows)
    return doc.Paragraph(basis), table, *doc.paragraphs(asides, aside=True)


def assumptions(
    measured: Sequence[AssumptionResult], stated: Mapping[str, str] | None = None
) -> doc.Table:
    """Every assumption with what its measurement says; ``stated`` ones may be unmeasured."""
    results = {a.name: a for a in measured}
    statements = dict(stated or {}) | {a.name: a.statement for a in measured if a.statement}
    rows: list[tuple[doc.Words, ...]] = []
    for name in dict.fromkeys((*statements, *results)):
        verdict, reason = Verdict.ASSUMED, "not measured"
        if name in results:  # the reason tells the interval
            verdict, reason = results[name].verdict, true_signs(results[name].because)
        rows.append((name, verdict, statements.get(name, ""), reason))
    return doc.table("assumption | verdict | …statement | …measured", rows)


# figures: what was measured beside what was predicted


def update_figure(
    verification: Verification,
    variable: str | None = None,
    rivals: Sequence[Verification] = (),
) -> doc.Figure:
    """``‖ΔF‖/η`` against a depth, log–log, with lines of the predicted slopes.

    ``variable`` is the depth that varies, by default the first exponent's; of two depths the
    other one is held at its least value. ``rivals`` are measurements of other rules.
    """
    v = verification
    variable = variable or next(iter(_variables(v)), "N")
    series, lines = [], slopes(v, variable, with_rivals=not rivals)
    for index, one in enumerate((v, *rivals)):
        colour, measured = 1 + max(0, index - 1) % 3, along(one.points, variable)
        # what is far from the identity has no law, and no size to be held against
        lawful = not index or all(e.predicted is not None for e in one.exponents)
        band = _band(measured, variable) if lawful else ()
        mark = marks(measured, variable)
        series.append(doc.Series(rule_words(one), mark, index == 0, colour, band))
        if index:
            line = slopes(one, variable, with_rivals=False)
            lines += [replace(slope, own=False, colour=colour) for slope in line]
    held = "; the other depth at its least" * (bool(v.points) and len(v.points[0].depth) > 1)
    caption = (
        "How far one step moves the output, per token and in units of the learning rate, against "
        f"{variable}{held}."
    )
    y_label = "change of the loss, per unit of learning rate" if "across" in v.select else Y_LABEL
    title = measured_network(v, "the update given")
    return doc.Figure(tuple(series), tuple(lines), along_what(variable), y_label, title, caption)


def along_what(variable: str) -> str:
    """The label of an axis of widths or depths."""
    return "d, width" if variable == "d" else f"{variable}, layers"


def shares_figure(verification: Verification) -> tuple[doc.Figure, ...]:
    """What each kind of parameter moves against what single sublayers predict; none of nothing."""
    largest = max((s.predicted for s in verification.shares), default=0.0)
    moved = _named_shares(verification, ROUNDING * largest)
    if not moved:
        return ()
    moved.sort(key=lambda named: named[1].predicted)
    series = tuple(
        doc.Series(name, (doc.Mark(float(f"{s.predicted:.3g}"), s.mean, s.low, s.high),))
        for name, s in moved
    )
    least = moved[0][1].predicted
    line = doc.Slope("", 1.0, least, least, own=True)
    caption = (
        "Each kind of parameter stepped alone; bars are 95% intervals over seeds. On the line the "
        "measured is what single sublayers predict, without a free constant."
    )
    return (doc.Figure(series, (line,), "predicted", Y_LABEL, "stepped alone", caption, True),)


def along(points: Sequence[P], variable: str) -> list[P]:
    """The points where only ``variable`` varies, the other depth at its least.

    Where both depths grow together no two points share the other depth: all are taken.
    """
    groups: dict[tuple[int, ...], list[P]] = {}
    for point in points:
        held = tuple(n for symbol, n in point.depth.items() if symbol != variable)
        groups.setdefault(held, []).append(point)
    several = {held: group for held, group in groups.items() if len(group) > 1}
    chosen: Sequence[P] = several[min(several)] if several else points
    return sorted(chosen, key=lambda p: p.depth[variable])


def marks(points: Sequence[Point | PredictedPoint], variable: str) -> tuple[doc.Mark, ...]:
    """The points as a figure shows them."""
    return tuple(doc.Mark(p.depth[variable], p.mean, p.low, p.high) for p in points)


def _band(points: Sequence[Point], variable: str) -> tuple[doc.Mark, ...]:
    return tuple(
        doc.Mark(p.depth[variable], p.predicted, p.predicted_low, p.predicted_high)
        for p in points
        if p.predicted is not None and p.predicted_low is not None and p.predicted_high is not None
    )


def slopes(verification: Verification, variable: str, with_rivals: bool = True) -> list[doc.Slope]:
    """Lines of predicted slope, all through the first point of the region that was fitted.

    ``with_rivals`` adds the slopes that rules which were not measured would have.
    """
    exponent = next((e for e in verification.whole if e.variable == variable), None)
    points = along(verification.points, variable)
    if exponent is None or exponent.predicted is None or not points:
        return []
    start = next((p for p in points if p.depth[variable] >= (exponent.fitted_from or 0)), points[0])
    if not 0 < start.mean < float("inf"):
        return []
    place = (float(start.depth[variable]), start.mean)
    label = f"{rule_words(verification)}:\n{power(exponent.predicted)}"
    lines = [doc.Slope(label, exponent.predicted, *place, own=True)]
    rivals = doc.gathered((value, name) for name, value in exponent.rivals if with_rivals)
    for value, names in sorted(rivals.items()):
        if value != exponent.predicted:
            shown = ", ".join(names) if len(names) < 3 else f"{names[0]}, {len(names) - 1} more"
            lines.append(doc.Slope(f"rule of {shown}:\n{power(value)}", value, *place))
    return lines


def model_figures(m: ModelMeasurement) -> tuple[doc.Figure, ...]:
    """‖ΔF‖/η against every depth or width that varies."""
    wide = bool(m.points) and "d" in m.points[0].depth
    y_label = "‖ΔF‖/(η ‖F‖)" if wide else Y_LABEL
    return _beside_a_constant(m.model, m.points, y_label, f"stepped by {m.optimizer}")


def _beside_a_constant(
    label: str, points: Sequence[P], y_label: str, title: str
) -> tuple[doc.Figure, ...]:
    """Points against each of the sizes that they differ in, or the first; a constant through one.

    No figure of a first point that has no place.
    """
    if not points or not 0 < points[0].mean < float("inf"):
        return ()
    sizes = tuple(points[0].depth)
    varying = tuple(s for s in sizes if len({p.depth[s] for p in points}) > 1) or sizes[:1]
    figures = []
    for variable in varying:
        shown, x_label = along(points, variable), along_what(variable)
        lines = (doc.Slope("constant", 0.0, float(shown[0].depth[variable]), shown[0].mean),)
        held = "; what else varies is at its least" if len(points) > len(shown) else ""
        caption = (
            f"How far one step moves the output, against {x_label}{held}. Bars are 95% intervals "
            "over seeds; the dashed line is constant, through the first point."
        )
        series = (doc.Series(label, marks(shown, variable)),)
        figures.append(doc.Figure(series, lines, x_label, y_label, title, caption))
    return tuple(figures)
