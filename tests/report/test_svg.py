"""Whatever is drawn lies inside its picture, and no label lies on another."""

import itertools
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.report.document import Branch, Curve, Figure, Layer, Mark, Panels, Series, Slope
from deepnet_theory.report.layer import svg as picture
from deepnet_theory.report.svg import HEIGHT, LINE_HEIGHT, differences, drawn, panels

SIZES = st.floats(1e-6, 1e6)
DEPTHS = st.lists(st.integers(1, 4096), min_size=1, max_size=6, unique=True)


def places(svg):
    """Every absolute place of a picture, as numbers across and down, and the picture's size."""
    root = ElementTree.fromstring(svg)
    *_, width, height = map(float, root.get("viewBox").split())
    across, down = [], []
    for element in root.iter():
        across += [float(element.get(key)) for key in ("x", "cx") if element.get(key)]
        down += [float(element.get(key)) for key in ("y", "cy") if element.get(key)]
        for command, numbers in re.findall(r"([MLHV])([-\d. ]+)", element.get("d", "")):
            ends = [float(number) for number in numbers.split()]
            across += ends[:1] if command in "MLH" else []
            down += ends[-1:] if command in "MLV" else []
    return across, down, width, height


def lies_inside(svg):
    across, down, width, height = places(svg)
    assert min(across) >= 0 and max(across) <= width
    assert min(down) >= 0 and max(down) <= height


def marks(depths, sizes):
    return tuple(
        Mark(n, size, size / 1.5, size * 1.5) for n, size in zip(depths, sizes, strict=False)
    )


@given(DEPTHS, st.lists(SIZES, min_size=6, max_size=6), st.floats(-2, 2), st.booleans())
def test_points_bands_lines_and_labels_of_a_figure_lie_inside_it(depths, sizes, slope, named):
    measured = marks(sorted(depths), sizes)
    series = (
        Series("the rule", measured, band=measured),
        Series("another", measured, own=False, colour=2),
    )
    lines = tuple(
        Slope(f"line {k}", slope, measured[0].x, measured[0].mean, own=k == 0) for k in range(5)
    )
    svg = drawn(Figure(series, lines, "N, layers", "size", "a title", "", named)).svg
    lies_inside(svg)
    assert ">N, layers</text>" in svg and 'rotate(-90)"><text' in svg and ">size</text></g>" in svg
    heights = [float(y) for y in re.findall(r'-label" x="[\d.]+" y="([\d.]+)"', svg)]
    assert len(heights) == (7 if named else 6)
    assert all(b - a >= LINE_HEIGHT - 0.1 for a, b in itertools.pairwise(heights))
    assert max(heights) < HEIGHT


@given(DEPTHS, st.lists(SIZES, min_size=6, max_size=6), st.booleans())
def test_panels_and_their_legend_lie_inside_the_picture(depths, sizes, logarithmic):
    points = tuple((float(n), size) for n, size in zip(sorted(depths), sizes, strict=False))
    curves = tuple(Curve(f"curve {k}", points, k / 4) for k in range(5))
    figure = Panels(
        (("one", curves), ("two", curves)), "rate", "loss", None, logarithmic=logarithmic
    )
    lies_inside(panels(figure).svg)


@pytest.mark.parametrize("values", [(-0.2, 0.1), (0.3, 0.5), (-7.0, -6.0)])
def test_differences_stand_about_zero_and_inside_the_picture(values):
    low, high = values
    svg = differences(
        [("a row", Mark(0, (low + high) / 2, low, high), values)], "x", ("less", "more")
    ).svg
    lies_inside(svg)
    (axis,) = re.findall(r'class="axis" d="M[\d.]+ [\d.]+H([\d.]+)"', svg)
    grid = re.findall(r'class="grid" d="M([\d.]+)', svg)
    assert max(map(float, grid)) <= float(axis)
    zero = float(re.search(r'class="level" d="M([\d.]+)', svg)[1])
    points = [
        float(x) for x in re.findall(r'<circle class="point" opacity="[\d.]+" cx="([\d.]+)"', svg)
    ]
    assert [x < zero for x in points] == [value < 0 for value in values]


def test_a_layer_lies_inside_its_picture():
    branch = Branch("attention", 0, (("norm", ""), ("value 1", "2"), ("output 1", "")), None, True)
    lies_inside(picture(Layer((branch, branch), "One layer")).svg)
