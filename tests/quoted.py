"""Commands that pages and notebooks quote: each is taken, with options that its help offers."""

import io
import shlex
from contextlib import redirect_stdout
from functools import cache

import pytest

from deepnet_theory.cli import main
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.proof import derivation
from deepnet_theory.sizes import schemes
from deepnet_theory.sizes.answer import Answer


def run(*words):
    """The exit code of a command, and what it prints."""
    with redirect_stdout(io.StringIO()) as printed:
        return main(words), printed.getvalue()


@cache
def help_of(command):
    code, told = run(command, "--help")
    assert code == 0
    return told


def answered(selection):
    """The answer without its steps, which no test of a page reads."""
    Answer(selection)
    raise Refusal("answered")


def judged(*_, **__):
    raise Refusal("judged")


def is_taken(line):
    """Whether a command has what it needs: a derivation an answer, a list its names."""
    command, *words = shlex.split(line)
    with pytest.MonkeyPatch.context() as patch:
        if "--section" not in words:
            patch.setattr(derivation, "derive", answered)
        patch.setattr(schemes, "judge", judged)
        ran = command not in ("derive", "list") or run(command, *words)[0] in (0, 4)
    return ran and all(word in help_of(command) for word in words if word.startswith("--"))
