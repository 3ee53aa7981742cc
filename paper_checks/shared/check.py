"""Claims checked at the bench, one or many, beside their record; a table or JSON of them."""

from __future__ import annotations

import os
import sys
import textwrap
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from deepnet_theory.cli.claims import PACKAGE as BENCH
from deepnet_theory.cli.claims import answer as of_claim
from deepnet_theory.cli.claims import importable, location
from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.discovery import choose, load_value
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.outcome import Verdict, exit_code_after
from deepnet_theory.definitions.record import require_seed
from deepnet_theory.processes.jobs import (
    Job,
    Progress,
    cores,
    environment_variable,
    run_jobs,
)
from deepnet_theory.processes.keep import Kept, cache_of, sources
from paper_checks.shared.claim import (
    SCHEMA,
    STANDINGS,
    WORST_FIRST,
    CheckedClaim,
    Claim,
    Context,
    Finding,
    plain,
)

THREADS = "OMP_NUM_THREADS"
SHARED = "shared"  # the folder of what the claims share: no claims
NOT_CLAIMS = ("conftest.py",)
# what a check found, as plain data: of every part its label, verdict, reason and evidence; an
# exception's text, empty where there was none; and the seconds
Answer = tuple[list[tuple[str, str, str, dict[str, Any]]], str, float]


def path_of(where: Path, name: str) -> Path:
    """The file of the claim ``name``; its folder is the prefix of its name."""
    return where / name.split("-")[0] / f"{name.replace('-', '_')}.py"


def load(where: Path, name: str) -> Claim:
    """The one claim called ``name``; raises ``TypeError`` where its file is irregular."""
    importable(where)
    claim = load_value(path_of(where, name), Claim)
    if claim.name != name:
        raise TypeError(f"{path_of(where, name).name}: its Claim is named {claim.name!r}")
    claim.require_whole()
    return claim


def claims(where: Path | None = None) -> dict[str, Claim]:
    """Every claim of the folder, by name; raises ``TypeError`` where a file is irregular."""
    where = location() if where is None else where
    names = []
    for path in where.rglob("*.py"):
        inside = path.relative_to(where)
        if inside.parts[0] == SHARED or str(inside) in NOT_CLAIMS:
            continue
        name = path.stem.replace("_", "-")
        if path != path_of(where, name):
            raise TypeError(f"{inside}: a claim {name!r} is in {path_of(where, name)}")
        names.append(name)
    return {name: load(where, name) for name in sorted(names)}


def claim(name: str) -> Claim:
    """The claim called ``name``; raises :class:`InputError` that lists the valid names."""
    return choose("claim", name, claims())


def command_for(name: str, full: bool, seed: int = 0) -> str:
    """The one command that reproduces a claim's numbers."""
    options = (" --full" if full else "") + (f" --seed {seed}" if seed else "")
    return f"deepnet-theory check {name}{options} --format json"


def run(claim: Claim, context: Context, where: Path | None = None) -> CheckedClaim:
    """Run one check here, at the bench of the folder of claims ``where``.

    An exception becomes the result's ``error``, never a verdict.
    """
    findings, error, seconds = _found(claim, context, location() if where is None else where)
    return _result(claim, context, findings, error, seconds)


def _found(claim: Claim, context: Context, where: Path) -> tuple[tuple[Finding, ...], str, float]:
    findings: tuple[Finding, ...] = ()
    began, error = time.perf_counter(), ""
    try:
        importable(where)
        lab = import_module(f"{BENCH}.{SHARED}.bench").Lab
        findings = claim.findings(lab(context.full, context.seed, context.threads))
    except Exception:
        error = traceback.format_exc(limit=-3)
    return findings, error, time.perf_counter() - began


def answer(where: Path, name: str, full: bool, seed: int) -> Answer:
    """What one claim's check found, as what can travel between processes."""
    with redirect_stdout(sys.stderr), one_thread():  # a check that prints is no part of the answer
        findings, error, seconds = _found(load(where, name), Context(full, seed), where)
    rows = [(f.about, f.verdict.value, f.because, plain(dict(f.evidence))) for f in findings]
    return rows, error, seconds


def _result(
    claim: Claim, context: Context, findings: tuple[Finding, ...], error: str, seconds: float
) -> CheckedClaim:
    command = command_for(claim.name, context.full, context.seed)
    return CheckedClaim(claim, findings, context.full, command, seconds, error, context.seed)


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
    before = os.environ.get(THREADS, "")
    try:
        with environment_variable(THREADS, "1"):  # what torch reads while it is loaded
            yield
    finally:
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(int(before) if before.isdecimal() else cores())


@dataclass(frozen=True)
class Checked(Displayed):
    """The results of a run, in the order of the claims' names."""

    results: tuple[CheckedClaim, ...]
    full: bool
    seconds: float
    unchecked: tuple[str, ...] = ()  # what a run that was stopped did not come to
    stopped: str = ""  # what ended the run before its end, in words

    @property
    def changed(self) -> tuple[CheckedClaim, ...]:
        """The claims whose verdict now differs from the recorded one."""
        return tuple(r for r in self.results if not r.as_recorded)

    @property
    def exit_code(self) -> int:
        """1 where a verdict is not as recorded, else 130 if interrupted, 3 if stopped, 0 if not."""
        if self.changed:
            return Verdict.REFUTED.exit_code
        if self.stopped:
            return exit_code_after(self.stopped, Verdict.UNDECIDED.exit_code)
        return 0

    def by_verdict(self) -> tuple[CheckedClaim, ...]:
        """The results with changed verdicts first, then from refuted to proved."""

        def order(r: CheckedClaim) -> tuple[bool, int, int, str]:
            standing, verdict = STANDINGS.index(r.claim.standing), WORST_FIRST.index(r.verdict)
            return r.as_recorded, standing, verdict, r.claim.name

        return tuple(sorted(self.results, key=order))

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        return {
            "schema": SCHEMA,
            "run": "full" if self.full else "quick",
            "claims": [r.to_dict() for r in self.results],
            "changed": [r.claim.name for r in self.changed],
            "unchecked": list(self.unchecked),
            "seconds": round(self.seconds, 1),
            "versions": versions(),
        }

    def table(self) -> str:
        """A plain-text table sorted by verdict, and one line that counts."""
        lines = []
        for result in self.by_verdict():
            changed = "" if result.as_recorded else "  CHANGED"
            lines.append(f"{result.claim.name}: {result.claim.standing}{changed}")
            if result.error:
                said = result.error.strip().splitlines()
                where = [line.strip() for line in said if line.strip().startswith("File ")]
                lines.append(f"    failed     {said[-1]}")
                lines += [f"               {place}" for place in where[-1:]]
            # Part by part: a sentence of a paper is rarely one statement, and one verdict for all
            # of it would be the worst of its parts, also of those that the source never said.
            recorded = {r.about: r.verdict for r in result.claim.rulings(self.full)}
            for finding in result.findings:
                was = recorded.pop(finding.about, None)
                note = "" if was is finding.verdict else f"  (recorded: {was or 'nothing'})"
                lines.append(f"    {finding.verdict.value:9}  {finding.about}{note}")
                if note:
                    lines.append(f"               {finding.because}")
            if result.claim.would_decide:
                would = f"to decide  {result.claim.would_decide}"
                lines += textwrap.wrap(
                    would, 80, initial_indent=" " * 4, subsequent_indent=" " * 15
                )
            lines += [f"    missing    {a}  (recorded: {v})" for a, v in recorded.items()]
        standing = [r.claim.standing for r in self.results]
        counts = ", ".join(f"{n} {s}" for s in STANDINGS if (n := standing.count(s)))
        ended = f"{len(self.changed)} changed; {self.seconds:.0f} s"
        many = "s" * (len(standing) != 1)
        lines.append(f"{len(standing)} claim{many}: {counts}; {ended}")
        if self.stopped:
            lines.append(f"{self.stopped}; not checked: {', '.join(self.unchecked) or 'nothing'}")
        return "\n".join(lines)


def versions() -> dict[str, str]:
    """The versions of what measured."""
    from importlib.metadata import PackageNotFoundError, version

    installed = {"deepnet-theory": __version__, "python": sys.version.split()[0]}
    for name in ("torch", "sympy", "scipy", "numpy"):
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def check(
    ids: Iterable[str] = (),
    *,
    full: bool = False,
    progress: Progress | None = None,
    processes: int | None = None,
    executor: Executor | None = None,
    cache: Kept = None,
    seed: int = 0,
    where: Path | None = None,
) -> Checked:
    """Check the claims ``ids`` (all if none is given), each with one thread.

    ``progress`` receives the work done, the whole work (both in the seconds that the claims
    declare) and the present claim. ``processes`` share the work (None: one a core), or an
    ``executor`` does it. On Ctrl-C, or where a process dies, what is finished is returned. What
    ``cache`` has of the same code and claims is not checked again, except for checks that failed.
    Raises :class:`InputError` for an unknown id or a seed out of range.
    """
    require_seed(seed)
    where = location() if where is None else where
    known = claims(where)
    asked = (choose("claim", name, known) for name in (tuple(ids) or tuple(known)))
    chosen = {claim.name: claim for claim in asked}
    count = min(cores(), len(chosen)) if processes is None else processes
    context = Context(full=full, seed=seed)
    began = time.perf_counter()
    results: dict[str, CheckedClaim] = {}

    def keep(one: Claim, answer: Answer) -> None:
        rows, error, seconds = answer
        found = tuple(Finding(a, Verdict(v), because, of) for a, v, because, of in rows)
        results[one.name] = _result(one, context, found, error, seconds)

    opened = cache_of(cache)
    folders = sorted(file for file in where.rglob("*") if file.is_dir())
    code = [] if opened is None else [sources(folder) for folder in folders]
    jobs = [
        Job(
            c.name,
            c.cost(full),
            partial(of_claim, where, c.name, full, seed),
            partial(keep, c),
            depends_on=("claim", c.name, full, seed, code),
            lasting=lambda answer: not answer[1],  # a check that failed is tried again
        )
        # the longest first, so that no long one is left to the end
        for c in sorted(chosen.values(), key=lambda c: -c.cost(full))
    ]
    total = sum(job.cost for job in jobs)
    stopped = run_jobs(
        jobs, total, processes=count, executor=executor, progress=progress, cache=opened
    )
    return Checked(
        tuple(results[name] for name in sorted(results)),
        full,
        time.perf_counter() - began,
        tuple(sorted(set(chosen) - set(results))),
        stopped,
    )
