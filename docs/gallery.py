"""One page of the site for every published scheme: what it sets, what follows, what was measured.

Exponents come from the engine; measured ones are read off the committed page, and left out where
it does not have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.scheme import SCHEMES, Scheme
from deepnet_theory.report.html import fragment
from deepnet_theory.report.tables import scheme as document
from deepnet_theory.sizes.exponents import judge

ROOT = Path(__file__).parents[1]
TABLE = "docs/schemes.md"
MEASURED = "benchmarks/results/schemes.md"
FOLDER = "schemes"


def pages() -> dict[str, str]:
    """The pages, by their place on the site."""
    told = (ROOT / MEASURED).read_text(encoding="utf-8")
    return {
        f"{FOLDER}/{name}.md": "\n".join(_page(scheme, told)) + "\n"
        for name, scheme in SCHEMES.items()
    }


def linked(page: str) -> str:
    """The page of all schemes, whose names lead to their own pages."""
    names = "|".join(sorted(map(re.escape, SCHEMES), key=len, reverse=True))
    page = re.sub(rf"^\| ({names})(?=[ ,])", rf"| [\1]({FOLDER}/\1.md)", page, flags=re.M)
    return re.sub(rf"^- \*\*({names})\*\*", rf"- [**\1**]({FOLDER}/\1.md)", page, flags=re.M)


def _page(scheme: Scheme, told: str) -> Iterator[str]:
    try:
        said = document(judge(scheme))
        yield f"# {said.title}\n\n{fragment(replace(said, title=''))}"
    except Refusal as refusal:
        yield f"# {scheme.name}\n\n{scheme.summary}: `{scheme.equation}`.\n"
        yield f"Refused: {refusal}.\n\n## Source\n\n{scheme.source}"
    measured = [*_rows(told, scheme.name), *_items(told, scheme.name)]
    if measured:
        yield "\n## Measured\n\n" + "\n".join([*_head(told, measured[0]), *measured])
    yield f"\n[All schemes](../schemes.md), [all measurements](../measured/{Path(MEASURED).name})."


def _rows(page: str, name: str) -> list[str]:
    """The rows of a scheme in a table, one a part."""
    return re.findall(rf"^\| {re.escape(name)}(?=[ ,]).*\|$", page, re.M)


def _items(page: str, name: str) -> list[str]:
    """What a list says of a scheme."""
    return re.findall(rf"^- {re.escape(name)}: .*$", page, re.M)


def _head(page: str, row: str) -> list[str]:
    """The head of the table that a row is of, and its rule; nothing for an item of a list."""
    lines = page[: page.index(row)].splitlines()
    rules = [i for i, line in enumerate(lines) if re.fullmatch(r"\|[-:| ]+\|", line)]
    return lines[rules[-1] - 1 : rules[-1] + 1] if row.startswith("|") and rules else []
