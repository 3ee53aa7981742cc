"""The name of all that a result depends on: the values that it is computed from, code, machine.

What code of somebody else's reads while it runs (files, modules, variables of the environment) is
:class:`Seen`: a result is kept with it, and holds as long as that is unchanged. All that a process
has seen counts, since a module may have read for all that import it; installed libraries have
versions. Not seen is what is read without Python: by a compiled library (safetensors, HDF5), a
network, a subprocess.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import stat
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, distributions, version
from operator import is_
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from deepnet_theory.definitions import __version__

PACKAGE = Path(__file__).parents[1]
# The rooms that a measurement runs: those that `laboratory` and `models` may import.
MEASURING = ("definitions", "laboratory", "models", "processes", "runtime")
INSTALLED = {"site-packages", "dist-packages"}  # folders whose code its versions tell
BEGAN = time.time()
LIBRARIES = ("torch", "numpy", "scipy", "sympy", "pytorch-optimizer", "transformers")


def sources(*folders: Path) -> str:
    """The digest of the Python files of ``folders``, by their places within them."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if INSTALLED & set(path.relative_to(folder).parts) or not path.is_file():
                continue  # a virtual environment; a pipe, which would be waited for
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()


# When the modules are imported, not when it is asked for: files may be edited in between. All the
# rooms that measure count, since a function's own source does not say what it calls.
CODE = sources(*(PACKAGE / room for room in MEASURING))


def source_of(value: object) -> str | None:
    """Empty for an installed function or class, which :func:`installed` tells of, else None.

    No file says what any other object is: its module's variables may have changed.
    """
    if isinstance(value, functools.partial):
        given = [v for v in (*value.args, *value.keywords.values()) if callable(v)]
        return None if None in map(source_of, (value.func, *given)) else ""
    root = sys.modules.get(str(getattr(value, "__module__", "")).partition(".")[0])
    return "" if INSTALLED & set(Path(getattr(root, "__file__", None) or "").parts) else None


def source_beside(file: Path) -> str | None:
    """The digest of the Python files beside ``file`` and below, as they are now.

    None where another of them is loaded and was edited since this process began.
    """
    file = file.resolve()
    try:
        for module in tuple(sys.modules.values()):
            loaded = getattr(module, "__dict__", {}).get("__file__")
            path = _file_of(loaded) if isinstance(loaded, str) else None
            if path is None or path == file or not path.is_relative_to(file.parent):
                continue
            if path.stat().st_mtime > BEGAN:
                return None
        return sources(file.parent)
    except OSError:
        return None


@functools.cache  # thousands of modules are loaded
def _file_of(loaded: str) -> Path | None:
    """The file of a module, None where it is an installed one."""
    return None if INSTALLED & set(Path(loaded).parts) else Path(loaded).resolve()


@functools.cache  # what is loaded stays what it is
def installed() -> list[tuple[str, str]]:
    """What is installed, whose code :func:`source_of` leaves to its version."""
    return sorted((str(d.name), d.version) for d in distributions())


def environment() -> dict[str, str]:
    """What else decides a result's last bit: code, versions, and the kind of the machine."""
    import torch

    facts = {"deepnet-theory": f"{__version__} {CODE}", "python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            facts[name] = version(name)
    facts["cpu"] = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    facts["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    facts["products"] = torch.get_float32_matmul_precision()
    return facts


def identity(value: object) -> str:
    """The digest of a value, equal for equal values in every process; else :class:`TypeError`."""
    text = json.dumps(_plain(value), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    """Lists of texts that tell apart what is not the same, 1 from 1.0 and a list from a tuple."""
    kind = type(value).__name__
    if value is None or type(value) in (bool, int, float, Fraction, str, bytes):
        return [kind, repr(value)]  # repr of a float is exact
    if isinstance(value, tuple | list):
        return [kind, *map(_plain, value)]
    if isinstance(value, Mapping):  # in its order: a result may depend on it
        return ["mapping", *([_plain(k), _plain(v)] for k, v in value.items())]
    if isinstance(value, Enum):
        return [_place(type(value)), value.name]
    if is_dataclass(value) and not isinstance(value, type):
        named = ([f.name, _plain(getattr(value, f.name))] for f in fields(value))
        return [_place(type(value)), *named]
    if isinstance(value, functools.partial):
        return ["partial", _plain(value.func), _plain(value.args), _plain(value.keywords)]
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        return ["name", _place(value)]
    raise TypeError(f"the identity of a {kind} is not known")


def _place(named: Callable[..., object] | type) -> str:
    place = f"{named.__module__}.{named.__qualname__}"
    if "<" in place:  # a function within a function, whose surroundings have no name
        raise TypeError(f"{place} has no identity")
    return place


# ---- what somebody else's code reads ----

# of these the versions tell, and CODE
TOLD = tuple(f"{p}{os.sep}" for p in {sysconfig.get_path(n) for n in ("stdlib", "platstdlib")})
OURS = f"{PACKAGE}{os.sep}"
IMPORTING = ("<frozen importlib", "<frozen zipimport")
NO_FILES = ("/dev/", "/proc/", "/sys/")
UNKNOWN = "unknown"  # the digest of a file that was loaded before it was last edited


@dataclass(frozen=True)
class Seen:
    """Digests of files and variables by name, None for one that is not there."""

    files: dict[str, str | None]
    variables: dict[str, str | None]

    @property
    def known(self) -> bool:
        """Whether all that was loaded is what the files say."""
        return UNKNOWN not in self.files.values()

    def holds(self) -> bool:
        """Whether all of it is now as it was."""
        return all(_of_file(path) == digest for path, digest in self.files.items()) and all(
            _of_text(os.environ.get(name)) == digest for name, digest in self.variables.items()
        )


class _Watch:
    def __init__(self) -> None:
        self.within = 0  # calls of watched() that have not ended
        self.files: dict[str, str | None] = {}
        self.variables: dict[str, str | None] = {}
        self.written: set[str] = set()  # variables that the code itself has set
        self.modules: dict[str, tuple[object, str, str | None]] = {}  # file and digest, by name
        self.there: Mapping[str, object] = {}  # sys.modules when they were looked at
        self.hooked = False

    def opened(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook; it must not raise."""
        if event != "open" or not self.within or getattr(_reading, "own", False):
            return
        path, _, flags = args
        if isinstance(path, str | bytes) and not flags & (os.O_WRONLY | os.O_TRUNC | os.O_EXCL):
            path = str(Path(os.fsdecode(path)).absolute())
            # a module that is imported is among the loaded ones
            imported = sys._getframe(1).f_code.co_filename.startswith(IMPORTING)
            if not (imported or path.startswith(NO_FILES) or _versioned(path)):
                digest = _of_file(path)
                if digest != UNKNOWN:  # a folder, a pipe
                    self.files[path] = digest

    def loaded(self, by_watched: bool) -> None:
        """Add the modules that are new; older ones may have been edited since they were loaded."""
        there, before = sys.modules.copy(), self.modules
        if [*there] == [*self.there] and all(map(is_, there.values(), self.there.values())):
            return  # none is new; there are thousands
        self.there, self.modules = there, {}
        for name, module in there.items():
            known = before.get(name)
            if known is None or known[0] is not module:
                file = getattr(module, "__dict__", {}).get("__file__")
                path = str(Path(file).absolute()) if isinstance(file, str) else ""
                digest = None if not path or _versioned(path) else _of_file(path)
                if digest is not None and not by_watched and Path(path).stat().st_mtime > BEGAN:
                    digest = UNKNOWN
                known = module, path, digest
            self.modules[name] = known


_watch, _reading = _Watch(), threading.local()


class _Environment(type(os.environ)):  # type: ignore[misc]
    """The variables of the environment, which keep what is read of them."""

    def __getitem__(self, name: str) -> str:
        value = self._value(name)
        if name not in _watch.written and _asked_for():
            _watch.variables[name] = _of_text(value)
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: str) -> None:
        _watch.written.add(name)
        super().__setitem__(name, value)

    def _value(self, name: str) -> str | None:
        try:
            value: str = super().__getitem__(name)
        except KeyError:
            return None
        return value


@contextmanager
def watched() -> Iterator[None]:
    """Within it runs code whose reading is kept; see :func:`seen`."""
    if not _watch.hooked:
        sys.addaudithook(_watch.opened)  # for good: there is no way to remove one
        _watch.hooked = True
    kind = type(os.environ)
    _watch.loaded(by_watched=_watch.within > 0)
    _watch.within += 1
    os.environ.__class__ = _Environment
    try:
        yield
    finally:
        os.environ.__class__ = kind
        _watch.within -= 1
        _watch.loaded(by_watched=True)


def seen() -> Seen:
    """All that watched code has read in this process."""
    _watch.loaded(by_watched=True)
    modules = {path: digest for _, path, digest in _watch.modules.values() if digest is not None}
    return Seen({**_watch.files, **modules}, dict(_watch.variables))


def _versioned(path: str) -> bool:
    return path.startswith((*TOLD, OURS)) or not INSTALLED.isdisjoint(Path(path).parts)


def _asked_for() -> bool:
    """Whether code that is not installed asks, through whatever it calls, but not by an import."""
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(IMPORTING):
        file = frame.f_code.co_filename
        if not (_versioned(file) or file.startswith("<frozen")):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _of_text(value: str | None) -> str | None:
    """A digest: a variable may be a secret."""
    return None if value is None else hashlib.sha256(os.fsencode(value)).hexdigest()


_digests: dict[str, tuple[tuple[int, ...], str]] = {}


def _of_file(path: str) -> str | None:
    """The digest of a file; None where there is none, ``UNKNOWN`` for anything else."""
    try:
        about = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(about.st_mode):
        return UNKNOWN
    # nobody sets the time of the last change, so that a large file is read once
    state = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    known = _digests.get(path)
    if known is None or known[0] != state:
        _reading.own = True
        try:
            with Path(path).open("rb") as file:
                known = state, hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return UNKNOWN
        finally:
            _reading.own = False
        _digests[path] = known
    return known[1]
