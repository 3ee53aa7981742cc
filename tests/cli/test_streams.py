"""Standard output receives every byte, or the command ends in 2."""

import os
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits and pipes of POSIX")
WORDS = "derive --optimizer adam --stack encoder-decoder --format json"
LONG = [sys.executable, "-m", "deepnet_theory", *WORDS.split()]


@pytest.fixture(scope="module")
def whole():
    out = subprocess.run(LONG, capture_output=True, check=True).stdout
    assert len(out) > 2**16  # more than a pipe holds
    return out


def test_a_disk_that_fills_is_one_sentence(whole, tmp_path):
    import resource

    limits = (len(whole) // 2, resource.RLIM_INFINITY)
    with (tmp_path / "part.json").open("wb") as file:
        done = subprocess.run(
            LONG, stdout=file, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
        )  # fmt: skip
    assert done.returncode == 2 and "cannot write to standard output" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_stream_of_ascii_receives_the_signs_of_the_formulas_as_utf_8():
    done = subprocess.run(
        [*LONG[:3], "derive", "--optimizer", "sgd"], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    )  # fmt: skip
    assert "α·x" in (shown := done.stdout.decode("utf-8")) and "(2·N)^(1/4)" in shown


def test_a_pipe_that_does_not_block_receives_every_byte(whole):
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(LONG, stdout=theirs, env=environment) as running:
        os.close(theirs)
        time.sleep(0.5)  # for the pipe to be full
        with os.fdopen(ours, "rb") as reader:
            assert reader.read() == whole
        assert running.wait() == 0
