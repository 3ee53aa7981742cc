"""The commands: their output, formats and exit codes."""

import io
import json
import re
import shlex
import sys
from itertools import product
from pathlib import Path

import pytest
import sympy

from deepnet_theory.cli.commands import COMMANDS
from deepnet_theory.cli.listing import KINDS
from deepnet_theory.cli.parser import command_line
from deepnet_theory.cli.streams import shows_colour
from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.rule import CLOSURES

N = sympy.Symbol("N", positive=True)


def test_help_has_examples_that_parse(cli):
    for command, call in COMMANDS.items():
        outcome = cli(command, "--help")
        assert outcome.code == 0 and outcome.err == ""
        shown = re.findall(rf"^ *deepnet-theory ({command}\b.*)$", outcome.out, re.M)
        assert shown == call.about[1] and len(shown) in (2, 3)
        assert max(map(len, outcome.out.splitlines())) <= 80
        # what stands without an option is explained
        argument = call.argument.strip("[.]").upper()
        assert f"\n  {argument} " in outcome.out or not argument
        codes = outcome.out.partition("Exit codes:")[2]
        assert all(re.search(rf"(^|\s){code} ", codes) for code in (0, 1, 2, 3, 4, 70, 130, 141))


EVERY_EXAMPLE = [(name, one) for name, command in COMMANDS.items() for one in command.about[1]]
MEASURING = ("verify", "predict", "check", "train", "transfer", "measure", "report")
SETUP = """
def train_setup(depth, lr):
    return (lambda: None), (lambda: (lr - 0.01) ** 2)
"""
MINE = """
from deepnet_theory.runtime import build
def make():
    return build("constants.json")
"""


@pytest.mark.parametrize(("command", "example"), EVERY_EXAMPLE, ids=[e for _, e in EVERY_EXAMPLE])
def test_every_example_of_the_help_runs(cli, tmp_path, monkeypatch, command, example):
    """What measures is parsed alone: other tests run every command."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example)
    if command in MEASURING or "--noise" in example:
        parser = command_line(words, COMMANDS).commands[command]
        given = parser.make_context(command, words[1:]).params
        asked = [word.removeprefix("--").partition("=")[0] for word in words if word[:2] == "--"]
        assert all(given[name.replace("-", "_")] is not None for name in asked)
        return
    if own := re.search(r"\w+\.py", example):
        cli("export", "--optimizer", "adam", "--depth", "2", "--width", "256", "--heads", "2", "-o",
            "constants.json")  # fmt: skip
        Path(own[0]).write_text(MINE, encoding="utf-8")
    outcome = cli(*words)
    assert outcome.code in ((0, 1, 3) if command == "audit" else (0,)), outcome.err
    assert Path("constants.json").stat().st_size > 0 if " -o " in example else outcome.out


def test_derive_answers_first_and_tells_the_steps_when_asked(cli):
    select = ("derive", "--optimizer", "adam")
    answer = cli(*select, "--section", "Assum").out  # by its beginning
    assert "unit-branch" in answer and "In depth" not in answer
    valued, whole = (cli(*select, "--depth", "100", *more).out for more in ((), ("--steps",)))
    assert "at N = 100" in valued
    assert len(valued.splitlines()) <= 72 and len(whole.splitlines()) > 100
    assert "(1) " not in valued and "(1) " in whole
    assert "MEASURED: " in valued and "PROVED: " in whole


def test_verbose_and_quiet_before_and_behind_the_command(cli):
    loud, plain, quiet = (cli("derive", "--optimizer", "sgd", *f) for f in (["-v"], [], ["-q"]))
    assert loud.out == plain.out == quiet.out
    assert "MEASURED" in loud.err and plain.err == quiet.err == ""
    assert cli("--quiet", "list", "norms").out == cli("list", "norms", "--quiet").out != ""
    assert re.fullmatch(r"deepnet-theory \d+\.\d+\.\d+\n", cli("--version").out)
    nothing, whole = cli(), "".join(cli("--help").out.split())
    assert nothing.code == 2
    for name, command in COMMANDS.items():
        assert f"\n  {name} " in nothing.out
        summary = command.about[0].partition("\n")[0]  # none is cut
        assert summary.endswith((".", "?")) and "".join(summary.split()) in whole


def test_list_alone_lists_its_kinds_and_what_they_hold(cli):
    alone = cli("list")
    assert alone.code == 0 and alone.out == cli("list", "kinds").out
    listed = json.loads(cli("list", "--format", "json").out)["kinds"]
    kinds = {row["name"]: row["names"] for row in listed}
    assert set(kinds) == set(KINDS) - {"kinds"}
    for kind, names in kinds.items():
        told = json.loads(cli("list", kind, "--format", "json").out)[kind]
        assert names and names == [row["name"] for row in told] and f"{kind}\n" in alone.out
    assert all(f"{name}\n" in cli("list", "norms").out for name in kinds["norms"])


@pytest.mark.parametrize("width", [60, 110])
def test_columns_are_respected(cli, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for words in ("list schemes", "derive --optimizer adam --depth 9"):
        longest = max(map(len, cli(*words.split()).out.splitlines()))
        assert 0.8 * width < longest <= width  # no more than there are, and not for nothing


def test_export_writes_what_derive_says(cli, tmp_path):
    path = tmp_path / "constants.json"
    words = ("export", "--optimizer", "adam", "--depth", "50", "--width", "64", "--heads", "2")
    outcome = cli(*words, "-o", str(path))
    assert outcome.code == 0 and outcome.out == "" and f"wrote {path}" in outcome.err
    assert cli(*words, "--quiet").out == path.read_text(encoding="utf-8")
    constants = Constants.load(path)
    (formula,), (part,) = constants.origin["formulas"], constants.parts
    derived = cli("derive", "--optimizer", "adam", "--depth", "50", "--format", "json")
    (row,) = json.loads(derived.out)["rule"]
    assert part.layers == 50 and constants.architecture.width == 64
    assert [s.kind for s in part.sublayers] == ["attention", "ffn"]
    for s, knob in product(part.sublayers, ("alpha", "beta")):
        assert formula[knob] == row[knob]
        value = float(sympy.sympify(row[knob], locals={"N": N}).subs(N, 50))
        assert getattr(s, knob) == row[f"{knob}_value"] == pytest.approx(value, rel=1e-12)
    own = cli("export", "--optimizer", "sgd", "--alpha", "N", "--beta", "1/N", "--depth", "4").out
    constants = Constants.from_json(own)
    first = constants.parts[0].sublayers[0]
    assert (first.alpha, first.beta, constants.origin["verdict"]) == (4.0, 0.25, "ASSUMED")


LITTLE = ("--layer", "ffn", "--depths", "1,2", "--width", "4", "--heads", "1", "--tokens", "3",
          "--seeds", "2")  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_what_cannot_be_saved_is_printed_all_the_same(cli):
    outcome = cli("report", "--optimizer", "adam", *LITTLE, "-o", "/dev/full")
    assert outcome.code == 2 and "cannot write '/dev/full'" in outcome.err
    assert "UNDECIDED" in outcome.out


def test_colour_is_for_a_terminal_that_wants_it(cli, monkeypatch):
    piped = cli("derive", "--optimizer", "adam", "--placement", "pre-ln").out
    assert re.search(r"^  as published +1 +1/\(2·N\)", piped, re.M) and "\x1b" not in piped
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    for environment, seen in (({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False)):
        with monkeypatch.context() as within:
            within.delenv("NO_COLOR", raising=False)
            for name, value in environment.items():
                within.setenv(name, value)
            assert shows_colour(terminal) is seen and not shows_colour(io.StringIO())


def test_verify_shows_its_progress_on_a_terminal(cli, monkeypatch):
    def shown(*more):
        screen = io.StringIO()
        screen.isatty = lambda: True
        with monkeypatch.context() as within:
            within.setenv("TERM", "xterm-256color")
            within.setenv("COLUMNS", "200")
            within.setattr(sys, "stderr", screen)
            outcome = cli("verify", "--optimizer", "adam", *LITTLE, *more)
        assert outcome.code in (0, 1, 3) and "\x1b" not in outcome.out
        return screen.getvalue()

    assert "\x1b[" in (loud := shown()) and "model update, draw 0 at depth" in loud
    assert shown("--quiet") == ""


def test_closures_side_by_side(cli):
    select = ("derive", "--optimizer", "sgd", "--placement", "res-post-ln", "--depth", "50")
    compare = (*select, "--compare-closures")
    data = json.loads(cli(*compare, "--format", "json").out)
    rows = {row["closure"]: row for row in data["closures"]}
    assert set(rows) == set(CLOSURES)
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
    assert all(name in cli(*compare).out for name in rows)


def test_the_case_of_a_name_does_not_matter(cli):
    words = ("derive", "--optimizer", "adam", "--placement", "pre-ln", "--format", "json")
    loud = ("derive", "--optimizer", "Adam", "--placement", "PRE-LN", "--format", "JSON")
    assert cli(*loud) == cli(*words)
    assert cli("list", "Norms") == cli("list", "norms")
    assert cli("check", "Cake-Index-Ranges").code == 0


PAGES = (
    "predict --optimizer adam --depths 1,2,3 --seeds 2 --width 8 --heads 1 --tokens 4",
    "transfer own.py:train_setup --depths 2,4 --rates 1e-3,1e-2,1e-1",
)


@pytest.mark.parametrize("words", PAGES)
def test_a_page_needs_no_network_and_says_what_is_in_its_pictures(
    cli, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(SETUP, encoding="utf-8")
    outcome = cli(*words.split(), "--page", "p.html", "--processes", "1")
    assert outcome.code in (0, 1, 3), outcome.err
    if words.startswith("transfer"):
        assert cli(*words.split(), "-o", "t.json").code == outcome.code
        data = json.loads(Path("t.json").read_text(encoding="utf-8"))
        assert outcome.code == Verdict[data["verdict"]].exit_code
    page = Path("p.html").read_text(encoding="utf-8")
    figures = re.findall("<figure>(.*?)</figure>", page, re.S)
    assert figures and all("<figcaption>" in figure for figure in figures)
    assert "http" not in page.replace("http://www.w3.org", "")
