"""Reading and writing files: one sentence where it cannot be done, nothing half-written."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from pathlib import Path

from deepnet_theory.definitions.outcome import InputError

PIECE = 2**20  # read at once: the memory for a whole limit would be asked for before a byte is read


def read_bytes(path: str | Path, limit: int) -> bytes:
    """The content of a file of at most ``limit`` bytes; raises :class:`InputError` otherwise."""
    try:
        raw = bytearray()
        with Path(path).open("rb") as file:
            while len(raw) <= limit and (piece := file.read(PIECE)):
                raw += piece
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)!r}: {_why(error)}") from None
    if len(raw) > limit:
        raise InputError(f"{str(path)!r} is larger than {limit} bytes")
    return bytes(raw)


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

    Raises :class:`InputError` where it cannot be written. Ask before the work whose result the
    file will hold.
    """
    target, mode = Path(path), None
    try:
        mode = target.stat().st_mode
        why = "it is a folder; give the name of a file" if stat.S_ISDIR(mode) else ""
    except FileNotFoundError:
        why = ""
    except (OSError, ValueError) as error:  # too long a name, a loop of links, a zero byte …
        why = _why(error)
    if not why and (mode is None or stat.S_ISREG(mode)):  # a device or a pipe is itself
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            why = "the folder does not exist"
        elif not os.access(target.parent, os.W_OK):
            why = "no permission to write in its folder"
    # root may write whatever the mode says, but whoever has set a file read-only means it
    if not why and mode is not None and not (mode & 0o222 and os.access(path, os.W_OK)):
        why = "it is read-only"
    if not str(path).strip():
        why = "give the name of a file"
    if why:
        raise InputError(f"cannot write {str(path)!r}: {why}")
    return target


def write_text(path: str | Path, text: str) -> None:
    """Write a text as UTF-8 by atomic replacement in its own folder; the file keeps its mode.

    A link keeps its target, and a device or a pipe is written to, not replaced. A file name in
    the text may hold bytes that are no text: JSON's escapes stand for them.
    Raises :class:`InputError` where the file cannot be written.
    """
    target, content = require_writable(path), text.encode("utf-8", "backslashreplace")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            replace_bytes(target, content)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {_why(error)}") from None


def replace_bytes(path: Path, content: bytes) -> None:
    """Put a file where ``path`` says, all of it or nothing; raises OSError."""
    temporary = path.with_name(f".{path.name[:32]}.{secrets.token_hex(8)}")
    try:
        temporary.write_bytes(content)
        if path.is_file():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
