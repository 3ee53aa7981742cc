"""What commands keep, take again, show and clear; and what they say when asked to end."""

import json
import os
import signal
import time
from functools import wraps
from pathlib import Path

import pytest

from deepnet_theory.laboratory import verify as room

SIZES = (
    "--optimizer", "adam", "--width", "8", "--heads", "2", "--tokens", "4", "--seeds", "2",
    "--draws", "1",
)  # fmt: skip
SMALL = ("verify", *SIZES)


def send_at(monkeypatch, layers, number):
    """Send this process a signal as soon as the stack of so many layers is to be measured."""
    measure = room.measure_draws

    @wraps(measure)  # the same name: what is kept belongs to it
    def measured(case, *given):
        if case.depth == {"N": layers}:
            os.kill(os.getpid(), number)
            time.sleep(5)
        return measure(case, *given)

    monkeypatch.setattr(room, "measure_draws", measured)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_what_was_measured_is_kept_and_the_same_command_goes_on(cli, monkeypatch, tmp_path, name):
    file, kept = tmp_path / "part.json", ("--cache", str(tmp_path / "cache"))
    before = signal.getsignal(getattr(signal, name))
    with monkeypatch.context() as patch:
        send_at(patch, 3, getattr(signal, name))
        found = cli(*SMALL, *kept, "--depths", "1,2,3", "-o", str(file))
    assert found.code == 130
    assert f"the same command continues; finished work is kept in {kept[1]}" in found.err
    assert "interrupted: 2 of 3 depths" in found.out
    assert found.out.splitlines()[-1].startswith("UNDECIDED")
    assert signal.getsignal(getattr(signal, name)) is before
    part = json.loads(file.read_text(encoding="utf-8"))
    assert part["complete"] is False and part["verdict"] == "UNDECIDED"
    done = cli(*SMALL, *kept, "--depths", "1,2,3", "-o", str(file), "-v")
    assert done.code != 130 and "results came from the cache; --no-cache measures" in done.err
    assert json.loads(file.read_text(encoding="utf-8"))["complete"] is True


def test_part_of_a_result_replaces_no_whole_one(cli, monkeypatch, tmp_path):
    whole, nothing = tmp_path / "whole.json", tmp_path / "nothing.json"
    whole.write_text('{"complete": true}')
    for layers, file in ((2, whole), (1, nothing)):
        with monkeypatch.context() as patch:
            send_at(patch, layers, signal.SIGINT)
            found = cli(*SMALL, "--depths", "1,2", "-o", str(file))
        assert found.code == 130 and "continues" not in found.out + found.err
    part = json.loads(Path(f"{whole}.partial").read_text(encoding="utf-8"))
    assert whole.read_text() == '{"complete": true}' and part["complete"] is False
    assert not nothing.exists()


FEW = (*SIZES, "--depths", "1,2")


def test_what_one_command_has_kept_another_takes_until_it_is_cleared(cli, tmp_path, monkeypatch):
    assert cli("cache").out.startswith("nothing is kept")
    own, came = tmp_path / "own", "4 of 4 results came from the cache"
    monkeypatch.setenv("DEEPNET_THEORY_CACHE", str(own))
    assert cli("cache").out == f"{own}: 0 results\n"
    first = cli("verify", *FEW, "-v")
    report = cli("report", *FEW, "-o", str(tmp_path / "report.html"), "-v")
    anew = cli("verify", *FEW, "--no-cache", "-v")
    assert came in report.err and "from the cache" not in first.err + anew.err
    untimed = {one.out.rpartition("(cpu, ")[0] for one in (first, report, anew)}
    assert len(untimed) == 1 and "" not in untimed
    assert len(list(own.glob("*.json"))) == 4  # measured, and predicted, at each depth
    assert "4 results\n" in cli("cache", "show").out
    assert "4 results, cleared" in cli("cache", "clear").out and " 0 results" in cli("cache").out


def test_where_nothing_can_be_written_the_work_is_done_and_it_is_said(cli, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DEEPNET_THEORY_CACHE", str(tmp_path / "file" / "cache"))
    outcome = cli("verify", *FEW)
    assert "‖ΔF‖" in outcome.out
    assert outcome.err.count("\n") == 1 and "warning: finished work is not kept" in outcome.err
