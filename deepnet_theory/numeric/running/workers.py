"""Jobs that need nothing of each other, done in this process or in several of one thread each."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, local
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Job:
    """``work``, which travels by pickle, and what this process does with its result."""

    what: str
    cost: float
    work: Callable[[], Any]
    keep: Callable[[Any], None]


class Workers:
    """Runs jobs: with one process at once and in order, else in that many others beside this one.

    The others are fresh interpreters, so a script that measures needs no guard around its main
    part; Ctrl-C reaches this process alone, which ends them. ``before`` and ``after`` are told
    of each job. Use as a context: leaving it in good order waits for the jobs, an exception
    drops them.
    """

    def __init__(
        self, processes: int, before: Callable[[Job], None], after: Callable[[Job], None]
    ) -> None:
        self._before, self._after = before, after
        self._pool = ThreadPoolExecutor(processes) if processes > 1 else None
        self._mine = local()  # each thread of the pool feeds a process of its own
        self._started: list[subprocess.Popen[bytes]] = []
        self._starting = Lock()
        self._closed = False
        self._jobs: dict[Future[Any], Job] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        try:
            while failed is None and self._jobs:
                self._collect(wait(self._jobs, return_when=FIRST_COMPLETED).done)
        finally:
            self._end()

    def do(self, job: Job) -> None:
        """Do the job now, or hand it over and take in the results that have come meanwhile."""
        if self._pool is None:
            self._before(job)
            job.keep(job.work())
            self._after(job)
        else:
            self._jobs[self._pool.submit(self._ask, job.work)] = job
            self.collect()

    def collect(self) -> None:
        """Take in the results that are there."""
        self._collect({future for future in self._jobs if future.done()})

    def _collect(self, done: set[Future[Any]]) -> None:
        for future in done:
            job = self._jobs.pop(future)
            job.keep(future.result())
            self._after(job)

    def _ask(self, work: Callable[[], Any]) -> Any:
        """In a thread of the pool: have its process do the work."""
        process: subprocess.Popen[bytes] | None = getattr(self._mine, "process", None)
        if process is None:
            process = self._mine.process = self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(work, process.stdin)
            process.stdin.flush()
            result, error = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as wrong:
            raise RuntimeError(
                "a process of the measurement ended before its work (was memory short?); "
                "measure with one process"
            ) from wrong
        if error is not None:
            raise error
        return result

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[3])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        with self._starting:
            if self._closed:
                raise RuntimeError("the measurement has ended")
            process = subprocess.Popen(
                [sys.executable, "-m", "deepnet_theory.numeric.running.workers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
                start_new_session=True,
            )
            self._started.append(process)
        return process

    def _end(self) -> None:
        if self._pool is None:
            return
        with self._starting:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self._started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with suppress(OSError):  # work that the process did not live to read
                    pipe.close()


def serve() -> None:
    """A worker process: work comes in by standard input, results leave by standard output."""
    import torch

    torch.set_num_threads(1)
    asked, answer = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print would spoil the answers
    while True:
        try:
            work = pickle.load(asked)
        except EOFError:
            return
        reply: tuple[Any, Exception | None]
        try:
            reply = (work(), None)
        except Exception as error:
            reply = (None, error)
        pickle.dump(reply, answer)
        answer.flush()


if __name__ == "__main__":
    serve()
