"""The pieces that a notebook shows: single steps, and measured points beside a predicted slope."""

from __future__ import annotations

import html
import math
import re

import pytest

import deepnet_theory as dt
from deepnet_theory.report.notebook import (
    across,
    compared,
    implied,
    losses,
    plot,
    section,
    steps,
)
from deepnet_theory.training import Run, Training
from deepnet_theory.training.runs import compare
from deepnet_theory.workflow import derive_across

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
    gated = dt.derive("adam", layer="attention,ffn:swiglu")
    assert "ffn-swiglu" in repr(implied({"gated": gated}, *names))
    with pytest.raises(KeyError, match="relative-weight"):
        implied(found, "relative-weight")


def test_roles_of_tables_in_width_stand_in_rows_as_formulas():
    tables = {name: derive_across(name) for name in ("sgd", "adam")}
    shown = across(tables, "token-embedding", "fc1")
    rows = {tuple(row.split()[:2]): row.split()[2:5] for row in repr(shown).splitlines()}
    assert rows["sgd", "token-embedding"] == ["1", "1", "d"]
    assert rows["adam", "fc1"] == ["d**(-1/2)", "1", "1/d"]
    page = shown._repr_html_()
    assert page.count("<tr>") == 5 and page.count("<mi>d</mi>") >= 6


def drawn_losses(values: list[list[float]]) -> list[list[tuple[float, float]]]:
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


def test_a_loss_curve_begins_a_tenth_of_the_way_on():
    (own,) = drawn_losses([[3.0] * 64])
    assert len(own) == 7  # 8, 11, 16, 23, 32, 45, 64


def test_a_run_that_broke_off_ends_where_it_did():
    own, rival = drawn_losses([[4.0] * 8, [4.0] * 5])
    assert rival[-1][0] == pytest.approx(own[3][0] + (own[4][0] - own[3][0]) * 0.55, abs=1)


def test_differences_stand_where_their_numbers_are():
    held_out = {"own": (2.5, 2.6, 2.4), "worse": (2.9, 3.0, 2.8), "better": (2.3, 2.5, 2.4)}
    runs = tuple(
        Run(name, "post-ln", (3.0,), held_out=sum(v) / 3, held_out_by_seed=v)
        for name, v in held_out.items()
    )
    paired = tuple(compare(runs[0], rival) for rival in runs[1:])
    svg = compared(Training(runs, 3.0, dt.Verdict.UNDECIDED, "", {}, 0.0, {}, paired)).svg
    zero = float(re.search(r'class="level" d="M([\d.]+)', svg)[1])
    tick = float(re.search(r'<text x="([\d.]+)"[^>]*>−0.4<', svg)[1])
    place = [float(x) for x in re.findall(r'opacity="0.45" cx="([\d.]+)"', svg)]
    nats = [(x - zero) / (zero - tick) * 0.4 for x in place]
    assert nats == pytest.approx([-0.4, -0.4, -0.4, 0.2, 0.1, 0.0], abs=2e-3)
    ends = re.findall(r'class="interval" d="M([\d.]+) [\d.]+H([\d.]+)"', svg)
    for (low, high), c in zip(ends, paired, strict=True):
        drawn = [(float(x) - zero) / (zero - tick) * 0.4 for x in (low, high)]
        assert drawn == pytest.approx([c.low, c.high], abs=2e-3)


def test_a_rival_without_an_interval_has_no_row():
    runs = tuple(Run(n, "post-ln", (3.0,), held_out=2.0, held_out_by_seed=(2.0,)) for n in "ab")
    alone = Training(runs, 3.0, dt.Verdict.UNDECIDED, "", {}, 0.0, {}, (compare(*runs),))
    assert 'class="interval"' not in compared(alone).svg
