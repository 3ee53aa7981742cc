"""What one update moves, as a document: of a rule, of your own models, predicted, across width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.rule import PLAIN
from deepnet_theory.report import document as doc
from deepnet_theory.report.document import SIGNED, depth_words, interval, number, power, true_signs

if TYPE_CHECKING:
    from deepnet_theory.definitions.measurement import (
        AssumptionResult,
        Estimate,
        Exponent,
        Result,
    )

    Points = Sequence[Estimate]

Y_LABEL = "‖ΔF‖/η per token"
MOST_SHARES = 12  # on a page; the JSON has all
LEGEND = (
    "Bars are 95 % intervals over seeds. Lines have the predicted slopes: solid for this rule, "
    "dashed for others. The band is the absolute size that single sublayers predict."
)
COMMON = (
    "R is the summed weight, beside the stream, of what the branches add to all tokens alike. A "
    "token's own part is divided by cosh(R) with a norm on every sum, by sqrt(1 + R**2) without."
)


# the documents


def document(v: Result, rivals: Sequence[Result] = ()) -> doc.Document:
    """The whole measurement; ``rivals`` are measurements of other rules on the same network."""
    if "across" in v.of["select"]:
        return width_document(v)
    formulas = v.of.get("rows", {})
    return doc.Document(
        f"{Y_LABEL}, {measured_network(v) or rule_words(v)}",
        (
            *rows_named(formulas, next(iter(formulas), None), "measured here"),
            *doc.paragraphs((answer(v), level(v))),
            doc.Paragraph(f"Measured after one step: {_settings(v.settings)}.", aside=True),
        ),
        (*sections(v, rivals), doc.Section("Assumptions", (assumptions(v.assumptions),))),
        (_ran(v),),
    )


def width_document(v: Result) -> doc.Document:
    """One update through every role at several widths, of each parametrisation."""
    m = v.settings
    basis = (
        f"To first order in the learning rate: {m['tokens']} tokens, batch {m['batch']}, "
        f"{m['seeds']} seeds. A role is judged by its own output, and by the loss along its "
        "gradient. Neither has a unit of the learning rate."
    )
    answers, parts = [], list[doc.Section]()
    for one in (v, *v.others):
        name = one.of["rule"]["name"]
        name = "the derived rule" if name == "rule" else f"parametrisation {name}"
        wrong = ", ".join(e.share for e in one.exponents if e.verdict is Verdict.REFUTED)
        right = sum(e.verdict is Verdict.SUPPORTED for e in one.exponents)
        count = f"{name}: {right} of {len(one.exponents)} exponents as predicted"
        answers.append((f"{count}{f', not {wrong}' if wrong else ''}: ", one.verdict, "."))
        parts += [
            doc.Section(f"Exponents, {name}", judged(one.exponents)),
            doc.Section(f"The loss by one update of everything, {name}", (points(one.points),)),
        ]
    return doc.Document(
        f"One update across the width, {measured_network(v)}",
        (*doc.paragraphs(answers), doc.Paragraph(basis, aside=True)),
        (*parts, doc.Section("Warnings", doc.paragraphs([v.stopped]))),
        (_ran(v),),
    )


def model_document(m: Result) -> doc.Document:
    """Of your own models: constant or not, and which parameters change F."""
    deepest = depth_words(m.points[-1].at) if m.points else "the deepest point"
    left = len(m.shares) - MOST_SHARES
    step = f"one step of {m.of['optimizer']} at {m.settings['seeds']} seeds"
    return doc.Document(
        f"{Y_LABEL}, {m.of['model']}",
        (
            *doc.paragraphs((_constant(m), *(f"Warning: {w}." for w in m.provenance.warnings))),
            doc.Paragraph(f"Measured after {step}.", aside=True),
        ),
        (
            doc.Section("Points", (*model_figures(m), points(m.points))),
            doc.Section("Exponents", judged(m.exponents) if m.points else ()),
            doc.Section(
                f"Stepped alone, at {deepest}",
                (
                    _shares(m.shares[:MOST_SHARES]),
                    *doc.paragraphs([f"{left} more, each less than these."] * (left > 0), True),
                ),
            ),
            doc.Section("Common to all tokens, over the updates", tuple(_over_updates(m))),
        ),
        (_ran(m),),
    )


def prediction_document(p: Result) -> doc.Document:
    """A prediction in absolute size: the points, and the share of each kind of parameter."""
    basis = (
        f"From single sublayers, with no free constant: {_settings(p.settings)}. Intervals are "
        f"over {p.settings['seeds']} seeds, each with data of its own."
    )
    select = p.of["select"]
    network = f"{select['placement']} {select['stack']}"
    return doc.Document(
        f"{Y_LABEL}, predicted: {network} stepped by {_stepped(select)}",
        (doc.Paragraph(basis, aside=True),),
        (
            doc.Section("Points", (*prediction_figures(p), points(p.points))),
            doc.Section(f"Stepped alone, at {depth_words(p.points[-1].at)}",
                        (_shares(p.shares),)),
            doc.Section("Warnings", doc.paragraphs(p.provenance.warnings)),
        ),
    )  # fmt: skip


def sections(v: Result, rivals: Sequence[Result] = ()) -> tuple[doc.Section, ...]:
    """Exponents with their figures, the rivals, the points, the shares, the warnings."""
    title = f"Stepped alone, at {depth_words(v.points[-1].at)}" if v.points else ""
    return (
        doc.Section("Exponents", (*figures(v, rivals=rivals), *judged(v.exponents))),
        doc.Section("Other rules", tuple(_rivals(rivals))),
        doc.Section("Points", (points(v.points),), folded=True),
        doc.Section(title, (_shares(v.shares),) if title else ()),
        doc.Section("Warnings", doc.paragraphs(v.provenance.warnings)),
    )


def _over_updates(m: Result) -> Iterator[doc.Block]:
    """R, the tokens' cosine and the loss of every depth, from the first update to the last."""

    def both(values: Sequence[float], form: str) -> str:
        return f"{number(values[0], form)} → {number(values[-1], form)}"

    if not m.updates:
        return
    rate = m.settings["eta"]
    at_rate = "its own rate" if rate is None else f"the rate {rate:g}"
    updates = f"{m.settings['updates']} updates of {m.of['optimizer']} at {at_rate}"
    yield doc.Paragraph(f"{updates}, from the first to the last. {COMMON}", aside=True)
    yield doc.table(
        "depth | >largest R | >R | >tokens' cosine | >loss",
        (
            (depth_words(u.depth), number(max(u.common_mode), ".2f"), both(u.common_mode, ".2f"),
             both(u.token_cosine, ".2f"), both(u.losses, ".3f"))
            for u in m.updates
            if u.common_mode
        ),
    )  # fmt: skip


# sentences


def three_lines(v: Result) -> str:
    """A verification as an interpreter shows it: of what, its answer, its range."""
    return _range(f"<Result of {measured_network(v)}, {rule_words(v)}", answer(v), v)


def model_lines(m: Result) -> str:
    """A measurement of your own models, likewise."""
    return _range(f"<Result of {m.of['model']}, stepped by {m.of['optimizer']}", _constant(m), m)


def _range(first: str, words: Sequence[doc.Inline], m: Result) -> str:
    depths = " to ".join(depth_words(p.at) for p in (*m.points[:1], *m.points[1:][-1:]))
    ran = f" {len(m.points)} depths, {depths or 'none'}; {m.provenance.ran}>"
    return "\n".join((first, " " + "".join(map(str, words)), ran))


def answer(v: Result) -> tuple[doc.Inline, ...]:
    """How ‖ΔF‖ depends on the depth, and the verdict."""
    if not v.exponents:
        return (v.verdict, ": no exponent was measured.")
    moved = "The loss by one update" if "across" in v.of["select"] else "‖ΔF‖"
    return true_signs(f"{moved} {v.trend}: "), v.verdict, to_decide(v.verdict, v.whole)


def _constant(m: Result) -> tuple[doc.Inline, ...]:
    wide = bool(m.points) and "d" in m.points[0].at
    off = [e.share for e in m.exponents[1:] if e.verdict is Verdict.REFUTED]
    exceptions = f"; off in the width: {', '.join(off)}" if wide and off else ""
    subject = "all of it is constant" if wide else "it is constant"
    sentence = true_signs(f"‖ΔF‖ {m.trend}{exceptions}; that {subject} is ")
    return sentence, m.verdict, to_decide(m.verdict, m.exponents[:1])


def level(v: Result) -> tuple[doc.Inline, ...]:
    """The absolute size against the prediction of single sublayers, where it was compared."""
    if v.level is None:
        return ()
    because = v.level.because
    return f"In absolute size, against single sublayers: {because}: ", v.level.verdict, "."


def to_decide(verdict: Verdict, exponents: Iterable[Exponent]) -> str:
    """The end of a sentence with a verdict: what an UNDECIDED one needs."""
    lacking = {e.would_decide for e in exponents if e.would_decide}
    if verdict is not Verdict.UNDECIDED or not lacking:
        return "."
    return f": {'; '.join(sorted(lacking))}."


def rows_named(rows: Mapping[str, str], used: str | None, what: str) -> Iterator[doc.Paragraph]:
    """Both rules by name, first the one that was ``used``, with ``what`` was done with it."""
    for name, formulas in sorted(rows.items(), key=lambda row: row[0] != used):
        yield doc.Paragraph(f"{name}{f', {what}' * (name == used)}: {formulas}.")


def measured_network(v: Result, nameless: str = "") -> str:
    """Which network was measured, stepped by what; an update has no name but what it says."""
    stepped = _stepped(v.of["select"], nameless)
    words = (v.of["select"].get("placement"), v.of["select"].get("stack"), f"stepped by {stepped}")
    return " ".join(str(word) for word in words) if stepped else ""


def _stepped(select: Mapping[str, Any], nameless: str = "") -> str:
    update = select.get("update")
    return str(select.get("optimizer") or (update and (nameless or update)) or "")


def rule_words(v: Result) -> str:
    """Whose rule was measured; a custom rule shows its formulas, if they are short."""
    name, entries = str(v.of["rule"].get("name", "")), v.of["rule"].get("entries", ())
    if name == "custom":  # derived for an update that has no name
        return "derived rule"
    if name == "own":
        formulas = [f"α = {e['alpha']}, β = {e['beta']}" for e in entries]
        return formulas[0] if len(formulas) == 1 and len(formulas[0]) <= 16 else "own rule"
    others = ", ".join(n for n in name.split(", ") if n != PLAIN)
    plain = "α = β = 1" if name.endswith(PLAIN) else ""
    return ", ".join(words for words in (others and f"rule of {others}", plain) if words)


def _settings(measure: Mapping[str, Any]) -> str:
    keys = ("data", "width", "tokens", "step")
    return ", ".join(f"{key} {measure[key]}" for key in keys if key in measure)


def _ran(measured: Result) -> doc.Paragraph:
    return doc.Paragraph((measured.verdict, f" ({measured.provenance.ran})"))


# tables


def points(measured: Points) -> doc.Table:
    """‖ΔF‖/η at every depth, and the columns that any of the points has a value for."""
    named = (">predicted", ">its interval", "…finding")
    cells = [(*_predicted(p), p.finding) for p in measured]
    told = [i for i, _ in enumerate(named) if any(row[i] for row in cells)]
    rows = (
        (depth_words(p.at), number(p.mean), interval(p.low, p.high), str(len(p.values)),
         *(row[i] for i in told))
        for p, row in zip(measured, cells, strict=True)
    )  # fmt: skip
    columns = ("depth", ">mean", ">95 % interval", ">seeds", *(named[i] for i in told))
    return doc.table(" | ".join(columns), rows)


def _predicted(p: Estimate) -> tuple[str, str]:
    """What was predicted of an estimate, and its interval over layers."""
    if p.predicted is None:
        return "", ""
    mean, low, high = p.predicted
    return number(mean), interval(low, high)


def _shares(shares: Points) -> doc.Table:
    """‖ΔF‖/η with one kind of parameter stepped alone; against the prediction, if there is one."""
    several = len({s.at.get("part") for s in shares}) > 1
    both = any(s.predicted for s in shares)
    columns = "parameters | >‖ΔF‖/η | >95 % interval" + " | >predicted | >its interval" * both
    rows = (
        (
            " ".join(s.at.values()) if several else s.at["name"],
            number(s.mean),
            interval(s.low, s.high),
            *(_predicted(s) if both else ()),
        )
        for s in shares
    )
    return doc.table(columns, rows)


def judged(exponents: Sequence[Exponent]) -> tuple[doc.Table, doc.Terms]:
    """Exponents with their verdicts, and the reason of each."""
    names = [f"in {e.variable}, {e.share}" for e in exponents]
    rows = (_exponent(name, e.verdict, e) for name, e in zip(names, exponents, strict=True))
    reasons = doc.Terms(tuple(zip(names, map(_because, exponents), strict=True)))
    return _exponents("exponent | verdict", rows), reasons


def _exponents(first: str, rows: Iterable[tuple[doc.Words, ...]]) -> doc.Table:
    return doc.table(f"{first} | >measured | >95 % interval | >predicted", rows)


def _exponent(name: str, verdict: doc.Inline, e: Exponent) -> tuple[doc.Words, ...]:
    ends = interval(e.low, e.high, SIGNED)
    return name, verdict, number(e.estimate, SIGNED), ends, number(e.predicted, "+.4g", "none")


def _because(e: Exponent) -> str:
    parts = [] if e.fitted_from is None else [f"fitted from {e.variable} = {e.fitted_from}"]
    rivals = ", ".join(f"{name} {power(slope)}" for name, slope in e.rivals)
    parts += [true_signs(s) for s in (e.because, e.would_decide) if s]
    parts += [f"other optimizers' rules here: {rivals}"] if rivals else []
    return "; ".join(parts)


def _rivals(rivals: Sequence[Result]) -> Iterator[doc.Block]:
    # Rivals see the same data, embedding and head: what a seed does to one rule it does to the
    # other, so that a difference of rules is free of it.
    if not rivals:
        return
    seeds, draws = (rivals[0].settings.get(key) for key in ("seeds", "draws"))
    yield doc.Paragraph(
        "The rules of other optimizers and the plain network, stepped by this optimizer, are no "
        f"part of the verdict; they were measured on {seeds} of the same seeds, {draws} draws each."
    )
    yield _exponents("rule | its prediction", (
        _exponent(f"{rule_words(r)}, in {e.variable}", "-" if e.predicted is None else e.verdict, e)
        for r in rivals
        for e in r.whole
    ))  # fmt: skip
    for r in rivals:
        if r.provenance.warnings and any(e.predicted is None for e in r.exponents):
            yield doc.Paragraph(
                f"No slope is predicted of {rule_words(r)}: {r.provenance.warnings[0]}.", True
            )


def assumptions(
    measured: Sequence[AssumptionResult], stated: Mapping[str, str] | None = None
) -> doc.Table:
    """Every assumption with its measurement; ``stated`` ones may be unmeasured."""
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


def figures(
    v: Result, variable: str | None = None, rivals: Sequence[Result] = ()
) -> tuple[doc.Figure, ...]:
    """``‖ΔF‖/η`` against each depth that varies, or ``variable``, with the predicted slopes.

    Of two depths the other one is held at its least value.
    """
    variables = dict.fromkeys(e.variable for e in v.exponents)
    return tuple(_figure(v, one, rivals) for one in ([variable] if variable else variables))


def _figure(v: Result, variable: str, rivals: Sequence[Result]) -> doc.Figure:
    series = [_measured(one, variable, min(i, 3)) for i, one in enumerate((v, *rivals))]
    if not rivals:
        series += _unmeasured(v, variable)
    held = "; the other depth at its least" * (bool(v.points) and len(v.points[0].at) > 1)
    caption = f"One step's change of the output per token and unit of learning rate{held}. {LEGEND}"
    y_label = (
        "change of the loss, per unit of learning rate" if "across" in v.of["select"] else Y_LABEL
    )
    title = measured_network(v, "the update given")
    return doc.Figure(((title, tuple(series)),), along_what(variable), y_label, caption)


def _measured(v: Result, variable: str, colour: int) -> doc.Series:
    """Points and the line of their predicted slope, through the first that entered the fit."""
    shown, label = along(v.points, variable), rule_words(v)
    exponent = _whole(v, variable)
    if exponent is None or exponent.predicted is None:
        # what is far from the identity has no law, and no size to be held against
        return doc.Series(label, marks(shown, variable), colour=colour)
    line = _line(shown, variable, exponent.predicted, exponent.fitted_from or 0)
    band = tuple(doc.Mark(p.at[variable], *p.predicted) for p in shown if p.predicted is not None)
    label += f" ({power(exponent.predicted)})"
    return doc.Series(label, marks(shown, variable), line, band, colour, dashed=colour > 0)


def _whole(v: Result, variable: str) -> Exponent | None:
    return next((e for e in v.whole if e.variable == variable), None)


def _unmeasured(v: Result, variable: str) -> Iterator[doc.Series]:
    """Lines of the slopes that rules which were not measured would have."""
    exponent, shown = _whole(v, variable), along(v.points, variable)
    if exponent is None:
        return
    slopes = doc.gathered(
        (slope, name) for name, slope in exponent.rivals if slope != exponent.predicted
    )
    for index, (slope, names) in enumerate(sorted(slopes.items())):
        who = ", ".join(names) if len(names) < 3 else f"{names[0]}, {len(names) - 1} more"
        line = _line(shown, variable, slope, exponent.fitted_from or 0)
        label = f"rule of {who} ({power(slope)})"
        yield doc.Series(label, line=line, colour=1 + index % 3, dashed=True)


def _line(
    shown: Points, variable: str, slope: float, start: int = 0
) -> tuple[tuple[float, float], ...]:
    """A line of a slope over the points, through the first one from ``start`` on."""
    first = next((p for p in shown if p.at[variable] >= start), None)
    if first is None or not 0 < first.mean < float("inf"):
        return ()
    xs = (shown[0].at[variable], shown[-1].at[variable])
    return tuple((x, first.mean * (x / first.at[variable]) ** slope) for x in xs)


def along_what(variable: str) -> str:
    """The label of an axis of widths or depths."""
    return "d, width" if variable == "d" else f"{variable}, layers"


def along(points: Points, variable: str) -> list[Estimate]:
    """The points where only ``variable`` varies, the other depth at its least.

    Where both depths grow together no two points share the other depth: all are taken.
    """
    groups: dict[tuple[int, ...], list[Estimate]] = {}
    for point in points:
        held = tuple(n for symbol, n in point.at.items() if symbol != variable)
        groups.setdefault(held, []).append(point)
    several = {held: group for held, group in groups.items() if len(group) > 1}
    chosen = several[min(several)] if several else points
    return sorted(chosen, key=lambda p: p.at[variable])


def marks(points: Points, variable: str) -> tuple[doc.Mark, ...]:
    """The points as a figure shows them."""
    return tuple(doc.Mark(p.at[variable], p.mean, p.low, p.high) for p in points)


def model_figures(m: Result) -> tuple[doc.Figure, ...]:
    """‖ΔF‖/η of your own models against every depth or width that varies."""
    wide = bool(m.points) and "d" in m.points[0].at
    y_label = "‖ΔF‖/η per entry" if wide else Y_LABEL
    return _beside_a_constant(m.of["model"], m.points, y_label, f"stepped by {m.of['optimizer']}")


def prediction_figures(p: Result) -> tuple[doc.Figure, ...]:
    """‖ΔF‖/η as predicted, against every depth that varies."""
    return _beside_a_constant(
        "predicted", p.points, Y_LABEL, f"stepped by {_stepped(p.of['select'])}"
    )


def _beside_a_constant(
    label: str, points: Points, y_label: str, title: str
) -> tuple[doc.Figure, ...]:
    """Points against each of the sizes that they differ in, or the first; a constant through one.

    No figure where the first point has no place on a logarithmic axis.
    """
    if not points or not 0 < points[0].mean < float("inf"):
        return ()
    sizes = tuple(points[0].at)
    drawn = []
    for variable in [s for s in sizes if len({p.at[s] for p in points}) > 1] or sizes[:1]:
        shown, x_label = along(points, variable), along_what(variable)
        constant = doc.Series("constant", (), _line(shown, variable, 0.0), colour=1, dashed=True)
        held = "; the other size is at its least" if len(points) > len(shown) else ""
        caption = (
            f"One step's change of the output against {x_label}{held}. Bars are 95 % intervals "
            "over seeds; the dashed line is constant, through the first point."
        )
        panel = (doc.Series(label, marks(shown, variable)), constant)
        drawn.append(doc.Figure(((title, panel),), x_label, y_label, caption))
    return tuple(drawn)
