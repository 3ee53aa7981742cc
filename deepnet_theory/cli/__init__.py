"""The command line: parse, one call of the library, render.

Data goes to standard output, progress and notes to standard error.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from threading import RLock
from typing import NoReturn

from deepnet_theory.cli import streams
from deepnet_theory.cli.streams import ClosedPipe, say
from deepnet_theory.definitions.outcome import (
    INTERRUPTED,
    INTERRUPTION,
    DeepNetTheoryError,
    ran_out_of_memory,
    short,
)

BAD_INPUT, INTERNAL_ERROR, CLOSED_PIPE = 2, 70, 141
_ONE_AT_A_TIME = RLock()  # a command holds the standard output of the whole process


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; calls in several threads take turns."""
    # imported objects stay: collecting garbage among them takes a twentieth of `derive`
    gc.set_threshold(100_000, 20, 20)
    words = list(sys.argv[1:] if arguments is None else arguments)
    leading = list(takewhile(lambda word: word in ("-v", "--verbose", "-q", "--quiet"), words))
    words = words[len(leading) :] + leading  # they belong to every command
    ended: list[int] = []
    try:
        with _ONE_AT_A_TIME, streams.answering(), streams.asked_to_end(ended):
            return _run(words)
    except DeepNetTheoryError as error:
        return _fail(str(error), error.exit_code)
    except ClosedPipe:
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return _fail(INTERRUPTION, INTERRUPTED)
    except Exception as error:
        if ended:  # what is half imported fails in other ways
            return _fail(INTERRUPTION, INTERRUPTED)
        if {"-v", "--verbose"} & set(words):
            raise
        if ran_out_of_memory(error):
            return _fail("there is not enough memory for sizes such as these; ask for smaller", 2)
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            return _fail("too many files are open; raise the limit: ulimit -n 1024", 2)
        return _fail(f"internal error, {error!r} (-v shows where)", INTERNAL_ERROR)


def run() -> NoReturn:
    """Run the command line and end the process with its exit code.

    Without torch and loky, which have exit handlers, it ends at once: taking SymPy down costs an
    eighth of `derive`, and every file is closed.
    """
    streams.open_standard_streams()
    streams.warn_only()
    try:
        os.getcwd()  # noqa: PTH109  libraries end the process where it is not there
        code = main()
    except FileNotFoundError:
        code = _fail("the current folder has been deleted; change to another one", BAD_INPUT)
    if {"torch", "loky"} & sys.modules.keys():
        raise SystemExit(code)
    os._exit(code)


def _run(words: list[str]) -> int:
    import click

    from deepnet_theory.cli.commands import COMMANDS
    from deepnet_theory.cli.parser import PROGRAM, command_line, usage_sentence

    try:
        status = command_line(words, COMMANDS).main(
            words or ["--help"], prog_name=PROGRAM, standalone_mode=False
        )
    except click.Abort:  # which the parser makes of Ctrl-C
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        return _fail(usage_sentence(error), BAD_INPUT)
    return int(status or 0) if words else BAD_INPUT


def _fail(sentence: str, code: int) -> int:
    say(f"deepnet-theory: {' '.join(short(sentence).split())}")
    return code
