"""A measurement across the width as a page, a plot and three lines."""

from __future__ import annotations

import pytest

from deepnet_theory import workflow
from deepnet_theory.report.document import composed
from deepnet_theory.report.text import text
from deepnet_theory.spec.results.measurement import Verification


@pytest.fixture(scope="module")
def found() -> Verification:
    return workflow.verify_width(
        "adam", [16, 32, 64], rules=("rule", "sp"), tokens=2, seeds=2, draws=1, device="cpu",
        processes=1,
    )  # fmt: skip


def test_the_page_counts_what_is_as_predicted_by_parametrisation(found: Verification) -> None:
    page = text(composed(found))
    count = len(found.exponents)
    told = f"of {count} exponents as predicted"
    for words in (
        "the derived rule: ", "parametrisation sp: ", told, "in d, fc1", "in d, fc1 on the loss",
        "2 tokens",
    ):  # fmt: skip
        assert words in page
    assert "‖ΔF‖" not in page


def test_the_lines_and_the_plot_are_of_the_width(found: Verification) -> None:
    assert "The loss by one update" in repr(found)
    assert "N = 2, d = 16 to N = 2, d = 64" in repr(found)
    drawn = found.plot()._repr_svg_()
    assert "d, width" in drawn and "change of the loss" in drawn
