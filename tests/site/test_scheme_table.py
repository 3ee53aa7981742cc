"""What was measured of the published schemes is of what is derived for them now."""

import json
import runpy
from pathlib import Path

from deepnet_theory.cli import main
from deepnet_theory.cli.claims import importable, location

importable(location())
from paper_checks.shared.measured import recorded  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_record_is_of_what_is_derived_now(capsys):
    for name in ("admin", "deepnorm", "t-fixup", "u-mup"):
        for optimizer, measured in recorded()[name].items():
            said = ["--scheme", name, "--optimizer", optimizer, "--format", "json"]
            assert main(["derive", *said]) == 0
            parts = json.loads(capsys.readouterr().out)["judged"]["parts"]
            assert [one.predicted for one in measured] == [part["first_order"] for part in parts]
    page = (BENCHMARKS / "results" / "schemes.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(BENCHMARKS / "schemes.py"))["page"](recorded()) == page
