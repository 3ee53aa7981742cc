"""The commands: their output, formats and exit codes."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sympy

from deepnet_theory.cli.commands import COMMANDS
from deepnet_theory.cli.parser import EXAMPLES
from deepnet_theory.spec.constants import Constants
from deepnet_theory.training.runs import Runner

from .conftest import Cli

N = sympy.Symbol("N", positive=True)
ALL = ("sgd", "adam", "lamb")


def read(formula: str) -> sympy.Expr:
    return sympy.sympify(formula, locals={"N": N})


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"deepnet-theory \d+\.\d+\.\d+\n", cli("--version").out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_two_examples_that_parse(cli: Cli, command: str) -> None:
    outcome = cli(command, "--help")
    assert outcome.code == 0 and outcome.err == ""
    whole = re.sub(r" \\\n +", " ", outcome.out)  # as a shell joins the lines
    shown = re.findall(rf"^ *deepnet-theory ({command}\b.*)$", whole, re.M)
    assert tuple(shown) == EXAMPLES[command] and len(shown) == 2
    assert max(map(len, outcome.out.splitlines())) <= 80


EVERY_EXAMPLE = [(name, example) for name, pair in EXAMPLES.items() for example in pair]
QUICK = {
    "verify": "--depths 2,4 --seeds 2 --width 16 --heads 2 --tokens 8",
    "predict": "--depths 2,4 --seeds 2 --draws 1 --width 16 --heads 2 --tokens 8",
    "report": "--depths 2,4 --seeds 2 --width 16 --heads 2 --tokens 8",
    "train": "--steps 2 --batch 2 --tokens 16",
    "measure": "--depths 2,4 --seeds 2",
    "transfer": "--depths 2,4 --steps 2 --seeds 2 --width 16 --heads 2 --tokens 8 --batch 2",
}
VERDICTS = ("verify", "report", "transfer", "measure", "audit")
MODEL = """
from torch import nn
def make(depth):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.Sequential(nn.Embedding(11, 8), nn.TransformerEncoder(layer, depth))
"""
MINE = """
from deepnet_theory.runtime import build
def make():
    return build("constants.json")
"""


@pytest.mark.parametrize(("command", "example"), EVERY_EXAMPLE, ids=[e for _, e in EVERY_EXAMPLE])
def test_every_example_of_the_help_runs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, example: str
) -> None:
    if example == "check":
        pytest.skip("checks every claim, which tests/claims/test_claims.py does")
    monkeypatch.chdir(tmp_path)
    if command == "train":  # what the examples take for granted
        cli("export", "--optimizer", "lamb", "--depth", "4", "--width", "16", "--heads", "2", "-o",
            "constants.json")  # fmt: skip
        words = " ".join(f"word{n % 97}" for n in range(5000))
        Path("book.txt").write_text(words, encoding="utf-8")
    Path("model.py").write_text(MODEL, encoding="utf-8")
    if command == "audit":
        cli("export", "--optimizer", "adam", "--depth", "2", "--width", "16", "--heads", "2", "-o",
            "constants.json")  # fmt: skip
        Path("mine.py").write_text(MINE, encoding="utf-8")
    outcome = cli(*shlex.split(example), *QUICK.get(command, "").split())
    assert outcome.code in ((0, 1, 3) if command in VERDICTS else (0,)), outcome.err
    if " -o " in example:
        assert Path(example.split("-o ")[1].split()[0]).stat().st_size > 0
    else:
        assert outcome.out


def test_no_arguments_show_the_help(cli: Cli) -> None:
    outcome = cli()
    assert outcome.code == 2
    for command in COMMANDS:
        assert f"\n  {command} " in outcome.out


@pytest.mark.parametrize("optimizer", ALL)
def test_derive_json(cli: Cli, optimizer: str) -> None:
    outcome = cli("derive", "--optimizer", optimizer, "--depth", "200", "--format", "json")
    assert outcome.code == 0
    data = json.loads(outcome.out)
    assert data["schema"] == "deepnet-theory/derivation/1"
    assert data["verdict"] == "PROVED"
    assert {s["verdict"] for s in data["steps"]} == {"PROVED", "IMPOSED"}
    (row,) = data["rule"]
    for knob in ("alpha", "beta"):
        value = float(read(row[knob]).subs(N, 200))
        assert value == pytest.approx(row[f"{knob}_value"], rel=1e-12)
    assert "Subs(" not in outcome.out


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
@pytest.mark.parametrize("optimizer", ALL)
def test_derive_shows_the_rule(cli: Cli, optimizer: str, form: str) -> None:
    outcome = cli("derive", "--optimizer", optimizer, "--format", form)
    assert outcome.code == 0 and "PROVED" in outcome.out
    assert "Subs(" not in outcome.out and "\x1b" not in outcome.out
    if form == "text":
        assert max(map(len, outcome.out.splitlines())) <= 80


@pytest.mark.parametrize("asked", ["--optimizer lamb", "--optimizer sgd --closure complete"])
def test_a_lemma_with_three_matrices_is_proved(cli: Cli, asked: str) -> None:
    done = cli("derive", *asked.split(), "--method", "lemma", "--layer", "attention,ffn:swiglu")
    assert done.code == 0
    assert "REFUTED" not in done.out


@pytest.mark.parametrize("stack", ["encoder", "encoder-decoder"])
def test_derive_answers_first_and_tells_the_steps_when_asked(cli: Cli, stack: str) -> None:
    depth = "100" if stack == "encoder" else "100,50"
    select = ("derive", "--optimizer", "adam", "--stack", stack, "--depth", depth)
    answer, whole = cli(*select).out, cli(*select, "--steps").out
    assert len(answer.splitlines()) <= 72 and len(whole.splitlines()) > 300
    assert "(1) " not in answer and "(1) " in whole
    assert answer.splitlines()[-1] == whole.splitlines()[-1]


def test_every_step_is_in_one_section(cli: Cli) -> None:
    select = ("derive", "--optimizer", "adam")
    data = json.loads(cli(*select, "--format", "json").out)
    parts = {step["section"] for step in data["steps"]}
    shown = [cli(*select, "--section", part).out for part in sorted(parts)]
    numbers = [f"({n}) " for n in range(1, len(data["steps"]) + 1)]
    assert all(
        sum(line.startswith(n) for out in shown for line in out.splitlines()) == 1 for n in numbers
    )


def test_values_have_a_column_where_a_depth_gives_them(cli: Cli) -> None:
    words = ("derive", "--optimizer", "adam")
    assert "order  " in (told := cli(*words).out) and "value" not in told.split("In depth")[1][:200]
    assert "value  of" in cli(*words, "--depth", "100").out


def test_a_section_is_named_by_its_beginning(cli: Cli) -> None:
    select = ("derive", "--optimizer", "adam", "--section")
    assert "unit-branch" in cli(*select, "Assum").out
    for name in ("the", "nonsense", ""):
        outcome = cli(*select, name)
        assert outcome.code == 2 and "valid are: consequences" in outcome.err


def test_flags_may_stand_before_the_command(cli: Cli) -> None:
    assert cli("--quiet", "list", "norms").out == cli("list", "norms", "--quiet").out != ""


def test_verbose_and_quiet(cli: Cli) -> None:
    loud, plain, quiet = (cli("derive", "--optimizer", "sgd", *f) for f in (["-v"], [], ["-q"]))
    assert loud.out == plain.out == quiet.out
    assert "PROVED" in loud.err and plain.err == quiet.err == ""


def test_lists(cli: Cli) -> None:
    kinds = "optimizers placements norms sublayers closures methods schemes"
    for what in kinds.split():
        data = json.loads(cli("list", what, "--format", "json").out)
        assert data[what] and all(row["name"] for row in data[what])
        text = cli("list", what).out
        assert all(f"{row['name']}\n" in text for row in data[what])


def test_list_alone_lists_its_kinds_and_what_they_hold(cli: Cli) -> None:
    alone = cli("list")
    assert alone.code == 0 and alone.out == cli("list", "kinds").out
    kinds = {
        row["name"]: row["names"]
        for row in json.loads(cli("list", "--format", "json").out)["kinds"]
    }
    for kind, names in kinds.items():
        told = json.loads(cli("list", kind, "--format", "json").out)[kind]
        assert names == [row["name"] for row in told] and f"{kind}\n" in alone.out
    assert {"optimizers", "placements", "schemes", "claims"} <= set(kinds) and "kinds" not in kinds


def test_no_summary_of_a_command_is_cut(cli: Cli) -> None:
    told = "".join(cli("--help").out.split())
    for command in COMMANDS.values():
        summary = (command.__doc__ or "").partition("\n")[0]
        assert summary.endswith((".", "?")) and "".join(summary.split()) in told


@pytest.mark.parametrize("width", [60, 72, 80])
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("verify", "--help"),
        ("derive", "--help"),
        ("list", "schemes"),
        ("list",),
        ("derive", "--optimizer", "adam", "--depth", "9"),
    ],
)
def test_columns_are_respected(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    longest = max(map(len, cli(*words).out.splitlines()))
    assert 0.8 * width < longest <= width  # no more than there are, and not for nothing


def test_export_writes_what_derive_says(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "constants.json"
    outcome = cli("export", "--optimizer", "adam", "--depth", "50", "--width", "64", "--heads", "2",
                  "-o", str(path))  # fmt: skip
    assert outcome.code == 0 and outcome.out == "" and f"wrote {path}" in outcome.err
    constants = Constants.load(path)
    (formula,) = constants.origin["formulas"]
    (part,) = constants.parts
    assert part.layers == 50 and constants.architecture.width == 64
    assert [s.kind for s in part.sublayers] == ["attention", "ffn"]
    for s in part.sublayers:
        assert s.alpha == pytest.approx(float(read(formula["alpha"]).subs(N, 50)))
        assert s.beta == pytest.approx(float(read(formula["beta"]).subs(N, 50)))
    assert cli("export", "--optimizer", "adam", "--depth", "50", "--width", "64", "--heads", "2",
               "--quiet").out == path.read_text(encoding="utf-8")  # fmt: skip


def test_export_of_a_rule_of_ones_own(cli: Cli) -> None:
    outcome = cli("export", "--optimizer", "sgd", "--alpha", "N", "--beta", "1/N", "--depth", "4")
    constants = Constants.from_json(outcome.out)
    assert constants.parts[0].sublayers[0].alpha == 4.0
    assert constants.parts[0].sublayers[0].beta == 0.25
    assert constants.origin["verdict"] == "ASSUMED"


def test_encoder_decoder_depth(cli: Cli) -> None:
    outcome = cli("export", "--optimizer", "adam", "--stack", "encoder-decoder", "--depth", "6,3")
    constants = Constants.from_json(outcome.out)
    assert [(p.name, p.layers) for p in constants.parts] == [("encoder", 6), ("decoder", 3)]


def test_verify_json_and_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    outcome = cli("verify", "--optimizer", "adam", "--depths", "2,4,8", "--seeds", "2", "--width",
                  "16", "--heads", "2", "--tokens", "8", "--format", "json", "-o", str(path),
                  "--quiet")  # fmt: skip
    data = json.loads(outcome.out)
    assert data["schema"] == "deepnet-theory/verification/1"
    assert json.loads(path.read_text(encoding="utf-8")) == data
    assert [p["depth"] for p in data["points"]] == [{"N": 2}, {"N": 4}, {"N": 8}]
    assert data["exponent"] == data["exponents"][0]
    assert outcome.code == {"SUPPORTED": 0, "REFUTED": 1, "UNDECIDED": 3}[data["verdict"]]
    assert outcome.err == ""


def test_verify_refutes_a_rule_that_does_not_scale(cli: Cli) -> None:
    outcome = cli("verify", "--optimizer", "adam", "--alpha", "1", "--beta", "1", "--depths",
                  "4,8,16,32", "--seeds", "3", "--width", "16", "--heads", "2", "--tokens", "8",
                  "--format", "json", "--quiet")  # fmt: skip
    data = json.loads(outcome.out)
    assert data["exponent"]["estimate"] > 0.3  # the update of the plain network grows with depth


def test_report_is_written(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    outcome = cli("report", "--optimizer", "lamb", "--depths", "2,4,8", "--seeds", "2", "--width",
                  "16", "--heads", "2", "--tokens", "8", "--depth", "50", "--depth", "100", "-o",
                  str(path))  # fmt: skip
    assert outcome.code in (0, 1, 3)
    page = path.read_text(encoding="utf-8")
    assert "50 encoder" in page and "100 encoder" in page
    assert outcome.out.rstrip().splitlines()[-1].split()[0] in ("SUPPORTED", "UNDECIDED", "REFUTED")


LITTLE = ("--layer", "ffn", "--depths", "1,2", "--width", "4", "--heads", "1", "--tokens", "3",
          "--seeds", "2")  # fmt: skip


def test_a_report_on_little_is_written(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    outcome = cli("report", "--optimizer", "adam", *LITTLE, "--no-rivals", "-o", str(path))
    assert outcome.code in (0, 1, 3)
    assert "<svg" in path.read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("command", ["verify", "report"])
def test_what_cannot_be_saved_is_printed_all_the_same(cli: Cli, command: str) -> None:
    outcome = cli(command, "--optimizer", "adam", *LITTLE, "-o", "/dev/full")
    assert outcome.code == 2 and "cannot write '/dev/full'" in outcome.err
    assert "UNDECIDED" in outcome.out


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m deepnet_theory derive --optimizer sgd | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1


def test_utf8_whatever_the_locale_says(process: Cli) -> None:
    outcome = process(
        "derive", "--optimizer", "sgd", "--steps", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert outcome.code == 0 and "α" in outcome.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("deepnet-theory ex", {"export"}),
        ("deepnet-theory derive --opt", {"--optimizer"}),
        ("deepnet-theory derive --optimizer ad", {"adam", "adamw", "adafactor", "adagrad"}),
        ("deepnet-theory derive --placement res", {"res-post-ln"}),
        ("deepnet-theory derive --norm r", {"rms"}),
        ("deepnet-theory derive --closure unit", {"unit-residual", "unit-init"}),
        ("deepnet-theory derive --method m", {"moments"}),
        ("deepnet-theory derive --format m", {"markdown"}),
        ("deepnet-theory verify --dtype float6", {"float64"}),
    ],
)
def test_completion(process: Cli, typed: str, offered: set[str]) -> None:
    outcome = process(_DEEPNET_THEORY_COMPLETE="complete_bash", COMP_WORDS=typed,
                      COMP_CWORD=str(len(typed.split()) - 1))  # fmt: skip
    found = set(outcome.out.split())
    assert found and found <= offered


def test_the_completion_script_is_given(process: Cli) -> None:
    outcome = process(_DEEPNET_THEORY_COMPLETE="source_bash")
    assert outcome.code == 0 and "complete" in outcome.out and "deepnet-theory" in outcome.out


COLOUR = r"\x1b\[[0-9;]*m"
SMALL = ("--seeds", "2", "--width", "8", "--heads", "1", "--tokens", "4")


Terminal = Callable[..., tuple[int, str, str]]


@pytest.fixture
def on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Exit code, standard output through a pipe, and what a terminal got on standard error."""

    def run(*words: str, **environment: str) -> tuple[int, str, str]:
        import pty

        ours, theirs = pty.openpty()
        shown = bytearray()

        def read() -> None:
            with suppress(OSError):  # how Linux says that the other end is closed
                while piece := os.read(ours, 4096):
                    shown.extend(piece)

        reader = threading.Thread(target=read)
        reader.start()
        with os.fdopen(theirs, "w", encoding="utf-8") as screen, monkeypatch.context() as within:
            within.setattr(sys, "stderr", screen)
            for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **environment}.items():
                within.setenv(name, value)
            outcome = cli(*words)
        reader.join()
        os.close(ours)
        return outcome.code, outcome.out, shown.decode()

    return run


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_verify_shows_a_live_table_on_a_terminal(on_a_terminal: Terminal) -> None:
    words = ("verify", "--optimizer", "adam", "--depths", "2,4,8", *SMALL)
    code, out, shown = on_a_terminal(*words)
    assert code in (0, 1, 3)
    assert "\x1b" not in out and "model update at depth" not in out
    assert re.search(COLOUR, shown)
    # the points appear one after the other, while the next one is measured
    first, second, third = (shown.index(f"N = {n} ") for n in (2, 4, 8))
    assert first < second < third and first < shown.index("model update at depth 8")
    assert "95% interval" in shown and "%" in shown and "under adam" in shown
    # what is on the screen in the end is the table, not the frames above one another
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    means = [line.split()[3] for line in plain.splitlines() if line.strip().startswith("N = 8 ")]
    assert means and f"  {means[0]}  " in out


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_no_color_and_quiet_on_a_terminal(on_a_terminal: Terminal) -> None:
    words = ("verify", "--optimizer", "adam", "--depths", "2,4", *SMALL)
    _, _, plain = on_a_terminal(*words, NO_COLOR="1")
    assert not re.search(COLOUR, plain) and "N = 4 " in plain
    _, out, quiet = on_a_terminal(*words, "--quiet")
    assert quiet == "" and "N = 4 " in out


def test_no_progress_through_a_pipe(cli: Cli) -> None:
    outcome = cli("verify", "--optimizer", "adam", "--depths", "2,4", *SMALL)
    assert outcome.err == ""


def test_report_measures_the_rivals_too(cli: Cli, tmp_path: Path) -> None:
    words = ("report", "--optimizer", "adam", "--depths", "4,8,16", *SMALL, "-o")
    with_rivals = cli(*words, str(tmp_path / "a.html"))
    alone = cli(*words, str(tmp_path / "b.html"), "--no-rivals")
    assert with_rivals.code == alone.code  # the verdict is that of the rule itself
    rows = re.findall(r"^ *rule of (\w+), in N +\w+ +([+-][\d.]+)", with_rivals.out, re.M)
    assert [name for name, _ in rows] == ["sgd", "lamb"]
    assert all(float(estimate) > 0.25 for _, estimate in rows)  # predicted +1/2: seen to grow
    assert "rule of" not in alone.out
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html")]
    marks = [re.findall(r'<path class="other(?: other-\d)?"', page) for page in pages]
    assert list(map(len, marks)) == [3 * 3, 0]  # of two rivals and the plain network
    assert "no part of the verdict" in pages[0] and "no part of the verdict" not in pages[1]


def test_draws_are_an_option(cli: Cli) -> None:
    outcome = cli("verify", "--optimizer", "adam", "--depths", "2,4", *SMALL, "--draws", "1",
                  "--format", "json")  # fmt: skip
    assert json.loads(outcome.out)["measure"]["draws"] == 1
    assert cli("verify", "--optimizer", "adam", "--depths", "2,4", "--draws", "0").code == 2


def test_closures_side_by_side(cli: Cli) -> None:
    select = ("derive", "--optimizer", "sgd", "--placement", "res-post-ln", "--compare-closures")
    data = json.loads(cli(*select, "--depth", "50", "--format", "json").out)
    rows = {row["closure"]: row for row in data["closures"]}
    listed = json.loads(cli("list", "closures", "--format", "json").out)["closures"]
    assert set(rows) == {row["name"] for row in listed} and data["default"] == "unit-init"
    for name, row in rows.items():
        alone = cli(*select[:-1], "--closure", name, "--depth", "50", "--format", "json")
        if "refused" in row:
            assert alone.code == 4 and row["refused"] in alone.err
        else:
            assert json.loads(alone.out)["rule"] == row["rule"]
            implied = json.loads(alone.out)["consequences"]["encoder"]["*"]
            for quantity, said in row["consequences"]["encoder"]["*"].items():
                assert implied[quantity]["value"] == said["value"]
    shown = cli(*select).out
    assert max(map(len, shown.splitlines())) <= 80
    for name in rows:
        assert name in shown
    assert "| alpha |" in cli(*select, "--format", "markdown").out
    assert r"\end{document}" in cli(*select, "--format", "latex").out


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--optimizer", "sgd", "--closure", "symmetric"), 2),
        (("--update", "-eta*g + eta*theta"), 4),
    ],
)
def test_a_comparison_of_closures_is_refused_with_the_reason(
    cli: Cli, more: tuple[str, ...], code: int
) -> None:
    outcome = cli("derive", "--compare-closures", *more)
    assert outcome.code == code and outcome.out == "" and outcome.err.count("\n") == 1


def test_an_interrupted_training_replaces_no_whole_one(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants, output = str(tmp_path / "c.json"), tmp_path / "o.json"
    cli("export", "--optimizer", "adam", "--depth", "2", "--width", "8", "--heads", "1", "-o",
        constants)  # fmt: skip
    words = ("train", constants, *QUICK["train"].split(), "--seeds", "1", "-o", str(output))
    assert cli(*words).code == 0
    whole = output.read_text("utf-8")
    assert json.loads(whole)["complete"] is True

    step, taken = Runner.step, itertools.count()

    def interrupted(runner: Runner, batch: Any) -> None:
        if next(taken) == 3:  # of two a run
            raise KeyboardInterrupt
        step(runner, batch)

    monkeypatch.setattr("deepnet_theory.training.runs.Runner.step", interrupted)
    outcome = cli(*words, "--cache", str(tmp_path / "cache"))
    assert outcome.code == 130 and "1 of 4 runs were finished" in outcome.out
    assert "the same command goes on" in outcome.err
    assert output.read_text("utf-8") == whole
    output.unlink()
    taken = itertools.count()
    assert cli(*words).code == 130  # where there is nothing yet, a part is worth keeping
    assert json.loads(output.read_text("utf-8"))["complete"] is False
    goes_on = cli(*words, "--cache", str(tmp_path / "cache"), "-v")
    assert goes_on.code == 0 and "1 results were in" in goes_on.err
    assert json.loads(output.read_text("utf-8"))["runs"] == json.loads(whole)["runs"]


def test_the_case_of_a_name_does_not_matter(cli: Cli) -> None:
    words = ("derive", "--optimizer", "adam", "--placement", "pre-ln", "--format", "json")
    loud = ("derive", "--optimizer", "Adam", "--placement", "PRE-LN", "--format", "JSON")
    assert cli(*loud) == cli(*words)
    assert cli("list", "Norms") == cli("list", "norms")
    assert cli("check", "Cake-Constants").code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_the_exit_codes(cli: Cli, command: str) -> None:
    told = cli(command, "--help").out.partition("Exit codes:")[2]
    for code in ("0", "1", "2", "3", "4", "70", "130", "141"):
        assert re.search(rf"(^|\s){code} ", told), code


def test_a_published_scheme_is_judged(cli: Cli) -> None:
    told = cli("derive", "--scheme", "deepnorm")
    assert told.code == 0 and "Exactly by post-ln sgd parameter-norm (lemma)" in told.out
    data = json.loads(cli("derive", "--scheme", "gpt-2", "--format", "json").out)
    assert data["schema"] == "deepnet-theory/scheme/1"
    assert data["judged"]["parts"][0]["first_order"] == "1"
    assert {n for row in data["optimizers"] for n in row["optimizers"]} >= {"sgd", "lamb", "muon"}


def test_a_scheme_under_another_optimizer(cli: Cli) -> None:
    told = cli("derive", "--scheme", "deepnorm", "--optimizer", "sgd", "--format", "json")
    assert json.loads(told.out)["judged"]["balanced"]


def test_a_scheme_that_has_no_law_is_refused(cli: Cli) -> None:
    told = cli("derive", "--scheme", "residual")
    assert told.code == 4 and "2 residual streams" in told.err


@pytest.mark.parametrize(
    "words",
    [
        ("derive", "--scheme", "gpt2"),
        ("derive", "--scheme", "gpt-2", "--placement", "pre-ln"),
        ("derive", "--scheme", "gpt-2", "--depth", "8"),
        ("derive", "--scheme", "gpt-2", "--optimizer", "sgd", "--update", "-eta*g"),
        ("export", "--scheme", "gpt-2", "--depth", "8"),
    ],
)
def test_a_scheme_with_what_it_does_not_take(cli: Cli, words: tuple[str, ...]) -> None:
    told = cli(*words)
    assert told.code == 2 and "Traceback" not in told.err


def test_a_published_scheme_is_measured(cli: Cli) -> None:
    small = ("--depths", "4,8,16", "--width", "16", "--heads", "2", "--tokens", "8", "--seeds", "4")
    told = cli("verify", "--scheme", "completep", *small, "--format", "json")
    data = json.loads(told.out)
    assert data["select"]["placement"] == "branch-multiplier"
    assert data["exponent"]["predicted"] == 0 and abs(data["exponent"]["estimate"]) < 0.1


@pytest.mark.parametrize(
    ("scheme", "lacks"),
    [
        ("b2t", "2 residual streams"),
        ("branchnorm", "changes in time"),
        ("residual", "2 residual streams"),
    ],
)
def test_a_scheme_that_cannot_be_built_says_what_is_lacking(
    cli: Cli, scheme: str, lacks: str
) -> None:
    told = cli("verify", "--scheme", scheme)
    assert told.code == 4 and lacks in told.err


@pytest.mark.parametrize(
    "words", [("--alpha", "1", "--beta", "1"), ("--step", "all"), ("--closure", "symmetric")]
)
def test_a_measured_scheme_brings_its_own(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("verify", "--scheme", "gpt-2", *words).code == 2


def test_a_scheme_under_an_update_that_does_not_follow_the_gradient(cli: Cli) -> None:
    told = cli("derive", "--scheme", "gpt-2", "--update", "-eta*theta")
    assert told.code == 4 and "gradient" in told.err
