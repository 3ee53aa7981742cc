"""docs/width.md is what the engine says of the width now."""

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.parametrisation import parametrisations
from deepnet_theory.sizes.parametrisations import judge_parametrisation

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "width.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def maker():
    return SimpleNamespace(**runpy.run_path(str(DOCS / "width.py")))


@pytest.mark.slow  # .ci/run asks `docs/width.py --check` beside the pages of the schemes
def test_the_page_is_current(maker):
    assert maker.page() == PAGE, "run: python docs/width.py"


def test_the_page_names_every_optimizer_and_every_parametrisation():
    assert all(f"| {name} |" in PAGE for name in (*optimizers(), *parametrisations()))


def test_a_wrong_fact_changes_the_table(maker):
    right = parametrisations()["mup"]
    wrong = replace(right, init={**right.init, "head": "d**(-1/2)"})
    lines = [list(maker._published([judge_parametrisation(given)]))[2] for given in (right, wrong)]
    assert lines[0] in PAGE
    assert lines[1] not in PAGE
