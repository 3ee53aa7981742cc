"""A claim of the literature: what it says, how it is checked, and what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deepnet_theory.spec.verdict import Verdict

SCHEMA = "deepnet-theory/claims/1"

# From what a reader must know first to what can be taken as it stands.
WORST_FIRST = (
    Verdict.REFUTED,
    Verdict.UNDECIDED,
    Verdict.ASSUMED,
    Verdict.SUPPORTED,
    Verdict.PROVED,
)


@dataclass(frozen=True)
class Context:
    """How a check is run: the reduced condition or the full one, and from which seed."""

    full: bool = False
    seed: int = 0
    threads: int = 1

    def pick(self, quick: Any, full: Any) -> Any:
        """The first value in a quick run, the second in a full one."""
        return full if self.full else quick


@dataclass(frozen=True)
class Ruling:
    """A verdict and what it is about: a part of the claim, or a condition on it.

    ``corrected`` marks the check of the statement that replaces a refuted one.
    """

    about: str
    verdict: Verdict
    corrected: bool = False


@dataclass(frozen=True)
class Finding:
    """What a check found on one part of a claim; ``evidence`` holds numbers and their settings."""

    about: str
    verdict: Verdict
    because: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """One sentence or equation of the literature on trial.

    ``recorded`` are the verdicts of the quick run, ``recorded_full`` those of the full run
    (the same unless given). ``finding`` is plain English that can be quoted and rests on the
    full run. A refuted part needs its smallest ``counterexample``, the ``corrected`` statement,
    and a ruling on that statement. ASSUMED needs ``untestable``: the reason why nothing is
    measured. ``seconds`` is the cost of the quick run on one thread, ``full_seconds`` that of the
    full one (the same unless given). Anything irregular raises ``TypeError``.
    """

    name: str
    source: str
    statement: str
    conditions: str
    recorded: tuple[Ruling, ...]
    finding: str
    check: Callable[[Context], tuple[Finding, ...]]
    counterexample: str = ""
    corrected: str = ""
    untestable: str = ""
    recorded_full: tuple[Ruling, ...] = ()
    seconds: float = 1.0
    full_seconds: float = 0.0

    def __post_init__(self) -> None:
        for label in ("name", "source", "statement", "conditions", "finding"):
            self._need(bool(getattr(self, label).strip()), f"{label} is empty")
        for rulings in (self.recorded, self.rulings(full=True)):
            self._need(bool(rulings), "no verdict is recorded")
            parts = [r.about for r in rulings]
            self._need(len(set(parts)) == len(parts), "two verdicts are about the same part")
            found = {r.verdict for r in rulings}
            self._need(Verdict.UNDECIDED not in found, "UNDECIDED cannot be recorded")
            self._need(
                (Verdict.ASSUMED in found) == bool(self.untestable),
                "ASSUMED and a reason why nothing is measured go together",
            )
            self._need(
                all(
                    r.verdict in (Verdict.PROVED, Verdict.SUPPORTED) for r in rulings if r.corrected
                ),
                "a corrected statement must hold",
            )
            refuted = any(r.verdict is Verdict.REFUTED for r in rulings)
            mended = bool(self.corrected) and any(r.corrected for r in rulings)
            self._need(
                not refuted or (mended and bool(self.counterexample)),
                "a refuted part needs its counterexample, the corrected statement and its check",
            )

    def _need(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise TypeError(f"claim {self.name!r}: {otherwise}")

    def rulings(self, full: bool = False) -> tuple[Ruling, ...]:
        """The recorded verdicts of the quick or of the full run."""
        return (self.recorded_full or self.recorded) if full else self.recorded

    def cost(self, full: bool = False) -> float:
        """Seconds of the quick or of the full run on one thread, for order and progress."""
        return (self.full_seconds or self.seconds) if full else self.seconds

    def verdict(self, full: bool = False) -> Verdict:
        """The recorded verdict on the claim as its source states it."""
        return headline({r.about: r.verdict for r in self.rulings(full)}, self.rulings(full))

    @property
    def standing(self) -> str:
        """``refuted``, ``half right``, ``assumed`` or ``holds``, by the full run's record."""
        own = {r.verdict for r in self.rulings(full=True) if not r.corrected}
        if Verdict.REFUTED in own:
            return "refuted" if len(own) == 1 else "half right"
        return "assumed" if Verdict.ASSUMED in own else "holds"


STANDINGS = ("refuted", "half right", "assumed", "holds")


def headline(found: Mapping[str, Verdict], rulings: tuple[Ruling, ...]) -> Verdict:
    """The worst verdict on a claim's own parts; checks of its correction are left out."""
    corrections = {r.about for r in rulings if r.corrected}
    own = [v for about, v in found.items() if about not in corrections]
    return min(own, key=WORST_FIRST.index, default=Verdict.UNDECIDED)


@dataclass(frozen=True)
class CheckedClaim:
    """One claim, what its check found now, and how that compares with the record."""

    claim: Claim
    findings: tuple[Finding, ...]
    full: bool
    command: str
    seconds: float
    error: str = ""
    seed: int = 0

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim as its source states it; UNDECIDED where the check failed."""
        found = {f.about: f.verdict for f in self.findings}
        return headline(found, self.claim.rulings(self.full))

    @property
    def as_recorded(self) -> bool:
        """Whether every part has its recorded verdict, no part is missing and none is new."""
        found = {(f.about, f.verdict) for f in self.findings}
        return not self.error and found == {
            (r.about, r.verdict) for r in self.claim.rulings(self.full)
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        claim = self.claim
        rulings = claim.rulings(self.full)
        corrections = {r.about for r in rulings if r.corrected}
        return {
            "id": claim.name,
            "source": claim.source,
            "statement": claim.statement,
            "conditions": claim.conditions,
            "verdict": self.verdict.value,
            "recorded": claim.verdict(self.full).value,
            "as_recorded": self.as_recorded,
            "standing": claim.standing,
            "verdicts": [
                {
                    "about": f.about,
                    "verdict": f.verdict.value,
                    "because": f.because,
                    "corrected": f.about in corrections,
                }
                for f in self.findings
            ],
            "recorded_verdicts": [
                {"about": r.about, "verdict": r.verdict.value, "corrected": r.corrected}
                for r in rulings
            ],
            "finding": claim.finding,
            "counterexample": claim.counterexample,
            "corrected": claim.corrected,
            "untestable": claim.untestable,
            "error": self.error,
            "evidence": {
                "command": self.command,
                "run": "full" if self.full else "quick",
                "seed": self.seed,
                "seconds": round(self.seconds, 2),
                **{f.about: plain(dict(f.evidence)) for f in self.findings},
            },
        }


def plain(value: Any) -> Any:
    """A value as JSON can hold it: numbers, text, lists and objects; the rest as its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return str(value) if isinstance(value, str) else value  # enums of text as text
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # arrays and tensors, of one element or of many
        return plain(value.tolist())
    return str(value)  # exact numbers and formulas
