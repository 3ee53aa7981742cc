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


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("> /dev/full", "cannot write to standard output: No space left on device\n"),
        (">&-", "standard output is closed"),
    ],
)
def test_a_standard_output_that_takes_nothing_is_one_sentence(tail: str, said: str) -> None:
    code, out, err = shell(tail)
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith(f"deepnet-theory: {said}")


@pytest.mark.parametrize("tail", ["2>&-", "-v 2> /dev/full", "-v 2> >(true)", "<&-"])
def test_a_lost_standard_error_changes_nothing(tail: str) -> None:
    assert shell(tail)[:2] == shell("")[:2]
    assert shell(tail, "list nothing")[0] == 2


@pytest.mark.slow
def test_with_torch_loaded_too(tmp_path: Path) -> None:
    # the interpreter then ends in the ordinary way, with flushes of its own
    shell("", f"export --optimizer sgd --depth 2 --width 8 --heads 1 -o {tmp_path / 'c.json'}")
    words = f"train {tmp_path / 'c.json'} --steps 1 --batch 1 --tokens 4 -o {tmp_path / 'o.json'}"
    for tail, code in (("| true", 141), ("> /dev/full", 2), ("2> /dev/full", 0), ("2>&-", 0)):
        assert shell(tail, words)[0] == code, tail


def test_a_file_is_whole_without_standard_error_and_under_bytes_that_are_no_text(
    tmp_path: Path,
) -> None:
    export = "export --optimizer sgd --depth 4"
    assert shell("2>&-", f"{export} -o {tmp_path / 'c.json'}")[0] == 0
    assert shell("", export)[1] == (tmp_path / "c.json").read_text()
    code, _, err = shell("", f"{export} -o $'{tmp_path}/\\xff.json'")
    assert code == 0, err
    assert {os.fsencode(p.name) for p in tmp_path.iterdir()} == {b"\xff.json", b"c.json"}
    assert shell("", "derive --optimizer $'\\xff'")[0] == 2
