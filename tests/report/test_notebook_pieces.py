"""The pieces that a notebook shows: single steps, and measured points beside a predicted slope."""

from __future__ import annotations

import math
import re

import pytest

import deepnet_theory as dt
from deepnet_theory.report.notebook import plot, section, steps

AT = {1.0: 3.0, 2.0: 5.0, 4.0: 12.0}


def line(svg: str, kind: str) -> tuple[float, ...]:
    found = re.search(rf'<path class="{kind}" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"/>', svg)
    assert found is not None
    return tuple(map(float, found.groups()))


def points(svg: str) -> list[tuple[float, float]]:
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
    assert ">f</text>" in drawn and ">g:</text>" in drawn and ">t</text>" in drawn


def test_what_a_logarithm_cannot_show_is_left_out():
    drawn = plot({"f": {1.0: 0.0, 2.0: 5.0, 4.0: math.nan, 8.0: 1.0}}, "x", "y").svg
    assert len(points(drawn)) == 2


def test_single_steps_have_the_numbers_of_the_whole():
    derivation = dt.derive("adam")
    number = [s.name for s in derivation.steps].index("balance-encoder") + 1
    alone = repr(steps(derivation, "balance-encoder"))
    assert f"({number})" in alone and alone.count("imposed") == 1
    assert alone.strip() in repr(section(derivation, "The balance"))
