"""What is kept, said and returned where a command is asked to end."""

from __future__ import annotations

import json
import os
import signal
import time
from functools import wraps
from pathlib import Path

import pytest

from deepnet_theory.numeric import schedule
from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import ModelUpdate

from .conftest import Cli

SMALL = (
    "verify", "--optimizer", "adam", "--width", "16", "--heads", "2", "--tokens", "8",
    "--seeds", "2", "--draws", "1",
)  # fmt: skip


def send_at(monkeypatch: pytest.MonkeyPatch, layers: int, number: int) -> None:
    """Send this process a signal as soon as the stack of so many layers is to be measured."""
    measure = schedule.measure_model_update

    @wraps(measure)  # the same name: what is kept belongs to it
    def measured(case: Case) -> ModelUpdate:
        if case.depth == {"N": layers}:
            os.kill(os.getpid(), number)
            time.sleep(5)
        return measure(case)

    monkeypatch.setattr(schedule, "measure_model_update", measured)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_what_was_measured_is_kept_and_the_same_command_goes_on(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    file, kept = tmp_path / "part.json", ("--cache", str(tmp_path / "cache"))
    before = signal.getsignal(getattr(signal, name))
    with monkeypatch.context() as patch:
        send_at(patch, 4, getattr(signal, name))
        found = cli(*SMALL, *kept, "--depths", "2,3,4", "-o", str(file))
    assert found.code == 130
    assert f"the same command goes on; what is finished is kept in {kept[1]}" in found.err
    assert "interrupted: 2 of 3 depths" in found.out
    assert found.out.splitlines()[-1].startswith("UNDECIDED")
    assert signal.getsignal(getattr(signal, name)) is before
    part = json.loads(file.read_text(encoding="utf-8"))
    assert part["complete"] is False and part["verdict"] == "UNDECIDED"
    done = cli(*SMALL, *kept, "--depths", "2,3,4", "-o", str(file), "-v")
    assert done.code != 130 and "results came from the cache; --no-cache measures" in done.err
    assert json.loads(file.read_text(encoding="utf-8"))["complete"] is True


def test_part_of_a_result_replaces_no_whole_one_and_goes_on_where_it_was_kept(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, nothing = tmp_path / "whole.json", tmp_path / "nothing.json"
    cli(*SMALL, "--depths", "2,3", "-o", str(file))
    whole = file.read_bytes()
    with monkeypatch.context() as patch:
        send_at(patch, 4, signal.SIGINT)
        found = cli(*SMALL, "--depths", "2,3,4", "-o", str(file))
    assert found.code == 130 and "goes on" not in found.out + found.err
    part = json.loads(Path(f"{file}.partial").read_text(encoding="utf-8"))
    assert file.read_bytes() == whole and part["complete"] is False
    send_at(monkeypatch, 2, signal.SIGINT)
    found = cli(*SMALL, "--depths", "2,3,4", "-o", str(nothing))
    assert found.code == 130 and "goes on" not in found.out + found.err and not nothing.exists()


def test_every_command_ends_alike(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from deepnet_theory import workflow

    def interrupted(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, "derive", interrupted)
    for words in (["derive", "--optimizer", "adam"], list(SMALL)):
        found = cli(*words)
        assert (found.code, found.err.strip()) == (130, "deepnet-theory: interrupted")
