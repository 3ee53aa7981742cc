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
    """Round numbers between two ends of a logarithmic axis, at most nine.

    Ones, twos and fives, ones alone on a long axis; the levels of one that is too short for two.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    values = [float(f"{step}e{decade}") for decade in decades for step in steps]
    inside = [v for v in values if low <= v <= high]
    if len(inside) < 2:
        return levels(low, high)
    every = -(-len(inside) // 9)
    return inside[::every]


def levels(low: float, high: float) -> list[float]:
    """Round numbers, at most eight, between the ends of a linear axis; of no length, its one end.

    They are the multiples of the least step 1, 2 or 5 times a power of ten that are no more.
    """
    if high <= low:
        return [low]
    decade = math.floor(math.log10((high - low) / 8))
    steps = (float(f"{step}e{decade}") for step in (1, 2, 5, 10))
    step = next(s for s in steps if (high - low) / s <= 8)
    first = math.floor(low / step)
    values = (float(f"{i * step:.12g}") for i in range(first, first + 10))
    return [v for v in values if low < v <= high]


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_label(value: float) -> str:
    """The label of a tick: 0.02, 1000, 10⁵, 2·10⁻⁴, 1.25·10⁻⁴."""
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if float(mantissa) == 1 else f"{float(mantissa):g}·{power}"


def ceiling(figure: Panels) -> float:
    """Where panels end above: the level lies in their middle, or all curves lie below it."""
    ys = [y for _, curves in figure.panels for c in curves for _, y in c.points if y == y]
    if not ys:
        return figure.level
    room = max(figure.level - min(ys), 0.05 * abs(figure.level))
    return min(max(*ys, figure.level), figure.level + room) + room / 20
