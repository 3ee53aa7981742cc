"""Where a command writes, whatever the caller has made of it, and what asks it to end."""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.outcome import InputError


class ClosedPipe(Exception):  # noqa: N818  what has happened; the reader need not be at fault
    """Whoever read standard output has closed it."""


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
    held = io.StringIO()
    held.isatty = out.isatty  # type: ignore[method-assign]
    try:
        with redirect_stdout(held):
            yield
    finally:
        _write(held.getvalue())


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


def save(
    file: str, text_of: Callable[[Any], str], result: Any, quiet: bool, whole: bool = True
) -> None:
    """Write a result, and where it went; part of one replaces no file, and goes beside it."""
    path = Path(file)
    if not whole and path.is_file():
        path = path.with_name(f"{path.name}.partial")
    write_text(path, text_of(result))
    if not quiet:
        say(f"wrote {path}")
