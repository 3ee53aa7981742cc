"""The pages of the recorded findings, written without measuring anything.

``python -m paper_checks.shared.pages`` writes one table of all claims, a line each, and one page
for each source with what was found on its claims; with ``--check`` it only tells whether they are
current.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from deepnet_theory.cli.claims import location
from deepnet_theory.definitions.files import write_text
from paper_checks.shared.check import claims, command_for, path_of
from paper_checks.shared.claim import STANDINGS, Claim, Weight

PAGE = "README.md"
_INTRODUCTION = """\
# The claims of the literature, checked

Each file of these folders, one a source, is a sentence or an equation of that source, or of this
package ("common"), restated in symbols and checked by a route that does not use it. This table has
one line for each, to be searched; the page of its source has the finding, with its conditions:
"""
_HOW = """\
A claim is half right where a part that its source states is wrong; what this ledger adds, "ours",
does not make it so. Of its parts, PROVED: symbolic and exact, given the listed assumptions.
SUPPORTED: measured on torch stacks, the interval inside the tolerance and the rivals excluded.
REFUTED: a counterexample or an interval that excludes it, with the corrected statement, which is
checked as well. UNDECIDED: not tested, or not where the sentence lives, with what would decide it.
ASSUMED: outside what can be run here.

`deepnet-theory check` reruns all of them in a reduced condition and compares with the recorded
verdicts, `deepnet-theory check --full` in the wide conditions that the findings rest on;
`deepnet-theory check ID --format json` prints every number of one claim, and `--seed S` draws
anew. `pytest paper_checks` runs the same checks.

These pages are made from the recorded findings by `python -m paper_checks.shared.pages`.
"""

_WEIGHTS = {Weight.STATED: "", Weight.OURS: ", ours", Weight.CORRECTION: ", corrected"}
_TITLES = {
    "refuted": "Refuted",
    "half right": "Half right",
    "undecided": "Not decided",
    "assumed": "Not tested here",
    "holds": "Holds",
}


def pages(where: Path | None = None) -> dict[Path, str]:
    """Every page as Markdown, by its path."""
    where = location() if where is None else where
    by_folder = groupby(claims(where).values(), lambda c: path_of(where, c.name).parent)
    sources = {folder: list(group) for folder, group in by_folder}
    source_pages = {folder / PAGE: _page(group) for folder, group in sources.items()}
    return {where / PAGE: _table(sources), **source_pages}


def stale(where: Path | None = None) -> list[Path]:
    """The pages in the folder that are not the ones that the recorded findings make."""
    return [
        path
        for path, text in pages(where).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def _table(sources: dict[Path, list[Claim]]) -> str:
    """A line a claim, in the order of the folders, and how the ledger is read."""
    links = [
        f"- [{folder.name}]({folder.name}/{PAGE}): {_author(group)}, {_counts(group)}"
        for folder, group in sources.items()
    ]
    whole = [claim for group in sources.values() for claim in group]
    head = "| claim | what its source says | standing |\n|---|---|---|"
    counts = f"\n{_counts(whole)}.\n"
    return "\n".join((_INTRODUCTION, *links, counts, head, *map(_row, whole), "", _HOW))


def _row(claim: Claim) -> str:
    folder, statement = claim.name.split("-")[0], claim.statement.replace("|", r"\|")
    return f"| [{claim.name}]({folder}/{PAGE}#{claim.name}) | {statement} | {claim.standing} |"


def _page(source: list[Claim]) -> str:
    """All claims of a source with verdict and finding, refuted and half-right ones first."""
    folder, counts = source[0].name.split("-")[0], _counts(source)
    blocks = [f"# {folder}: {_author(source)}\n", f"{counts}; [all sources](../{PAGE}).\n"]
    for standing, group in _groups(source).items():
        blocks += [f"## {_TITLES[standing]}\n", *map(_entry, group)]
    return "\n".join(blocks)


def _author(group: list[Claim]) -> str:
    """The source that most of the claims name first."""
    return Counter(claim.source.split(",")[0] for claim in group).most_common(1)[0][0]


def _counts(group: list[Claim]) -> str:
    """How many there are of each standing."""
    counts = ", ".join(f"{len(alike)} {s}" for s, alike in _groups(group).items())
    return f"{len(group)} claim{'s' * (len(group) > 1)}: {counts}"


def _groups(group: list[Claim]) -> dict[str, list[Claim]]:
    """The claims of each standing that some have."""
    groups = {s: [claim for claim in group if claim.standing == s] for s in STANDINGS}
    return {standing: alike for standing, alike in groups.items() if alike}


def _entry(claim: Claim) -> str:
    rulings = "; ".join(
        f"{r.verdict.value} ({r.about}{_WEIGHTS[r.weight]})" for r in claim.rulings(full=True)
    )
    items = {
        "Verdict": rulings,
        "Conditions": claim.conditions,
        "Counterexample": claim.counterexample,
        "Corrected": claim.corrected,
        "Why nothing is measured": claim.untestable,
        "What would decide it": claim.would_decide,
        "Reproduce": f"`{command_for(claim.name, full=True)}`",
    }
    head = (f"### {claim.name}", f"*{claim.source}*", f"> {claim.statement}", claim.finding)
    listed = (f"- {label}: {text}\n" for label, text in items.items() if text)
    return "\n\n".join((*head, "".join(listed)))


def main(words: Sequence[str]) -> int:
    """The exit code of the command ``words``."""
    if not words:
        for path, text in pages().items():
            write_text(path, text)
            print(f"wrote {path}")
        return 0
    if words == ["--check"]:
        old = stale()
        for path in old:
            print(f"{path} is stale: run it without --check")
        print(f"{len(old)} of {len(pages())} pages are stale")
        return 1 if old else 0
    print("usage: python -m paper_checks.shared.pages [--check]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
