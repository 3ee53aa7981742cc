"""Every command that a page or a notebook quotes is taken, with options that its help offers."""

import json
import re
import shlex
from pathlib import Path

import pytest

from deepnet_theory.cli import main

ROOT = Path(__file__).parents[2]
TEXTS = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("notebooks/*.ipynb")]


def quoted(page):
    """The commands in spans and blocks of code, each as its words."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    lines = re.findall(r"(?:^ *|`)deepnet-theory ([a-z][^`\n]*)", text.replace("\\\n", ""), re.M)
    return [shlex.split(line, comments=True) for line in lines]


PAGES = [page for page in sorted(TEXTS) if quoted(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_taken(page, capsys):
    for command, *words in quoted(page):
        assert main([command, "--help"]) == 0
        offered = re.findall(r"--[a-z-]+", capsys.readouterr().out)
        assert {word.partition("=")[0] for word in words if word[:2] == "--"} <= {*offered}
        if command == "list" or (command == "derive" and "--optimizer" in words):
            assert main([command, *words]) in (0, 4), words
