"""Running the command line: in this process, or as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from deepnet_theory.cli import main

MODEL = """
from torch import nn
def make(depth, width=16):
    layer = nn.TransformerEncoderLayer(width, 2, 4 * width, batch_first=True)
    return nn.Sequential(nn.Embedding(11, width), nn.TransformerEncoder(layer, depth))
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run the command line in this process."""

    def run(*words):
        code = main(words)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Somebody's model in a file of the folder at hand."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return "model.py:make"


@pytest.fixture
def process(tmp_path):
    """Run the command line in a fresh interpreter, in an empty folder."""

    def run(*words, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "deepnet_theory", *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=str(tmp_path),
            env={**os.environ, **environment},
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run
