"""Figures: the same in every run, for light and dark, with every number in its place."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as Canvas

import deepnet_theory as dt
from deepnet_theory.report.document import Figure, Mark, Series
from deepnet_theory.report.experiment import along, figures
from deepnet_theory.report.figure import COLOURS, drawn, ends, panel
from deepnet_theory.report.formatters import draw

from .stored import PLAIN, RESULTS, RIVAL, VERIFICATION


def figure(*series, **more):
    return Figure((("t", series),), "N", "y", **more)


def marks(svg, colour=0):
    """Where marks of a colour stand: across and down."""
    found = re.findall(rf'<use [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*{COLOURS[colour]}', svg)
    return [(float(x), float(y)) for x, y in found]


def lines(svg, colour=0):
    """The lines of a colour, as runs of points."""
    style = rf'<path d="([^"]*)" clip-path[^>]*fill: none; stroke: {COLOURS[colour]}'
    found = re.findall(style, svg)  # what is not clipped stands in the legend
    numbers = (re.findall(r"([ML]) ([\d.-]+) ([\d.-]+)", path) for path in found)
    return [[(kind, float(x), float(y)) for kind, x, y in run] for run in numbers]


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_drawn_alike_each_time_in_light_and_dark_without_an_address(name):
    svg = dt.plot(RESULTS[name]).svg
    assert svg == dt.plot(RESULTS[name]).svg
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and " against " in root.get("aria-label", "")
    assert not re.search(
        r"#0[0-9a-f]0[0-9a-f]0|id=\"(figure|axes|text|line)|\d{4}-\d\d-\d\d|nan", svg
    )
    assert "prefers-color-scheme: dark" in root.findtext("{*}style", "")
    assert "currentColor" in svg


def test_a_line_of_the_predicted_slope_goes_through_the_first_point():
    svg = draw({"f": {1.0: 3.0, 2.0: 5.0, 4.0: 12.0}, "g": {1.0: 9.0}}, "x", "y", {"f": 1}).svg
    first, middle, last = marks(svg)
    run, *_ = lines(svg)
    (_, x1, y1), _, (_, x2, y2) = run
    assert first == pytest.approx((x1, y1), abs=0.1) and last == pytest.approx((x2, y2), abs=0.1)
    assert middle[1] > (y1 + y2) / 2 + 1  # 5 lies below 6
    assert "f (slope +1)" in svg and ">g<" in svg


def test_rivals_have_their_points_and_slopes_and_an_unpredicted_one_has_no_line():
    (drawing,) = figures(VERIFICATION, rivals=(RIVAL, PLAIN))
    own, sgd, plain = drawing.panels[0][1]
    assert (own.label, sgd.label, plain.label) == (
        "rule of lamb (flat)", "rule of sgd (slope +1/2)", "α = β = 1",
    )  # fmt: skip
    assert {y for _, y in own.line} == {11.0}  # through the first that was fitted, N = 8
    assert sgd.line[-1][1] / sgd.line[0][1] == pytest.approx(8**0.5) and plain.line == ()
    assert len(own.band) == 4 and sgd.band == plain.band == ()
    svg = drawn(drawing).svg
    assert [len(marks(svg, i)) for i in range(3)] >= [4, 4, 4]


def test_what_has_no_place_on_a_logarithm_is_left_out():
    good, below = Mark(4, 1, 0.9, 1.1), Mark(4, 1, -0.5, 1.1)  # an interval may end below zero
    bad = tuple(Mark(8, value, value, value) for value in (0.0, -1.0, math.nan, math.inf))
    there = len(marks(drawn(figure(Series("s", (good,)))).svg))
    svg = drawn(figure(Series("s", (below, *bad)))).svg
    assert len(marks(svg)) == there and not re.search(r"\b(nan|inf)\b", svg)
    assert not marks(drawn(figure(Series("s", bad))).svg)  # and an empty figure is a figure


def test_a_curve_is_broken_where_a_run_diverged_and_what_is_dropped_is_marked_at_the_top():
    rates = [1e-3 * 2**i for i in range(7)]
    losses = (5.0, 3.0, math.nan, 2.5, 2.6, 3.4, 90.0)
    curve = Series("N = 8", line=tuple(zip(rates, losses, strict=True)), measured=True)
    shown = figure(curve, linear=True, level=(4.0, "unigram"), top=5.5)
    low, high = ends(shown)
    assert low < 2.5 and 5.5 < high < 6
    svg = drawn(shown).svg
    run = next(r for r in lines(svg) if len(r) > 4)
    assert [kind for kind, *_ in run].count("M") == 2
    assert all(f">{word}<" in svg for word in ("unigram", "above the axis", "diverged"))
    places = [place for place in marks(svg) if place[1] < 170]  # the legend is below the panel
    across = sorted(x for x, _ in places)
    top = min(y for _, y in places)
    assert sorted(x for x, y in places if y == top) == [across[2], across[6]]
    inside = figure(Series("N = 8", line=curve.line[3:6], measured=True), linear=True)
    assert not re.search("above the axis|diverged", drawn(inside).svg)


def test_panels_drawn_one_by_one_have_one_upright_axis_and_name_their_scale():
    own, other = (Series("s", (Mark(4, y, y, y), Mark(8, y, y, y))) for y in (1.0, 100.0))
    both = Figure((("own", (own,)), ("other", (other,))), "N, layers", "loss")
    svgs = [drawn(both, i).svg for i in range(2)]
    (high, *_), (low, *_) = (sorted(y for _, y in marks(svg)) for svg in reversed(svgs))
    assert high < low, "on one axis the panel of the larger values has the higher points"
    for svg, title in zip(svgs, ("own", "other"), strict=True):
        assert all(f">{name} (log scale)<" in svg for name in ("N, layers", "loss"))
        assert f'aria-label="{title}: loss against N, layers"' in svg


def test_a_linear_axis_shows_what_is_not_positive():
    best = Series("s", (Mark(1e-3, -2.0, 5e-4, 2e-3, True),), ((5e-4, -1.0), (2e-3, 0.0)))
    svg = drawn(figure(best, linear=True)).svg
    assert len(marks(svg)) == 1 and len(max(lines(svg), key=len)) == 2


@pytest.mark.filterwarnings("error")  # of an axis that has no length
@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=9), st.booleans())
@settings(max_examples=20, deadline=None)
def test_every_point_lies_on_the_axis_and_a_flat_line_looks_flat(heights, linear):
    series = Series("s", tuple(Mark(n, y, y, y) for n, y in enumerate(heights, start=1)))
    low, high = ends(figure(series, linear=linear))
    assert low < min(heights) and max(heights) < high
    assert linear or high / low >= 6.99


def test_of_two_depths_one_is_held_and_those_that_grow_together_are_all_shown():
    def kept(pairs, name):
        shown = [replace(VERIFICATION.points[0], at={"N": n, "M": m}) for n, m in pairs]
        return [tuple(p.at.values()) for p in along(shown, name)]

    assert kept([(8, 8), (16, 8), (8, 16), (8, 4)], "M") == [(8, 4), (8, 8), (8, 16)]
    assert kept([(16, 16), (8, 8), (4, 4)], "N") == [(4, 4), (8, 8), (16, 16)]
    assert along([], "N") == []


def test_a_plot_is_written_as_what_it_is(tmp_path):
    plot_ = dt.plot(VERIFICATION)
    plot_.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(dt.InputError, match=r"ends in \.svg"):
        plot_.save(tmp_path / "x.png")


def axes(shown):
    """The axes of a figure's first panel."""
    one = Canvas().subplots()
    panel(one, shown.panels[0][1], shown)
    return one


SIZES = st.floats(0.01, 1e4)


@given(st.lists(SIZES, min_size=1, max_size=12), st.booleans(), SIZES)
def test_an_upright_axis_holds_all_that_is_measured_up_to_its_top(values, linear, top):
    marks = tuple(Mark(i + 1.0, y, y, y) for i, y in enumerate(values))
    low, high = ends(figure(Series("s", marks), linear=linear, top=top))
    least, most = min(values), min(max(values), top)
    if linear:
        room = (most - least or 1.0) / 16
        assert (low, high) == pytest.approx((least - room, most + room))
    else:  # its middle is theirs, and a flat line looks flat
        assert low * high == pytest.approx(least * most)
        assert high / low == pytest.approx(max(1.25**2 * most / least, 7))


@pytest.mark.parametrize("places", [(3.0,), (1.0, 4.0, 2.0), tuple(2.0**i for i in range(10))])
@pytest.mark.parametrize(("linear", "of_x"), [(True, True), (False, False), (True, False)])
def test_marks_bars_and_ticks_are_at_their_numbers(places, linear, of_x):
    marks = tuple(Mark(x, 2.0, x / 2, x * 3, of_x) for x in places)
    band = Series("b", (), band=(Mark(1, 5, 4.0, 6.0), Mark(2, 5, 3.0, 7.0)), colour=1)
    curve = Series("c", (), ((places[0], 3.0), (places[-1] + 1, -1.0)), colour=2)
    shown = figure(Series("s", marks), band, curve, linear=linear, level=(2.5, "level"))
    one = axes(shown)
    first, last = one.get_xlim()
    every = [places[0], places[-1] + 1, *places * (not of_x)]
    named = sorted(set(places)) * (not of_x)
    assert (first, last) == pytest.approx((min(every) / 1.12, max(every) * 1.12))
    assert one.get_ylim() == pytest.approx(ends(shown))
    assert (one.get_xscale(), one.get_yscale()) == ("log", "linear" if linear else "log")
    assert 0 < len(named) <= 9 or len(one.get_xticks()) > 1
    assert len(named) in (0, 10) or one.get_xticks() == pytest.approx(named)
    bars = [c for c in one.containers if c.has_xerr or c.has_yerr]
    assert len(bars) == len(marks) and {c.has_xerr for c in bars} == {of_x}
    for m, bar in zip(marks, bars, strict=True):
        point, _, (segments,) = bar
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (m.x, m.y)
        ((low, high),) = (segment[:, int(not of_x)] for segment in segments.get_segments())
        held = min(max(m.low, first), last) if of_x else m.low
        above = min(max(m.high, first), last) if of_x else m.high
        centre = m.x if of_x else m.y
        assert (low, high) == pytest.approx((min(held, centre), max(above, centre)))
    (path,) = (c.get_paths()[0] for c in one.collections if isinstance(c, PolyCollection))
    assert {(1, 4), (1, 6), (2, 3), (2, 7)} <= {tuple(v) for v in path.vertices.tolist()}
    drawn_line, level = (line for line in one.lines if len(line.get_xdata()) == 2)
    y = drawn_line.get_ydata()
    assert y[0] == 3.0 and (y[1] == -1.0 if linear else math.isnan(y[1]))
    assert level.get_ydata() == [2.5, 2.5] and level.get_label() == "level"


def test_the_rule_lies_on_top_and_what_is_measured_or_dashed_looks_so():
    line = ((1.0, 1.0), (2.0, 2.0))
    looks = [
        Series("rule", line=line),
        Series("rival", line=line, dashed=True, colour=1, shade=0.5),
        Series("curve", line=line, measured=True, colour=2, shade=0.0),
    ]
    one = axes(figure(*looks, counted=True))
    lines = [next(li for li in one.lines if li.get_label() == s.label) for s in looks]
    order = [li.get_zorder() for li in lines]
    assert order == sorted(order, reverse=True) and len(set(order)) == 3
    assert [li.get_alpha() for li in lines] == pytest.approx([1.0, 0.65, 0.3])
    assert [li.get_linestyle() for li in lines] == ["-", "--", "-"]
    assert [li.get_marker() for li in lines] == ["", "", "."]
    assert one.get_xlim() == (0.5, 2.5) and one.get_xscale() == "linear"
    assert one.get_xlabel() == "N" and axes(figure(*looks)).get_xlabel() == "N (log scale)"
    svg = drawn(figure(*looks, counted=True)).svg
    assert all(f">{s.label}<" in svg for s in looks)


def test_a_long_title_and_a_long_label_are_folded():
    shown = figure(Series(f"{'l' * 20} mno p", line=((1, 1), (2, 2))))
    svg = drawn(replace(shown, panels=((f"{'a' * 40} bcd e", shown.panels[0][1]),))).svg
    texts = {line.strip() for line in re.findall(r"<text[^>]*>([^<]*)<", svg)}
    assert {f"{'a' * 40} bcd", "e", f"{'l' * 20} mno", "p"} <= texts
