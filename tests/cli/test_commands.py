"""The commands: their output, formats and exit codes."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sympy

from deepnet_theory.cli.commands import COMMANDS
from deepnet_theory.cli.listing import KINDS
from deepnet_theory.cli.parser import EXAMPLES
from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.constants import Constants
from deepnet_theory.training.runs import Runner

from .conftest import Cli

N = sympy.Symbol("N", positive=True)


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
    codes = outcome.out.partition("Exit codes:")[2]
    assert all(re.search(rf"(^|\s){code} ", codes) for code in (0, 1, 2, 3, 4, 70, 130, 141))


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


def test_derive_json(cli: Cli) -> None:
    outcome = cli("derive", "--optimizer", "adam", "--depth", "200", "--format", "json")
    data = json.loads(outcome.out)
    assert outcome.code == 0 and data["schema"] == "deepnet-theory/derivation/1"
    assert data["verdict"] == "PROVED"
    assert {s["verdict"] for s in data["steps"]} == {"PROVED", "IMPOSED"}
    (row,) = data["rule"]
    for knob in ("alpha", "beta"):
        value = float(read(row[knob]).subs(N, 200))
        assert value == pytest.approx(row[f"{knob}_value"], rel=1e-12)


def test_derive_answers_first_and_tells_the_steps_when_asked(cli: Cli) -> None:
    select = ("derive", "--optimizer", "adam", "--stack", "encoder-decoder")
    answer = cli(*select).out
    assert "order  " in answer and "value" not in answer.split("In depth")[1][:200]
    valued, whole = (cli(*select, "--depth", "100,50", *more).out for more in ((), ("--steps",)))
    assert "value  of" in valued  # a column where a depth gives them
    assert len(valued.splitlines()) <= 72 and len(whole.splitlines()) > 300
    assert "(1) " not in valued and "(1) " in whole
    assert valued.splitlines()[-1] == whole.splitlines()[-1]


def test_a_section_is_named_by_its_beginning(cli: Cli) -> None:
    select = ("derive", "--optimizer", "adam", "--section")
    assert "unit-branch" in cli(*select, "Assum").out


def test_flags_may_stand_before_the_command(cli: Cli) -> None:
    assert cli("--quiet", "list", "norms").out == cli("list", "norms", "--quiet").out != ""


def test_verbose_and_quiet(cli: Cli) -> None:
    loud, plain, quiet = (cli("derive", "--optimizer", "sgd", *f) for f in (["-v"], [], ["-q"]))
    assert loud.out == plain.out == quiet.out
    assert "PROVED" in loud.err and plain.err == quiet.err == ""


def test_list_alone_lists_its_kinds_and_what_they_hold(cli: Cli) -> None:
    alone = cli("list")
    assert alone.code == 0 and alone.out == cli("list", "kinds").out
    listed = json.loads(cli("list", "--format", "json").out)["kinds"]
    kinds = {row["name"]: row["names"] for row in listed}
    assert set(kinds) == set(KINDS) - {"kinds"}
    for kind, names in kinds.items():
        told = json.loads(cli("list", kind, "--format", "json").out)[kind]
        assert names and names == [row["name"] for row in told] and f"{kind}\n" in alone.out
        text = cli("list", kind).out
        assert all(f"{name}\n" in text for name in names)


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
    first = constants.parts[0].sublayers[0]
    assert (first.alpha, first.beta, constants.origin["verdict"]) == (4.0, 0.25, "ASSUMED")


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


LITTLE = ("--layer", "ffn", "--depths", "1,2", "--width", "4", "--heads", "1", "--tokens", "3",
          "--seeds", "2")  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("command", ["verify", "report"])
def test_what_cannot_be_saved_is_printed_all_the_same(cli: Cli, command: str) -> None:
    outcome = cli(command, "--optimizer", "adam", *LITTLE, "-o", "/dev/full")
    assert outcome.code == 2 and "cannot write '/dev/full'" in outcome.err
    assert "UNDECIDED" in outcome.out


def test_utf8_whatever_the_locale_says(process: Cli) -> None:
    outcome = process(
        "derive", "--optimizer", "sgd", "--steps", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert outcome.code == 0 and "α" in outcome.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ex", {"export"}),
        ("derive --opt", {"--optimizer"}),
        ("derive --optimizer ad", {"adam", "adamw", "adafactor", "adagrad"}),
        ("derive --format m", {"markdown"}),
        ("verify --dtype float6", {"float64"}),
    ],
)
def test_completion(process: Cli, typed: str, offered: set[str]) -> None:
    outcome = process(_DEEPNET_THEORY_COMPLETE="complete_bash",
                      COMP_WORDS=f"deepnet-theory {typed}",
                      COMP_CWORD=str(len(typed.split())))  # fmt: skip
    found = set(outcome.out.split())
    assert found and found <= offered


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
def test_no_color_and_quiet_on_a_terminal_and_nothing_through_a_pipe(
    cli: Cli, on_a_terminal: Terminal
) -> None:
    words = ("verify", "--optimizer", "adam", "--depths", "2,4", *SMALL)
    _, _, plain = on_a_terminal(*words, NO_COLOR="1")
    assert not re.search(COLOUR, plain) and "N = 4 " in plain
    _, out, quiet = on_a_terminal(*words, "--quiet")
    assert quiet == cli(*words).err == "" and "N = 4 " in out


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


def test_closures_side_by_side(cli: Cli) -> None:
    select = ("derive", "--optimizer", "sgd", "--placement", "res-post-ln", "--depth", "50")
    compare = (*select, "--compare-closures")
    data = json.loads(cli(*compare, "--format", "json").out)
    rows = {row["closure"]: row for row in data["closures"]}
    assert set(rows) == set(closures()) and data["default"] == "unit-init"
    refused = [name for name, row in rows.items() if "refused" in row]
    for name in (refused[0], "symmetric"):
        alone = cli(*select, "--closure", name, "--format", "json")
        if name in refused:
            assert alone.code == 4 and rows[name]["refused"] in alone.err
            continue
        assert json.loads(alone.out)["rule"] == rows[name]["rule"]
        implied = json.loads(alone.out)["consequences"]["encoder"]["*"]
        for quantity, said in rows[name]["consequences"]["encoder"]["*"].items():
            assert implied[quantity]["value"] == said["value"]
    shown = cli(*compare).out
    assert max(map(len, shown.splitlines())) <= 80 and all(name in shown for name in rows)
    assert "| alpha |" in cli(*compare, "--format", "markdown").out
    assert r"\end{document}" in cli(*compare, "--format", "latex").out


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
    assert goes_on.code == 0 and "1 of 4 results came from the cache" in goes_on.err
    assert json.loads(output.read_text("utf-8"))["runs"] == json.loads(whole)["runs"]


def test_the_case_of_a_name_does_not_matter(cli: Cli) -> None:
    words = ("derive", "--optimizer", "adam", "--placement", "pre-ln", "--format", "json")
    loud = ("derive", "--optimizer", "Adam", "--placement", "PRE-LN", "--format", "JSON")
    assert cli(*loud) == cli(*words)
    assert cli("list", "Norms") == cli("list", "norms")
    assert cli("check", "Cake-Constants").code == 0


def test_a_published_parametrisation_is_judged(cli: Cli) -> None:
    told = cli("derive", "--scheme", "completep", "--across", "width")
    assert told.code == 0 and "Features move alike at every width." in told.out
    assert "embedding epsilon 1 1/d differs" in " ".join(told.out.split())
    data = json.loads(
        cli("derive", "--scheme", "mup", "--optimizer", "lamb", "--format", "json").out
    )
    assert data["schema"] == "deepnet-theory/parametrisation/1"
    assert (data["optimizer"], data["judged"]["regime"]) == ("lamb", "lazy")
    assert all(cell["agrees"] for cell in data["cells"])
    deep = json.loads(cli("derive", "--scheme", "completep", "--format", "json").out)
    assert deep["schema"] == "deepnet-theory/scheme/1"


def test_schemes_are_listed_with_their_dimension(cli: Cli) -> None:
    rows = {
        r["name"]: r for r in json.loads(cli("list", "schemes", "--format", "json").out)["schemes"]
    }
    dimensions = {name: row["dimension"] for name, row in rows.items()}
    assert [dimensions[n] for n in ("deepnorm", "mup", "completep")] == ["depth", "width", "both"]
    assert "adam: embedding 1, hidden 1/d, head 1, bias 1" in rows["mup"]["rates"]
    assert rows["u-mup"]["alpha"] and rows["u-mup"]["multiplier"]


def test_a_published_scheme_is_judged(cli: Cli) -> None:
    told = cli("derive", "--scheme", "deepnorm")
    assert told.code == 0 and "Exactly by post-ln sgd parameter-norm (lemma)" in told.out
    data = json.loads(cli("derive", "--scheme", "gpt-2", "--format", "json").out)
    assert data["schema"] == "deepnet-theory/scheme/1"
    assert data["judged"]["parts"][0]["first_order"] == "1"
    assert {n for row in data["optimizers"] for n in row["optimizers"]} >= {"sgd", "lamb", "muon"}


TRANSFER = (
    "transfer", "--optimizer", "adam", "--depths", "2,4", "--rates", "1e-3,1e-2,1e-1", "--steps",
    "3", "--width", "16", "--heads", "2", "--tokens", "8", "--batch", "2", "--seeds", "2",
    "--closures", "unit-init,symmetric", "--device", "cpu",
)  # fmt: skip


def test_transfer_writes_json_and_a_page(cli: Cli, tmp_path: Path) -> None:
    file, page = tmp_path / "t.json", tmp_path / "t.html"
    outcome = cli(*TRANSFER, "-o", str(file), "--page", str(page))
    data = json.loads(file.read_text(encoding="utf-8"))
    assert outcome.code in (0, 1, 3) and data["verdict"] == data["closures"][0]["verdict"]
    assert outcome.code == {"SUPPORTED": 0, "REFUTED": 1, "UNDECIDED": 3}[data["verdict"]]
    shown = page.read_text(encoding="utf-8")
    assert shown.count('class="curve"') == 2 * 2 + 2 and "unit-init" in shown  # and the legend
