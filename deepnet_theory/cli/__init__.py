"""The command line: parse, one call of the library, render.

Data goes to standard output, progress and notes to standard error. Exit codes: 0 done or
supported, 1 refuted, 2 bad input or a missing extra, 3 undecided, 4 refused, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import NoReturn

from deepnet_theory.cli.streams import (
    ClosedPipe,
    answering,
    asked_to_end,
    open_standard_streams,
    say,
)
from deepnet_theory.spec.errors import (
    INTERRUPTED,
    INTERRUPTION,
    DeepNetTheoryError,
    ran_out_of_memory,
    short,
)

PROGRAM = "deepnet-theory"
INTERNAL_ERROR = 70  # none of the documented codes: a crash must not look like a verdict
CLOSED_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    # What is allocated while importing stays: searching it for garbage again and again is a
    # twentieth of the time of `derive`.
    gc.set_threshold(100_000, 20, 20)
    words = _global_flags_last(list(sys.argv[1:] if arguments is None else arguments))
    try:
        with answering(), asked_to_end():
            return _run(words)
    except DeepNetTheoryError as error:
        return _fail(str(error), error.exit_code)
    except ClosedPipe:
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return _fail(INTERRUPTION, INTERRUPTED)
    except Exception as error:
        if {"-v", "--verbose"} & set(words):
            raise
        if ran_out_of_memory(error):
            return _fail("there is not enough memory for sizes such as these; ask for smaller", 2)
        kind = type(error).__name__
        return _fail(f"internal error, {kind}: {error} (-v shows where)", INTERNAL_ERROR)


def run() -> NoReturn:
    """Run the command line and end the process with its exit code.

    Taking down all that SymPy has imported costs an eighth of a `derive`, and nothing is left to
    take down: files are closed and replaced atomically. Where torch or loky is loaded, whose
    threads and processes have exit handlers, the interpreter ends in the ordinary way.
    """
    open_standard_streams()
    code = main()
    if {"torch", "loky"} & sys.modules.keys():
        raise SystemExit(code)
    os._exit(code)


def _global_flags_last(words: list[str]) -> list[str]:
    """``-v`` and ``--quiet`` belong to every command and may stand before its name too."""
    leading = list(takewhile(lambda word: word in ("-v", "--verbose", "-q", "--quiet"), words))
    return words[len(leading) :] + leading


def _run(words: list[str]) -> int:
    from deepnet_theory.cli.parser import command_line, usage_error

    command = command_line(words)
    try:
        status = command.main(words, prog_name=PROGRAM, standalone_mode=False)
    except Exception as error:
        sentence = usage_error(error)
        if sentence is None:
            raise
        if not sentence:  # nothing was asked: the help has been printed
            return 2
        return _fail(sentence, 2)
    if status == INTERRUPTED:  # the parser says nothing of Ctrl-C
        raise KeyboardInterrupt
    return int(status or 0)


def _fail(sentence: str, code: int) -> int:
    one_line = " ".join(short(sentence).split())
    say(f"{PROGRAM}: {one_line}")
    return code
