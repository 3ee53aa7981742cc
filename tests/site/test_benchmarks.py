"""The benchmarks' options: a value that makes no sense is one sentence and exit 2."""

import ast
import math
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.placement import HEAD
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.settings import Settings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BAD = [
    "applied --seeds 1", "laboratory --sweeps 0", "laboratory --times -1",
    "laboratory --layers 8,,16",
    f"laboratory --layers {'9' * 50}", "laboratory --layers 8 --deep 8", "growth --seeds 1",
    "cold_start --repeats 0", "coord_check --steps x", "common_mode --seeds 1",
    "cross_table --depths 8,0",
    "cross_table -o none/page.md", "learning_rate --rates 1,nan",
    "learning_rate --closures no-such", "mutants --sample 0", "planted --sample 0", "power no-such",
    "practice --seeds 1", "practice --minutes x", "prediction --seeds 1", "runtime --batch 0",
    "symbolic -o none/page.md", "width --widths 32,0",
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


SOURCE = '''
def half(x: tuple[int, 2]) -> int:
    """Half of 3."""
    if x == 0 and not small:
        raise ValueError(f"{x + 1} is α")
    return -x / 2
'''


def test_a_mutant_is_one_change_of_what_runs_where_its_text_stood():
    mutants = import_module("mutants").mutants
    assert {mutant.change for mutant in mutants("half.py", SOURCE)} == {
        "`x == 0 and not small` → `False`", "`x == 0 and not small` → `(x == 0 or not small)`",
        "`x == 0` → `(x != 0)`", "`0` → `(1)`", "`0` → `(-1)`", "`not small` → `(small)`",
        "`-x / 2` → `None`", "`-x / 2` → `(-x * 2)`", "`-x` → `(x)`", "`2` → `(3)`", "`2` → `(1)`",
    }  # fmt: skip
    text = "β = 1\nγ = β * 2  # β * 2\n"
    assert {mutant.applied(text) for mutant in mutants("half.py", text)} == {
        "β = (2)\nγ = β * 2  # β * 2\n", "β = (0)\nγ = β * 2  # β * 2\n",
        "β = 1\nγ = (β ** 2)  # β * 2\n", "β = 1\nγ = β * (3)  # β * 2\n",
        "β = 1\nγ = β * (1)  # β * 2\n",
    }  # fmt: skip


def test_the_survivors_of_a_page_are_found_again_where_lines_have_moved(tmp_path):
    mutants, page = import_module("mutants"), tmp_path / "page.md"
    every = list(mutants.mutants("half.py", SOURCE * 2))
    alive = [m for m in every if m.change in ("`2` → `(3)`", "`-x` → `(x)`")]
    page.write_text(mutants.page(dict.fromkeys(alive, "survived"), "4", 20), encoding="utf-8")
    moved = list(mutants.mutants("half.py", "\n" + SOURCE * 2))
    assert [(m.line - 1, m.change) for m in mutants.listed(page, moved)] == [
        (m.line, m.change) for m in alive
    ]
    assert mutants.listed(tmp_path / "none.md", every) == []


def test_marks_tell_which_statements_run_and_change_nothing(monkeypatch):
    ran = []
    names = {"__mark__": ran.append, "small": False}
    tree = import_module("mutants").mark(ast.parse(SOURCE), "half.py")
    exec(compile(tree, "half.py", "exec"), names)
    half = names["half"]
    assert half.__doc__ == "Half of 3." and ran == []
    assert half(3) == -1.5 and ran == [("half.py", 4), ("half.py", 6)]
    with pytest.raises(ValueError, match="1 is α"):
        half(0)
    assert ran[2:] == [("half.py", 4), ("half.py", 5)]


HALVES = """
from functools import cache
TWO = 2
@cache
def half(x):
    return x / TWO
def unused():
    return 5
"""
TEST_OF_HALVES = """
from deepnet_theory.halves import half
def test_positive():
    assert half(4) > 0
def test_exact():
    assert half(4) == 2
"""


@pytest.mark.slow
def test_a_mutant_meets_the_tests_that_execute_it(monkeypatch, tmp_path):
    mutants = import_module("mutants")
    monkeypatch.setattr(mutants, "TESTS", ("tests/definitions",))
    # the tests of this tree need no plugin, which every fork would load
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(mutants, "OPTIONS", mutants.OPTIONS[:2])
    for name, text in {
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow', 'notebooks']\n",
        "deepnet_theory/__init__.py": "",
        "deepnet_theory/halves.py": HALVES,
        "tests/definitions/test_halves.py": TEST_OF_HALVES,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    seen = mutants.record(tmp_path)
    # what the first test left in the cache is executed by the second one, too
    assert [places for _, places in seen.values()] == [{("halves.py", 0), ("halves.py", 6)}] * 2
    fates = {
        mutant.change: mutants.fate(mutant, tmp_path, seen, 60)
        for mutant in mutants.mutants("halves.py", HALVES)
    }
    assert fates == {
        "`2` → `(3)`": "killed", "`2` → `(1)`": "killed",
        "`x / TWO` → `None`": "killed", "`x / TWO` → `(x * TWO)`": "killed",
        "`5` → `(6)`": "survived", "`5` → `(4)`": "survived",  # nothing executes it
    }  # fmt: skip
    assert (tmp_path / "deepnet_theory/halves.py").read_text(encoding="utf-8") == HALVES


def test_an_error_is_planted_and_taken_out_again(monkeypatch, tmp_path):
    planted = import_module("planted")
    source = tmp_path / "deepnet_theory" / "half.py"
    source.parent.mkdir()
    source.write_text(SOURCE, encoding="utf-8")
    (mutant, *_) = import_module("mutants").mutants("half.py", SOURCE)
    right, seen = [planted.Given(0, "alpha = 1", "PROVED")], []

    def asked(tree):
        seen.append(source.read_text(encoding="utf-8"))

    monkeypatch.setattr(planted, "asked_of", asked)
    assert planted.fate(mutant, tmp_path, right) == planted.CRASHED, "none has come to its end"
    assert seen == [mutant.applied(SOURCE)] and source.read_text(encoding="utf-8") == SOURCE
    evidence = '{"steps": [1], "measured": [2], "rule": "3", "verdict": "PROVED"}'
    assert planted.given(0, evidence) == (0, '{"rule": "3"}', "PROVED")
    assert planted.given(4, "words") == (4, "words", "")


def test_the_power_of_the_laboratory_has_an_exact_interval(monkeypatch):
    power = import_module("power")
    found = power.Power((Verdict.SUPPORTED,) * 199 + (Verdict.UNDECIDED,), (0.0,) * 200)
    share = found.share(Verdict.SUPPORTED)
    # Clopper and Pearson: 95% interval of 199 out of 200
    assert (share.estimate, share.low, share.high) == pytest.approx((0.995, 0.9725, 0.99987), 1e-3)
    none = found.share(Verdict.REFUTED)
    assert (none.estimate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 200))
    # beta off by N^(-1/16) under LAMB, whose ||dF|| then grows as N^(1/8)
    wrong = own_rule(("encoder",), "1", "(2*N)**(-7/16)")
    small = Settings(width=16, heads=2, tokens=8, seeds=8, draws=2)
    depths = [{"N": n} for n in (8, 16, 32)]
    lamb = Selection(optimizer="lamb")
    found = power.measure_power(lamb, wrong, 0.0, depths, small, experiments=4)
    assert set(found.verdicts) <= {Verdict.REFUTED, Verdict.UNDECIDED}
    assert len(set(found.exponents)) == 4  # fresh data and weights in each


def test_the_common_part_alone_rises_by_its_equation_and_stops_where_nothing_is_common():
    import numpy as np

    alone = import_module("common_mode_alone")
    frequencies = np.arange(1.0, 257) ** -2
    frequencies /= frequencies.sum()
    arm = alone.Arm(warm_up=1, rate=1e-4, positions="learned", size=30.0)  # tokens begin unlike

    def r(own, steps=150, noise=0.0):
        return np.array(alone.predicted(own, frequencies, noise, steps))

    found, clock = r(arm), 1e-4 * np.arange(150)
    first, growth = alone.rise(64, 256)
    law = first * np.expm1(growth * clock) / growth
    early = (law > 0.05) & (law < 0.5)
    # what lies across the signal takes a fifth of the steps, and later terms give it back
    assert early.sum() > 20 and np.allclose(found[early], law[early], rtol=0.2)
    assert r(alone.Arm(bias="unigram"), 40, 0.09).max() < 1e-6
    still, carried = (r(alone.Arm(beta1=beta1), 40, 0.09).max() for beta1 in (0.0, 0.9))
    assert still < 4 < 20 < carried


def test_r_rises_by_its_equation_and_as_the_width():
    alone = import_module("common_mode_alone")
    first, growth = alone.rise(64, 256)
    s = alone.summed_rate(64, 256)
    assert first * (math.exp(growth * s) - 1) / growth == pytest.approx(1)
    assert s == pytest.approx(0.0199, abs=1e-4)
    assert alone.summed_rate(128, 512) == pytest.approx(s / 2)
    assert alone.summed_rate(64, 256, branches=2) == pytest.approx(s / 2, rel=0.2)


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


def test_values_and_first_maps_feed_it_as_much_as_is_said():
    """γ from explicit matrices whose stream has a common part a m̂, signs of an aligned step."""
    import torch

    rise = import_module("common_mode_alone").rise
    torch.manual_seed(0)
    width, hidden, a, eta = 256, 1024, 0.3, 1e-3
    direction, back = torch.randn(width).sign(), torch.randn(width).sign()  # entries of size 1
    value, output = (torch.randn(width, width) / math.sqrt(width) for _ in range(2))
    fc1 = torch.randn(width, hidden) * math.sqrt(2 / (width + hidden))
    fc2 = torch.randn(hidden, width) * math.sqrt(2 / (width + hidden))
    x = a * direction + math.sqrt(1 - a**2) * torch.randn(2000, width)
    mean = a * direction

    def along(y):
        return float(y @ back) / width

    read = mean @ value
    fed = along(read @ torch.outer(read.sign(), back)) * eta  # output
    fed += along(mean @ torch.outer(direction, (output @ back).sign()) @ output) * eta  # value
    step = eta * torch.outer(direction, (fc2 @ back).sign())
    moved = (x @ (fc1 + step)).relu().mean(0) - (x @ fc1).relu().mean(0)
    fed += along(moved @ fc2)  # fc1
    # γR with R = 2a
    assert fed / 2 == pytest.approx(rise(width, hidden)[1] * 2 * a * eta, rel=0.05)


def test_a_rise_is_held_against_its_prediction():
    import numpy as np

    alone = import_module("common_mode_alone")
    predicted = [0.0, 0.5, 1.0, 2.0, 5.0, 8.0]
    r = np.array([[0.0, 0.5, 1.0, 2.0, 9.0, 1.0], [0.0, 0.5, 1.0, 2.0, 9.0, 9.0]])
    outcome = alone.Outcome(alone.Arm(warm_up=1), r, predicted, "a text")
    assert outcome.of_rise == [1.0, 1.0, 1.0] and outcome.of_peak == pytest.approx(9 / 8)
    assert outcome.of_clock == pytest.approx(0.016 / 0.019884678, rel=1e-6)
    assert "1 of 2 (0.09 to 0.91)" in outcome.row()


def test_the_study_finds_the_best_rate_and_tells_dead_seeds_apart(monkeypatch, tmp_path):
    practice = import_module("practice")
    trained = []

    def valley(arm, rate, seed):  # the third seed dies above 4e-3, and the least loss is beyond
        trained.append((rate, seed))
        dead = seed == 2 and rate > 5e-3
        loss = 3.24 if dead else 2.0 + 0.1 * math.log2(rate / 8e-3) ** 2
        return practice.Run(loss, 1.0 + 20 * dead, 0.5, 1.0)

    monkeypatch.setattr(practice, "train", valley)
    file, arm = tmp_path / "runs.jsonl", practice.POST
    record = practice.Record(file, math.inf)
    record.settle(arm, 64e-3, 2, 4)
    assert (record.best(arm), record.finished(arm, 4)) == (4e-3, True)
    assert not record.finished(arm, 5) and not record.finished(practice.PRE, 4)
    line = practice.row(record, arm)
    assert "| 4 | 2.100 (2.100 to 2.100) |" in line and "8: 2.00, 1 of 4 dead" in line
    assert len(trained) == len(set(trained))  # no run twice, nor after reading them again
    again = practice.Record(file, 0.0)
    again.settle(arm, 64e-3, 2, 4)
    assert again.runs == record.runs
    with pytest.raises(TimeoutError):
        again.settle(practice.PRE, 64e-3, 2, 4)
    page = practice.page(again, 4)
    assert line in page and "- 16 layers, width 64: pre-LN complete\n" in page


def test_the_study_trains_what_an_arm_says():
    recipe = import_module("recipe")
    arm = recipe.Arm("post-LN complete", depth=2, head="0.02", steps=3)
    model = recipe.model_of(arm, 0)
    tokens, positions = model.embed.weight, model.embed.positions
    assert [p.std().item() for p in (tokens, positions, model.head.weight)] == pytest.approx(
        [0.02] * 3, 0.05
    )
    assert {residual.alpha for residual in model.residuals()} == {4.0}
    four = recipe.model_of(recipe.Arm("pre-LN complete", depth=2, constant=4.0), 0)
    one = recipe.model_of(recipe.Arm("pre-LN complete", depth=2), 0)
    ratios = [
        (a.std() / b.std()).item()
        for a, b in zip(four.parameters(), one.parameters(), strict=True)
        if a.dim() == 2
    ]
    assert sorted({round(ratio, 3) for ratio in ratios}) == [1.0, 2.0]  # 4 in a product of two
    factors = [recipe.schedule(recipe.Arm("Llama"), step) for step in (0, 14, 15, 149)]
    assert factors == pytest.approx([1 / 15, 1.0, 1.0, 0.1], abs=2e-4)
    assert recipe.schedule(recipe.Arm("Llama", warmup=False), 0) == 1.0
    first, second = (recipe.train(arm, 8e-3, 0) for _ in range(2))
    assert (first.loss, first.weight) == (second.loss, second.weight) and 3 < first.loss < 6
    hybrid = recipe.Arm("pre-LN complete", depth=2, optimizer="muon")
    _, muon = recipe.optimizers(hybrid, recipe.model_of(hybrid, 0), 1e-3)
    assert sum(len(g["params"]) for g in muon.param_groups) == 2 * 6
    assert {p.dim() for g in muon.param_groups for p in g["params"]} == {2}


def dead(by_rate):
    """The rates that a seed died at."""
    return [at.split(":")[0] for at in by_rate.split("; ") if "dead" in at]


def said_of_the_head(page):
    """What the sentence on head and placement says, read off the study's page."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    rows = {row[0]: row for row in rows if len(row) == 6 and row[0].startswith("post-LN complete")}
    biased = [row for name, row in rows.items() if "log-unigram bias" in name]
    beside = [float(row[3].split()[0]) for row in biased if row[3]]
    small = [rows[f"post-LN complete, {of}"][4] for of in ("head 0.02", "embedding of 1/√width")]
    return {
        "no post-LN seed died below eight times the best rate": biased
        and all(float(at) >= 8 * float(row[1]) for row in biased for at in dead(row[4])),
        "level with pre-LN's or up to 0.02 nats below": beside
        and -0.025 < min(beside) <= max(beside) < 0.005,
        "lost 1 seed of 4": all("8: " in row and "1 of 4 dead" in row for row in small),
        "a head at zero all": "4 of 4 dead" in rows["post-LN complete, head 0"][2],
    }


def test_the_sentence_on_the_head_is_what_the_study_recorded():
    page = (BENCHMARKS / "results" / "practice.md").read_text(encoding="utf-8")
    said = said_of_the_head(page)
    assert all(said.values()), said
    assert all(words in HEAD for words in said)
    assert len(dead("4: 2.36, 1 of 4 dead; 8: 2.42; 16: 1 of 1 dead")) == 2
    for true, planted in (
        ("| -0.013 (", "| -0.033 ("), ("16: 2.34; 32: 2.38 | 0.7 |", "16: 1 of 4 dead | 0.7 |"),
        ("8: 2.44, 1 of 4 dead", "8: 2.44"), ("| –; 4 of 4 dead | –", "| 2.400 | –"),
    ):  # fmt: skip
        assert true in page and not all(said_of_the_head(page.replace(true, planted)).values())


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
