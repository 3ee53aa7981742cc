"""docs/width.md is what the engine says of the width now."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from deepnet_theory.definitions.optimizer import optimizers

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "width.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def maker():
    return SimpleNamespace(**runpy.run_path(str(DOCS / "width.py")))


@pytest.mark.slow  # .ci/run asks `docs/width.py --check` beside the pages of the schemes
def test_the_page_is_current(maker):
    assert maker.page() == PAGE, "run: python docs/width.py"


def test_the_page_names_every_optimizer():
    assert all(f"| {name} |" in PAGE for name in optimizers())
