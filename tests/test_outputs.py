"""Whole outputs, as they were approved: sessions of commands with all that they print and write.

A session is a file of ``tests/outputs``: behind each ``$`` a command, then its exit code where it
is not 0, its standard output, and the files that it names behind ``>``. ``make outputs`` writes
what is printed today; read what has changed before you commit it.
"""

import math
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from deepnet_theory.cli import main
from deepnet_theory.models import effect

SESSIONS = Path(__file__).parent / "outputs"
NUMBER = re.compile(r"(-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+)")
UNLIKE = re.compile(  # what other machines and versions print, how a page looks, files within it
    r'(?s)"seconds": [^\n]*|"versions": {.*?}|<style>.*?</style>|\bcpu, [\d.]+ s\b|'
    r"<p class=.files.>.*?</p>|Files in the HTML page.*?</p>|"
    r"<dt>(?:machine|device|software|date|deepnet-theory)</dt><dd>.*?</dd>"
)
FEW = {"audit-deepnorm": 2}  # predictions of a real step, beyond which the first order is asked


def session(text, capsys):
    """The commands of a session with what they print and write now."""
    said = []
    for line in re.findall(r"^\$ (.*)", text, re.MULTILINE):
        words, _, files = line.partition(" > ")
        with patch.object(sys, "argv", shlex.split(words)):
            code = main()
        said.append(f"$ {line}\n" + (f"[{code}]\n" if code else "") + capsys.readouterr().out)
        said += [Path(file).read_text(encoding="utf-8") for file in files.split()]
    return UNLIKE.sub("...", "\n".join(said))


def differences(approved, printed):
    """The lines that differ: in a word or a whole number, or in a decimal by more than 1 %."""

    def close(a, b):
        return a == b or math.isclose(float(a), float(b), rel_tol=0.01, abs_tol=1e-9)

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
    monkeypatch.setattr(effect, "MOST", FEW.get(name, 1))
    shutil.copy(SESSIONS / "models.py", tmp_path)
    file = SESSIONS / f"{name}.txt"
    approved = file.read_text(encoding="utf-8")
    printed = session(approved, capsys)
    if os.environ.get("APPROVE"):
        file.write_text(printed, encoding="utf-8")
    else:
        assert not [*differences(approved, printed)][:10]


def test_another_digit_word_or_line_is_seen():
    right = "alpha = 2.345, of 12 layers\nSUPPORTED"
    assert not [*differences(right, right.replace("2.345", "2.346"))]
    for wrong in (
        right.replace("2.345", "2.405"),
        right.replace("12", "13"),
        right.replace("SUPPORTED", "REFUTED"),
        right + "\n",
    ):
        assert [*differences(right, wrong)]
