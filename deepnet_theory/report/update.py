"""The figure of a verification: what was measured beside what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report.numbers import depth_words, power
from deepnet_theory.spec.rule import PLAIN

if TYPE_CHECKING:
    from deepnet_theory.spec.results.verification import ModelMeasurement, Point, Verification

Y_LABEL = "‖ΔF‖/η per token"
ROUNDING = 1e-6  # of the largest share: a bias of the keys moves nothing but the last digits


def update_figure(
    verification: Verification,
    variable: str | None = None,
    rivals: Sequence[Verification] = (),
) -> doc.Figure:
    """``‖ΔF‖/η`` against a depth, log–log, with lines of the predicted slopes.

    ``variable`` is the depth that varies, by default the first exponent's; of two depths the
    other one is held at its least value. ``rivals`` are measurements of other rules.
    """
    exponents = verification.exponents
    first = exponents[0].variable if exponents else "N"
    variable = variable or first
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
    return doc.Figure(tuple(series), tuple(lines), f"{variable}, layers", Y_LABEL, network, caption)


def measured_range(
    of: str, answer: Sequence[doc.Inline], measured: Verification | ModelMeasurement
) -> str:
    """Three lines, as an interpreter shows a measurement: of what, its answer, its range."""
    m = measured
    depths = " to ".join(depth_words(p.depth) for p in (*m.points[:1], *m.points[1:][-1:]))
    ran = f" {len(m.points)} depths, {depths or 'none'}; {m.device}, {m.seconds:.1f} s>"
    return "\n".join((of, " " + "".join(map(str, answer)), ran))


def shares_figure(verification: Verification) -> tuple[doc.Figure, ...]:
    """What each kind of parameter moves against what single sublayers predict; none of nothing."""
    largest = max((s.predicted for s in verification.shares), default=0.0)
    moved = sorted(
        (s for s in verification.shares if min(s.mean, s.predicted) > ROUNDING * largest),
        key=lambda s: s.predicted,
    )
    if not moved:
        return ()
    several = len({s.part for s in moved}) > 1
    series = tuple(
        doc.Series(
            f"{s.part} {s.name}" if several else s.name,
            (doc.Mark(float(f"{s.predicted:.3g}"), s.mean, s.low, s.high),),
        )
        for s in moved
    )
    least = moved[0].predicted
    line = doc.Slope("", 1.0, least, least, own=True)
    caption = (
        "Each kind of parameter stepped alone; bars are 95% intervals over seeds. On the line the "
        "measured is what single sublayers predict, without a free constant."
    )
    return (doc.Figure(series, (line,), "predicted", Y_LABEL, "stepped alone", caption, True),)


def along(points: Sequence[Point], variable: str) -> list[Point]:
    """The points on which only ``variable`` varies, the other depth at its least.

    Where both depths grow together no two points share the other depth: all are taken.
    """
    groups: dict[tuple[int, ...], list[Point]] = {}
    for point in points:
        held = tuple(n for symbol, n in point.depth.items() if symbol != variable)
        groups.setdefault(held, []).append(point)
    several = {held: group for held, group in groups.items() if len(group) > 1}
    chosen = several[min(several)] if several else points
    return sorted(chosen, key=lambda p: p.depth[variable])


def marks(points: Sequence[Point], variable: str) -> tuple[doc.Mark, ...]:
    """The points as a figure marks them."""
    return tuple(doc.Mark(p.depth[variable], p.mean, p.low, p.high) for p in points)


def _band(points: Sequence[Point], variable: str) -> tuple[doc.Mark, ...]:
    """What was predicted of the points in absolute size."""
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
    """Whose rule was measured; a user's own one is told by what it says, where that is short."""
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
    exponent = next(
        (e for e in verification.exponents if e.variable == variable and e.share == "all"), None
    )
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
