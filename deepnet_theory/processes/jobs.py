"""Jobs: what is done, what is kept of it, and what ends it early.

One seam, the standard :class:`concurrent.futures.Executor`: whatever gives futures serves. The
result of a :class:`Job` depends neither on where nor on when it is done.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, cast

from deepnet_theory.processes.cache import MISSING, Cache, Kept, cache_of
from deepnet_theory.processes.form import promised
from deepnet_theory.processes.pool import executor_of
from deepnet_theory.spec.errors import INTERRUPTION, DeepNetTheoryError, ran_out_of_memory

MANY = 64  # jobs at a time in an executor that does not say how many it takes
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


class ProcessDied(DeepNetTheoryError):  # noqa: N818  what happened, not whose error it is
    """Whoever did the work ended before it was done."""

    def __init__(
        self, sentence: str = "a process ended before its work was done (was memory short?)"
    ) -> None:
        super().__init__(sentence)


@dataclass(frozen=True)
class Job:
    """``work``, which travels by pickle, and what this process does with its result.

    ``keep`` hands back the jobs that the result has made possible, if any; ``cost`` is in the
    progress's units. ``depends_on`` is all that the result depends on beside code and machine; with
    None, or where ``lasting`` is false of the result, no cache keeps it. What a cache has must be
    of the type that ``work`` promises, and ``fits`` be true of it.
    """

    what: str
    cost: float
    work: Callable[[], Any]
    keep: Callable[[Any], Iterable[Job] | None]
    depends_on: object = None
    lasting: Callable[[Any], bool] = lambda result: True
    fits: Callable[[Any], bool] = lambda result: True


def run_jobs(
    jobs: Iterable[Job],
    executor: Executor,
    total: float,
    progress: Progress = silent,
    cache: Cache | None = None,
) -> None:
    """Have the jobs done, with those that they make possible; a result is kept when it comes.

    ``total`` is the cost of all. Raises what the work raises, :class:`ProcessDied` where a process
    ended; what was kept stays kept, and what has not begun is not submitted.
    """
    todo, running, done = deque(jobs), dict[Future[Any], Job](), 0.0
    room = getattr(executor, "_max_workers", MANY) + 1  # few wait, so that what follows comes soon

    def keep(job: Job, result: Any) -> None:
        nonlocal done
        todo.extendleft(reversed([*(job.keep(result) or ())]))
        done += job.cost
        progress(done, total, job.what)

    try:
        while todo or running:
            finished = set[Future[Any]]()
            if todo and len(running) < room:
                job = todo.popleft()
                known = MISSING
                if cache is not None and job.depends_on is not None:
                    known = cache.get(job.depends_on, promised(job.work), job.fits)
                if known is not MISSING:
                    keep(job, known)
                else:
                    progress(done, total, job.what)
                    running[executor.submit(job.work)] = job
                    finished = {future for future in running if future.done()}
            else:
                finished = wait(running, return_when=FIRST_COMPLETED).done
            # those that failed last: they end this
            for future in sorted(finished, key=_failed):
                job, result = running.pop(future), future.result()
                if cache is not None and job.depends_on is not None and job.lasting(result):
                    cache.put(job.depends_on, result)
                keep(job, result)
    except BrokenExecutor:
        raise ProcessDied from None


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def run_where(
    jobs: Iterable[Job],
    total: float,
    *,
    processes: int | None = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
    cache: Kept = None,
) -> None:
    """Have the jobs done by :func:`executor_of`, as :func:`run_jobs` has them."""
    with executor_of(1 if processes is None else processes, executor) as where:
        run_jobs(jobs, where, total, progress or silent, cache_of(cache))


def run_until_stopped(jobs: Iterable[Job], total: float, **work: Unpack[Work]) -> str:
    """Have the jobs done by :func:`run_where`; why that ended early, or no word.

    An interrupt (Ctrl-C), a process that died and a lack of memory end it, and lose nothing kept.
    """
    try:
        run_where(jobs, total, **work)
    except KeyboardInterrupt:
        return INTERRUPTION
    except ProcessDied as died:
        return str(died)
    except (MemoryError, RuntimeError) as wrong:
        if not ran_out_of_memory(wrong):
            raise
        return "memory ran out"
    return ""


def travels(work: object) -> bool:
    try:
        pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True
