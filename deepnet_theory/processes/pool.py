"""Executors of this machine: this process, or several beside it."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import ParamSpec, TypeVar

from deepnet_theory.spec.errors import InputError, shown

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Fresh interpreters, and loky's own helpers, would else import from the current folder first.
SAFE_PATH = "PYTHONSAFEPATH"
TERMINAL = [getattr(signal, n) for n in ("SIGINT", "SIGHUP") if hasattr(signal, n)]

P = ParamSpec("P")
T = TypeVar("T")


class ThisProcess(Executor):
    """Does each piece of work at once, when it is submitted; Ctrl-C and exits pass through."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
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
def executor_of(processes: int, given: Executor | None = None) -> Iterator[Executor]:
    """The executor ``given``, else this process, or a pool of ``processes`` of one thread each.

    Fresh interpreters: a script needs no guard, the current folder is not on their path. They heed
    no Ctrl-C; leaving the context ends them.
    """
    if given is not None:
        yield given
    elif require_processes(processes) == 1:
        yield ThisProcess()
    else:
        with environment_variable(SAFE_PATH, "1"), warnings.catch_warnings():
            # a process that has grown is replaced by a fresh one: nothing to report
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
def environment_variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
