"""Axes, curves, pieces of notebooks, and the pages of results: as SVG."""

import html
import math
import re
from importlib import import_module
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.cli.deriving import derive_across
from deepnet_theory.definitions.measurement import Result
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.training import Run, Training
from deepnet_theory.report import layer, training
from deepnet_theory.report.document import COMPOSERS, Branch, Curve, Document, Layer, Mark, Panels
from deepnet_theory.report.html import page
from deepnet_theory.report.latex import latex
from deepnet_theory.report.markdown import markdown
from deepnet_theory.report.notebook import across, implied, losses, plot, section, steps
from deepnet_theory.report.svg import levels, panels, tick_label, ticks
from deepnet_theory.report.text import text

RATES = [1e-3 * 2**i for i in range(7)]


def curve(label, shade, losses):
    best = Mark(4e-3, 2.5, 3e-3, 9e-3)
    return Curve(label, tuple(zip(RATES, losses, strict=True)), shade, best)


FIGURE = Panels(
    (
        ("one", (curve("N = 8", 0.0, [5.0, 3.0, 2.5, 2.6, 2.9, 3.4, 9.0]),)),
        ("two", (curve("N = 8", 0.0, [5.0, 3.0, 2.5, math.nan, 2.9, math.nan, math.nan]),)),
    ),
    "learning rate",
    "loss",
    3.2,
    "unigram entropy",
    "A caption.",
)


def test_a_line_is_broken_where_a_run_diverged():
    svg = panels(FIGURE).svg
    ElementTree.fromstring(svg)
    paths = re.findall(r'class="curve" opacity="0.30" d="(M[^"]*)"', svg)
    assert [path.count("M") for path in paths] == [1, 2, 1]  # the last is the legend's
    assert "nan" not in svg and svg.count("<circle") == 2
    told = Document("A title", (FIGURE,))
    assert svg in page(told) and all("A caption." in p(told) for p in (page, markdown, latex))
    bottom = re.findall(r'<text x="([\d.]+)" y="271.0" text-anchor="middle">', svg)
    places = sorted(map(float, bottom))
    assert len(places) > 4 and all(b - a >= 38 for a, b in pairwise(places))
    nothing = Panels((("one", (Curve("N = 8", ((1e-3, math.nan),)),)),), "x", "y", 3.2, "entropy")
    assert "no finite loss" in panels(nothing).svg


def drawn_heights(svg):
    """Where the first curve stands as far as it goes unbroken, from the bottom up."""
    path = re.search(r'class="curve" opacity="[\d.]+" d="M([^"M]*)', svg)[1]
    return [256 - float(p.split()[1]) for p in path.split("L")]


def test_curves_have_a_place_whatever_the_level():
    """All above it, far below it, without one, and on a logarithmic axis."""
    points = ((1e-3, 4.0), (1e-2, 3.5), (1e-1, 4.2))
    for level in (3.0, 30.0, None):
        figure = Panels((("one", (Curve("N = 8", points),)),), "x", "y", level, "entropy")
        svg = panels(figure).svg
        heights = drawn_heights(svg)
        assert all(0 < h < 226 for h in heights[:2]) and heights[1] < heights[0] < heights[2]
        assert svg.count('class="level"') == (0 if level is None else 2)
        assert ("entropy" in svg) == (level is not None)
    of_r = ((1, 0.1), (2, 1.0), (3, 10.0), (4, 0.0), (5, math.inf), (6, 1.0))
    figure = Panels((("R", (Curve("own", of_r),)),), "step", "R", None, logarithmic=True)
    heights = drawn_heights(panels(figure).svg)
    assert len(heights) == 3 and heights[2] - heights[1] == pytest.approx(
        heights[1] - heights[0], abs=0.2
    )
    below = Mark(1e-2, -5.0, 5e-3, 2e-2)  # any quantity has a best
    curve = Curve("N = 8", ((1e-3, -4.0), (1e-2, -5.0)), best=below)
    assert "<circle" in panels(Panels((("one", (curve,)),), "x", "y", None)).svg


def test_rivals_have_a_colour_and_long_names_have_room():
    name = "a name of thirty-two characters."
    lines = tuple(Curve(n, ((1.0, 3.0), (2.0, 2.0)), colour=i) for i, n in enumerate(("own", name)))
    svg = panels(Panels((("one", lines),), "step", "loss", 3.2, "unigram entropy")).svg
    assert svg.count('class="curve curve-1"') == 2  # its line, and the legend's
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    left = float(re.search(rf'<text x="([\d.]+)"[^>]*>{name}<', svg)[1])
    assert width - left > 5.5 * len(name)  # pixels of a letter, on average


RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"


FLAT = str.maketrans(RAISED, "-0123456789")


def read(label):
    """The number that a label stands for."""
    if label[-1] not in RAISED:
        return float(label)
    mantissa, _, power = label.rpartition("10")
    return float(f"{mantissa.rstrip('·') or 1}e{power.translate(FLAT)}")


@given(st.floats(-290, 280), st.floats(0.02, 20))
@example(0.477, 0.12)
@example(-4.93, 0.1)
def test_any_positive_range_gets_ticks(decade, decades):
    low, high = 10**decade, 10 ** (decade + decades)
    at = ticks(low, high)
    assert 2 <= len(at) <= 9
    assert all(low <= v <= high for v in at)
    assert all(a < b for a, b in pairwise(at))
    assert all(float(f"{v:.4e}") == v for v in at)
    assert [read(tick_label(v)) for v in at] == at


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e15))
@example(-6e-290, 0.4)
def test_any_range_gets_levels(low, length):
    at = levels(low, low + length)
    assert 3 <= len(at) <= 8
    assert all(low < v <= low + length for v in at)


def test_ticks_are_ones_twos_and_fives():
    for ends, expected in (
        ((1, 299), [1, 2, 5, 10, 20, 50, 100, 200]),
        ((1, 300), [1, 10, 100]),
        ((0.1, 1e7), [0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7]),
        ((0.1, 1e8), [0.1, 10, 1e3, 1e5, 1e7]),
        ((1.5, 2.5), [1.6, 1.8, 2, 2.2, 2.4]),
        ((7, 7), [7]),
    ):
        assert ticks(*ends) == expected
    assert levels(0, 10) == [2, 4, 6, 8, 10] and levels(0, 8) == [*range(1, 9)]
    shown = [tick_label(v) for v in (0.02, 1000.0, 1e5, 2e-4)]
    assert shown == ["0.02", "1000", "10⁵", "2·10⁻⁴"]


OWN = Run("adam", "post-ln", (5.5, 3.25), held_out=3.125)


TRAINING = Training((OWN, Run("plain", "post-ln", ())), 3.5, Verdict.SUPPORTED, "below", {}, 1.0)


def test_a_trainings_losses_stand_beside_the_entropy():
    shown = text(training.document(TRAINING))
    assert all(said in shown for said in ("5.500", "3.250", "3.125", "unigram entropy 3.500"))
    plain = next(line for line in shown.splitlines() if "plain" in line)
    assert plain.split() == ["plain", "0", "-", "-", "-", "-"]


def kinds_of(kind):
    for below in kind.__subclasses__():
        yield below
        yield from kinds_of(below)


def test_every_result_has_a_composer_that_makes_a_document():
    for room in (
        "sizes.answer", "sizes.schemes", "proof.derivation",
        "proof.width", "definitions.audit", "definitions.measurement", "definitions.training",
    ):  # fmt: skip
        import_module(f"deepnet_theory.{room}")
    leaves = {kind for kind in kinds_of(Result) if not kind.__subclasses__()}
    ours = {k.__name__ for k in leaves if k.__module__.startswith("deepnet_theory.")}
    # a run of claims has a table of its own, an answer at sizes is asked and never shown
    assert ours - {"Checked", "AtSizes"} == set(COMPOSERS)
    for module, function in COMPOSERS.values():
        assert callable(getattr(import_module(f"deepnet_theory.report.{module}"), function))


AT = {1.0: 3.0, 2.0: 5.0, 4.0: 12.0}


def line(svg, kind):
    found = re.search(rf'<path class="{kind}" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"/>', svg)
    assert found is not None
    return tuple(map(float, found.groups()))


def points(svg):
    found = re.findall(r'<circle class="point" cx="([\d.]+)" cy="([\d.]+)"', svg)
    return [(float(x), float(y)) for x, y in found]


def test_a_line_of_the_predicted_slope_goes_through_the_first_point():
    drawn = plot({"f": AT}, "x", "y", {"f": 1}).svg
    (x1, y1, x2, y2), marks = line(drawn, "own"), points(drawn)
    assert marks[0] == pytest.approx((x1, y1), abs=0.1)
    # 3 · 4 = 12: the last point lies on a line of slope 1, the one between lies below it
    assert marks[2] == pytest.approx((x2, y2), abs=0.1)
    assert marks[1][1] > (y1 + y2) / 2 + 1
    assert "slope +1" in drawn


def test_a_series_without_a_slope_has_its_label_and_no_line():
    drawn = plot({"f": AT, "g": {x: 2 * y for x, y in AT.items()}}, "x", "y", {"g": 1}, "t").svg
    assert 'class="own"' not in drawn and 'class="rival"' in drawn
    left_out = plot({"f": {1.0: 0.0, 2.0: 5.0, 4.0: math.nan, 8.0: 1.0}}, "x", "y").svg
    assert len(points(left_out)) == 2  # what a logarithm cannot show
    assert ">f</text>" in drawn and ">g:</text>" in drawn and ">t</text>" in drawn


def test_single_steps_have_the_numbers_of_the_whole():
    derivation = dt.derive("adam")
    number = [s.name for s in derivation.steps].index("balance-encoder") + 1
    alone = repr(steps(derivation, "balance-encoder"))
    assert f"({number})" in alone and alone.count("imposed") == 1
    assert alone.strip() in repr(section(derivation, "The balance"))


def test_what_rules_imply_stands_beside_them_with_what_it_means():
    names = ("relative-update", "failing-rate")
    found = {c: dt.derive("adam", closure=c) for c in ("complete", "symmetric")}
    told = repr(implied(found, *names))
    rows = {line.split()[0]: line.split()[2:] for line in told.splitlines() if " encoder " in line}
    assert rows == {
        "complete": ["1", "1", "stable"],
        "symmetric": ["(2*N)**(1/2)", "(2*N)**(-1/4)", "unstable"],
    }
    assert "update over weight" in told
    with pytest.raises(KeyError, match="relative-weight"):
        implied(found, "relative-weight")


def drawn_losses(values):
    names = ("post-ln, the constants' rule", "plain post-LN", "plain pre-LN", "GPT-2's pre-LN")
    runs = tuple(Run(n, "post-ln", tuple(v)) for n, v in zip(names, values, strict=False))
    svg = losses(Training(runs, 3.0, dt.Verdict.UNDECIDED, "", {}, 0.0)).svg
    svg = html.unescape(svg)
    assert all(f">{name.split(', ')[-1]}<" in svg for name, _ in zip(names, values, strict=False))
    paths = re.findall(r'class="(curve[^"]*)" opacity="1.00" d="M([^"h]*)"', svg)
    assert [kind for kind, _ in paths] == ["curve", "curve curve-1"][: len(values)]
    return [[tuple(map(float, p.split())) for p in path.split("L")] for _, path in paths]


def test_a_point_of_a_loss_curve_is_the_mean_since_the_one_before():
    # ends of windows: 1, 2, 3, 4, 6, 8; of 5 and 6 the mean is 2.5, of 7 and 8 it is 2
    own, rival = drawn_losses([[4.0, 3.0, 3.0, 3.0, 2.0, 3.0, 1.0, 3.0], [3.0] * 8])
    assert len(own) == len(rival) == 6
    y = dict(zip((1, 2, 3, 4, 6, 8), (place for _, place in own), strict=True))
    assert y[2] == y[3] == y[4] == rival[0][1]
    assert (y[8] - y[4]) == pytest.approx(2 * (y[6] - y[4]), abs=0.2)
    assert all(place == rival[0][1] for _, place in rival)
    (long,) = drawn_losses([[3.0] * 64])  # begins a tenth of the way on
    assert len(long) == 7  # 8, 11, 16, 23, 32, 45, 64
    own, rival = drawn_losses([[4.0] * 8, [4.0] * 5])  # one that broke off ends where it did
    assert rival[-1][0] == pytest.approx(own[3][0] + (own[4][0] - own[3][0]) * 0.55, abs=1)


def test_roles_of_tables_in_width_stand_in_rows_as_formulas():
    tables = {name: derive_across(name) for name in ("sgd", "adam")}
    shown = across(tables, "token-embedding", "fc1")
    rows = {tuple(row.split()[:2]): row.split()[2:5] for row in repr(shown).splitlines()}
    assert rows["sgd", "token-embedding"] == ["1", "1", "d"]
    assert rows["adam", "fc1"] == ["d**(-1/2)", "1", "1/d"]
    page = shown._repr_html_()
    assert page.count("<tr>") == 5 and page.count("<mi>d</mi>") >= 6


def test_alpha_is_a_box_on_the_stream_that_covers_it():
    branch = Branch("ffn", 0, (("fc1 1", ""),), ("alpha 1", "16"), norm=True)
    drawn = layer.svg(Layer((branch,), "one")).svg
    boxes = re.findall(r'<rect class="(box[ a-z]*)" x="([^"]+)".*\n<text[^>]*>([^<]*)<', drawn)
    assert [(kind, name) for kind, _, name in boxes] == [
        ("box", "fc1 1"), ("box wrong", "α 1 ≠ 16"), ("box", "norm"),
    ]  # fmt: skip
    assert min(float(left) for _, left, _ in boxes) >= 0  # nothing is cut off
    assert drawn.index("<path") < drawn.index("<rect")  # the stream lies below them
    _, above, below = layer.lines(Layer((branch,), "one"))
    assert (above, below) == ("x ─┬─ fc1 1 ──────┐", "   └─ alpha 1≠16 ─+─ norm")
