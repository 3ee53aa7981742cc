"""docs/schemes.md is what the engine says of the published schemes now."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from deepnet_theory.spec.scheme import schemes

DOCS = Path(__file__).parent.parent / "docs"


def maker() -> ModuleType:
    specification = importlib.util.spec_from_file_location("scheme_page", DOCS / "schemes.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow  # .ci/run asks `docs/schemes.py --check` beside the pages of the claims
def test_the_page_is_current_and_names_every_scheme() -> None:
    page = (DOCS / "schemes.md").read_text(encoding="utf-8")
    assert maker().page() == page, "run: python docs/schemes.py"
    assert all(name in page for name in schemes())


def test_a_wrong_gain_changes_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made, right = maker(), schemes()["deepnorm"]
    gains = {**right.parts[0].gains, "fc1": "1"}
    wrong = replace(right, parts=(replace(right.parts[0], gains=gains),))
    lines = made._lines(made.judge(wrong))
    page = (DOCS / "schemes.md").read_text(encoding="utf-8")
    assert all(line not in page for line in lines)
    assert all(line in page for line in made._lines(made.judge(right)))
