"""Other machines as an executor: the workers of a Dask scheduler."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

from deepnet_theory.definitions.outcome import InputError, MissingExtraError, shown
from deepnet_theory.processes.keep import machine

ADDRESS = re.compile(r"(tcp://)?[^\s/:]+:[0-9]{1,5}")
SECONDS = 10  # to answer in


@contextmanager
def cluster(address: str, note: Callable[[str], object] = lambda _: None) -> Iterator[Executor]:
    """An executor whose work is done by the workers of the scheduler at ``address``.

    A worker that dies is replaced; workers may come later, and ``note`` hears that none is there.
    The work of a worker with other versions, another kind of processor or several threads is
    refused, since results would depend on who computes them. Raises :class:`MissingExtraError`
    without dask.distributed, else :class:`InputError`.
    """
    if not ADDRESS.fullmatch(address):
        raise InputError(
            f"cluster {shown(address)} is no address of a scheduler, such as tcp://10.0.0.1:8786"
        )
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("dask.distributed", "cluster") from None
    # what it logs of a scheduler that has gone are tracebacks; the sentence is ours
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        _require_scheduler(address)
        client = Client(address, timeout=SECONDS, set_as_default=False)
    except Exception as wrong:  # another program's answer is misread in its own ways
        why = (str(wrong).splitlines() or ["no reason is given"])[0]
        raise InputError(f"no Dask scheduler answers at {shown(address)}: {why}") from None
    try:
        try:
            client.run(_facts)
        except Exception as wrong:  # it travels by its name, and a worker's error comes as a text
            raise InputError(f"a worker cannot import deepnet_theory: {wrong}") from None
        if not client.nthreads():
            note(f"the scheduler at {address} has no workers yet: waiting for the first")
        yield _Workers(client)
    finally:
        with suppress(Exception):  # a scheduler that has gone hears no farewell
            client.close(timeout=SECONDS)


def _require_scheduler(address: str) -> None:
    """Raise ``OSError`` where another program listens: Dask's client waits for ever."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), SECONDS) as connection:
        connection.settimeout(SECONDS)
        if not connection.recv(1):  # a scheduler speaks first
            raise ConnectionError("the connection was closed")


class _Workers(Executor):
    """Dask's own executor, whose workers compare themselves with this machine."""

    def __init__(self, client: Any) -> None:
        self.executor, self.here = client.get_executor(pure=False), _facts()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of work done by some worker."""
        work = partial(fn, *args, **kwargs)
        future: Future[Any] = self.executor.submit(_on_worker, self.here, work)
        return future


def _facts(threads: int = 1) -> dict[str, str]:
    """What decides a result's last bit here, and whether machines understand each other."""
    return {**machine(), "distributed": version("distributed"), "--nthreads": str(threads)}


def _on_worker(here: dict[str, str], work: Callable[[], Any]) -> Any:
    from distributed import get_worker

    worker = get_worker()
    require_alike(here, _facts(worker.state.nthreads), worker.address)
    return work()


def require_alike(here: dict[str, str], there: dict[str, str], worker: str) -> None:
    """Raise :class:`InputError` where a worker's results would not be those of this machine."""
    for name in here | there:
        ours, theirs = (facts.get(name, "none")[:40] for facts in (here, there))
        if ours != theirs:
            raise InputError(
                f"the worker {worker} has {name} {theirs}, and this machine {ours}: results would "
                "depend on who computes them"
            )
