"""The page of equations: every displayed equation has a claim of its source, and steps hold."""

import re
from functools import cache
from pathlib import Path

import pytest

import deepnet_theory as dt
from deepnet_theory.cli.claims import runner
from deepnet_theory.definitions.outcome import Verdict

PAGE = (Path(__file__).parents[2] / "docs" / "equations.md").read_text(encoding="utf-8")
DISPLAYED = {
    "Su Jianlin": 17,
    "bookstall": 19,
    "Pre/Post norm note": 3,
    "Transformer layer cake": 70,
}
RETELLS = {"bookstall": ("bookstall", "Su Jianlin")}  # the retelling's equations are Su's
SELECTIONS = {
    "probe": {"optimizer": "sgd"},
    "adam": {"optimizer": "adam"},
    "lamb": {"optimizer": "lamb"},
    "pre-ln": {"optimizer": "sgd", "placement": "pre-ln"},
    "lemma": {"optimizer": "sgd", "method": "lemma"},
}
LINE = re.compile(r"^\| (\d+)(?:–(\d+))?, [^|]*\|[^|]*\| ([^|]*) \|([^|]*)\|$", re.M)


@cache
def proved(reference):
    key, name = reference.split("/")
    steps = {s.name: s for s in dt.derive(**SELECTIONS[key], closure="published").steps}
    return name in steps and steps[name].check() is Verdict.PROVED


@pytest.mark.parametrize("document", DISPLAYED)
def test_every_equation_has_a_claim_of_its_source_and_its_steps_are_proved(document):
    known = runner().claims()
    section = PAGE.partition(f"\n## {document}")[2].partition("\n## ")[0]
    numbers = []
    for first, last, claims, steps in LINE.findall(section):
        numbers += range(int(first), int(last or first) + 1)
        sources = [known[name].source for name in claims.split(", ")]
        names = RETELLS.get(document, (document,))
        assert any(name in source for source in sources for name in names), (first, claims)
        assert all(map(proved, re.findall(r"`([^`]+)`", steps))), (first, steps)
    assert numbers == [*range(1, DISPLAYED[document] + 1)], "each displayed equation once"
