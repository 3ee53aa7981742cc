"""What commands print of what they derive: approved, once a kind.

A session is a file of ``tests/outputs``: behind each ``$`` a command, its exit code where that is
not 0, what it prints, and what it says on standard error where it fails. ``make outputs`` writes
what is printed today; read what has changed before you commit it. A session measures nothing:
what is measured differs from machine to machine, and its printers have stored results.
"""

import math
import os
import re
import shlex
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from deepnet_theory.cli import main

SESSIONS = Path(__file__).parent / "outputs"
NUMBER = re.compile(r"(-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+)")
VERSION = re.compile(r'"deepnet_theory": "[^"]*"')
CONFIRMED = re.compile(r"confirm\s+(\d+)\s+of\s+\1\s")
MOST_LINES = 300  # of a session: whole derivations and pages are no approved texts
REFUSED = re.compile(r"^\$ .*\n\[[24]\]\n", re.MULTILINE)  # a command that did nothing
DERIVED = {"derive", "export", "list", "--plan", "--help"}  # what measures nothing


def session(text, capsys):
    """The commands of a session with what they print now."""
    said = []
    for line in commands(text):
        with patch.object(sys, "argv", shlex.split(line)):
            code = main()
        shown = capsys.readouterr()
        said.append(f"$ {line}\n" + (f"[{code}]\n{shown.err}" if code else "") + shown.out)
    printed = CONFIRMED.sub("confirm all ", "\n".join(said))
    return VERSION.sub('"deepnet_theory": "…"', printed)


def commands(text):
    return re.findall(r"^\$ (.*)", text, re.MULTILINE)


def differences(approved, printed):
    """The lines that differ in a word, a whole number, or a decimal by more than rounding."""

    def close(a, b):
        return a == b or math.isclose(float(a), float(b), rel_tol=1e-9)

    lines = approved.split("\n"), printed.split("\n")
    if len(lines[0]) != len(lines[1]):
        yield f"{len(lines[0])} lines were approved, {len(lines[1])} are printed"
    for before, after in zip(*lines, strict=False):
        old, new = NUMBER.split(before), NUMBER.split(after)
        if old[::2] != new[::2] or not all(map(close, old[1::2], new[1::2])):
            yield f"- {before}\n+ {after}"


@pytest.mark.parametrize("name", sorted(path.stem for path in SESSIONS.glob("*.txt")))
def test_it_is_as_approved(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    file = SESSIONS / f"{name}.txt"
    approved = file.read_text(encoding="utf-8")
    printed = session(approved, capsys)
    if os.environ.get("APPROVE"):
        file.write_text(printed, encoding="utf-8")
    else:
        assert not [*differences(approved, printed)][:10]


def test_no_approved_session_measures_and_none_is_long():
    for file in SESSIONS.iterdir():
        text = file.read_text(encoding="utf-8")
        done = REFUSED.sub("", text)
        said = [shlex.split(line) for line in commands(done)]
        assert all(DERIVED & {*words} for words in said), file.name
        assert text.count("\n") <= MOST_LINES, file.name
        assert not re.search(r'"seconds"|"device"|95 ?% interval|\d s\)', text), file.name
