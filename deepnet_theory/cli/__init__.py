"""The command line: parse, one call of the library, render.

Data goes to standard output, progress and notes to standard error. Exit codes: 0 done or
supported, 1 refuted, 2 bad input or a missing extra, 3 undecided, 4 refused, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, TextIO

from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.outcome import (
    INTERRUPTED,
    INTERRUPTION,
    DeepNetTheoryError,
    InputError,
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
    ended: list[int] = []
    try:
        with answering(), asked_to_end(ended):
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
        kind = type(error).__name__
        return _fail(f"internal error, {kind}: {error} (-v shows where)", INTERNAL_ERROR)


def run() -> NoReturn:
    """Run the command line and end the process with its exit code.

    Taking down all that SymPy has imported costs an eighth of a `derive`, and nothing is left to
    take down: files are closed and replaced atomically. Where torch or loky is loaded, whose
    threads and processes have exit handlers, the interpreter ends in the ordinary way.
    """
    open_standard_streams()
    warn_only()
    code = main() if _has_a_folder() else 2
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


# ---- where a command writes, whatever the caller has made of it, and what asks it to end ----


class ClosedPipe(Exception):  # noqa: N818  what has happened; the reader need not be at fault
    """Whoever read standard output has closed it."""


class _Held(io.TextIOWrapper):
    """What is printed, kept until it can be written at once."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace")

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        self.seek(0)
        return self.read()


@contextmanager
def answering() -> Iterator[None]:
    """Hold what is printed and write it to standard output at the end, as UTF-8.

    Raises :class:`ClosedPipe` where the reader has gone and :class:`InputError` where standard
    output is closed (before any work is done) or takes no more.
    """
    out = sys.stdout
    if out is None:
        raise InputError("standard output is closed; send it to a file or to /dev/null")
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding="utf-8")
    held = _Held(out.isatty())
    try:
        with redirect_stdout(held):
            yield
    finally:
        _write(held.text())


def _write(text: str) -> None:
    out = sys.stdout
    try:
        out.flush()
        # An unbuffered stream writes what there is room for, and says how much: its text layer
        # drops that count.
        raw = getattr(getattr(out, "buffer", None), "raw", getattr(out, "buffer", None))
        if raw is None:  # a notebook's
            out.write(text)
            out.flush()
            return
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        while left:
            taken = raw.write(left)
            if taken is None:  # a pipe that does not block is full
                select.select([], [raw], [])
            left = left[taken or 0 :]
    except OSError as error:
        _forget(out)
        if error.errno == errno.EPIPE:
            raise ClosedPipe from None
        raise InputError(f"cannot write to standard output: {error.strerror or error}") from None


def open_standard_streams() -> None:
    """Give a standard stream that the caller has closed to the null device.

    The next file that is opened would take its number, and what is meant for standard error
    would be written into it.
    """
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def warn_only() -> None:
    """Where warnings are to be errors, show them: a library's own warning ends no command."""
    if any(option.startswith("e") for option in sys.warnoptions):
        sys.warnoptions[:] = ["default"]  # new processes receive them, too
        os.environ["PYTHONWARNINGS"] = "default"
        warnings.simplefilter("default")


def _has_a_folder() -> bool:
    """Whether the current folder is there: libraries end the process where it is not."""
    try:
        return bool(os.getcwd())  # noqa: PTH109  a path is not needed
    except FileNotFoundError:
        say(f"{PROGRAM}: the current folder has been deleted; change to another one")
        return False


def say(message: str) -> None:
    """A note on standard error; one that nobody can hear changes nothing."""
    # half of a surrogate pair, which an argument may hold, cannot be written as it is
    writable = message.encode("utf-8", "backslashreplace").decode("utf-8")
    try:
        print(writable, file=sys.stderr, flush=True)
    except OSError:
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """Leave nothing in a broken stream for the interpreter's last flush, which would fail."""
    with suppress(OSError):  # a stream of a test has no number
        broken, handle = stream.fileno(), os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, broken)
        os.close(handle)


def shows_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colours, and NO_COLOR is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
ENDING = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


@contextmanager
def asked_to_end(ended: list[int]) -> Iterator[None]:
    """Within this context a signal to end raises ``KeyboardInterrupt``, so that work is kept.

    It is added to ``ended``. A signal that is ignored, as under ``nohup``, stays so; only the
    first thread may say.
    """

    def end(number: int, _: object) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {s: h for s in ENDING if (h := signal.getsignal(s)) is not signal.SIG_IGN}
    for one in before:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


# results, shown and written into files


def deliver(show: Callable[[], object], *saves: Callable[[], object]) -> None:
    """Show a result, then save it; each is tried, whatever becomes of the others.

    A full disk takes nothing off the screen, a closed pipe nothing off the disk.
    """
    with ExitStack() as after:
        for write in reversed(saves):
            after.callback(write)
        show()


def save_page(file: str | None, result: Any, quiet: bool, whole: bool = True) -> None:
    """Write a result as a page of HTML, where a file is given."""
    if file is not None:
        from deepnet_theory.report.formatters import page

        save(file, page, result, quiet, whole)


def save(
    file: str | None, written: Callable[[Any], str], result: Any, quiet: bool, whole: bool = True
) -> None:
    """Write a result, and where it went; part of one replaces no whole one, and goes beside it."""
    if file is None:
        return
    path = Path(file)
    if not whole and path.is_file() and not _is_part(path):
        path = path.with_name(f"{path.name}.partial")
    write_text(path, written(result))
    if not quiet:
        say(f"wrote {path}")


def _is_part(path: Path) -> bool:
    """Whether a file holds part of a result, as the commands write it when interrupted."""
    try:
        return json.loads(path.read_bytes()).get("complete") is False
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
