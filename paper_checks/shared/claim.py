"""A claim of the literature: what it says, how it is checked, and what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from deepnet_theory.definitions.outcome import Verdict

SCHEMA = "deepnet-theory/claims/1"

# From what a reader must know first to what can be taken as it stands.
WORST_FIRST = (
    Verdict.REFUTED,
    Verdict.UNDECIDED,
    Verdict.ASSUMED,
    Verdict.SUPPORTED,
    Verdict.PROVED,
)


T = TypeVar("T")
Check = TypeVar("Check", bound="Callable[[Any], Finding]")


@dataclass(frozen=True)
class Context:
    """How a check is run: the reduced condition or the full one, and the seed."""

    full: bool = False
    seed: int = 0
    threads: int = 1

    def pick(self, quick: T, full: T) -> T:
        """The first value in a quick run, the second in a full one."""
        return full if self.full else quick


class Weight(StrEnum):
    """Whose statement a part of a claim is.

    Only what the source states makes it right, half right or wrong. What the ledger adds (a wider
    condition, an example of its own) and the correction of a refuted statement do not.
    """

    STATED = "stated"
    OURS = "ours"
    CORRECTION = "correction"


class Ruling(NamedTuple):
    """A recorded verdict and what it is about: a part of the claim, or a condition on it."""

    about: str
    verdict: Verdict
    weight: Weight


@dataclass(frozen=True)
class Finding:
    """What a check found on one part of a claim; ``evidence`` holds numbers and their settings."""

    about: str
    verdict: Verdict
    because: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """A part of a claim, its recorded verdicts and the function that judges it at the bench.

    ``quick`` is None where only a full run can decide the part, and leaves it out of the other.
    """

    about: str
    weight: Weight
    quick: Verdict | None
    full: Verdict
    check: Callable[[Any], Finding]

    def recorded(self, full: bool) -> Verdict | None:
        return self.full if full else self.quick


@dataclass(frozen=True, eq=False)
class Claim:
    """One sentence or equation of the literature on trial.

    ``finding`` is plain English that can be quoted and rests on the full run. The parts follow
    the claim in its file, each a short function below its label and its recorded verdict:
    :meth:`stated` by the source, :meth:`ours`, or the :meth:`correction` of a refuted one. A
    refuted part needs its smallest ``counterexample``, the ``corrected`` statement, and a
    correction that checks it. ASSUMED needs ``untestable``, the reason why nothing is measured;
    UNDECIDED needs ``would_decide``, what would decide it. ``seconds`` is the cost of a run on one
    thread, or the quick run's and the full one's.
    """

    name: str
    source: str
    statement: str
    conditions: str
    finding: str
    counterexample: str = ""
    corrected: str = ""
    untestable: str = ""
    would_decide: str = ""
    seconds: float | tuple[float, float] = 1.0
    parts: list[Part] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Texts are prose: a line break in the file is a space."""
        for name, text in vars(self).items():
            if isinstance(text, str):
                object.__setattr__(self, name, " ".join(text.split()))

    def stated(
        self, about: str, quick: Verdict | None, *, full: Verdict | None = None
    ) -> Callable[[Check], Check]:
        """A part that the source states; ``full`` is the full run's verdict where it differs."""
        return self._part(about, Weight.STATED, quick, full)

    def ours(
        self, about: str, quick: Verdict | None, *, full: Verdict | None = None
    ) -> Callable[[Check], Check]:
        """A part that the ledger adds: a wider condition, an example, a bound of its own."""
        return self._part(about, Weight.OURS, quick, full)

    def correction(
        self, about: str, quick: Verdict | None, *, full: Verdict | None = None
    ) -> Callable[[Check], Check]:
        """The statement that replaces a refuted one."""
        return self._part(about, Weight.CORRECTION, quick, full)

    def _part(
        self, about: str, weight: Weight, quick: Verdict | None, full: Verdict | None
    ) -> Callable[[Check], Check]:
        recorded = full or quick
        if recorded is None:
            raise TypeError(f"claim {self.name!r}: no verdict is recorded on {about!r}")

        def keep(check: Check) -> Check:
            self.parts.append(Part(about, weight, quick, recorded, check))
            return check

        return keep

    def findings(self, bench: Any) -> tuple[Finding, ...]:
        """What the parts find now, each under its label; ``bench`` is what they measure with."""
        chosen = [part for part in self.parts if part.recorded(bench.full) is not None]
        return tuple(replace(part.check(bench), about=part.about) for part in chosen)

    def require_whole(self) -> None:
        """Raise ``TypeError`` where anything is missing or irregular."""
        for label in ("name", "source", "statement", "conditions", "finding"):
            self._need(bool(getattr(self, label).strip()), f"{label} is empty")
        self._need(bool(self.parts), "it has no parts")
        for rulings in (self.rulings(), self.rulings(full=True)):
            verdicts, weights = {r.verdict for r in rulings}, {r.weight for r in rulings}
            held = {Verdict.PROVED, Verdict.SUPPORTED}
            corrections = {r.verdict for r in rulings if r.weight is Weight.CORRECTION}
            fixed = bool(self.corrected and corrections and self.counterexample)
            self._need(bool(rulings), "no verdict is recorded")
            self._need(
                len({r.about for r in rulings}) == len(rulings),
                "two verdicts are about the same part",
            )
            self._need(Weight.STATED in weights, "no part is stated by the source")
            self._need(
                (Verdict.ASSUMED in verdicts) == bool(self.untestable),
                "ASSUMED and a reason why nothing is measured go together",
            )
            self._need(corrections <= held, "a corrected statement must hold")
            self._need(
                Verdict.REFUTED not in verdicts or fixed,
                "a refuted part needs its counterexample, the corrected statement and its check",
            )
        either = {r.verdict for full in (False, True) for r in self.rulings(full)}
        self._need(
            (Verdict.UNDECIDED in either) == bool(self.would_decide),
            "UNDECIDED and what would decide it go together",
        )

    def _need(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise TypeError(f"claim {self.name!r}: {otherwise}")

    def rulings(self, full: bool = False) -> tuple[Ruling, ...]:
        return tuple(
            Ruling(p.about, verdict, p.weight)
            for p in self.parts
            if (verdict := p.recorded(full)) is not None
        )

    def cost(self, full: bool = False) -> float:
        """Seconds of the quick or of the full run on one thread, for order and progress."""
        return self.seconds[full] if isinstance(self.seconds, tuple) else self.seconds

    def verdict(self, full: bool = False) -> Verdict:
        """The recorded verdict on the claim as its source states it."""
        return headline({r.about: r.verdict for r in self.rulings(full)}, self.rulings(full))

    @property
    def standing(self) -> str:
        """One of ``STANDINGS``, by the full run's record of what the source states."""
        stated = {r.verdict for r in self.rulings(full=True) if r.weight is Weight.STATED}
        if Verdict.REFUTED in stated:
            return "refuted" if len(stated) == 1 else "half right"
        if Verdict.UNDECIDED in stated:
            return "undecided"
        return "assumed" if Verdict.ASSUMED in stated else "holds"


STANDINGS = ("refuted", "half right", "undecided", "assumed", "holds")


def headline(verdicts: Mapping[str, Verdict], rulings: tuple[Ruling, ...]) -> Verdict:
    """The worst verdict on what the source states; a part without a record counts."""
    other = {r.about for r in rulings if r.weight is not Weight.STATED}
    stated = [v for about, v in verdicts.items() if about not in other]
    return min(stated, key=WORST_FIRST.index, default=Verdict.UNDECIDED)


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
        verdicts = {f.about: f.verdict for f in self.findings}
        return headline(verdicts, self.claim.rulings(self.full))

    @property
    def as_recorded(self) -> bool:
        """Whether every part has its recorded verdict, no part is missing and none is new."""
        judged = {(f.about, f.verdict) for f in self.findings}
        recorded = {(r.about, r.verdict) for r in self.claim.rulings(self.full)}
        return not self.error and judged == recorded

    def to_dict(self) -> dict[str, Any]:
        claim, rulings = self.claim, self.claim.rulings(self.full)
        weights = {r.about: r.weight for r in rulings}
        texts = ("statement", "conditions", "finding", "counterexample", "corrected", "untestable")

        def row(about: str, verdict: Verdict) -> dict[str, Any]:
            weight = weights.get(about, Weight.STATED)
            corrected = weight is Weight.CORRECTION
            return {"about": about, "verdict": verdict.value, "corrected": corrected,
                    "weight": str(weight)}  # fmt: skip

        return {
            "id": claim.name,
            **{name: getattr(claim, name) for name in ("source", *texts, "would_decide")},
            "verdict": self.verdict.value,
            "recorded": claim.verdict(self.full).value,
            "as_recorded": self.as_recorded,
            "standing": claim.standing,
            "verdicts": [{**row(f.about, f.verdict), "because": f.because} for f in self.findings],
            "recorded_verdicts": [row(r.about, r.verdict) for r in rulings],
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
