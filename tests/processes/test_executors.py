"""Jobs in this process and in others: the same results, and what becomes of what goes wrong."""

import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.processes.jobs import Job, executor_of, run_jobs


def run(processes, works, executor=None):
    kept = {}
    jobs = [Job(str(i), 1.0, work, partial(kept.__setitem__, i)) for i, work in enumerate(works)]
    run_jobs(jobs, len(jobs), processes=processes, executor=executor)
    return kept


@settings(max_examples=30)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=9), st.integers(1, 4))
def test_every_job_is_done_once_and_progress_grows_to_the_whole(costs, count):
    kept, told = [], []
    jobs = [Job(str(n), cost, partial(abs, -n), kept.append) for n, cost in enumerate(costs)]
    with ThreadPoolExecutor(count) as threads:  # any executor serves
        run_jobs(jobs, sum(costs), executor=threads, progress=lambda *one: told.append(one))
    assert sorted(kept) == [*range(len(costs))]
    done = [one for one, _, _ in told]
    assert done == sorted(done) and done[-1] == pytest.approx(sum(costs))


def test_the_work_is_done_elsewhere_by_one_thread_each():
    works = [os.getpid, partial(os.getenv, "OMP_NUM_THREADS"), partial(math.factorial, 5)]
    found = run(2, works)
    assert found[0] != os.getpid() and found[1] == "1" and found[2] == 120
    assert run(1, [os.getpid]) == {0: os.getpid()}


def after_a_good_one(processes, work):
    """What became of some work behind a good job, whose result was kept."""
    kept = []
    jobs = [Job(name, 1.0, of, kept.append)
            for name, of in (("good", partial(math.factorial, 3)), ("bad", work))]  # fmt: skip
    with executor_of(processes) as where:
        try:
            return [run_jobs([job], 1, executor=where) for job in jobs][-1]
        finally:
            assert kept == [6]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_a_job_is_raised_here_and_keeps_what_came(processes):
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        after_a_good_one(processes, partial(math.sqrt, -1.0))


def test_a_process_that_dies_ends_the_work_with_a_word():
    assert "a process ended before its work" in after_a_good_one(2, partial(os._exit, 9))


@pytest.mark.parametrize("bad", [0, -1, 1.5, "two", True])
def test_a_bad_number_of_processes_is_refused(bad):
    with pytest.raises(InputError, match="processes"):
        run(bad, [os.getpid])


def script(code, **given):
    """A fresh interpreter that runs some code with the names of this module."""
    names = "import math, os, time\nfrom functools import partial\n"
    ours = "from deepnet_theory.processes.jobs import Job, executor_of, run_jobs\n"
    words = [sys.executable, "-P", "-c", names + ours + code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, **pipes, **given)


def test_a_script_needs_no_guard_and_its_folders_modules_are_not_the_standard_ones(tmp_path):
    for name in ("random", "queue", "types", "tempfile"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the wrong {name}')\n")
    job = "Job('one', 1.0, partial(math.factorial, 5), print)"
    assert script(f"run_jobs([{job}], 1, processes=2)", cwd=tmp_path).communicate() == ("120\n", "")


def test_other_processes_end_with_the_first_one_that_is_killed():
    """They hold its standard output: whoever reads it would wait for ever."""
    process = script(
        "with executor_of(2) as where:\n"
        "    where.submit(os.getpid).result()\n"
        "    where.submit(time.sleep, 600)\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(600)\n"
    )
    assert process.stdout.readline() == "begun\n"
    process.kill()
    assert process.communicate(timeout=60)[0] == ""  # it ends where nobody holds the pipe


def test_an_interrupt_reaches_the_first_process_alone_which_ends_the_others():
    process = script(
        "said = partial(print, 'one', flush=True)\n"
        "jobs = [Job('a', 1.0, time.time, lambda now: said()),\n"
        "        *[Job('b', 1.0, partial(time.sleep, 60), print) for _ in range(9)]]\n"
        "print(run_jobs(jobs, 2, processes=2), flush=True)\n",
        start_new_session=True,
    )
    assert process.stdout.readline() == "one\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, the others too
    assert process.communicate(timeout=30) == ("interrupted\n", "")
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a process is left")
