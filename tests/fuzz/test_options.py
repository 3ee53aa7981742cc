"""Every option of every command with hostile values: a documented exit and one sentence."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import typer

from deepnet_theory.cli import main
from deepnet_theory.cli.commands import COMMANDS, command_line

ORDINARY = 150
SECONDS = 30.0  # for one command of the smallest sizes
HOSTILE = (
    "", " ", "-1", "0", "1", "2", "3.5", "nan", "inf", "-inf", "1e308", "1e-308", "9" * 400,
    "9" * 5000, "-" + "9" * 400, "0x10", "1e1", "１", "²", "None", "True", "[]", "{}", "\ud800",
    "a\nb", "\t", "é" * 300, "../..", "/", "/dev/null", "/dev/full", "no/such/file", "~", "--",
    "-", "-q", ",", ",,", "8,", "8,8", "8x8", "x", "8x", ":", "2:4", "4:2", "1:1", "N", "1/N",
    "N**N", "0*N", "(" * 300, "sqrt(-N)", "g", "-g", "-eta*g", "eta*g", "-eta*g/0", "-eta",
    "__import__('os')", "$(true)", "'", '"', "\\", "%s", "{0}", "A>B", ">", "gaussian:",
    "N/0", "gaussian:0", "gaussian:2", "adam", "ADAM", "lamb", "sgd", "pre-ln", "sandwich-ln",
    "rms", "encoder-decoder",
    "ffn", "cross", "attention,cross,ffn", "ffn:swiglu", "lemma", "moments", "unit-init", "silu",
    "all", "cuda", "meta", "float64", "float16", "json", "text", "latex",
)  # fmt: skip
SMALL = [
    "--depths",
    "1,2",
    "--seeds",
    "2",
    "--draws",
    "1",
    "--width",
    "4",
    "--heads",
    "1",
    "--tokens",
    "3",
    "--processes",
    "1",
]
BASE = {
    "derive": ["--optimizer", "sgd"],
    "verify": ["--optimizer", "sgd", *SMALL],
    "check": ["no-such-claim"],  # never all of them
    "export": ["--optimizer", "sgd", "--depth", "2"],
    "train": ["constants.json", *["--steps", "1", "--batch", "1", "--tokens", "3", "--seeds", "1"]],
    "report": ["--optimizer", "sgd", *SMALL, "--no-rivals", "-o", "report.html"],
    "list": ["norms"],
}
VERDICTS = ("verify", "report", "train", "check")  # may end in REFUTED


def options(command: str) -> list[typer.core.TyperOption]:
    """The options of a command that take a value, except those that say more of an error."""
    parser = command_line([command]).commands[command]
    return [p for p in parser.params if p.param_type_name == "option" and not p.is_flag]


def hostile_words(command: str, draw: random.Random) -> list[str]:
    """A small command with one to three of its options set to anything."""
    words = [command, *BASE[command]]
    for option in draw.choices(options(command), k=draw.randint(1, 3)):
        name, value = draw.choice(option.opts), draw.choice(HOSTILE)
        words += [f"{name}={value}"] if name.startswith("--") else [name, value]
    if draw.random() < 0.1:
        words.insert(draw.randint(1, len(words)), draw.choice(HOSTILE))
    return words


def test_no_option_breaks_a_command(
    times: int,
    draw: random.Random,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    made = "export --optimizer adam --depth 1 --width 4 --heads 1 -o constants.json -q"
    assert main(made.split()) == 0
    kept = Path("constants.json").read_bytes()
    broken = []
    for _ in range(ORDINARY * times):
        words = hostile_words(draw.choice(list(COMMANDS)), draw)
        Path("constants.json").write_bytes(kept)  # an -o may have named it
        started = time.monotonic()
        code = main(words)
        taken = time.monotonic() - started
        said = capsys.readouterr().err
        expected = code in ((0, 1, 2, 3, 4) if words[0] in VERDICTS else (0, 2, 4))
        sentence = code not in (2, 4) or (said.count("\n") == 1 and len(said) < 6000)
        if not (expected and sentence and taken < SECONDS):
            broken.append((words, code, f"{taken:.1f} s", said[:500]))
    assert not broken, "\n".join(map(str, broken))
