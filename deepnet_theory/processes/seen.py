"""What code of somebody else's reads while it runs: files, modules, variables of the environment.

A result is kept with all that was seen, and holds as long as that is unchanged. All that a
process has seen counts, since a module may have read for all that import it; installed libraries
have versions. Not seen is what is read without Python: by a compiled library (safetensors,
HDF5), a network, a subprocess.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnet_theory.processes.identity import BEGAN, INSTALLED, PACKAGE

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
            if not (imported or path.startswith(NO_FILES) or _told(path)):
                digest = _of_file(path)
                if digest != UNKNOWN:  # a folder, a pipe
                    self.files[path] = digest

    def loaded(self, by_watched: bool) -> None:
        """Add the modules that are new; older ones may have been edited since they were loaded."""
        before, self.modules = self.modules, {}
        for name, module in tuple(sys.modules.items()):
            known = before.get(name)
            if known is None or known[0] is not module:
                file = getattr(module, "__dict__", {}).get("__file__")
                path = str(Path(file).absolute()) if isinstance(file, str) else ""
                digest = None if not path or _told(path) else _of_file(path)
                if digest is not None and not by_watched and Path(path).stat().st_mtime > BEGAN:
                    digest = UNKNOWN
                known = module, path, digest
            self.modules[name] = known


_watch, _reading = _Watch(), threading.local()


class _Environment(type(os.environ)):  # type: ignore[misc]
    """The variables of the environment, which keep what is read of them."""

    def __getitem__(self, name: str) -> str:
        if name not in _watch.written and _asked_for():
            _watch.variables[name] = _of_text(self._value(name))
        found: str = super().__getitem__(name)
        return found

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


def _told(path: str) -> bool:
    return path.startswith((*TOLD, OURS)) or not INSTALLED.isdisjoint(Path(path).parts)


def _asked_for() -> bool:
    """Whether code that is not installed asks, through whatever it calls, but not by an import."""
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(IMPORTING):
        file = frame.f_code.co_filename
        if not (_told(file) or file.startswith("<frozen")):
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
