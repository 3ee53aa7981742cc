"""Jobs: what is done, where it is done, what is kept, and what ends it early.

One seam, the standard :class:`concurrent.futures.Executor`: whatever gives futures serves. The
result of a :class:`Job` depends neither on where nor on when it is done.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, TypedDict, Unpack, cast

from deepnet_theory.definitions.outcome import (
    INTERRUPTION,
    InputError,
    ran_out_of_memory,
    shown,
)
from deepnet_theory.processes.keep import MISSING, Kept, cache_of, promised

NEEDS_LESS = "fewer tokens, seeds or layers, a smaller batch or width, or fewer processes need less"
MANY = 64  # jobs at a time in an executor that does not say how many it takes
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Fresh interpreters, and loky's own helpers, would else import from the current folder first.
SAFE_PATH = "PYTHONSAFEPATH"
TERMINAL = (signal.SIGINT, signal.SIGHUP)
Progress = Callable[[float, float, str], None]  # receives work done, whole work, what is done


class Work(TypedDict, total=False):
    """Who does the work (None: as many ``processes`` as suit it), who watches, what is kept."""

    processes: int | None
    executor: Executor | None
    progress: Progress | None
    cache: Kept


def split(given: Mapping[str, Any]) -> tuple[dict[str, Any], Work]:
    work = {name: value for name, value in given.items() if name in Work.__annotations__}
    return {name: v for name, v in given.items() if name not in work}, cast(Work, work)


def silent(done: float, total: float, what: str) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Job:
    """``work``, which travels by pickle, and what this process does with its result.

    ``cost`` is in the progress's units. ``depends_on`` is all that the result depends on beside
    code and machine; with None, or where ``lasting`` is false of the result, no cache keeps it. A
    result that is kept has the type that ``work`` promises.
    """

    what: str
    cost: float
    work: Callable[[], Any]
    keep: Callable[[Any], object]
    depends_on: object = None
    lasting: Callable[[Any], bool] = lambda result: True


def run_jobs(jobs: Iterable[Job], total: float, **work: Unpack[Work]) -> str:
    """Have the jobs done by :func:`executor_of`; why that ended early, or no word.

    ``total`` is the cost of all. A result is kept when it comes. An interrupt (Ctrl-C), a process
    that died and a lack of memory end the work, and lose nothing kept; what the work itself raises
    is raised here. Work that cannot be pickled is done by this process.
    """
    kept, told, done = cache_of(work.get("cache")), work.get("progress") or silent, 0.0
    running = dict[Future[Any], Job]()

    def keep(job: Job, result: Any) -> None:
        nonlocal done
        job.keep(result)
        done += job.cost
        told(done, total, job.what)

    def receive(finished: Iterable[Future[Any]]) -> None:
        # those that failed last: they end this
        for future in sorted(finished, key=lambda f: f.cancelled() or f.exception() is not None):
            job, result = running.pop(future), future.result()
            if kept is not None and job.depends_on is not None and job.lasting(result):
                kept.put(job.depends_on, result)
            keep(job, result)

    try:
        jobs = [*jobs]
        elsewhere = work.get("processes", 1), work.get("executor")
        with executor_of(*elsewhere if all(map(_travels, jobs[:1])) else ()) as where:
            room = getattr(where, "_max_workers", MANY) + 1  # few wait: an end leaves the others
            for job in jobs:
                known = MISSING
                if kept is not None and job.depends_on is not None:
                    known = kept.get(job.depends_on, promised(job.work))
                if known is not MISSING:
                    keep(job, known)
                    continue
                told(done, total, job.what)
                running[where.submit(job.work)] = job
                receive([future for future in running if future.done()])
                while len(running) >= room:
                    receive(wait(running, return_when=FIRST_COMPLETED).done)
            while running:
                receive(wait(running, return_when=FIRST_COMPLETED).done)
    except (Exception, KeyboardInterrupt) as error:
        name = type(error).__name__
        if name in ("CancelledError", "ClosedClientError"):  # of Dask
            return "the scheduler has gone"
        if isinstance(error, BrokenExecutor) or name == "KilledWorker":
            return f"a process ended before its work was done; was memory short? {NEEDS_LESS}"
        if isinstance(error, KeyboardInterrupt):
            return INTERRUPTION
        if not ran_out_of_memory(error):
            raise
        return f"memory ran out: {NEEDS_LESS}"
    return ""


def _travels(job: Job) -> bool:
    try:
        pickle.dumps(job.work)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


# ---- executors of this machine ----


class ThisProcess(Executor):
    """Does each piece of work at once, when it is submitted; Ctrl-C and exits pass through."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def require_processes(processes: int) -> int:
    """``processes`` if it is a whole number from 1 to 1024, else :class:`InputError`."""
    if type(processes) is not int or not 1 <= processes <= 1024:
        raise InputError(f"processes {shown(processes)} is not a whole number from 1 to 1024")
    return processes


@contextmanager
def executor_of(processes: int | None = None, given: Executor | None = None) -> Iterator[Executor]:
    """The executor ``given``, else this process, or a pool of ``processes`` of one thread each.

    Fresh interpreters: a script needs no guard, the current folder is not on their path. They heed
    no Ctrl-C; leaving the context ends them.
    """
    if given is not None:
        yield given
    elif processes is None or require_processes(processes) == 1:
        yield ThisProcess()
    else:
        with environment_variable(SAFE_PATH, "1"), warnings.catch_warnings():
            # a process that has grown is replaced by a fresh one: nothing to report
            warnings.filterwarnings("ignore", "A worker (was restarted|stopped)", UserWarning)
            # The standard pool forks, which torch's threads do not survive, or spawns, and then a
            # script needs a guard around its main part. loky starts fresh interpreters without one.
            from loky import ProcessPoolExecutor

            pool = ProcessPoolExecutor(
                processes, initializer=_begin, initargs=(os.getpid(),), env=ONE_THREAD
            )
            try:
                # whom it starts never sees the terminal's signals: they come after this
                resource_tracker.ensure_running()  # started later, it would let them through
                before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
                pool.submit(int)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                yield pool
            finally:
                pool.shutdown(kill_workers=True)


def _begin(parent: int) -> None:
    """In a fresh process: it ends with its parent, who answers the terminal's signals."""
    for one in TERMINAL:
        signal.signal(one, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    # A parent that is killed sends no word, and its pipes stay open in its other children.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextmanager
def environment_variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
