"""The name of all that a result depends on: the values that it is computed from, code, machine."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import BuiltinFunctionType, FunctionType

from deepnet_theory.spec import __version__

PACKAGE = Path(__file__).parents[1]
# The rooms that a measurement runs: those that `numeric`, `models` and `training` may import.
MEASURING = ("models", "numeric", "processes", "runtime", "spec", "training")
LIBRARIES = ("torch", "numpy", "scipy", "sympy", "pytorch-optimizer", "transformers", "Django")


def sources(*folders: Path) -> str:
    """The digest of the Python files of ``folders``, by their places within them."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()


# when the modules are imported, not when it is asked for: files may be edited in between
CODE = sources(*(PACKAGE / room for room in MEASURING))


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
    """The digest of a value: equal for equal values in every process, else different.

    Raises :class:`TypeError` for a value whose identity is not known: nothing is guessed.
    """
    text = json.dumps(_plain(value), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    """Lists of texts that tell apart what is not the same, 1 from 1.0 and a list from a tuple."""
    kind = type(value).__name__
    if value is None or type(value) in (bool, int, float, str, bytes):
        return [kind, repr(value)]  # repr of a float is exact
    if isinstance(value, tuple | list):
        return [kind, *map(_plain, value)]
    if isinstance(value, Mapping):  # in its order, on which a result may depend
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
