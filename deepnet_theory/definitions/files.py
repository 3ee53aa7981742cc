"""Reading and writing files: one sentence where it cannot be done, nothing half-written."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

from deepnet_theory.definitions.outcome import InputError

PIECE = 2**20  # read at once: the memory for a whole limit would be asked for before a byte is read


def read_bytes(path: str | Path, limit: int) -> bytes:
    """The content of a file of at most ``limit`` bytes; raises :class:`InputError` otherwise."""
    try:
        raw = bytearray()
        with open(path, "rb", opener=_open_at_once) as file:
            while len(raw) <= limit and (piece := file.read(PIECE)):
                raw += piece
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)!r}: {_why(error)}") from None
    if len(raw) > limit:
        raise InputError(f"{str(path)!r} is larger than {limit} bytes")
    return bytes(raw)


def _open_at_once(path: str, flags: int) -> int:
    """Open; a pipe opened in the ordinary way would wait for its other end, maybe for ever."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(handle, True)
    return handle


def read_text(path: str | Path, limit: int) -> str:
    """The UTF-8 text of a file of at most ``limit`` bytes; raises :class:`InputError` otherwise."""
    try:
        return read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{str(path)!r} is not UTF-8 text") from None


def require_file(path: Path) -> None:
    """Raise :class:`InputError` where there is no file of this name, or no way to it."""
    try:
        there = path.is_file()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)!r}: {_why(error)}") from None
    if not there:
        raise InputError(f"there is no file {str(path)!r}")


def require_writable(path: str | Path) -> Path:
    """The file that writing to ``path`` changes: itself, or what it links to.

    Raises :class:`InputError` where it cannot be written, so that it can be asked before the
    work whose result it is to hold.
    """

    def refuse(why: str) -> InputError:
        return InputError(f"cannot write {str(path)!r}: {why}")

    if not str(path).strip():
        raise refuse("give the name of a file")
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        mode = None
    except (OSError, ValueError) as error:  # too long a name, a loop of links, a zero byte …
        raise refuse(_why(error)) from None
    target = Path(path)  # a device or a pipe is itself, whatever it links to
    if mode is None or stat.S_ISREG(mode):
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise refuse("the folder does not exist")
        if not os.access(target.parent, os.W_OK):
            raise refuse("no permission to write in its folder")
    elif stat.S_ISDIR(mode):
        raise refuse("it is a folder; give the name of a file")
    # root may write whatever the mode says, but whoever has set a file read-only means it
    if mode is not None and not mode & 0o222:
        raise refuse("it is read-only")
    if mode is not None and not os.access(path, os.W_OK):
        raise refuse("no permission to write it")
    return target


def write_text(path: str | Path, text: str) -> None:
    """Write a text as UTF-8; see :func:`write_bytes`.

    A file name may hold bytes that are no text; where it is named, they are written as JSON
    writes them.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file by atomic replacement in its own folder, its mode kept.

    A link keeps pointing where it does, and a device or a pipe is written to, not replaced.
    Raises :class:`InputError` where the file cannot be written.
    """
    target = require_writable(path)
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb", opener=_open_at_once) as file:
                file.write(content)
        else:
            replace_bytes(target, content)
    except OSError as error:
        why = "no process reads the pipe" if error.errno == errno.ENXIO else _why(error)
        raise InputError(f"cannot write {str(path)!r}: {why}") from None


def replace_bytes(path: Path, content: bytes) -> None:
    """Put a file where ``path`` says, all of it or nothing; raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:32]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if path.is_file():
            mode = stat.S_IMODE(path.stat().st_mode)
        else:  # mkstemp makes private files; an ordinary open does not
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
