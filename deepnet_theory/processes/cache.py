"""Finished work, kept in a folder: one file a result, named by all that the result depends on."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from deepnet_theory.processes.identity import environment, identity
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.files import write_bytes

FOLDER = "DEEPNET_THEORY_CACHE"  # the environment's word; empty, nothing is kept by default
MISSING: Final = object()
TAG = "CACHEDIR.TAG"  # marks a folder as this cache's own, and keeps it out of backups
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# finished work of deepnet-theory\n"
NAME = re.compile(r"[0-9a-f]{64}")
BEGUN = re.compile(r"\.[0-9a-f]{32}\..+")  # what a writer that was killed has left


class Cache:
    """Results in ``folder``, where any number of processes may read and write.

    A file is replaced as a whole, and begins with the digest of what follows: one that was cut
    short, or damaged otherwise, is as good as none. Where nothing can be written, the disk being
    full, say, the work goes on, and ``trouble`` says why. ``taken`` counts what was found, of
    what was ``asked`` for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.taken, self.trouble = folder, 0, 0, ""

    @cached_property
    def _environment(self) -> dict[str, str]:
        return environment()

    def get(self, depends_on: object, fits: Callable[[Any], bool] = lambda result: True) -> Any:
        """The result of what ``depends_on`` tells, where ``fits`` is true of it, or ``MISSING``."""
        self.asked += 1
        try:
            raw = self._file(depends_on).read_bytes()
            digest, content = raw[:32], raw[32:]
            if hashlib.sha256(content).digest() != digest:
                return MISSING
            found = _Reader(io.BytesIO(content)).load()
        except (OSError, pickle.UnpicklingError):
            return MISSING
        if not fits(found):
            return MISSING
        self.taken += 1
        return found

    def put(self, depends_on: object, result: object) -> None:
        """Keep a result."""
        content = pickle.dumps(result, protocol=5)
        file = self._file(depends_on)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if not (self.folder / TAG).exists():
                write_bytes(self.folder / TAG, SIGNATURE)
            write_bytes(file, hashlib.sha256(content).digest() + content)
        except (OSError, InputError) as wrong:
            self.trouble = self.trouble or f"finished work is not kept: {wrong}"

    def files(self) -> Iterator[Path]:
        """The files of the cache, finished or not."""
        for file in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            if NAME.fullmatch(file.name) or BEGUN.fullmatch(file.name):
                yield file

    def clear(self) -> int:
        """Remove what is kept; the number of files."""
        files = list(self.files())
        for file in files:
            file.unlink(missing_ok=True)
        for folder in {file.parent for file in files}:
            if not any(folder.iterdir()):
                folder.rmdir()
        return len(files)

    def _file(self, depends_on: object) -> Path:
        name = identity((self._environment, depends_on))
        return self.folder / name[:2] / name


class _Reader(pickle.Unpickler):
    """Reads plain data and this package's own, so that a file can run nothing."""

    def find_class(self, module: str, name: str) -> Any:
        """A dataclass or an enumeration of this package."""
        if module.startswith("deepnet_theory.") and "." not in name:
            found = super().find_class(module, name)
            own = isinstance(found, type) and found.__module__.startswith("deepnet_theory.")
            if own and (is_dataclass(found) or issubclass(found, Enum)):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no result")


Kept = Cache | str | Path | bool | None  # how a cache is asked for


def default_folder() -> Path | None:
    """The user's folder for what can be made again, or the one that the environment names."""
    named = os.environ.get(FOLDER)
    if named is not None:
        return Path(named) if named else None
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches) / "deepnet-theory"


def cache_of(given: Kept) -> Cache | None:
    """The cache that is meant: of a folder, with True of the user's own, else none.

    Raises :class:`InputError` where a folder that was named cannot be made, or holds other files.
    """
    if given is None or given is False or isinstance(given, Cache):
        return given or None
    folder = default_folder() if given is True else Path(given)
    if folder is None:
        return None
    if given is not True:
        refused = f"cannot keep anything in {shown(str(given))}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            foreign = not (folder / TAG).exists() and any(folder.iterdir())
        except (OSError, ValueError) as wrong:
            raise InputError(f"{refused}: {_why(wrong)}") from None
        if foreign or not str(given):
            raise InputError(f"{refused}: name a folder of its own, new or empty")
    return Cache(folder)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
