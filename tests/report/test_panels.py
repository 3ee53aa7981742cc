"""Curves in panels: as SVG, and in the characters of a terminal."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from deepnet_theory.report.document import Curve, Document, Mark, Panels
from deepnet_theory.report.html import page
from deepnet_theory.report.latex import latex
from deepnet_theory.report.markdown import markdown
from deepnet_theory.report.panels import panels
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


def test_labels_of_the_lower_axis_stand_apart():
    svg = panels(FIGURE).svg
    bottom = re.findall(r'<text x="([\d.]+)" y="271.0" text-anchor="middle">', svg)
    places = sorted(map(float, bottom))
    assert len(places) > 4 and all(b - a >= 38 for a, b in pairwise(places))


def test_rivals_have_a_colour_and_long_names_have_room():
    name = "a name of thirty-two characters."
    lines = tuple(Curve(n, ((1.0, 3.0), (2.0, 2.0)), colour=i) for i, n in enumerate(("own", name)))
    svg = panels(Panels((("one", lines),), "step", "loss", 3.2, "unigram entropy")).svg
    assert svg.count('class="curve curve-1"') == 2  # its line, and the legend's
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    left = float(re.search(rf'<text x="([\d.]+)"[^>]*>{name}<', svg)[1])
    assert width - left > 5.5 * len(name)  # pixels of a letter, on average


def test_nothing_finite_is_said():
    nothing = Panels((("one", (Curve("N = 8", ((1e-3, math.nan),)),)),), "x", "y", 3.2, "entropy")
    assert "no finite loss" in panels(nothing).svg
    assert isinstance(text(Document("t", (nothing,)), plots=True), str)


def test_every_printer_writes_them():
    document = Document("A title", (FIGURE,))
    assert "<svg" in page(document) and "A caption." in page(document)
    assert "A caption." in markdown(document) and "A caption." in latex(document)
    pytest.importorskip("plotext")
    drawn = text(document, plots=True)
    assert "one: a N = 8" in drawn and "two: a N = 8" in drawn
    assert max(map(len, drawn.splitlines())) <= 80
