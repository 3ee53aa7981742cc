"""Machines as they are: few files, little memory, strict warnings, no folder."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits of a POSIX shell")
FEW = "--optimizer adam --width 8 --heads 2 --tokens 4 --seeds 2 --draws 1 --depths 1,2 --no-cache"


def shell(before, words, tmp_path):
    """The exit code and the last line on standard error."""
    command = f"{before} exec {sys.executable} -m deepnet_theory {words}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


@pytest.mark.parametrize(
    ("before", "words", "says"),
    [
        ("ulimit -n 16;", f"verify {FEW} --processes 2", "too many files are open"),
        ("ulimit -v 400000;", f"verify {FEW}", "there is not enough memory"),
        ("mkdir gone; cd gone; rmdir ../gone;", f"verify {FEW}", "folder has been deleted"),
        ("PYTHONWARNINGS=error", "list norms", ""),
    ],
)
def test_a_poor_machine_is_one_sentence(tmp_path, before, words, says):
    if "ulimit -v" in before and sys.platform != "linux":
        pytest.skip("the limit is Linux's")
    code, said = shell(before, words, tmp_path)
    assert code == (2 if says else 0), said
    assert said.startswith("deepnet-theory: ") == bool(says) and says in said
