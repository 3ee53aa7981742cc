"""Lost streams and poor machines: the output receives every byte, or one sentence says why not."""

import os
import subprocess
import sys
import time
from functools import cache

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits, pipes and streams of POSIX")
LISTING = "list norms"  # a command that takes a moment
LONG = "derive --optimizer adam --stack encoder-decoder --format json"  # more than a pipe holds
FEW = "--optimizer adam --width 8 --heads 2 --tokens 4 --seeds 2 --draws 1 --depths 1,2 --no-cache"


@cache
def shell(tail, words=LISTING, before=""):
    """The exit code of the command itself, whatever it is piped into, and what was shown."""
    command = f"set -o pipefail; {before} {sys.executable} -m deepnet_theory {words} {tail}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [LISTING, "--help", "list optimizers --format json"])
def test_a_reader_that_has_gone_is_no_error_of_ours(words):
    assert shell("| true", words) == (141, "", "")


@pytest.mark.parametrize(
    ("before", "words", "tail", "said"),
    [
        ("", LISTING, ">&-", "standard output is closed"),
        ("", LISTING, "> /dev/full", "cannot write to standard output: No space left"),
        ("ulimit -f 40; PYTHONUNBUFFERED=1", LONG, "> part.json", "cannot write to standard"),
        ("ulimit -n 16;", "check cake-index-ranges --processes 2", "", "too many files are open"),
        ("ulimit -v 400000;", f"verify {FEW}", "", "there is not enough memory"),
        ("mkdir gone; cd gone; rmdir ../gone;", f"verify {FEW}", "", "the current folder has been"),
    ],
)
def test_a_machine_that_takes_or_has_too_little_is_one_sentence(
    tmp_path, monkeypatch, before, words, tail, said
):
    if "ulimit -v" in before and sys.platform != "linux":
        pytest.skip("the limit is Linux's")
    monkeypatch.chdir(tmp_path)
    code, out, err = shell(tail, words, before)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"deepnet-theory: {said}")
    assert err.count("\n") == 1 or not tail  # a library may say something, too


def test_a_stream_of_ascii_receives_the_signs_of_the_formulas_as_utf_8():
    code, shown, _ = shell("", "derive --optimizer sgd", "PYTHONIOENCODING=ascii LC_ALL=C")
    assert code == 0 and "α·x" in shown and "(2·N)^(1/4)" in shown


WARNS = """
import warnings
from deepnet_theory import cli
def main():
    warnings.warn("says a library")
    return 0
cli.main = main
cli.run()
"""


def test_a_warning_that_was_to_be_an_error_ends_no_command():
    words = [sys.executable, "-c", WARNS]
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "says a library" in done.stderr


@pytest.mark.parametrize("tail", ["2>&-", "-v 2> /dev/full", "-v 2> >(true)", "<&-"])
def test_a_lost_standard_error_changes_nothing(cli, tail):
    assert shell(tail)[:2] == (0, cli(*LISTING.split()).out)
    assert tail == "<&-" or shell(tail, "list nothing")[0] == 2


def test_a_pipe_that_does_not_block_receives_every_byte(cli):
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    words = [sys.executable, "-m", "deepnet_theory", *LONG.split()]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stdout=theirs, env=environment) as running:
        os.close(theirs)
        time.sleep(0.5)  # for the pipe to be full
        with os.fdopen(ours, "rb") as reader:
            received = reader.read()
        assert running.wait() == 0
    assert len(received) > 2**16 and received.decode("utf-8") == cli(*LONG.split()).out
