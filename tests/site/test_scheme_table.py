"""docs/schemes.md is what the engine says of the published schemes now."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from deepnet_theory.cli import main
from deepnet_theory.cli.claims import importable, location
from deepnet_theory.definitions.scheme import schemes

importable(location())
from paper_checks.shared.measured import recorded  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs"
BENCHMARKS = DOCS.parent / "benchmarks"


def maker(folder=DOCS):
    return SimpleNamespace(**runpy.run_path(str(folder / "schemes.py")))


def test_a_wrong_gain_changes_the_table():
    made, right = maker(), schemes()["deepnorm"]
    gains = {**right.parts[0].gains, "fc1": "1"}
    wrong = replace(right, parts=(replace(right.parts[0], gains=gains),))
    lines = made._lines(made.judge(wrong))
    page = (DOCS / "schemes.md").read_text(encoding="utf-8")
    assert all(line not in page for line in lines)
    assert all(line in page for line in made._lines(made.judge(right)))


def test_the_record_is_of_what_is_derived_now(capsys):
    for name in ("admin", "deepnorm", "t-fixup", "u-mup"):
        for optimizer, measured in recorded()[name].items():
            said = ["--scheme", name, "--optimizer", optimizer, "--format", "json"]
            assert main(["derive", *said]) == 0
            parts = json.loads(capsys.readouterr().out)["judged"]["parts"]
            assert [one.predicted for one in measured] == [part["first_order"] for part in parts]
    page = (BENCHMARKS / "results" / "schemes.md").read_text(encoding="utf-8")
    assert maker(BENCHMARKS).page(recorded()) == page
