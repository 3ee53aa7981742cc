"""Many claims checked, beside their record, and told as a table or as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from deepnet_theory.claims.folder import claims, location
from deepnet_theory.claims.run import answer, result_of
from deepnet_theory.processes import (
    Job,
    Kept,
    Progress,
    cache_of,
    cores,
    run_until_stopped,
)
from deepnet_theory.processes.identity import PACKAGE, sources
from deepnet_theory.spec import __version__
from deepnet_theory.spec.claim import (
    SCHEMA,
    STANDINGS,
    WORST_FIRST,
    CheckedClaim,
    Claim,
    Context,
    Finding,
)
from deepnet_theory.spec.discovery import choose
from deepnet_theory.spec.errors import exit_code_after
from deepnet_theory.spec.results.result import Result
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.verdict import Verdict


@dataclass(frozen=True)
class Checked(Result):
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
        if self.stopped:
            lines.append(f"{self.stopped}; not checked: {', '.join(self.unchecked) or 'nothing'}")
        return "\n".join(lines)


def versions() -> dict[str, str]:
    """The versions of what measured."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"deepnet-theory": __version__, "python": sys.version.split()[0]}
    for name in ("torch", "sympy", "scipy", "numpy"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


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
    declare) and the claim at hand. ``processes`` share the work (None: one a core), or an
    ``executor`` does it. On Ctrl-C, or where a process dies, what is finished is returned. What
    ``cache`` has of the same code and claims is not checked again, but for checks that failed.
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

    def keep(one: Claim, found: tuple[tuple[Finding, ...], str, float]) -> None:
        results[one.name] = result_of(one, context, *found)

    opened = cache_of(cache)
    code = "" if opened is None else sources(PACKAGE, where)  # a claim may ask all of it
    jobs = [
        Job(
            c.name,
            c.cost(full),
            partial(answer, where, c.name, context),
            partial(keep, c),
            depends_on=("claim", c.name, context, code),
            lasting=_succeeded,
        )
        # the longest first, so that no long one is left to the end
        for c in sorted(chosen.values(), key=lambda c: -c.cost(full))
    ]
    total = sum(job.cost for job in jobs)
    stopped = run_until_stopped(
        jobs, total, processes=count, executor=executor, progress=progress, cache=opened
    )
    return Checked(
        tuple(results[name] for name in sorted(results)),
        full,
        time.perf_counter() - began,
        tuple(sorted(set(chosen) - set(results))),
        stopped,
    )


def _succeeded(found: tuple[tuple[Finding, ...], str, float]) -> bool:
    """Whether a check came to its end: one that failed is tried again."""
    return not found[1]
