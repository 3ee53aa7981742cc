"""The page of equations: every displayed equation has a claim of its source, and steps hold."""

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from deepnet_theory.cli.claims import runner
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.derivation import derive

PAGE = Path(__file__).parents[2] / "docs" / "equations.md"
DISPLAYED = {
    "Su Jianlin": 17,
    "bookstall": 19,
    "Pre/Post norm note": 3,
    "Transformer layer cake": 70,
}
RETELLS = {"bookstall": ("bookstall", "Su Jianlin")}  # the retelling's equations are Su's
SELECTIONS = {
    "probe": Selection(optimizer="sgd"),
    "adam": Selection(optimizer="adam"),
    "lamb": Selection(optimizer="lamb"),
    "pre-ln": Selection(optimizer="sgd", placement="pre-ln"),
    "lemma": Selection(optimizer="sgd", method="lemma"),
}


@dataclass(frozen=True)
class Row:
    """One line of the page."""

    document: str
    numbers: tuple[int, ...]
    claims: tuple[str, ...]
    steps: tuple[str, ...]


def rows(page):
    """The lines of the tables below the documents' headings."""
    found, document = [], ""
    for line in page.splitlines():
        if line.startswith("## "):
            document = next(name for name in DISPLAYED if line.startswith(f"## {name}"))
        entry = re.match(r"\| (\d+)(?:–(\d+))?, [^|]*\|[^|]*\|([^|]*)\|([^|]*)\|$", line)
        if document and entry:
            first, last, named, steps = entry.groups()
            numbers = tuple(range(int(first), int(last or first) + 1))
            quoted, claims = re.findall(r"`([^`]+)`", steps), named.strip().split(", ")
            found.append(Row(document, numbers, tuple(claims), tuple(quoted)))
    return found


ROWS = rows(PAGE.read_text(encoding="utf-8"))


@cache
def derivation(key):
    return derive(replace(SELECTIONS[key], closure="published"))


@cache
def known():
    return runner().claims()


@cache
def proved(reference):
    key, name = reference.split("/")
    return derivation(key).step(name).check() is Verdict.PROVED


@pytest.mark.parametrize("document", DISPLAYED)
def test_no_displayed_equation_is_left_out(document):
    numbers = [n for row in ROWS if row.document == document for n in row.numbers]
    assert numbers == list(range(1, DISPLAYED[document] + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.document} {row.numbers[0]}")
def test_every_equation_has_a_claim_of_its_source_and_its_steps_are_proved(row):
    assert row.claims and all(proved(reference) for reference in row.steps)
    sources = [known()[name].source for name in row.claims]
    of_document = RETELLS.get(row.document, (row.document,))
    assert any(name in source for source in sources for name in of_document)
