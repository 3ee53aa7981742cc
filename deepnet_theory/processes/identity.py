"""The name of all that a result depends on: the values that it is computed from, code, machine."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from types import BuiltinFunctionType, FunctionType

from deepnet_theory.spec import __version__

PACKAGE = Path(__file__).parents[1]
# The rooms that a measurement runs: those that `numeric`, `models` and `training` may import.
MEASURING = ("models", "numeric", "processes", "runtime", "spec", "training")
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


# when the modules are imported, not when it is asked for: files may be edited in between
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
            path = _own(loaded) if isinstance(loaded, str) else None
            if path is None or path == file or not path.is_relative_to(file.parent):
                continue
            if path.stat().st_mtime > BEGAN:
                return None
        return sources(file.parent)
    except OSError:
        return None


@functools.cache  # thousands of modules are loaded
def _own(loaded: str) -> Path | None:
    """The file of a module, None where it is an installed one."""
    return None if INSTALLED & set(Path(loaded).parts) else Path(loaded).resolve()


@functools.cache  # what is loaded stays what it is
def installed() -> list[tuple[str, str]]:
    """What is installed, whose code :func:`source_of` leaves to its version."""
    return sorted((str(d.name), d.version) for d in distributions())


def environment() -> dict[str, str]:
    """What else decides a result's last bit: code, versions, and the kind of the machine."""
    import torch

    found = {"deepnet-theory": f"{__version__} {CODE}", "python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    found["cpu"] = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    found["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    found["products"] = torch.get_float32_matmul_precision()
    return found


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
