"""The benchmarks' options: a value that makes no sense is one sentence and exit 2."""

import math
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from deepnet_theory.definitions.outcome import Verdict

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BAD = [
    "applied --seeds 1", "certificate", "certificate --page none.jsonl",
    "laboratory --layers 8,,16", f"laboratory --layers {'9' * 50}",
    "laboratory --layers 8 --deep 8",
    "cross_table --depths 8,0", "cross_table -o none/page.md", "planted --sample 0",
    "power no-such", "practice --minutes x",
]  # fmt: skip


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("command", BAD)
def test_a_value_that_makes_no_sense_is_one_sentence(command, monkeypatch, capsys):
    name, *words = command.split()
    script = str(BENCHMARKS / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [script, *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "Traceback" not in said
    assert said.count("error:") == 1 and len(said) < 1500


def test_a_wrong_rule_is_the_rule_at_the_base_and_nowhere_else():
    rivals, form = import_module("rivals"), import_module("certificate").FORMS["tiny"]
    for arm in rivals.ALL:
        at_base, *off = (rivals.forecast(arm, size, form)[1] for size in form[:4])
        differs = arm.name in rivals.WRONG or arm.is_standard
        assert at_base == pytest.approx(0, abs=1e-9) and (max(off) > 0.3) is differs


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(1, 5), min_size=2, max_size=5), st.floats(0, 0.1), st.floats(-1, 1))
def test_the_regret_is_what_a_rate_loses_to_the_best_one(losses, scatter, shift):
    certificate = import_module("certificate")
    of, rule = certificate.Scatter(scatter, 9), certificate.RULE
    cells = {(rule, 2.0**k): {0: loss, 1: loss + shift} for k, loss in enumerate(losses)}
    for (name, rate), seeds in cells.items():
        found = certificate.regret(name, rate, cells, of)
        assert found.estimate == pytest.approx(seeds[0] - min(losses), abs=1e-9)
        half = of.half(2, len(losses) - 1)
        assert found.low == pytest.approx(max(0, found.estimate - half), abs=1e-9)
        assert found.high <= found.estimate + half + 1e-9
    alike = certificate.scatter([cells])  # a seed that is better everywhere is no scatter
    assert alike.freedom == len(losses) - 1 and alike.s == pytest.approx(0, abs=1e-7)


def test_a_mutant_is_one_change_of_what_runs_where_its_text_stood():
    mutants = import_module("mutants").mutants
    text = "β = 1\nγ = β * 2  # β * 2\n"
    assert {mutant.applied(text) for mutant in mutants("half.py", text)} == {
        "β = (2)\nγ = β * 2  # β * 2\n", "β = (0)\nγ = β * 2  # β * 2\n",
        "β = 1\nγ = (β ** 2)  # β * 2\n", "β = 1\nγ = β * (3)  # β * 2\n",
        "β = 1\nγ = β * (1)  # β * 2\n",
    }  # fmt: skip


def test_the_power_of_the_laboratory_has_the_exact_interval_of_clopper_and_pearson():
    power = import_module("power")
    for k in (0, 3, 199, 200):
        found = power.Power((Verdict.SUPPORTED,) * k + (Verdict.UNDECIDED,) * (200 - k), ())
        share, exact = found.share(Verdict.SUPPORTED), binomtest(k, 200).proportion_ci()
        assert (share.estimate, share.low, share.high) == pytest.approx((k / 200, *exact))


def test_the_first_step_of_the_rise_is_that_of_explicit_matrices():
    """One aligned step of fc2 and of output on a stream without a common part: A·η."""
    import torch

    rise = import_module("common_mode_alone").rise
    torch.manual_seed(0)
    width, hidden, eta = 256, 1024, 1e-3
    x = torch.randn(4000, width)
    read = (x @ (torch.randn(width, hidden) * math.sqrt(2 / (width + hidden)))).relu().mean(0)
    moved = eta * torch.outer(read.sign(), torch.randn(width).sign())
    weight = float((read @ moved).norm()) / math.sqrt(width)
    assert weight / 2 == pytest.approx(rise(width, hidden)[0] * eta, rel=0.02)


def test_the_study_trains_what_an_arm_says():
    recipe = import_module("recipe")
    model = recipe.model_of(recipe.Arm("post-LN complete", depth=2, head="0.02", steps=3), 0)
    drawn = model.embed.weight, model.embed.positions, model.head.weight
    assert [p.std().item() for p in drawn] == pytest.approx([0.02] * 3, 0.05)
    assert {residual.alpha for residual in model.residuals()} == {4.0}
    factors = [recipe.schedule(recipe.Arm("Llama"), step) for step in (0, 14, 15, 149)]
    assert factors == pytest.approx([1 / 15, 1.0, 1.0, 0.1], abs=2e-4)
    hybrid = recipe.Arm("pre-LN complete", depth=2, optimizer="muon")
    _, muon = recipe.optimizers(hybrid, recipe.model_of(hybrid, 0), 1e-3)
    stepped = [p for group in muon.param_groups for p in group["params"]]
    assert len(stepped) == 2 * 6 and {p.dim() for p in stepped} == {2}


def test_a_planted_error_counts_as_seen_only_where_a_wrong_answer_is_called_refuted():
    planted = import_module("planted")
    right = [planted.Given(0, "alpha = 1", "PROVED"), planted.Given(4, "", "")]
    fates = {
        ((1, "alpha = 2", "REFUTED"), (4, "", "")): planted.SEEN,
        ((0, "alpha = 2", "PROVED"), (4, "", "")): planted.UNSEEN,
        ((0, "alpha = 2", "PROVED"), (70, "", "")): planted.UNSEEN,
        ((70, "", ""), (4, "", "")): planted.CRASHED,
        (("KeyError", "", ""), (4, "", "")): planted.CRASHED,
        ((2, "", ""), (4, "", "")): planted.REFUSED,
        ((1, "alpha = 1", "REFUTED"), (4, "", "")): planted.FALSE,
        ((0, "alpha = 1", "PROVED"), (4, "", "")): planted.SAME,
    }
    for ends, fate in fates.items():
        assert planted.fate_of(right, [planted.Given(*end) for end in ends]) == fate, ends
