"""Axes: what can stand on a logarithmic one, how far it reaches, and round numbers."""

from __future__ import annotations

import math

from deepnet_theory.report.document import Mark, Panels, Slope


def drawable(mark: Mark) -> bool:
    """Whether a logarithmic plot can show the point."""
    # an interval may reach below 0, where a logarithmic axis ends; its point is drawn even so
    finite = all(map(math.isfinite, (mark.x, mark.mean, mark.low, mark.high)))
    return finite and mark.x > 0 and mark.mean > 0


def height(slope: Slope, x: float) -> float:
    """Where a line of predicted slope stands at ``x``."""
    return slope.y * math.pow(x / slope.x, slope.exponent)


def roomy(low: float, high: float) -> tuple[float, float]:
    """Ends at least a factor of 7 apart: a flat line should look flat, not like enlarged noise.

    So far apart they have two round numbers between them.
    """
    centre = math.sqrt(low * high)
    return min(low, centre / math.sqrt(7)), max(high, centre * math.sqrt(7))


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, ones, twos and fives, between two ends of a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    values = [step * 10.0**decade for decade in decades for step in steps]
    inside = [v for v in values if low <= v <= high]
    every = -(-len(inside) // 9)
    return inside[::every]


def levels(low: float, high: float) -> list[float]:
    """Round numbers, at most eight, between the ends of a linear axis."""
    step = next(
        s for power in range(-6, 12) for s in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)
        if (high - low) / s <= 8
    )  # fmt: skip
    first = int(low // step) + 1
    return [round(i * step, 9) for i in range(first, first + 9) if i * step <= high]


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_label(value: float) -> str:
    """The label of a tick: 0.02, 1000, 10⁵, 2·10⁻⁴."""
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def ceiling(figure: Panels) -> float:
    """Where panels end above: the level lies in their middle, or all curves lie below it."""
    ys = [y for _, curves in figure.panels for c in curves for _, y in c.points if y == y]
    if not ys:
        return figure.level
    room = max(figure.level - min(ys), 0.05 * abs(figure.level))
    return min(max(*ys, figure.level), figure.level + room) + room / 20
