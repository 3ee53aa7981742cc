"""Commands that pages and notebooks quote: each is taken, with options that its help offers."""

import io
import shlex
from contextlib import redirect_stdout
from functools import cache

from deepnet_theory.cli import main


def run(*words):
    """The exit code of a command, and what it prints."""
    with redirect_stdout(io.StringIO()) as printed:
        return main(words), printed.getvalue()


@cache
def help_of(command):
    code, told = run(command, "--help")
    assert code == 0
    return told


@cache
def is_taken(line):
    """Whether a command has what it needs: a derivation an answer, a list its names."""
    command, *words = shlex.split(line)
    ran = command not in ("derive", "list") or run(command, *words)[0] in (0, 4)
    return ran and all(word in help_of(command) for word in words if word.startswith("--"))
