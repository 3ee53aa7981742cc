"""Words and turns that the project does not use, over every text that a user sees."""

import io
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEFORE = (
    "of|at|in|by|on|to|from|with|for|over|under|through|behind|beside|into|against|between|"
    "after|without|beyond|among"
)
UNUSED = re.compile(
    rf"\b((?:{BEFORE}) which|of whose|(?:goes|go|going) as|for want of|but for|told apart|"
    r"told from|for granted|"
    r"(?:is|are|was) told|told (?:by|of)|the further the|what one does|so many|in the words|"
    r"(?:is|are) the matter of|(?:was|were) leant on|put in beside|where one has to look)\b"
)
PAGES = [
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md"),
    *(ROOT / "paper_checks").rglob("*.md"), *(ROOT / "notebooks").glob("*.ipynb"),
]  # fmt: skip
CODE = [p for room in ("deepnet_theory", "notebooks") for p in (ROOT / room).rglob("*.py")]


def texts(path):
    """Prose and code of pages and notebooks; strings and comments of a module."""
    whole = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return ["".join(cell["source"]) for cell in json.loads(whole)["cells"]]
    if path.suffix == ".md":
        return [whole]
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", None)}
    tokens = tokenize.generate_tokens(io.StringIO(whole).readline)
    return [token.string for token in tokens if token.type in kinds]


def unused(text):
    return [m.group(0) for m in UNUSED.finditer(re.sub(r"\s+", " ", text))]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_page_is_plain_english(path):
    assert [turn for text in texts(path) for turn in unused(text)] == []


def test_what_the_package_says_is_plain_english():
    found = {p.relative_to(ROOT).as_posix(): [t for s in texts(p) for t in unused(s)] for p in CODE}
    assert {place: turns for place, turns in found.items() if turns} == {}


def test_a_planted_turn_is_found():
    assert unused("the rate at which\n  it fails, but for one") == ["at which", "but for"]
    assert unused("the rate where it fails, except one") == []
