"""Finished work, kept in a folder: one file a result, named by all that the result depends on."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Final,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from deepnet_theory.definitions.files import replace_bytes
from deepnet_theory.definitions.outcome import InputError, shown
from deepnet_theory.processes.identity import environment, identity

FOLDER = "DEEPNET_THEORY_CACHE"  # the environment's word; empty, nothing is kept by default
MISSING: Final = object()
MOST_BYTES = 2**28  # of a result
TAG = "CACHEDIR.TAG"  # marks a folder as this cache's own, and keeps it out of backups
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# finished work of deepnet-theory\n"
SHELF = re.compile(r"[0-9a-f]{2}")
NAME = re.compile(r"[0-9a-f]{64}")
BEGUN = re.compile(r"\.[0-9a-f]{32}\..+")  # what a writer that was killed has left


class Cache:
    """Results in ``folder``, where any number of processes may read and write.

    A file is replaced as a whole, and begins with the digest of its name and content. What is no
    regular file in a regular folder, was damaged, or has another form than was asked for is as good
    as none; links are not followed. Where nothing can be written the work goes on, and ``trouble``
    says why. ``taken`` counts what was found of what was ``asked`` for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.taken, self.trouble = folder, 0, 0, ""

    @cached_property
    def _environment(self) -> dict[str, str]:
        return environment()

    def get(
        self, depends_on: object, kind: Any = Any, fits: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        """The result of what ``depends_on`` tells, of type ``kind`` and fitting, or ``MISSING``."""
        file = self._file(depends_on)
        self.asked += 1
        try:
            raw = _read(file)
            digest, content = raw[:32], raw[32:]
            if _digest(file, content) != digest:
                return MISSING
            result = _Reader(content, kind).load()
            if not (conforms(result, kind) and fits(result)):
                return MISSING
        except Exception:  # what was not written here fails in as many ways as it can be made
            return MISSING
        self.taken += 1
        return result

    def put(self, depends_on: object, result: object) -> None:
        content = pickle.dumps(result, protocol=5)
        file = self._file(depends_on)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.parent.is_symlink():
                raise NotADirectoryError(f"{str(file.parent)!r} is a link")
            if not (self.folder / TAG).exists():
                replace_bytes(self.folder / TAG, SIGNATURE)
            replace_bytes(file, _digest(file, content) + content)
        except OSError as wrong:
            self.trouble = self.trouble or f"finished work is not kept: {wrong}"

    def files(self) -> Iterator[Path]:
        """The files of the cache, finished or not: regular ones, in folders that are no links."""
        for shelf in _scanned(self.folder):
            if SHELF.fullmatch(shelf.name) and shelf.is_dir(follow_symlinks=False):
                for file in _scanned(shelf.path):
                    known = NAME.fullmatch(file.name) or BEGUN.fullmatch(file.name)
                    if known and file.is_file(follow_symlinks=False):
                        yield Path(file.path)

    def clear(self) -> int:
        """Remove what is kept, and nothing else; the number of files."""
        files = list(self.files())
        for file in files:
            with suppress(FileNotFoundError):  # another process has cleared it meanwhile
                file.unlink()
        for folder in {file.parent for file in files}:
            with suppress(OSError):  # it holds something else
                folder.rmdir()
        return len(files)

    def _file(self, depends_on: object) -> Path:
        name = identity((self._environment, depends_on))
        return self.folder / name[:2] / name


def _read(file: Path) -> bytes:
    """The content of a regular file; raises OSError for anything else, and waits for no writer."""
    if file.parent.is_symlink():
        raise NotADirectoryError(f"{str(file.parent)!r} is a link")
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(file, "rb", opener=lambda path, mode: os.open(path, mode | flags)) as opened:
        about = os.fstat(opened.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            raise OSError(f"{str(file)!r} is no result")
        return opened.read(MOST_BYTES)


def _digest(file: Path, content: bytes) -> bytes:
    """It covers the name too: the answer to one question is none to another."""
    return hashlib.sha256(file.name.encode() + content).digest()


def _scanned(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


class _Reader(pickle.Unpickler):
    """Reads plain data and the classes that ``kind`` names, so that a file can run nothing."""

    # A pickle calls whatever it names. Here it may name what the work's annotation promises alone;
    # joblib.Memory and diskcache would run what lies in the folder.

    def __init__(self, content: bytes, kind: Any) -> None:
        super().__init__(io.BytesIO(content))
        self._known = {(one.__module__, one.__qualname__): one for one in classes(kind)}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(f"{module}.{name} is no result")
        return self._known[module, name]


Kept = Cache | str | Path | bool | None  # how a cache is asked for


def default_folder() -> Path | None:
    """The user's folder for what can be made again, or the one that the environment names."""
    named = os.environ.get(FOLDER)
    if named is not None:
        return Path(named) if named else None
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches) / "deepnet-theory"


def cache_of(given: Kept) -> Cache | None:
    """The cache of a folder, with True of the user's own, else none.

    Raises :class:`InputError` where a named folder cannot be made, or holds other files.
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
            why = getattr(wrong, "strerror", None) or wrong
            raise InputError(f"{refused}: {why}") from None
        if foreign or not str(given):
            raise InputError(f"{refused}: name a folder of its own, new or empty")
    return Cache(folder)


# ---- the form of a result: what the annotation of the work promises ----


def promised(work: Callable[..., Any]) -> Any:
    """The type that an annotation promises; a type variable stands for what its argument gives."""
    if not isinstance(work, partial):
        return get_type_hints(work).get("return", Any)
    kind = promised(work.func)
    if isinstance(kind, TypeVar):
        return promised(next(one for one in work.args if callable(one)))
    return kind


def conforms(value: object, kind: Any) -> bool:
    """Whether a value, with all that it holds, is of the type ``kind``."""
    origin, within = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(conforms(value, one) for one in within)
    if origin is tuple and within[-1] is not Ellipsis:
        return type(value) is tuple and _each(value, within)
    if origin in (tuple, list, Sequence):
        wanted = (tuple, list) if origin is Sequence else (origin,)
        return isinstance(value, wanted) and all(conforms(one, within[0]) for one in value)
    if origin in (dict, Mapping):
        return type(value) is dict and all(_each(pair, within) for pair in value.items())
    if kind is float:
        return type(value) in (float, int)
    parts = _parts(kind)
    if type(value) is not (dict if is_typeddict(kind) else kind):
        return False
    if parts is None:
        return True
    if isinstance(value, tuple):
        return _each(value, parts.values())
    held = value if isinstance(value, dict) else vars(value)
    least = kind.__required_keys__ if is_typeddict(kind) else parts.keys()
    return least <= held.keys() <= parts.keys() and all(
        conforms(one, parts[name]) for name, one in held.items()
    )


def _each(values: Any, kinds: Any) -> bool:
    return len(values) == len(kinds) and all(map(conforms, values, kinds))


def _parts(kind: Any) -> dict[str, Any] | None:
    """The types that a dataclass, a named tuple or a typed mapping holds, by name; else None."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return {field.name: hints[field.name] for field in fields(kind)}
    named = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    return get_type_hints(kind) if named or is_typeddict(kind) else None


def classes(kind: Any) -> Iterator[type]:
    """The classes that a value of this type may hold, beside Python's own."""
    parts = _parts(kind)
    for one in (*get_args(kind), *(parts or {}).values()):
        yield from classes(one)
    if isinstance(kind, type) and (parts is not None or issubclass(kind, Enum)):
        yield kind


def per_seed(value: object, seeds: int) -> bool:
    """Whether every list and tuple of numbers within a value has one number a seed."""
    if isinstance(value, Mapping):
        return bool(value) and all(per_seed(one, seeds) for one in value.values())
    if is_dataclass(value):
        return all(per_seed(one, seeds) for one in vars(value).values())
    if not isinstance(value, list | tuple):
        return True
    if any(isinstance(one, list | tuple | Mapping) or is_dataclass(one) for one in value):
        return all(per_seed(one, seeds) for one in value)
    return len(value) == seeds
