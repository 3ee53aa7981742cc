"""Claims checked in processes of one thread each; nothing else of the room knows of processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from deepnet_theory.claims.folder import load
from deepnet_theory.claims.run import result_of, run
from deepnet_theory.spec.claim import CheckedClaim, Claim, Context, Finding, plain
from deepnet_theory.spec.verdict import Verdict

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_all(
    chosen: list[Claim], context: Context, workers: int, where: Path
) -> Iterator[CheckedClaim]:
    """The results as they come; ``workers=0`` runs everything in this process."""
    # the longest first, so that no long one is left to the end
    ordered = sorted(chosen, key=lambda c: -c.cost(context.full))
    if workers == 0:
        for one in ordered:
            yield run(one, context, where)
        return
    todo: Queue[Claim] = Queue()
    for one in ordered:
        todo.put(one)
    done: Queue[CheckedClaim] = Queue()
    running: list[subprocess.Popen[str]] = []
    threads = [
        Thread(target=_serve, args=(todo, done, context, where, running), daemon=True)
        for _ in range(workers)
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in ordered:
            yield done.get()
    finally:
        with suppress(Empty):
            while True:
                todo.get_nowait()
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()


def _serve(
    todo: Queue[Claim],
    done: Queue[CheckedClaim],
    context: Context,
    where: Path,
    running: list[subprocess.Popen[str]],
) -> None:
    """Feed one worker process with claims, and start another one should it die."""
    process: subprocess.Popen[str] | None = None
    while True:
        try:
            one = todo.get_nowait()
        except Empty:
            break
        if process is None:
            process = _start(where)
            running.append(process)
        began = time.perf_counter()
        findings, error, seconds = _ask(process, one, context)
        if process.poll() is not None:
            process = None
        if seconds is None:
            seconds = time.perf_counter() - began
        done.put(result_of(one, context, findings, error, seconds))
    if process is not None and process.stdin is not None:
        process.stdin.close()
        process.wait()


def _start(where: Path) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.Popen(
        [sys.executable, "-m", "deepnet_theory.claims", "worker", str(where)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
    )


def _ask(
    process: subprocess.Popen[str], one: Claim, context: Context
) -> tuple[tuple[Finding, ...], str, float | None]:
    assert process.stdin is not None and process.stdout is not None
    question = {"id": one.name, "full": context.full, "seed": context.seed}
    try:
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    except OSError:
        answer = ""
    if not answer:
        return (), f"the worker process ended with code {process.wait()}", None
    said = json.loads(answer)
    findings = tuple(
        Finding(f["about"], Verdict(f["verdict"]), f["because"], f["evidence"])
        for f in said["findings"]
    )
    return findings, said["error"], said["seconds"]


def work(where: Path) -> None:
    """A worker: one claim a line on standard input, one result a line on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer: it kills
    answers = sys.stdout
    for line in sys.stdin:
        asked = json.loads(line)
        with redirect_stdout(sys.stderr):  # a check that prints must not break the protocol
            one = load(where, asked["id"])
            result = run(one, Context(full=asked["full"], seed=asked["seed"]), where)
        said = {
            "findings": [
                {
                    "about": f.about,
                    "verdict": f.verdict.value,
                    "because": f.because,
                    "evidence": plain(dict(f.evidence)),
                }
                for f in result.findings
            ],
            "error": result.error,
            "seconds": result.seconds,
        }
        answers.write(json.dumps(said, ensure_ascii=True) + "\n")
        answers.flush()
