"""Other machines as an executor: the workers of a Dask scheduler."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from deepnet_theory.definitions.outcome import InputError, MissingExtraError, shown
from deepnet_theory.processes.jobs import MANY, ProcessDied
from deepnet_theory.processes.keep import machine

ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:[0-9]{1,5}")
SECONDS = 10  # to answer in

Environment = dict[str, str]


@contextmanager
def cluster(address: str, note: Callable[[str], object] = lambda _: None) -> Iterator[Executor]:
    """An executor whose work is done by the workers of the scheduler at ``address``.

    One that dies is replaced; they may come later, and ``note`` hears that none is there. One of
    other versions, another kind of processor or several threads is refused, since results would
    depend on who computes them. Raises :class:`MissingExtraError` without dask.distributed, else
    :class:`InputError`.
    """
    if not ADDRESS.fullmatch(address):
        raise InputError(
            f"cluster {shown(address)} is no address of a scheduler, such as tcp://10.0.0.1:8786"
        )
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("dask.distributed", "cluster") from None
    _require_scheduler(address)
    # what it logs of a scheduler that has gone are tracebacks; the sentence is ours
    for name in [
        name for name in logging.root.manager.loggerDict if name.startswith("distributed")
    ]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=SECONDS, set_as_default=False)
    except Exception as wrong:  # another program's answer is misread in its own ways
        raise _no_scheduler(address, str(wrong)) from None
    try:
        workers = _Workers(client, address)
        if not client.nthreads():
            note(f"the scheduler at {address} has no workers yet: waiting for the first")
        yield workers
    finally:
        with suppress(Exception):  # a scheduler that has gone hears no farewell
            client.close(timeout=SECONDS)


def _require_scheduler(address: str) -> None:
    """Raise :class:`InputError` where another program listens: Dask's client waits for ever."""
    protocol, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if protocol not in ("", "tcp"):
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), SECONDS) as connection:
            connection.settimeout(SECONDS)
            if connection.recv(1):  # a scheduler speaks first
                return
    except (OSError, OverflowError) as wrong:
        raise _no_scheduler(address, str(wrong)) from None
    raise _no_scheduler(address, "the connection was closed")


def _no_scheduler(address: str, why: str) -> InputError:
    first = (why.splitlines() or ["no reason is given"])[0]
    return InputError(f"no Dask scheduler answers at {shown(address)}: {first}")


class _Workers(Executor):
    """Dask's own executor, whose failures are this package's."""

    def __init__(self, client: Any, address: str) -> None:
        self._address, self._here = address, _own()
        threads = client.nthreads()

        def describe() -> Environment | None:  # a nested function travels with its body
            try:
                from deepnet_theory.processes import cluster
            except ImportError:
                return None
            return cluster._own()

        for worker, there in client.run(describe).items():
            if there is None:
                raise InputError(f"the worker {worker} cannot import deepnet_theory: install it")
            _require_alike(self._here, there, worker, threads.get(worker, 1))
        self._max_workers = max(MANY, len(threads))
        self._executor = client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of work done by some worker, which compares itself with this machine."""
        ours: Future[Any] = Future()
        work = partial(fn, *args, **kwargs)
        theirs = self._executor.submit(_on_worker, self._here, work)

        def hand_over(theirs: Future[Any]) -> None:
            error: BaseException | None
            if theirs.cancelled():
                error = ProcessDied(f"the scheduler at {self._address} has gone")
            elif type(error := theirs.exception()).__name__ == "KilledWorker":
                error = ProcessDied("several workers died of the same work, one by one")
            if error is None:
                ours.set_result(theirs.result())
            else:
                ours.set_exception(error)

        theirs.add_done_callback(hand_over)
        return ours


@cache
def _own() -> Environment:
    """What decides a result's last bit here, and whether machines understand each other."""
    # a worker of another version is asked for it by this name
    return {**machine(), "distributed": version("distributed")}


def _on_worker(wanted: Environment, work: Callable[[], Any]) -> Any:
    from distributed import get_worker

    worker = get_worker()
    _require_alike(wanted, _own(), worker.address, worker.state.nthreads)
    return work()


def _require_alike(here: Environment, there: Environment, worker: str, threads: int) -> None:
    for name in here | there:
        if here.get(name) != there.get(name):
            # a digest of sources says nothing to a reader
            ours, theirs = (
                re.sub(" [0-9a-f]{64}$", "", facts.get(name, "none")) for facts in (here, there)
            )
            if ours == theirs:
                theirs = "other source code"
            raise InputError(
                f"the worker {worker} has {name} {theirs}, and this machine {ours}: results would "
                "depend on who computes them"
            )
    if threads > 1:
        raise InputError(
            f"the worker {worker} does {threads} jobs at once in one process; start it with "
            "--nthreads 1, and several of them with --nworkers"
        )
