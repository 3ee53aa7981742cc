"""Exit codes where a standard stream is closed, full or without a reader: 1 means REFUTED alone."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="streams of a POSIX shell")

LIST = "list norms"  # a command that takes a moment


@cache
def shell(tail: str, words: str = LIST) -> tuple[int, str, str]:
    """The exit code of the command itself, whatever it is piped into, and what was shown."""
    command = f"set -o pipefail; {sys.executable} -m deepnet_theory {words} {tail}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [LIST, "--help", "list optimizers --format json"])
def test_a_reader_that_has_gone_is_no_error_of_ours(words: str) -> None:
    assert shell("| true", words) == (141, "", "")


def test_a_full_standard_output_is_one_sentence() -> None:
    code, out, err = shell("> /dev/full")
    assert (code, out) == (2, "")
    assert err == "deepnet-theory: cannot write to standard output: No space left on device\n"


def test_a_closed_standard_output_is_one_sentence() -> None:
    code, _, err = shell(">&-")
    assert code == 2 and err.startswith("deepnet-theory: standard output is closed")
    assert err.count("\n") == 1


@pytest.mark.parametrize("tail", ["2>&-", "-v 2> /dev/full", "-v 2> >(true)", "<&-"])
def test_a_lost_standard_error_changes_nothing(tail: str) -> None:
    assert shell(tail)[:2] == shell("")[:2]
    assert shell(tail, "list nothing")[0] == 2


def test_nothing_is_written_into_a_file_that_took_the_place_of_standard_error(
    tmp_path: Path,
) -> None:
    words = f"export --optimizer sgd --depth 4 -o {tmp_path / 'c.json'}"
    assert shell("2>&-", words)[0] == 0
    assert shell("", "export --optimizer sgd --depth 4")[1] == (tmp_path / "c.json").read_text()


@pytest.mark.slow
def test_with_torch_loaded_too(tmp_path: Path) -> None:
    # the interpreter then ends in the ordinary way, with flushes of its own
    shell("", f"export --optimizer sgd --depth 2 --width 8 --heads 1 -o {tmp_path / 'c.json'}")
    words = f"train {tmp_path / 'c.json'} --steps 1 --batch 1 --tokens 4 -o {tmp_path / 'o.json'}"
    for tail, code in (("| true", 141), ("> /dev/full", 2), ("2> /dev/full", 0), ("2>&-", 0)):
        assert shell(tail, words)[0] == code, tail


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    name = f"$'{tmp_path}/\\xff.json'"
    code, _, err = shell("", f"export --optimizer sgd --depth 4 -o {name}")
    assert code == 0, err
    assert [os.fsencode(p.name) for p in tmp_path.iterdir()] == [b"\xff.json"]
    assert shell("", "derive --optimizer $'\\xff'")[0] == 2
