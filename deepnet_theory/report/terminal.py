"""What a terminal shows of a measurement when it is done: tables, a small plot, the verdict."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deepnet_theory.report.figure import Y_LABEL, along, power, predicted_words, rule_words, slopes
from deepnet_theory.report.outline import depth_words
from deepnet_theory.report.svg import number, roomy, ticks

if TYPE_CHECKING:
    from deepnet_theory.spec.verification import Verification

WIDTH = 80


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns under their heads; all but the first column stand to the right."""
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def verification_text(
    verification: Verification, plot: bool | None = None, rivals: Sequence[Verification] = ()
) -> str:
    """Points, exponents and assumptions in at most 80 columns, ending in the verdict.

    ``plot`` adds a small log–log plot where plotext is installed; by default on a terminal.
    ``rivals`` are measurements of other rules on the same network.
    """
    v = verification
    lines = [f"‖ΔF‖/η per token after one step, {_measured_on(v)}", ""]
    lines += table(
        ("depth", "mean", "low", "high", "seeds"),
        [
            (
                depth_words(p.depth),
                f"{p.mean:.4g}",
                f"{p.low:.4g}",
                f"{p.high:.4g}",
                str(p.seeds),
            )
            for p in v.points
        ],
    )
    if plot is None:
        plot = sys.stdout.isatty()
    if plot:
        lines += _drawn(v)
    lines += ["", "Exponents (95% intervals)"]
    for e in v.exponents:
        predicted = predicted_words(e.predicted, "nothing")
        start = "" if e.fitted_from is None else f", from {e.variable} = {e.fitted_from}"
        lines.append(
            f"  in {e.variable}, {e.share}: {e.estimate:+.4f} ({e.low:+.4f} to {e.high:+.4f})"
            f"{start}; predicted {predicted}: {e.verdict.value}"
        )
        lines += _indented(e.because)
        lines += _indented(rivals_words(e.rivals))
    if rivals:
        lines += ["", "Other optimizers' rules, stepped alike", *_rivals(rivals)]
    if v.assumptions:
        lines += ["", "Assumptions"]
        for a in v.assumptions:
            shown = "" if a.estimate is None else f"  {a.estimate:.4g}"
            if a.low is not None and a.high is not None:
                shown += f" ({a.low:.4g} to {a.high:.4g})"
            lines.append(f"  {a.verdict.value:9}  {a.name}{shown}")
            lines += _indented(a.because)
    for warning in v.warnings:
        lines += ["", *textwrap.wrap(f"Warning: {warning}", WIDTH)]
    lines += ["", f"{v.verdict.value}  ({v.device}, {v.seconds:.1f} s)"]
    return "\n".join(lines)


def rivals_words(rivals: Sequence[tuple[str, float]]) -> str:
    """What the rules of other optimizers would have done, in words."""
    if not rivals:
        return ""
    return "other optimizers' rules here: " + ", ".join(f"{n} {power(e)}" for n, e in rivals)


def _measured_on(v: Verification) -> str:
    m = v.measure
    known = [f"{key} {m[key]}" for key in ("data", "width", "tokens", "step") if key in m]
    return ", ".join(known)


def _indented(words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent="      ", subsequent_indent="      ")


def _drawn(v: Verification) -> list[str]:
    try:
        import plotext
    except ImportError:
        return []
    variable = v.exponents[0].variable if v.exponents else "N"
    points = [p for p in along(v.points, variable) if 0 < p.mean < float("inf")]
    if len(points) < 2:
        return []
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(64, 14)
    plotext.xscale("log")
    plotext.yscale("log")
    depths = [p.depth[variable] for p in points]
    values = [p.mean for p in points]
    for line in slopes(v, variable, with_rivals=False):
        ends = [line.y * (n / line.x) ** line.exponent for n in (depths[0], depths[-1])]
        values += ends
        plotext.plot([depths[0], depths[-1]], ends, marker="·")
    plotext.scatter(depths, [p.mean for p in points], marker="o")
    low, high = roomy(min(values), max(values))
    plotext.ylim(math.log10(low), math.log10(high))  # of a logarithmic axis, in decades
    plotext.yticks(*_labelled(ticks(low, high)))
    plotext.xticks(*_labelled(_apart(depths)))
    plotext.xlabel(f"{variable}, layers")
    plotext.title(f"{Y_LABEL}: o measured, · predicted slope")
    drawn = plotext.uncolorize(plotext.build())
    return ["", *(f"  {line.rstrip()}" for line in drawn.splitlines())]


def _labelled(values: Sequence[float]) -> tuple[list[float], list[str]]:
    return list(values), [number(value) for value in values]


def _apart(depths: Sequence[int]) -> list[int]:
    """The depths whose labels do not run into each other on a logarithmic axis."""
    shown: list[int] = []
    for n in depths:
        if not shown or math.log(n / shown[-1]) > 0.12 * math.log(depths[-1] / depths[0]):
            shown.append(n)
    return shown


def _rivals(rivals: Sequence[Verification]) -> list[str]:
    rows = [
        (
            rule_words(r),
            e.variable,
            f"{e.estimate:+.3f}",
            f"{e.low:+.3f} to {e.high:+.3f}",
            predicted_words(e.predicted, "none"),
            e.verdict.value,
        )
        for r in rivals
        for e in r.exponents
        if e.share == "all"
    ]
    head = ("rival", "in", "measured", "95% interval", "predicted", "verdict")
    return table(head, rows)
