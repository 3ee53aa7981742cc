"""docs/schemes.md is what the engine says of the published schemes now."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from deepnet_theory.cli import main
from deepnet_theory.definitions.scheme import recorded, schemes

DOCS = Path(__file__).parents[2] / "docs"
BENCHMARKS = DOCS.parent / "benchmarks"


def maker(folder=DOCS):
    return SimpleNamespace(**runpy.run_path(str(folder / "schemes.py")))


@pytest.mark.slow  # .ci/run asks `docs/schemes.py --check` beside the pages of the claims
def test_the_page_is_current_and_names_every_scheme():
    page = (DOCS / "schemes.md").read_text(encoding="utf-8")
    assert maker().page() == page, "run: python docs/schemes.py"
    assert all(name in page for name in schemes())


def test_a_wrong_gain_changes_the_table():
    made, right = maker(), schemes()["deepnorm"]
    gains = {**right.parts[0].gains, "fc1": "1"}
    wrong = replace(right, parts=(replace(right.parts[0], gains=gains),))
    lines = made._lines(made.judge(wrong))
    page = (DOCS / "schemes.md").read_text(encoding="utf-8")
    assert all(line not in page for line in lines)
    assert all(line in page for line in made._lines(made.judge(right)))


def judged(capsys, name):
    assert main(["derive", "--scheme", name, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["peri-ln", "sub-ln"])
def test_a_row_carries_the_measurement_that_refutes_it(name, capsys):
    rows = judged(capsys, name)["optimizers"]
    sgd = next(row for row in rows if "sgd" in row["optimizers"])
    (found,) = sgd["measured"]
    assert sgd["parts"][0]["first_order"] == found["predicted"] == "0"
    assert (found["verdict"], found["low"] > 0.05) == ("REFUTED", True)
    shown = f"{found['estimate']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}] REFUTED"
    (row,) = (
        line
        for line in (DOCS / "schemes.md").read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| {name} |")
    )
    assert f"| constant; measured {shown} |" in row
    for command, cell in (
        (["derive", "--scheme", name, "--optimizer", "sgd"], "first order constant (REFUTED)"),
        (["list", "schemes"], name),
    ):
        assert main(command) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert shown in told and cell in told
    assert main(["derive", "--scheme", "completep"]) == 0
    assert "(REFUTED)" not in capsys.readouterr().out


def test_the_record_is_of_what_is_derived_now(capsys):
    for name in ("admin", "deepnorm", "fixup", "keel", "t-fixup", "u-mup"):
        for row in judged(capsys, name)["optimizers"]:
            derived = [part["first_order"] for part in row["parts"]]
            assert [found["predicted"] for found in row["measured"]] in (derived, [])
    page = (BENCHMARKS / "results" / "schemes.md").read_text(encoding="utf-8")
    assert maker(BENCHMARKS).page(recorded()) == page
    # Keel's first layer is one pre-LN layer: its stream grows no further
    assert judged(capsys, "keel")["warnings"] == []
    assert any("stream grows" in told for told in judged(capsys, "mix-ln")["warnings"])
