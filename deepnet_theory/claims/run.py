"""One claim checked here: its parts run at the bench, beside their record."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from deepnet_theory.claims.folder import PACKAGE, SHARED, importable, load, location
from deepnet_theory.processes import cores
from deepnet_theory.spec.claim import CheckedClaim, Claim, Context, Finding, plain

THREADS = "OMP_NUM_THREADS"


def command_for(name: str, full: bool, seed: int = 0) -> str:
    """The one command that reproduces a claim's numbers."""
    options = (" --full" if full else "") + (f" --seed {seed}" if seed else "")
    return f"deepnet-theory check {name}{options} --format json"


def run(claim: Claim, context: Context, where: Path | None = None) -> CheckedClaim:
    """Run one check here, at the bench of the folder of claims ``where``.

    An exception becomes the result's ``error``, never a verdict.
    """
    began = time.perf_counter()
    findings: tuple[Finding, ...] = ()
    error = ""
    try:
        lab = _bench(location() if where is None else where)
        findings = claim.findings(lab(context.full, context.seed, context.threads))
    except Exception:
        error = traceback.format_exc(limit=-3)
    return result_of(claim, context, findings, error, time.perf_counter() - began)


def answer(where: Path, name: str, context: Context) -> tuple[tuple[Finding, ...], str, float]:
    """Findings, error and seconds of one claim, as what can travel between processes."""
    with redirect_stdout(sys.stderr), one_thread():  # a check that prints is no part of the answer
        found = run(load(where, name), context, where)
    plainly = tuple(replace(f, evidence=plain(dict(f.evidence))) for f in found.findings)
    return plainly, found.error, found.seconds


def result_of(
    claim: Claim, context: Context, findings: tuple[Finding, ...], error: str, seconds: float
) -> CheckedClaim:
    """What was found, with the command that finds it again."""
    return CheckedClaim(
        claim=claim,
        findings=findings,
        full=context.full,
        command=command_for(claim.name, context.full, context.seed),
        seconds=seconds,
        error=error,
        seed=context.seed,
    )


def _bench(where: Path) -> type[Context]:
    """The ``Lab`` of the bench in the folder ``where``."""
    importable(where)
    bench: type[Context] = import_module(f"{PACKAGE}.{SHARED}.bench").Lab
    return bench


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this context torch computes with one thread, whether it is there or comes later.

    It is not loaded for that: a check may need none.
    """
    if "torch" in sys.modules:
        from deepnet_theory.runtime.machine import threads

        with threads(1):
            yield
        return
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"  # what torch reads while it is loaded
    try:
        yield
    finally:
        del os.environ[THREADS]
        if before is not None:
            os.environ[THREADS] = before
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(int(before) if before and before.isdecimal() else cores())
