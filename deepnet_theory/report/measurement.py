"""Measurements of ‖ΔF‖/η as documents: of a rule, of one's own models, and predicted ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from deepnet_theory.report import document as doc
from deepnet_theory.report.common_mode import over_updates
from deepnet_theory.report.numbers import (
    depth_words,
    interval,
    known,
    number,
    power,
    predicted,
    signed,
    signed_interval,
    true_signs,
)
from deepnet_theory.spec.rule import PLAIN
from deepnet_theory.spec.verdict import Verdict

if TYPE_CHECKING:
    from deepnet_theory.spec.results.measurement import (
        AssumptionResult,
        Exponent,
        ModelMeasurement,
        Point,
        PredictedPoint,
        Share,
        UpdatePrediction,
        Verification,
    )

P = TypeVar("P", bound="Point | PredictedPoint")
Y_LABEL = "‖ΔF‖/η per token"
ROUNDING = 1e-6  # of the largest share: a bias of the keys moves nothing but the last digits
MOST_SHARES = 12  # on a page; the JSON has all


def document(v: Verification, rivals: Sequence[Verification] = ()) -> doc.Document:
    """The whole measurement; ``rivals`` are measurements of other rules on the same network."""
    if "across" in v.select:
        return width_document(v)
    asked = _settings(v.measure)
    assumed = (assumptions(v.assumptions),) if v.assumptions else ()
    return doc.Document(
        f"{Y_LABEL}, {measured_network(v) or rule_words(v)}",
        (
            *rows_named(v.rows, next(iter(v.rows), None), "measured here"),
            doc.Paragraph(answer(v)),
            *((doc.Paragraph(level(v)),) if v.level else ()),
            doc.Paragraph(f"Measured after one step: {asked}.", aside=True),
        ),
        (*sections(v, rivals), doc.Section("Assumptions", assumed)),
        (_ran(v),),
    )


def rows_named(rows: Mapping[str, str], own: str | None, what: str) -> Iterator[doc.Paragraph]:
    """Both rules by name, first the one that was used, ``own``, with ``what`` was done with it."""
    for name, told in sorted(rows.items(), key=lambda row: row[0] != own):
        yield doc.Paragraph(f"{name}{f', {what}' * (name == own)}: {told}.")


def _settings(measure: Mapping[str, Any]) -> str:
    keys = ("data", "width", "tokens", "step")
    return ", ".join(f"{key} {measure[key]}" for key in keys if key in measure)


def _ran(measured: Verification | ModelMeasurement) -> doc.Paragraph:
    return doc.Paragraph((measured.verdict, f" ({measured.device}, {measured.seconds:.1f} s)"))


def three_lines(verification: Verification) -> str:
    of = f"<Verification of {measured_network(verification)}, {rule_words(verification)}"
    return _range(of, answer(verification), verification)


def _range(of: str, told: Sequence[doc.Inline], m: Verification | ModelMeasurement) -> str:
    """Three lines, as an interpreter shows a measurement: of what, its answer, its range."""
    depths = " to ".join(depth_words(p.depth) for p in (*m.points[:1], *m.points[1:][-1:]))
    ran = f" {len(m.points)} depths, {depths or 'none'}; {m.device}, {m.seconds:.1f} s>"
    return "\n".join((of, " " + "".join(map(str, told)), ran))


def answer(verification: Verification) -> tuple[doc.Inline, ...]:
    if not verification.exponents:
        return (verification.verdict, ": no exponent was measured.")
    moved = "The loss by one update" if "across" in verification.select else "‖ΔF‖"
    return (
        true_signs(f"{moved} {verification.trend}: "), verification.verdict,
        to_decide(verification.verdict, verification.whole),
    )  # fmt: skip


def to_decide(verdict: Verdict, exponents: Sequence[Exponent]) -> str:
    """What ends a sentence in a verdict: what an UNDECIDED one lacks."""
    lacking = {e.would_decide for e in exponents if e.would_decide}
    if verdict is not Verdict.UNDECIDED or not lacking:
        return "."
    return f": {'; '.join(sorted(lacking))}."


def level(verification: Verification) -> tuple[doc.Inline, ...]:
    found = verification.level
    if found is None:
        return ()
    return f"In absolute size, against single sublayers: {found.because}: ", found.verdict, "."


def sections(v: Verification, rivals: Sequence[Verification] = ()) -> tuple[doc.Section, ...]:
    reasons = doc.Terms(tuple((_where(e), _because(e)) for e in v.exponents))
    folded = doc.Section("Why these verdicts", (reasons,), folded=True)
    figures = [update_figure(v, variable, rivals) for variable in _variables(v)]
    if figures:  # the first one tells how to read them all
        figures[0] = replace(figures[0], caption=f"{figures[0].caption} {_legend(rivals)}")
    rows = tuple(_exponent(_where(e), e.verdict, e) for e in v.exponents)
    judged = (
        *figures,
        _exponents(("exponent", "verdict"), rows),
        folded if len(v.exponents) > 2 else reasons,
    )
    return (
        doc.Section("Exponents", judged if v.exponents else ()),
        doc.Section("Other rules", _rivals(rivals)),
        doc.Section("Points", (points(v.points),), folded=True),
        *_by_kind(v),
        doc.Section("Warnings", doc.paragraphs(v.warnings)),
    )


def _variables(v: Verification) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.variable for e in v.exponents))


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
        row = [depth_words(p.depth), number(p.mean), _between(p), str(p.seeds)]
        if predicted_too:
            row += [known(p.predicted), interval(p.predicted_low, p.predicted_high)]
        rows.append((*row, p.finding) if found else tuple(row))
    numbers = tuple(range(1, len(columns) - found))
    return doc.Table(tuple(columns), tuple(rows), numbers, (len(columns) - 1,) if found else ())


def _between(measured: Point | Share) -> str:
    """The interval of a size; "-" where one seed gives none."""
    return interval(measured.low, measured.high) if math.isfinite(measured.high) else "-"


def _by_kind(v: Verification) -> tuple[doc.Section, ...]:
    if not v.shares or not v.points:
        return ()
    rows = tuple(
        (name, number(s.mean), interval(s.low, s.high), number(s.predicted), known(s.ratio),
         interval(s.ratio_low, s.ratio_high))
        for name, s in _named_shares(v)
    )  # fmt: skip
    head = ("parameters", "‖ΔF‖/η", "95% interval", "predicted", "ratio", "its interval")
    title = f"Stepped alone, at {depth_words(v.points[-1].depth)}"
    return (doc.Section(title, (doc.Table(head, rows, (1, 2, 3, 4, 5)), *shares_figure(v))),)


def _named_shares(v: Verification, floor: float = -1.0) -> list[tuple[str, Any]]:
    """The shares above ``floor`` by name; the part belongs to it where there are several."""
    shares = [s for s in v.shares if min(s.mean, s.predicted) > floor]
    several = len({s.part for s in shares}) > 1
    return [(f"{s.part} {s.name}" if several else s.name, s) for s in shares]


def _where(exponent: Exponent) -> str:
    return f"in {exponent.variable}, {exponent.share}"


def _exponents(of: tuple[str, str], rows: tuple[tuple[doc.Words, ...], ...]) -> doc.Table:
    return doc.Table((*of, "measured", "95% interval", "predicted"), rows, numbers=(2, 3, 4))


def _exponent(name: str, verdict: doc.Inline, e: Exponent) -> tuple[doc.Words, ...]:
    measured = (signed(e.estimate), _ends(e), predicted(e.predicted, "none"))
    return name, verdict, *measured


def _ends(e: Exponent) -> str:
    """The interval of an exponent; "-" where one seed gives none."""
    return signed_interval(e.low, e.high) if math.isfinite(e.high - e.low) else "-"


def _because(exponent: Exponent) -> str:
    start = exponent.fitted_from
    parts = [] if start is None else [f"fitted from {exponent.variable} = {start}"]
    rivals = ", ".join(f"{name} {power(e)}" for name, e in exponent.rivals)
    parts += [true_signs(s) for s in (exponent.because, exponent.would_decide) if s]
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
    why_not = doc.paragraphs(
        (
            f"No slope is predicted of {rule_words(r)}: {r.warnings[0]}."
            for r in rivals
            if r.warnings and any(e.predicted is None for e in r.exponents)
        ),
        aside=True,
    )
    mixed = (
        "The output sums the shares of two parts: the larger power, which is predicted, shows "
        "only at depths where its part dominates."
    )
    two = len(rivals[0].points[0].depth) > 1
    table = _exponents(("rule", "its prediction"), rows)
    return doc.Paragraph(told), table, *why_not, *doc.paragraphs([mixed] * two, aside=True)


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


# one update through each role, across the width


def width_document(v: Verification) -> doc.Document:
    measure = v.measure
    told = (
        f"To first order in the learning rate: {measure['tokens']} tokens, batch "
        f"{measure['batch']}, {measure['seeds']} seeds. A role is judged by its own output, and by "
        "what the loss does along its gradient; both are free of units of the learning rate."
    )
    sections = [s for one in (v, *v.others) for s in _parametrisation(one)]
    warned = doc.Section("Warnings", doc.paragraphs([v.stopped] * bool(v.stopped)))
    return doc.Document(
        f"One update across the width, {measured_network(v)}",
        (
            *doc.paragraphs(_wide_answer(one) for one in (v, *v.others)),
            doc.Paragraph(told, aside=True),
        ),
        (*sections, warned),
        (_ran(v),),
    )


def _point_words(v: Verification) -> str:
    return "the derived rule" if v.rule["name"] == "rule" else f"parametrisation {v.rule['name']}"


def _wide_answer(v: Verification) -> tuple[doc.Inline, ...]:
    worst = [e for e in v.exponents if e.verdict is Verdict.REFUTED]
    near = sum(e.verdict is Verdict.SUPPORTED for e in v.exponents)
    said = f"{_point_words(v)}: {near} of {len(v.exponents)} exponents as predicted"
    if worst:
        said += f", not {', '.join(e.share for e in worst)}"
    return f"{said}: ", v.verdict, "."


def _parametrisation(v: Verification) -> Iterator[doc.Section]:
    name = _point_words(v)
    rows = tuple(_exponent(_where(e), e.verdict, e) for e in v.exponents)
    because = doc.Terms(tuple((_where(e), _because(e)) for e in v.exponents))
    shown = (_exponents(("exponent", "verdict"), rows),)
    yield doc.Section(f"Exponents, {name}", shown if rows else ())
    yield doc.Section(f"Why these verdicts, {name}", (because,) if rows else (), folded=True)
    table = (points(v.points),) if v.points else ()
    yield doc.Section(f"The loss by one update of everything, {name}", table, folded=True)


# figures of a verification: what was measured beside what was predicted


def update_figure(
    verification: Verification,
    variable: str | None = None,
    rivals: Sequence[Verification] = (),
) -> doc.Figure:
    """``‖ΔF‖/η`` against a depth, log–log, with lines of the predicted slopes.

    ``variable`` is the depth that varies, by default the first exponent's; of two depths the
    other one is held at its least value. ``rivals`` are measurements of other rules.
    """
    variable = variable or next(iter(_variables(verification)), "N")
    points = along(verification.points, variable)
    own = marks(points, variable)
    series = [doc.Series(rule_words(verification), own, band=_band(points, variable))]
    lines = slopes(verification, variable, with_rivals=not rivals)
    for index, rival in enumerate(rivals):
        colour = 1 + index % 3
        there = along(rival.points, variable)
        reached = all(e.predicted is not None for e in rival.exponents)
        measured, band = marks(there, variable), _band(there, variable) if reached else ()
        series.append(doc.Series(rule_words(rival), measured, own=False, colour=colour, band=band))
        own_line = slopes(rival, variable, with_rivals=False)
        lines += [replace(line, own=False, colour=colour) for line in own_line]
    held = "; the other depth at its least" if points and len(points[0].depth) > 1 else ""
    caption = (
        "How far one step moves the output, per token and in units of the learning rate, against "
        f"{variable}{held}."
    )
    network = measured_network(verification, "the update given")
    wide = "across" in verification.select
    y_label = "change of the loss, per unit of learning rate" if wide else Y_LABEL
    return doc.Figure(tuple(series), tuple(lines), along_what(variable), y_label, network, caption)


def along_what(variable: str) -> str:
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
    return tuple(doc.Mark(p.depth[variable], p.mean, p.low, p.high) for p in points)


def _band(points: Sequence[Point], variable: str) -> tuple[doc.Mark, ...]:
    return tuple(
        doc.Mark(p.depth[variable], p.predicted, p.predicted_low, p.predicted_high)
        for p in points
        if p.predicted is not None and p.predicted_low is not None and p.predicted_high is not None
    )


def measured_network(verification: Verification, nameless: str = "") -> str:
    """Which network was measured, stepped by what; an update has no name but what it says."""
    select = verification.select
    update = select.get("update")
    stepped = select.get("optimizer") or (update and (nameless or update))
    words = (select.get("placement"), select.get("stack"), f"stepped by {stepped}")
    return " ".join(str(word) for word in words) if stepped else ""


def rule_words(verification: Verification) -> str:
    """Whose rule was measured; a user's own one shows what it says, if that is short."""
    name = str(verification.rule.get("name", ""))
    if name == "custom":  # derived for an update that has no name
        return "derived rule"
    if name != "own":
        others = ", ".join(n for n in name.split(", ") if n != PLAIN)
        plain = "α = β = 1" if name.endswith(PLAIN) else ""
        return ", ".join(words for words in (others and f"rule of {others}", plain) if words)
    entries = verification.rule.get("entries", ())
    if len(entries) == 1:
        said = f"α = {entries[0]['alpha']}, β = {entries[0]['beta']}"
        if len(said) <= 16:
            return said
    return "own rule"


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
    at = (float(start.depth[variable]), start.mean)
    own = f"{rule_words(verification)}:\n{power(exponent.predicted)}"
    lines = [doc.Slope(own, exponent.predicted, *at, own=True)]
    groups: dict[float, list[str]] = {}
    for name, value in exponent.rivals if with_rivals else ():
        if value != exponent.predicted:
            groups.setdefault(value, []).append(name)
    for value, names in sorted(groups.items()):
        shown = ", ".join(names) if len(names) < 3 else f"{names[0]}, {len(names) - 1} more"
        lines.append(doc.Slope(f"rule of {shown}:\n{power(value)}", value, *at))
    return lines


# one's own models: constant or not, and what moves F


def model_document(m: ModelMeasurement) -> doc.Document:
    seeds = f"one step of {m.optimizer} at {m.measure['seeds']} seeds"
    deepest = depth_words(m.points[-1].depth) if m.points else "the deepest point"
    exponents = tuple(
        (e.share, e.variable, signed(e.estimate), _ends(e), e.verdict,
         _because(e))
        for e in m.exponents
    )  # fmt: skip
    head = ("parameters", "in", "exponent", "95% interval", "constant", "because")
    table = doc.Table(head, exponents, numbers=(2, 3), sentences=(5,))
    return doc.Document(
        f"{Y_LABEL}, {m.model}",
        (
            *doc.paragraphs((_constant(m), *(f"Warning: {warning}." for warning in m.warnings))),
            doc.Paragraph(f"Measured after {seeds}.", aside=True),
        ),
        (
            doc.Section("Points", (*model_figures(m), points(m.points)) if m.points else ()),
            doc.Section("Exponents", (table,) if m.points else ()),
            doc.Section(f"What moves F at {deepest}", _names(m)),
            doc.Section("What tokens come to share over updates", over_updates(m)),
        ),
        (_ran(m),),
    )


def model_lines(measured: ModelMeasurement) -> str:
    of = f"<ModelMeasurement of {measured.model}, stepped by {measured.optimizer}"
    return _range(of, _constant(measured), measured)


def _constant(measured: ModelMeasurement) -> tuple[doc.Inline, ...]:
    wide = bool(measured.points) and "d" in measured.points[0].depth
    off = [e.share for e in measured.exponents[1:] if e.verdict is Verdict.REFUTED]
    told = f"; off in the width: {', '.join(off)}" if wide and off else ""
    subject = "all of it is constant" if wide else "it is constant"
    lacks = to_decide(measured.verdict, measured.exponents[:1])
    return true_signs(f"‖ΔF‖ {measured.trend}{told}; that {subject} is "), measured.verdict, lacks


def model_figures(m: ModelMeasurement) -> tuple[doc.Figure, ...]:
    """‖ΔF‖/η against every depth or width that varies."""
    wide = bool(m.points) and "d" in m.points[0].depth
    y_label = "‖ΔF‖/η per entry" if wide else Y_LABEL
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
    found = []
    for variable in varying:
        there = along(points, variable)
        lines = (doc.Slope("constant", 0.0, float(there[0].depth[variable]), there[0].mean),)
        held = "; what else varies is at its least" if len(points) > len(there) else ""
        caption = (
            f"How far one step moves the output, against {along_what(variable)}{held}. Bars are "
            "95% intervals over seeds; the dashed line is constant, through the first point."
        )
        series = (doc.Series(label, marks(there, variable)),)
        found.append(doc.Figure(series, lines, along_what(variable), y_label, title, caption))
    return tuple(found)


def _names(m: ModelMeasurement) -> tuple[doc.Block, ...]:
    if not m.shares:
        return ()
    shown, left = m.shares[:MOST_SHARES], len(m.shares) - MOST_SHARES
    rows = tuple((s.name, number(s.mean), _between(s)) for s in shown)
    told = "‖ΔF‖/η by name, the parameters of each stepped alone:"
    rest = doc.paragraphs([f"{left} more, each less than these."] * (left > 0), aside=True)
    table = doc.Table(("name", "mean", "95% interval"), rows, numbers=(1, 2))
    return doc.Paragraph(told), table, *rest


# a prediction in absolute size: the points, and what each kind moves


def prediction_document(prediction: UpdatePrediction) -> doc.Document:
    select, measure = prediction.select, prediction.measure
    stepped = select.get("optimizer") or select.get("update")
    known = f"From single sublayers, with no free constant: {_settings(measure)}."
    over = f"Intervals are over {measure['seeds']} seeds, each with data of its own."
    sizes = tuple(
        (depth_words(p.depth), number(p.mean), interval(p.low, p.high), number(p.identity))
        for p in prediction.points
    )
    shares = tuple(
        (s.part, s.name, number(s.mean), interval(s.low, s.high)) for s in prediction.shares
    )
    points = doc.Table(("depth", "‖ΔF‖/η", "95% interval", "S r²"), sizes, (1, 2, 3))
    kinds = doc.Table(("of", "parameters", "‖ΔF‖/η", "95% interval"), shares, (2, 3))
    deepest = depth_words(prediction.points[-1].depth)
    drawn = _beside_a_constant("predicted", prediction.points, Y_LABEL, f"stepped by {stepped}")
    return doc.Document(
        f"{Y_LABEL}, predicted: {select['placement']} {select['stack']} stepped by {stepped}",
        (doc.Paragraph(f"{known} {over}", aside=True),),
        (
            doc.Section("Points", (*drawn, points)),
            doc.Section(f"Stepped alone, at {deepest}", (kinds,)),
            doc.Section("Warnings", doc.paragraphs(prediction.warnings)),
        ),
    )
