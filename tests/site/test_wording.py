"""Texts say things in the field's words: phrases that readers stumbled over are in none of them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = {  # a regular expression, in any case and across line ends: what to write instead
    # the words of the field
    r"\bmend(s|ed|ing)\b|\b(can|could|must|not|that|to|which|would) mend\b": "fix",
    r"\bput(s|ting)? right\b": "fix",
    r"\bdead seeds?\b|\b(runs?|seeds?) (that )?(die|dies|died)\b": "a diverged run",
    r"\bcarr(y|ies|ied) (\S+ )?(learning )?rates?\b": "the learning rate transfers",
    r"\brates? (that )?serves?\b|\bserves? (all|another|every|other)\b": "works at every depth",
    r"\bmov(e|es|ed|ing) (the|an|its) (model's |stack's )?outputs?\b": "change the output",
    r"\b(least|most) (loss|rate|layers|depth)\b": "lowest, highest, fewest, deepest",
    r"\b(as|so) far as\b": "up to",
    r"\bso many\b": "as many as",
    r"\bheld[- ]out\b(?! \{|\")": "validation",
    r"\b(is|are|was|were|gains?) wanted\b": "expected",
    r"\b(is|are|was|were|not|unless) told\b|\bgiven without\b": "specified",
    r"\bone's own\b": "custom, your own",
    r"\bbeside (wrong|mup|plain|GPT-2|the plain|a plain)\b": "compared with",
    r"\bstands? (above|at|before|behind|below|between|for it|here|in|on|there|under)\b": "is",
    r"\blies in\b(?! \[)": "is in",
    r"\bat hand\b": "available",
    r"\b(true|holds?|held) of\b": "apply to",
    r"\b(closure|one|rules?|that) to train with\b|\*to train with\*": "recommended for training",
    r"\bfirst derived\b": "as published",
    r"\bstep(s|ped)? by (SGD|Adam|AdamW|LAMB|Muon|an?|another|its(?! name)|the)\b": "trained with",
    r"\boutputs? mov(e|es|ed|ing)\b|\bhow far \S+ moves?\b": "the output changes",
    r"\bwanted \{": "expected",
    r"\bwhatever the (depth|width)\b": "at every depth",
    r"\bwhat is scaled\b": "the scaled matrices",
    r"\bfeels?\b": "depend on",
    r"\bsublayers in a row\b|\bof (two|several) parts\b": "stack, encoder and decoder",
    # sentences that readers read twice
    r"\bhold(s|ing)? \S+ (\S+ )?still\b": "keep it constant",
    r"\bcounts? for nothing\b": "has no effect",
    r"\bis left to you\b": "choose",
    r"\bhangs? on\b": "depends on",
    r"\bof it(?= (is|are|has|in|on|to|and|at|as|by)\b|[.,;:)])": "the thing, by name",
    r"\b(thereof|of which)\b": "the thing, by name",
}


def texts():
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.ipynb", "mkdocs.yml"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in listed.stdout.split() if not name.startswith("tests/")]


def read(name):
    """A file's text as it is read: the prose of a notebook, and sentences across line ends."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return re.sub(r'"\n\s*f?"|[\s#>]+', lambda m: "" if '"' in m[0] else " ", text)


def found(text):
    return [
        f"{match[0]!r} in {text[max(0, match.start() - 40) : match.end() + 40]!r}: write {instead}"
        for phrase, instead in PHRASES.items()
        for match in re.finditer(phrase, text, re.I)
    ]


@pytest.mark.parametrize("name", texts())
def test_a_text_has_none_of_the_phrases(name):
    assert found(read(name)) == []


def test_a_phrase_is_seen_across_lines_in_strings_and_in_prose(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    cell = {"cell_type": "markdown", "source": ["One learning\n", "rate serves all depths."]}
    planted = {
        "page.md": "> what matters in\n> a rule is what is\n> scaled",
        "module.py": 'SAID = (\n    "the held-out "\n    f"loss"\n)\n# it hangs\n# on S\n',
        "book.ipynb": json.dumps({"cells": [cell, {"cell_type": "code", "source": ["x = 1"]}]}),
    }
    for name, text in planted.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [len(found(read(name))) for name in planted] == [1, 2, 1]
    assert found("the rule recommended for training; one learning rate works at every depth") == []
