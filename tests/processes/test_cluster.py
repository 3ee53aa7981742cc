"""A real Dask scheduler and two workers: the same bits, and what becomes of those that die."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.cli import main
from deepnet_theory.definitions.measurement import Predictions
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.verify import verify
from deepnet_theory.processes.keep import Cache

ADAM = Selection(optimizer="adam")
RULE = own_rule(("encoder",), "(2*N)**(1/2)", "(2*N)**(-1/2)")
SETTINGS = Settings(width=16, heads=2, tokens=8, seeds=2, draws=2)
SWEEP = [{"N": n} for n in (2, 3, 4, 6, 8)]


@contextmanager
def cluster_of(folder, **environment):
    """A scheduler of this machine and two workers, each a process of its own."""
    file = folder / "scheduler.json"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    with ExitStack() as ends:

        def started(program, *words, **more):
            command = [sys.executable, "-m", f"distributed.cli.{program}", *words, "--no-dashboard"]
            variables = {**os.environ, "OMP_NUM_THREADS": "1", **more}
            process = subprocess.Popen(command, **silent, env=variables)
            ends.callback(process.wait)
            ends.callback(process.kill)
            return process

        words = "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)
        scheduler = started("dask_scheduler", *words)
        while not (file.exists() and file.stat().st_size):
            assert scheduler.poll() is None
            time.sleep(0.02)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        words = "dask_worker", address, "--no-nanny", "--nthreads", "1"
        workers = [started(*words, **environment) for _ in range(2)]
        yield SimpleNamespace(scheduler=scheduler, address=address, workers=workers)
        file.unlink()


def wait_for_workers(address):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)


@pytest.fixture
def dask(tmp_path):
    pytest.importorskip("distributed", reason="the extra cluster is not installed")
    with cluster_of(tmp_path) as found:
        yield found


def found(**work):
    result = verify(ADAM, RULE, Predictions(()), SWEEP, SETTINGS, **work)
    return result, (result.points, result.exponents)


@pytest.mark.slow
def test_a_killed_worker_changes_no_bit_and_a_killed_scheduler_loses_nothing(dask, tmp_path):
    from deepnet_theory.processes.cluster import cluster

    cache, alone, now, seen = Cache(tmp_path / "cache"), Counter(), Counter(), []
    whole = found(progress=lambda *told: alone.update([told[2].split()[-1]]))[1]

    def kill(done, total, what):
        if done and not seen:
            seen.append(what)
            dask.workers[0].kill()

    def end(*told):
        """Where the first depth has all that it had alone: the others are on their way."""
        now.update([depth := told[2].split()[-1]])
        if now[depth] == alone[depth]:
            dask.scheduler.kill()

    wait_for_workers(dask.address)  # both are there before one of them goes
    with cluster(dask.address) as executor:
        wait([executor.submit(os.getpid) for _ in range(4)])
        result, shared = found(executor=executor, progress=kill)
        assert not result.stopped and seen and shared == whole  # bit for bit
        part, _ = found(executor=executor, cache=cache, progress=end)
    assert part.stopped == "the scheduler has gone"
    assert len(part.points) < len(SWEEP)
    kept = len(list(cache.files()))
    assert found(cache=cache)[1] == whole
    assert cache.taken == kept


@pytest.mark.slow
def test_a_worker_that_would_give_other_results_is_refused(tmp_path):
    pytest.importorskip("distributed", reason="the extra cluster is not installed")
    from deepnet_theory.processes.cluster import cluster

    lacking = tmp_path / "without" / "deepnet_theory"
    lacking.mkdir(parents=True)
    (lacking / "__init__.py").write_text("raise ModuleNotFoundError(name='deepnet_theory')")
    for environment, said in (
        ({"ATEN_CPU_CAPABILITY": "default"}, "has cpu .*DEFAULT.*, and this machine"),
        ({"PYTHONPATH": "without"}, "a worker cannot import deepnet_theory"),
    ):
        with cluster_of(tmp_path, **environment) as dask:
            wait_for_workers(dask.address)
            with pytest.raises(InputError, match=said), cluster(dask.address) as executor:
                executor.submit(os.getpid).result(60)


@given(st.sampled_from(["torch", "deepnet-theory", "--nthreads"]), st.text())
def test_a_worker_is_taken_only_where_it_is_alike(name, other):
    from deepnet_theory.processes.cluster import require_alike

    here = {"torch": "2.13.0", "deepnet-theory": f"0.1.0 {'a' * 64}", "--nthreads": "1"}
    require_alike(here, dict(here), "tcp://a:1")
    if other[:40] != here[name][:40]:
        with pytest.raises(InputError, match=rf"the worker tcp://a:1 has {name} "):
            require_alike(here, {**here, name: other}, "tcp://a:1")


@pytest.mark.parametrize("address", ["", "8786", "tcp://", "here", "a b:1", "tcp://x:y"])
def test_what_is_no_address_is_refused_before_anything_is_asked(address, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    for words, says in (
        (["verify", "--optimizer", "adam", "--cluster", address], "is no address of a scheduler"),
        (["verify", "--optimizer", "adam", "--cluster", "tcp://127.0.0.1:8786"],
         "pip install 'deepnet-theory[cluster]'"),
        (["check", "--cluster", "tcp://a:1", "--processes", "2"],
         "processes was given with --cluster"),
    ):  # fmt: skip
        assert main(words) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_that_speaks_something_else_is_one_sentence(monkeypatch, capsys, says):
    pytest.importorskip("distributed", reason="the extra cluster is not installed")
    from deepnet_theory.processes import cluster

    monkeypatch.setattr(cluster, "SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                if says and connection.recv(100):
                    connection.sendall(says)
                connection.recv(100)

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["verify", "--optimizer", "adam", "--cluster", address]) == 2
    said = capsys.readouterr().err
    assert f"no Dask scheduler answers at '{address}'" in said and said.count("\n") == 1


@pytest.mark.slow
def test_a_scheduler_without_workers_is_said_and_one_that_dies_leaves_no_traceback(dask, capsys):
    for worker in dask.workers:
        worker.kill()
    words = [sys.executable, "-m", "deepnet_theory", "verify", "--optimizer", "adam", "--cluster"]
    with subprocess.Popen([*words, dask.address], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "has no workers yet" in running.stderr.readline()
        dask.scheduler.kill()
        said = running.stderr.read()
    assert running.returncode == 2 and "Traceback" not in said and "memory" not in said
    assert said.splitlines()[-1] == "deepnet-theory: the scheduler has gone"
