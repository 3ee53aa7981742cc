"""The fixture ``follows_rule`` in somebody's tests, and what it costs those who do not use it."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = "deepnet_theory.trainers.pytest_plugin"

# GPT-2 with 4 layers draws all matrices at 0.02, and the last of each branch at 0.02/√8
TESTS = """
import torch
from torch import nn
from written_models import GPT, VOCAB
def gpt(last):
    torch.manual_seed(0)
    model = GPT(4, d=64, std=0.02, tied=True)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=last if "c_proj" in name else 0.02)
    return model, torch.randint(0, VOCAB, (2, 16))
def test_wrong(follows_rule):
    follows_rule(*gpt(0.02), scheme="gpt-2")
def test_right(follows_rule):
    assert follows_rule(*gpt(0.02 / 8**0.5), scheme="gpt-2").follows == "gpt-2"
def test_without_a_rule(follows_rule):
    model = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True)
    twice = nn.Sequential(model, model)  # layers that share parameters have no rule
    follows_rule(twice, torch.randn(2, 8, 16))
"""


ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
WORDS = "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "."


def test_what_is_silently_wrong_or_has_no_rule_fails_with_the_reason_and_what_is_right_passes(
    tmp_path, monkeypatch, capsys
):
    """In this process, which has torch: pytester would unload what those tests import first."""
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pytest.main([*WORDS, "-p", "no:faulthandler"])
    done = capsys.readouterr()
    text = " ".join(line.removeprefix("E").strip() for line in done.out.splitlines())
    assert "2 failed, 1 passed" in text, text + done.err
    pieces = re.split(r"_{3,} (test_\w+) _{3,}", text.partition("short test summary")[0])
    said = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    assert said.keys() == {"test_wrong", "test_without_a_rule"}
    wrong, without = said["test_wrong"], said["test_without_a_rule"]
    assert "AssertionError: the model does not follow the rule" in wrong
    assert "gain 0.253, expected 0.0894: 2.83 times too large" in wrong
    assert 'model.get_parameter("h.0.mlp.c_proj.weight").data *= 0.35' in wrong
    assert "pytest_plugin.py" not in wrong  # the line of the test, and no line of ours
    assert "UNDECIDED" in without and "several sublayers share" in without


def test_the_entry_point_is_the_plug_in_and_loads_nothing_that_it_does_not_need(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # pytest registers a module once under one name: that of `-p`
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}
    (tmp_path / "test_it.py").write_text(
        f"""import sys
def test_it(request):
    assert request.config.pluginmanager.has_plugin({PLUGIN!r})
    rooms = {{"torch", "numpy", "sympy", "scipy", "deepnet_theory.models", "deepnet_theory.sizes"}}
    assert not rooms & sys.modules.keys()
""",
        encoding="utf-8",
    )
    words, alone = [sys.executable, "-m", "pytest", *WORDS], {**os.environ, **ALONE}
    done = subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
