"""`transfer` on the command line, at tiny size."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Cli

TRANSFER = (
    "transfer", "--optimizer", "adam", "--depths", "2,4", "--rates", "1e-3,1e-2,1e-1", "--steps",
    "3", "--width", "16", "--heads", "2", "--tokens", "8", "--batch", "2", "--seeds", "2",
    "--closures", "unit-init,symmetric", "--device", "cpu",
)  # fmt: skip


def test_transfer_writes_json_and_a_page(cli: Cli, tmp_path: Path) -> None:
    file, page = tmp_path / "t.json", tmp_path / "t.html"
    outcome = cli(*TRANSFER, "-o", str(file), "--page", str(page))
    data = json.loads(file.read_text(encoding="utf-8"))
    assert outcome.code in (0, 1, 3) and data["verdict"] == data["closures"][0]["verdict"]
    assert outcome.code == {"SUPPORTED": 0, "REFUTED": 1, "UNDECIDED": 3}[data["verdict"]]
    shown = page.read_text(encoding="utf-8")
    assert shown.count('class="curve"') == 2 * 2 + 2 and "unit-init" in shown  # and the legend
    assert cli(*TRANSFER, "--rates", "0").code == 2
