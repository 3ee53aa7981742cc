"""Running the command line in this process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from deepnet_theory.cli import main

MODEL = """
import torch
from torch import nn
def make(depth, width=32):
    layer = nn.TransformerEncoderLayer(width, 2, 4 * width, batch_first=True, norm_first=True)
    stack = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
    ids = torch.arange(8)[None]
    return nn.Sequential(nn.Embedding(11, width), stack, nn.Linear(width, 11)), ids
def odd(depth):
    return nn.Sequential(nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3)), torch.randn(2, 8, 16)
def plain(): return nn.Linear(8, 8)
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    def run(*words):
        code = main(words)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Models in a file of the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    return "mine.py:make"
