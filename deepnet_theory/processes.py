"""Where work is done: in this process, or in several beside it.

One seam, the standard :class:`concurrent.futures.Executor`: whatever gives futures serves. What
is done is a :class:`Job`, whose result does not depend on where or in which order it is done.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, ParamSpec, TypeVar

from deepnet_theory.spec.errors import (
    INTERRUPTION,
    DeepNetTheoryError,
    InputError,
    ran_out_of_memory,
    shown,
)

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Fresh interpreters, and loky's own helpers, would else import from the current folder first.
SAFE_PATH = "PYTHONSAFEPATH"

MANY = 64  # jobs at a time in an executor that does not say how many it takes
TERMINAL = [getattr(signal, n) for n in ("SIGINT", "SIGHUP") if hasattr(signal, n)]

P = ParamSpec("P")
T = TypeVar("T")
Progress = Callable[[float, float, str], None]  # receives work done, whole work, what is done


def silent(done: float, total: float, what: str) -> None:
    """Progress that nobody watches."""


class ProcessDied(DeepNetTheoryError):  # noqa: N818  what happened, not whose error it is
    """A process ended before its work was done."""

    def __init__(self) -> None:
        super().__init__("a process ended before its work was done (was memory short?)")


@dataclass(frozen=True)
class Job:
    """``work``, which travels by pickle, and what this process does with its result.

    ``keep`` receives the result and hands back the jobs that it has made possible, if any.
    ``cost`` is in the units of the progress, which tells ``what`` is done.
    """

    what: str
    cost: float
    work: Callable[[], Any]
    keep: Callable[[Any], Iterable[Job] | None]


class ThisProcess(Executor):
    """Does each piece of work here and at once, when it is submitted."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The future of work that is already done; Ctrl-C and exits pass through."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def require_processes(processes: int) -> int:
    """``processes`` if it is a whole number from 1 to 1024, else :class:`InputError`."""
    if type(processes) is not int or not 1 <= processes <= 1024:
        raise InputError(f"processes {shown(processes)} is not a whole number from 1 to 1024")
    return processes


@contextmanager
def executor_of(processes: int, given: Executor | None = None) -> Iterator[Executor]:
    """The executor ``given``, else this process, or a pool of ``processes`` of one thread each.

    The others are fresh interpreters: a script needs no guard around its main part, and the
    current folder is not on their path. They heed no Ctrl-C; leaving the context ends them.
    """
    if given is not None:
        yield given
    elif require_processes(processes) == 1:
        yield ThisProcess()
    else:
        with _safe_path(), warnings.catch_warnings():
            # a process that has grown is replaced by a fresh one: nothing to be told of
            warnings.filterwarnings("ignore", "A worker (was restarted|stopped)", UserWarning)
            from loky import ProcessPoolExecutor

            pool = ProcessPoolExecutor(processes, initializer=_begin, env=ONE_THREAD)
            try:
                with _signals_held_back():
                    pool.submit(int)  # starts the processes
                yield pool
            finally:
                pool.shutdown(kill_workers=True)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Signals of the terminal come after this context; what is started within never sees them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started later, it would let them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """In a fresh process: the terminal's signals are the first process's to answer."""
    for one in TERMINAL:
        signal.signal(one, signal.SIG_IGN)


@contextmanager
def _safe_path() -> Iterator[None]:
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def run_jobs(
    jobs: Iterable[Job], executor: Executor, total: float, progress: Progress = silent
) -> None:
    """Have the jobs done, with those that they make possible; a result is kept when it comes.

    ``total`` is the cost of all. Raises what the work raises, :class:`ProcessDied` where a
    process ended; what has been kept by then is kept, and what has not begun is not submitted.
    """
    todo, running, done = deque(jobs), dict[Future[Any], Job](), 0.0
    room = getattr(executor, "_max_workers", MANY) + 1  # few wait, so that what follows comes soon
    try:
        while todo or running:
            if todo and len(running) < room:
                job = todo.popleft()
                progress(done, total, job.what)
                running[executor.submit(job.work)] = job
                finished = {future for future in running if future.done()}
            else:
                finished = wait(running, return_when=FIRST_COMPLETED).done
            for future in finished:
                job = running.pop(future)
                todo.extendleft(reversed([*(job.keep(future.result()) or ())]))
                done += job.cost
                progress(done, total, job.what)
    except BrokenExecutor:
        raise ProcessDied from None


def run_until_stopped(
    jobs: Iterable[Job],
    processes: int,
    executor: Executor | None,
    total: float,
    progress: Progress = silent,
) -> str:
    """Have the jobs done by :func:`executor_of`; why that ended early, or no word.

    An interrupt (Ctrl-C), a process that died and a lack of memory end it and lose nothing that
    has been kept; any other error is raised.
    """
    try:
        with executor_of(processes, executor) as where:
            run_jobs(jobs, where, total, progress)
    except KeyboardInterrupt:
        return INTERRUPTION
    except ProcessDied as died:
        return str(died)
    except (MemoryError, RuntimeError) as wrong:
        if not ran_out_of_memory(wrong):
            raise
        return "memory ran out"
    return ""
