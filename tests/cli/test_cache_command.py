"""What the commands keep, take again, show and clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli

SMALL = (
    "--optimizer", "adam", "--depths", "1,2", "--width", "8", "--heads", "2", "--tokens", "4",
    "--seeds", "2", "--draws", "1",
)  # fmt: skip


def untimed(out: str) -> str:
    return out.rpartition("(cpu, ")[0]


def test_a_second_command_takes_the_points_that_it_shares(cli: Cli, tmp_path: Path) -> None:
    kept = ("--cache", str(tmp_path / "cache"))
    first = cli("verify", *SMALL, *kept, "-v")
    assert "results came from the cache" not in first.err
    page = str(tmp_path / "report.html")
    report = cli("report", *SMALL, *kept, "--no-rivals", "-o", page, "-v")
    shown = json.loads(cli("cache", *kept, "--format", "json").out)
    assert (
        f"{shown['results']} of {shown['results']} results came from the cache" in report.err
    )  # all of them, and no other work
    assert untimed(report.out) == untimed(first.out)
    anew = cli("report", *SMALL, "--no-cache", "--no-rivals", "-o", page, "-v")
    assert "results came from the cache" not in anew.err and untimed(anew.out) == untimed(first.out)


def test_a_claim_is_not_checked_twice(cli: Cli, tmp_path: Path) -> None:
    words = ("check", "cake-index-ranges", "--cache", str(tmp_path / "c"), "-v", "--format", "json")
    first, second = cli(*words), cli(*words)
    assert (
        "results came from the cache" not in first.err
        and "1 of 1 results came from the cache" in second.err
    )
    assert json.loads(first.out)["claims"] == json.loads(second.out)["claims"]
    assert "results came from the cache" not in cli(*words, "--seed", "1").err


def test_the_cache_is_shown_and_cleared(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("cache").out.startswith("nothing is kept")
    monkeypatch.setenv("DEEPNET_THEORY_CACHE", str(tmp_path / "own"))
    assert cli("cache").out == f"{tmp_path / 'own'}: 0 results, 0.0 MiB\n"
    cli("verify", *SMALL)
    shown = json.loads(cli("cache", "show", "--format", "json").out)
    kept = shown["results"]  # what was measured, at each depth predicted, the shares of the deepest
    assert shown["schema"] == "deepnet-theory/cache/1" and kept == 6 + 2 + 1
    assert shown["bytes"] == sum(
        f.stat().st_size for f in (tmp_path / "own").glob("*/*") if f.is_file()
    )
    assert f"{kept} results" in cli("cache", "clear").out
    assert json.loads(cli("cache", "--format", "json").out)["results"] == 0


def test_where_nothing_can_be_written_the_work_is_done_and_it_is_said(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DEEPNET_THEORY_CACHE", str(tmp_path / "file" / "cache"))
    outcome = cli("verify", *SMALL)
    assert "‖ΔF‖" in outcome.out
    assert outcome.err.count("\n") == 1 and "warning: finished work is not kept" in outcome.err
