"""Many claims checked, beside their record, and told as a table or as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnet_theory.claims.folder import claims, location
from deepnet_theory.claims.pool import processors, run_all
from deepnet_theory.spec.claim import SCHEMA, STANDINGS, WORST_FIRST, CheckedClaim, Context
from deepnet_theory.spec.discovery import choose
from deepnet_theory.spec.errors import INTERRUPTED
from deepnet_theory.spec.seed import require_seed

Progress = Callable[[float, float, str], None]


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
    where = location() if where is None else where
    known = claims(where)
    chosen = {name: choose("claim", name, known) for name in (tuple(ids) or tuple(known))}
    count = min(processors(), len(chosen)) if workers is None else workers
    context = Context(full=full, seed=seed)
    began = time.perf_counter()
    total = sum(c.cost(full) for c in chosen.values())
    done = 0.0
    results: dict[str, CheckedClaim] = {}
    try:
        for result in run_all(list(chosen.values()), context, count, where):
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
