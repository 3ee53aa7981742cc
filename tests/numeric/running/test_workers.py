"""Tests of jobs in several processes."""

import math
import os
import subprocess
import sys
from functools import partial

import pytest

from deepnet_theory.numeric.running.workers import Job, Workers


def nothing(job):
    pass


def run(processes, works):
    kept = {}
    with Workers(processes, nothing, nothing) as workers:
        for i, work in enumerate(works):
            workers.do(Job(str(i), 1.0, work, partial(kept.__setitem__, i)))
    return kept


@pytest.mark.parametrize("processes", [1, 2])
def test_each_result_goes_where_it_belongs(processes):
    found = run(processes, [partial(math.factorial, n) for n in range(7)])
    assert found == {n: math.factorial(n) for n in range(7)}


def test_the_work_is_done_elsewhere_by_one_thread_each():
    pids = set(run(3, [os.getpid] * 6).values())
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 3
    assert run(1, [os.getpid]) == {0: os.getpid()}
    assert set(run(2, [partial(os.getenv, "OMP_NUM_THREADS")] * 2).values()) == {"1"}


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_a_job_is_raised_here(processes):
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        run(processes, [partial(math.sqrt, -1.0)])


def test_a_process_that_dies_is_said_and_does_not_hang():
    with pytest.raises(RuntimeError, match="ended before its work"):
        run(2, [partial(os._exit, 9)])


def test_a_script_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import math\n"
        "from functools import partial\n"
        "from deepnet_theory.numeric.running.workers import Job, Workers\n"
        "found = []\n"
        "with Workers(2, lambda job: None, lambda job: None) as workers:\n"
        "    workers.do(Job('one', 1.0, partial(math.factorial, 5), found.append))\n"
        "print(found)\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.stdout.strip() == "[120]", done.stderr
