"""The commands: their output, formats and exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sympy

from deepnet_theory.cli.commands import COMMANDS, EXAMPLES
from deepnet_theory.spec.constants import Constants

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
    shown = re.findall(rf"^ *deepnet-theory ({command}\b.*)$", outcome.out, re.M)
    assert tuple(shown) == EXAMPLES[command] and len(shown) == 2
    assert max(map(len, outcome.out.splitlines())) <= 80


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
    assert data["verdict"] == "PROVED" and {s["verdict"] for s in data["steps"]} == {"PROVED"}
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


def test_flags_may_stand_before_the_command(cli: Cli) -> None:
    assert cli("--quiet", "list", "norms").out == cli("list", "norms", "--quiet").out != ""


def test_verbose_and_quiet(cli: Cli) -> None:
    loud, plain, quiet = (cli("derive", "--optimizer", "sgd", *f) for f in (["-v"], [], ["-q"]))
    assert loud.out == plain.out == quiet.out
    assert "PROVED" in loud.err and plain.err == quiet.err == ""


def test_lists(cli: Cli) -> None:
    for what in ("optimizers", "placements", "norms", "sublayers", "closures", "methods"):
        data = json.loads(cli("list", what, "--format", "json").out)
        assert data[what] and all(row["name"] for row in data[what])
        text = cli("list", what).out
        assert all(f"{row['name']}\n" in text for row in data[what])


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


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m deepnet_theory derive --optimizer sgd | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1


def test_utf8_whatever_the_locale_says(process: Cli) -> None:
    outcome = process("derive", "--optimizer", "sgd", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert outcome.code == 0 and "α" in outcome.out


def test_completion_script(process: Cli) -> None:
    outcome = process(_DEEPNET_THEORY_COMPLETE="complete_bash", COMP_WORDS="deepnet-theory ex",
                      COMP_CWORD="1")  # fmt: skip
    assert outcome.out.split() == ["export"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_progress_on_a_terminal_only() -> None:
    import os
    import pty

    command = [sys.executable, "-m", "deepnet_theory", "verify", "--optimizer", "lamb", "--depths",
               "2,4", "--seeds", "2", "--width", "8", "--heads", "1", "--tokens", "4"]  # fmt: skip
    ours, theirs = pty.openpty()
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        shown += piece
    assert done.stdout is not None
    out = done.stdout.read()
    assert done.wait() in (0, 1, 3)
    assert b"model update at depth 4" in shown and b"%" in shown
    assert b"\x1b" not in out and b"model update at depth" not in out
    piped = subprocess.run(command, capture_output=True, check=False)
    assert piped.stderr == b""
