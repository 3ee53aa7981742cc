"""The runner of ``paper_checks``: every claim of the literature, checked against its record.

``python -m deepnet_theory.claims page`` writes the page of recorded findings, with ``--check``
it only tells whether the page is current; neither measures anything.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from deepnet_theory.spec.claim import (
    SCHEMA,
    STANDINGS,
    WORST_FIRST,
    CheckedClaim,
    Claim,
    Context,
    Finding,
    plain,
)
from deepnet_theory.spec.discovery import choose, discover, load_value
from deepnet_theory.spec.errors import INTERRUPTED
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.verdict import Verdict

PACKAGE = "paper_checks"  # how claim files import the measuring code that they share
NOT_CLAIMS = ("conftest.py",)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

Progress = Callable[[float, float, str], None]


# ---- the folder ----------------------------------------------------------------------------


def folder() -> Path:
    """The folder of claims: inside an installed package, or beside it in a checkout."""
    inside = Path(__file__).parent / "_paper_checks"
    return inside if inside.is_dir() else Path(__file__).parent.parent / PACKAGE


def _importable(where: Path) -> None:
    """Let claim files write ``from paper_checks._measure import …`` wherever the folder is."""
    package = sys.modules.get(PACKAGE)
    if package is None or list(getattr(package, "__path__", ())) != [str(where)]:
        for name in [n for n in sys.modules if n == PACKAGE or n.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(where)]
        sys.modules[PACKAGE] = package


def claims(where: Path | None = None) -> dict[str, Claim]:
    """Every claim of the folder, by name; raises ``TypeError`` where a file is irregular."""
    where = folder() if where is None else where
    _importable(where)
    return discover(where, Claim, besides=NOT_CLAIMS)


def claim(name: str) -> Claim:
    """The claim called ``name``; raises :class:`InputError` that lists the valid names."""
    return choose("claim", name, claims())


# ---- one check -----------------------------------------------------------------------------


def command_for(name: str, full: bool, seed: int = 0) -> str:
    """The one command that reproduces a claim's numbers."""
    options = (" --full" if full else "") + (f" --seed {seed}" if seed else "")
    return f"deepnet-theory check {name}{options} --format json"


def run(claim: Claim, context: Context) -> CheckedClaim:
    """Run one check here; an exception becomes the result's ``error``, never a verdict."""
    began = time.perf_counter()
    findings: tuple[Finding, ...] = ()
    error = ""
    file = getattr(claim.check, "__globals__", {}).get("__file__")
    if file is not None:
        _importable(Path(file).parent)  # another folder may have been read since it was loaded
    try:
        findings = claim.check(context)
    except Exception:
        error = traceback.format_exc(limit=-3)
    return CheckedClaim(
        claim=claim,
        findings=findings,
        full=context.full,
        command=command_for(claim.name, context.full, context.seed),
        seconds=time.perf_counter() - began,
        error=error,
        seed=context.seed,
    )


# ---- many checks ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """The results of a run, in the order of the claims' names."""

    results: tuple[CheckedClaim, ...]
    full: bool
    seconds: float
    unchecked: tuple[str, ...] = ()  # what an interrupted run did not come to

    @property
    def changed(self) -> tuple[CheckedClaim, ...]:
        """The claims whose verdict now differs from the recorded one."""
        return tuple(r for r in self.results if not r.as_recorded)

    @property
    def exit_code(self) -> int:
        """1 where a verdict is not as recorded, else 130 after an interruption, else 0."""
        return 1 if self.changed else INTERRUPTED if self.unchecked else 0

    def by_verdict(self) -> tuple[CheckedClaim, ...]:
        """The results with changed verdicts first, then from refuted to proved."""
        return tuple(
            sorted(
                self.results,
                key=lambda r: (
                    r.as_recorded,
                    STANDINGS.index(r.claim.standing),
                    WORST_FIRST.index(r.verdict),
                    r.claim.name,
                ),
            )
        )

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

    def to_json(self) -> str:
        """The results as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def table(self) -> str:
        """A plain-text table sorted by verdict, and one line that counts."""
        lines = []
        for result in self.by_verdict():
            changed = "" if result.as_recorded else "  CHANGED"
            lines.append(f"{result.claim.name}: {result.claim.standing}{changed}")
            if result.error:
                lines.append(f"    failed     {result.error.strip().splitlines()[-1]}")
            recorded = {r.about: r.verdict for r in result.claim.rulings(self.full)}
            for found in result.findings:
                was = recorded.pop(found.about, None)
                note = "" if was is found.verdict else f"  (recorded: {was or 'nothing'})"
                lines.append(f"    {found.verdict.value:9}  {found.about}{note}")
                if note:
                    lines.append(f"               {found.because}")
            lines += [f"    missing    {a}  (recorded: {v})" for a, v in recorded.items()]
        counts = ", ".join(
            f"{n} {s}" for s in STANDINGS if (n := sum(r.claim.standing == s for r in self.results))
        )
        lines.append(
            f"{len(self.results)} claims: {counts}; {len(self.changed)} changed; "
            f"{self.seconds:.0f} s"
        )
        if self.unchecked:
            lines.append(f"interrupted; not checked: {', '.join(self.unchecked)}")
        return "\n".join(lines)


def versions() -> dict[str, str]:
    """The versions of what measured."""
    from importlib.metadata import PackageNotFoundError, version

    from deepnet_theory.spec import __version__

    found = {"deepnet-theory": __version__, "python": sys.version.split()[0]}
    for name in ("torch", "sympy", "scipy", "numpy"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def to_json(checked: Checked) -> str:
    """The results as JSON text."""
    return checked.to_json()


def check(
    ids: Iterable[str] = (),
    *,
    full: bool = False,
    progress: Progress | None = None,
    workers: int | None = None,
    seed: int = 0,
    where: Path | None = None,
) -> Checked:
    """Check the claims ``ids`` (all if none is given), in parallel processes of one thread each.

    ``progress`` receives the work done, the whole work (both in the seconds that the claims
    declare) and the claim just finished. ``workers=0`` runs everything in this process. On
    Ctrl-C what is finished is returned. Raises :class:`InputError` for an unknown id or a
    seed out of range.
    """
    require_seed(seed)
    where = folder() if where is None else where
    known = claims(where)
    chosen = {name: choose("claim", name, known) for name in (tuple(ids) or tuple(known))}
    count = min(_processors(), len(chosen)) if workers is None else workers
    context = Context(full=full, seed=seed)
    began = time.perf_counter()
    total = sum(c.cost(full) for c in chosen.values())
    done = 0.0
    results: dict[str, CheckedClaim] = {}
    try:
        for result in _run_all(list(chosen.values()), context, count, where):
            results[result.claim.name] = result
            done += result.claim.cost(full)
            if progress is not None:
                progress(done, total, result.claim.name)
    except KeyboardInterrupt:
        pass
    return Checked(
        tuple(results[name] for name in sorted(results)),
        full,
        time.perf_counter() - began,
        tuple(sorted(set(chosen) - set(results))),
    )


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_all(
    chosen: list[Claim], context: Context, workers: int, where: Path
) -> Iterator[CheckedClaim]:
    # the longest first, so that no long one is left to the end
    ordered = sorted(chosen, key=lambda c: -c.cost(context.full))
    if workers == 0:
        for one in ordered:
            yield run(one, context)
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
        done.put(
            CheckedClaim(
                claim=one,
                findings=findings,
                full=context.full,
                command=command_for(one.name, context.full, context.seed),
                seconds=seconds if seconds is not None else time.perf_counter() - began,
                error=error,
                seed=context.seed,
            )
        )
    if process is not None and process.stdin is not None:
        process.stdin.close()
        process.wait()


def _start(where: Path) -> subprocess.Popen[str]:
    root = str(Path(__file__).parent.parent)
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


def _work(where: Path) -> None:
    """A worker: one claim a line on standard input, one result a line on standard output."""
    _importable(where)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer: it kills
    answers = sys.stdout
    for line in sys.stdin:
        asked = json.loads(line)
        with redirect_stdout(sys.stderr):  # a check that prints must not break the protocol
            one = load_value(where / f"{asked['id'].replace('-', '_')}.py", Claim)
            result = run(one, Context(full=asked["full"], seed=asked["seed"]))
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


# ---- the page ------------------------------------------------------------------------------

PAGE = "README.md"
_INTRODUCTION = """\
# The claims of the literature, checked

Each file of this folder is one sentence or equation of the sources, restated in symbols and
checked by a route that does not use it. `deepnet-theory check` reruns all of them in a reduced
condition and compares with the recorded verdicts, `deepnet-theory check --full` in the wide
conditions that the findings rest on; `deepnet-theory check ID --format json` prints every number
of one claim, and `--seed S` draws anew. `pytest paper_checks` runs the same checks.

PROVED: symbolic and exact, given the listed assumptions. SUPPORTED: measured on torch stacks, the
interval inside the tolerance and the rivals excluded. REFUTED: a counterexample or an interval
that excludes it, with the corrected statement, which is checked as well. ASSUMED: outside what
can be run here.

This page is made from the recorded findings by `python -m deepnet_theory.claims page`.
"""


def page(where: Path | None = None) -> str:
    """All claims with verdict and finding, refuted and half-right ones first, as Markdown."""
    found = claims(where)
    titles = {
        "refuted": "Refuted",
        "half right": "Half right",
        "assumed": "Not tested here",
        "holds": "Holds",
    }
    groups = {s: [c for c in found.values() if c.standing == s] for s in STANDINGS}
    counts = ", ".join(f"{len(group)} {s}" for s, group in groups.items() if group)
    blocks = [_INTRODUCTION, f"{len(found)} claims: {counts}.\n"]
    for standing, group in groups.items():
        if group:
            blocks.append(f"## {titles[standing]}\n")
            blocks.extend(_entry(c) for c in group)
    return "\n".join(blocks)


def _entry(claim: Claim) -> str:
    rulings = "; ".join(
        f"{r.verdict.value} ({r.about}{', corrected' if r.corrected else ''})"
        for r in claim.rulings(full=True)
    )
    lines = [
        f"### {claim.name}\n",
        f"*{claim.source}*\n",
        f"> {claim.statement}\n",
        f"{claim.finding}\n",
        f"- Verdict: {rulings}",
        f"- Conditions: {claim.conditions}",
    ]
    for label, text in (
        ("Counterexample", claim.counterexample),
        ("Corrected", claim.corrected),
        ("Why nothing is measured", claim.untestable),
    ):
        if text:
            lines.append(f"- {label}: {text}")
    lines.append(f"- Reproduce: `{command_for(claim.name, full=True)}`")
    return "\n".join(lines) + "\n"


def page_is_current(where: Path | None = None) -> bool:
    """Whether the page in the folder is the one that the recorded findings make."""
    path = (folder() if where is None else where) / PAGE
    return path.is_file() and path.read_text(encoding="utf-8") == page(where)


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this context torch, where it is loaded, computes with one thread."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _main(words: Sequence[str]) -> int:
    if len(words) == 2 and words[0] == "worker":
        _work(Path(words[1]))
        return 0
    if words == ["page"]:
        from deepnet_theory.spec.files import write_text

        write_text(folder() / PAGE, page())
        print(f"wrote {folder() / PAGE}")
        return 0
    if words == ["page", "--check"]:
        current = page_is_current()
        print(f"{PAGE} is {'current' if current else 'stale: run it without --check'}")
        return 0 if current else 1
    print("usage: python -m deepnet_theory.claims page [--check]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
