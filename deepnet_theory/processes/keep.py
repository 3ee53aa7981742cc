"""Finished work, kept as JSON: one file a result, named by a hash of all that it depends on.

The name covers this package's code, the machine, the work and its settings, and of a factory of
your own the Python files of its folder. Other files that your code reads are not covered: clear
the cache where they change.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, get_type_hints

from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.files import replace_bytes
from deepnet_theory.definitions.outcome import InputError, shown
from deepnet_theory.definitions.record import read

FOLDER = "DEEPNET_THEORY_CACHE"  # the environment's word; empty, nothing is kept by default
MISSING: Final = object()
LIBRARIES = ("torch", "numpy", "scipy", "sympy")


class Cache:
    """Results in ``folder``, where any number of processes may read and write.

    A file that is no such result counts as none. Where nothing can be written the work goes on,
    and ``trouble`` says why. ``taken`` counts the results found among those ``asked`` for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.taken, self.trouble = folder, 0, 0, ""

    def get(self, depends_on: object, kind: Any) -> Any:
        """The result of type ``kind`` for what ``depends_on`` holds, or ``MISSING``."""
        self.asked += 1
        try:
            text = self._file(depends_on).read_text(encoding="utf-8")
            result = read(kind, json.loads(text), "a kept result")
        except (OSError, ValueError, TypeError):
            return MISSING
        self.taken += 1
        return result

    def put(self, depends_on: object, result: object) -> None:
        """Keep a result, if JSON holds it and what it depends on."""
        try:
            text, file = json.dumps(result, default=plain), self._file(depends_on)
        except TypeError:
            return
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_bytes(file, text.encode())
        except OSError as wrong:
            self.trouble = self.trouble or f"finished work is not kept: {wrong}"

    def files(self) -> list[Path]:
        """The files of the results."""
        return sorted(self.folder.glob(f"{'[0-9a-f]' * 64}.json"))

    def clear(self) -> None:
        """Remove the results, and nothing else."""
        for file in self.files():
            file.unlink(missing_ok=True)

    def _file(self, depends_on: object) -> Path:
        return self.folder / f"{digest((machine(), depends_on))}.json"


Kept = Cache | str | Path | bool | None  # how a cache is asked for


def cache_of(given: Kept) -> Cache | None:
    """The cache of a folder, with True the user's own, else none.

    Raises :class:`InputError` where a named folder cannot be made.
    """
    if given is None or given is False or isinstance(given, Cache):
        return given or None
    if given is True:
        folder = default_folder()
        return None if folder is None else Cache(folder)
    try:
        (folder := Path(given)).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as wrong:
        why = getattr(wrong, "strerror", None) or wrong
        raise InputError(f"cannot keep anything in {shown(str(given))}: {why}") from None
    return Cache(folder)


def default_folder() -> Path | None:
    """The folder that the environment names, else the user's cache; None where there is none."""
    if (named := os.environ.get(FOLDER)) is not None:
        return Path(named) if named else None
    with suppress(RuntimeError):  # a user without a home, as in containers
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deepnet-theory"
    return None


# ---- the name of a result ----


def sources(folder: Path) -> str:
    """The digest of the Python files in ``folder`` itself."""
    files = sorted(file for file in folder.glob("*.py") if file.is_file())
    named = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return hashlib.sha256(repr(named).encode()).hexdigest()


@cache  # the code that runs is the code that was loaded
def machine() -> dict[str, str]:
    """What decides the last bit of a result: code, versions, and the kind of the machine."""
    import torch

    package = Path(__file__).parents[1]
    rooms = sorted({file.parent for file in package.rglob("*.py")})
    code = hashlib.sha256("".join(map(sources, rooms)).encode()).hexdigest()
    facts = {"deepnet-theory": f"{__version__} {code}", "python": platform.python_version()}
    facts |= {name: version(name) for name in LIBRARIES}
    facts["cpu"] = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    # not the card's name: to ask for it starts CUDA, and no process can be forked behind that
    facts["cuda"] = str(torch.version.cuda) if torch.cuda.is_available() else "none"
    return facts


def digest(value: object) -> str:
    """Equal for equal values in every process; raises ``TypeError`` for what is no plain data."""
    return hashlib.sha256(json.dumps(value, default=plain).encode()).hexdigest()


def plain(value: Any) -> object:
    """What JSON does not hold by itself, as what it does."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if hasattr(value, "__qualname__") and "<" not in value.__qualname__:  # a function or a class
        bound = getattr(value, "__self__", None)  # of a method, all that its object holds
        name = f"{value.__module__}.{value.__qualname__}"
        return name if bound is None or isinstance(bound, type) else [name, bound]
    if hasattr(value, "untyped_storage"):  # a tensor
        return [value.dtype, value.device, [*value.shape], value.tolist()]
    if isinstance(value, Path) or type(value).__module__ in ("torch", "fractions"):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no plain data")


def promised(work: Any) -> Any:
    """The type that work returns, within partials of partials that of the innermost function."""
    while isinstance(work, partial):
        work = next((one for one in work.args if isinstance(one, partial)), work.func)
    return get_type_hints(work).get("return", Any)
