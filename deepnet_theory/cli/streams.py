"""Where a command writes, whatever the caller's streams are, and what asks a command to end."""

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


class ClosedPipe(Exception):  # noqa: N818  no error of the reader
    """The reader of standard output has closed it."""


@contextmanager
def answering() -> Iterator[None]:
    """Hold what is printed and write it to standard output at the end, as UTF-8.

    Raises :class:`ClosedPipe` where the reader has gone and :class:`InputError` where standard
    output is closed, which is seen before any work, or full.
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
        # an unbuffered stream writes what there is room for; its text layer drops the count
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

    Otherwise the next file that is opened would take its number and receive its output.
    """
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def warn_only() -> None:
    """Show warnings that were to be errors: a library's warning must not end a command."""
    if any(option.startswith("e") for option in sys.warnoptions):
        sys.warnoptions[:] = ["default"]  # new processes receive them, too
        os.environ["PYTHONWARNINGS"] = "default"
        warnings.simplefilter("default")


def say(message: str) -> None:
    """A note on standard error; it may be closed."""
    # an argument may hold half of a surrogate pair, which no stream can write
    writable = message.encode("utf-8", "backslashreplace").decode("utf-8")
    try:
        print(writable, file=sys.stderr, flush=True)
    except OSError:
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """Send a broken stream to the null device: the interpreter's last flush would fail."""
    with suppress(OSError):  # a stream of a test has no number
        broken, handle = stream.fileno(), os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, broken)
        os.close(handle)


def shows_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colours, and NO_COLOR is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


@contextmanager
def asked_to_end(ended: list[int]) -> Iterator[None]:
    """Within this context a signal to end raises ``KeyboardInterrupt``, so that work is kept.

    Its number is added to ``ended``. An ignored signal, as under ``nohup``, stays ignored. Python
    lets only the main thread set handlers.
    """

    def end(number: int, _: object) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        ending = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
        before = {s: h for s in ending if (h := signal.getsignal(s)) is not signal.SIG_IGN}
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
    """Write a result to a file; a partial one next to a file that exists, as ``.partial``."""
    path = Path(file)
    if not whole and path.is_file():
        path = path.with_name(f"{path.name}.partial")
    write_text(path, text_of(result))
    if not quiet:
        say(f"wrote {path}")
