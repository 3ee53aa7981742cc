"""The page of the recorded findings, written without measuring anything."""

from __future__ import annotations

from pathlib import Path

from deepnet_theory.claims.folder import claims, location
from deepnet_theory.claims.run import command_for
from deepnet_theory.spec.claim import STANDINGS, Claim, Weight

PAGE = "README.md"
_INTRODUCTION = """\
# The claims of the literature, checked

Each file of these folders, one a source, is a sentence or an equation of that source, restated in
symbols and checked by a route that does not use it. `deepnet-theory check` reruns all of them in a
reduced condition and compares with the recorded verdicts, `deepnet-theory check --full` in the wide
conditions that the findings rest on; `deepnet-theory check ID --format json` prints every number
of one claim, and `--seed S` draws anew. `pytest paper_checks` runs the same checks.

PROVED: symbolic and exact, given the listed assumptions. SUPPORTED: measured on torch stacks, the
interval inside the tolerance and the rivals excluded. REFUTED: a counterexample or an interval
that excludes it, with the corrected statement, which is checked as well. UNDECIDED: not tested, or
not where the sentence lives, with what would decide it. ASSUMED: outside what can be run here.
A claim is half right where a part that its source states is wrong; what this ledger adds, "ours",
does not make it so.

This page is made from the recorded findings by `python -m deepnet_theory.claims page`.
"""

_WEIGHTS = {Weight.STATED: "", Weight.OURS: ", ours", Weight.CORRECTION: ", corrected"}


def markdown(where: Path | None = None) -> str:
    """All claims with verdict and finding, refuted and half-right ones first, as Markdown."""
    found = claims(where)
    titles = {
        "refuted": "Refuted",
        "half right": "Half right",
        "undecided": "Not decided",
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
        f"{r.verdict.value} ({r.about}{_WEIGHTS[r.weight]})" for r in claim.rulings(full=True)
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
        ("What would decide it", claim.would_decide),
    ):
        if text:
            lines.append(f"- {label}: {text}")
    lines.append(f"- Reproduce: `{command_for(claim.name, full=True)}`")
    return "\n".join(lines) + "\n"


def is_current(where: Path | None = None) -> bool:
    """Whether the page in the folder is the one that the recorded findings make."""
    path = (location() if where is None else where) / PAGE
    return path.is_file() and path.read_text(encoding="utf-8") == markdown(where)
