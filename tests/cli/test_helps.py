"""A help lists what its command takes, and the defaults that it prints are those used."""

import re

import pytest
import torch

from deepnet_theory.cli.claims import runner
from deepnet_theory.cli.commands import COMMANDS
from deepnet_theory.cli.parser import command_line
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.laboratory import measuring, transfer, verify

SELECT = "--optimizer adam --depths 1,2"
WORDS = {
    "derive": "--optimizer adam",
    "verify": SELECT,
    "predict": SELECT,
    "export": "--optimizer adam --depth 4",
    "train": "{constants} --steps 1 --batch 1 --tokens 8",
    "transfer": f"{SELECT} --rates 1e-3,1e-2,1e-1 --steps 1",
    "measure": "{model} --depths 1,2 --update -eta*g",
    "report": f"{SELECT} -o {{page}}",
    "check": "cake-index-ranges",
    "audit": "{model} --depth 2",
    "cache": "",
    "list": "optimizers",
}


def options(command):
    """The options that the help of a command lists."""
    parameters = command_line([command], COMMANDS).commands[command].params
    return [p for p in parameters if p.param_type_name == "option"]


def defaults(command):
    """Every default that the help of a command prints, by option."""
    found = {}
    for option in options(command):
        typed = re.search(r"\(default ([\d.e-]+)\)\.$", option.help or "")
        if typed:
            found[option.opts[0]] = typed[1]
        elif isinstance(option.default, str):
            found[option.opts[0]] = option.default
    return found


@pytest.fixture
def asked(monkeypatch, unmeasured):
    """The work that commands would have done; none is done."""
    found = []

    def run_jobs(work, *_, **__):
        found.append([re.sub(" at 0x[0-9a-f]+", "", repr(job.work)) for job in work])
        raise Refusal("nothing is done")

    for room in (runner(), measuring, transfer, verify):
        monkeypatch.setattr(room, "run_jobs", run_jobs)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_defaults_of_a_help_are_those_used(cli, tmp_path, asked, model, command):
    constants = tmp_path / "constants.json"
    if command == "train":
        cli("export", "--optimizer", "adam", "--depth", "1", "--width", "8", "--heads", "2",
            "-o", str(constants))  # fmt: skip
    words = WORDS[command].format(model=model, constants=constants, page=tmp_path / "p.html")
    given = words.split()
    printed = defaults(command)
    spelt = [word for pair in printed.items() if pair[0] not in given for word in pair]
    assert len(printed) > 2 or command in ("derive", "check", "audit", "cache", "list", "predict")
    works = "--cache" in (name for option in options(command) for name in option.opts)
    torch.manual_seed(0)
    alone = cli(command, *given)
    torch.manual_seed(0)
    whole = cli(command, *given, *spelt)
    assert alone == whole and alone.code in ((4,) if asked else (0, 1)), alone.err
    if asked:
        before, after = asked
        assert before == after and before
    assert bool(asked) == (works and command != "cache")
