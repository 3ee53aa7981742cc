"""The fixture ``follows_rule`` in somebody's tests, and what it costs those who do not use it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = "deepnet_theory.trainers.pytest_plugin"
pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("unmeasured")

# GPT-2 with 12 layers draws all matrices at 0.02, and the last of each branch at 0.02/√24
GPT_2 = """
import torch
from torch import nn
from written_models import GPT, VOCAB
def gpt(last):
    torch.manual_seed(0)
    model = GPT(12, d=128, std=0.02, tied=True)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=last if "c_proj" in name else 0.02)
    return model, torch.randint(0, VOCAB, (2, 16))
"""


def run(pytester, test):
    pytester.makepyfile(f"{GPT_2}\n{test}")
    return pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider")


def test_initial_sizes_that_are_silently_wrong_fail_with_the_finding(pytester):
    ran = run(pytester, "def test_it(follows_rule): follows_rule(*gpt(0.02), scheme='gpt-2')")
    ran.assert_outcomes(failed=1)
    said = " ".join(line.removeprefix("E").strip() for line in ran.outlines)
    assert "AssertionError: the model does not follow the rule" in said
    assert "gain 0.358, wanted 0.073: 4.9 times too large" in said
    assert 'model.get_parameter("h.0.mlp.c_proj.weight").data *= 0.204' in said
    assert "pytest_plugin.py" not in said  # the line of the test, and no line of ours


def test_a_model_that_follows_the_rule_passes_and_hands_back_the_audit(pytester):
    ran = run(
        pytester,
        """
def test_it(follows_rule):
    assert follows_rule(*gpt(0.02 / 24**0.5), scheme="gpt-2").follows == "gpt-2"
""",
    )
    ran.assert_outcomes(passed=1)


def test_a_model_that_is_not_understood_fails(pytester):
    ran = run(pytester, "def test_it(follows_rule): follows_rule(nn.Linear(8, 8))")
    ran.assert_outcomes(failed=1)


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
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "."],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
