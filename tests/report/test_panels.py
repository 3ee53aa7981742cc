"""Axes, curves in panels, and the pages of results: as SVG, in a terminal, by every printer."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deepnet_theory.report import training
from deepnet_theory.report.composers import COMPOSERS
from deepnet_theory.report.document import Curve, Document, Mark, Panels
from deepnet_theory.report.html import page
from deepnet_theory.report.latex import latex
from deepnet_theory.report.markdown import markdown
from deepnet_theory.report.panels import panels
from deepnet_theory.report.svg import levels, tick_label, ticks
from deepnet_theory.report.text import text
from deepnet_theory.sizes import consequences, judgement
from deepnet_theory.spec.results import audit, prediction, result, verification
from deepnet_theory.spec.results import training as training_results
from deepnet_theory.spec.results.training import Run, Training
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic import derivation

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
    bottom = re.findall(r'<text x="([\d.]+)" y="271.0" text-anchor="middle">', svg)
    places = sorted(map(float, bottom))
    assert len(places) > 4 and all(b - a >= 38 for a, b in pairwise(places))
    nothing = Panels((("one", (Curve("N = 8", ((1e-3, math.nan),)),)),), "x", "y", 3.2, "entropy")
    assert "no finite loss" in panels(nothing).svg
    assert isinstance(text(Document("t", (nothing,)), plots=True), str)


def test_rivals_have_a_colour_and_long_names_have_room():
    name = "a name of thirty-two characters."
    lines = tuple(Curve(n, ((1.0, 3.0), (2.0, 2.0)), colour=i) for i, n in enumerate(("own", name)))
    svg = panels(Panels((("one", lines),), "step", "loss", 3.2, "unigram entropy")).svg
    assert svg.count('class="curve curve-1"') == 2  # its line, and the legend's
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    left = float(re.search(rf'<text x="([\d.]+)"[^>]*>{name}<', svg)[1])
    assert width - left > 5.5 * len(name)  # pixels of a letter, on average


def test_every_printer_writes_them():
    document = Document("A title", (FIGURE,))
    assert "<svg" in page(document) and "A caption." in page(document)
    assert "A caption." in markdown(document) and "A caption." in latex(document)
    pytest.importorskip("plotext")
    drawn = text(document, plots=True)
    assert "one: a N = 8" in drawn and "two: a N = 8" in drawn
    assert max(map(len, drawn.splitlines())) <= 80


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


def test_a_trainings_losses_stand_beside_the_entropy_and_that_with_anothers_source():
    shown = text(training.document(TRAINING))
    assert all(said in shown for said in ("5.500", "3.250", "3.125", "unigram entropy 3.500"))
    assert "source" not in shown
    plain = next(line for line in shown.splitlines() if "plain" in line)
    assert plain.split() == ["plain", "0", "-", "-", "-"]
    runs = (replace(OWN, shuffled=3.75, reads_source=True), *TRAINING.runs[1:])
    shown = text(training.document(replace(TRAINING, runs=runs)))
    assert "another's source" in shown and "3.750" in shown


ROOMS = (audit, consequences, derivation, judgement, prediction, training_results, verification)


def test_every_result_has_a_composer_that_makes_a_document():
    found = {
        name
        for room in ROOMS
        for name, kind in vars(room).items()
        if isinstance(kind, type)
        and issubclass(kind, result.Result)
        and kind.__module__ == room.__name__
    }
    assert found == set(COMPOSERS)
    for module, function in COMPOSERS.values():
        assert callable(getattr(import_module(f"deepnet_theory.report.{module}"), function))
