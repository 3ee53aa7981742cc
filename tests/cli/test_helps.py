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


def printed(command):
    """The options of a command, each with the default that its help prints or None."""
    parameters = command_line([command], COMMANDS).commands[command].params
    options = [p for p in parameters if p.param_type_name == "option"]
    found = {o.opts[0]: re.search(r"\(default (.+)\)\.$", o.help or "") for o in options}
    return {name: default and default[1] for name, default in found.items()}


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
    given, offered = words.split(), printed(command)
    spelt = [
        word
        for name, value in offered.items()
        if value and name not in given
        for word in (name, value)
    ]
    assert len(spelt) > 4 or command in ("check", "audit", "cache", "list")
    torch.manual_seed(0)
    alone = cli(command, *given)
    torch.manual_seed(0)
    whole = cli(command, *given, *spelt)
    assert alone == whole and alone.code in ((4,) if asked else (0, 1)), alone.err
    if asked:
        before, after = asked
        assert before == after and before
    assert bool(asked) == ("--cache" in offered and command != "cache")
