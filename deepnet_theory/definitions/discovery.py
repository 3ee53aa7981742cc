"""Strictly discovered values: one file each in a folder, or one constant each in a module.

What takes a page (an optimizer, a scheme) has a file; what takes a few lines stands beside its
type. Either way the name of the file, or of the constant, is the value's own.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from deepnet_theory.definitions.outcome import unknown

T = TypeVar("T")
# what a user chooses by name: folders, and modules that hold all values of their kind
FOLDERS = ("optimizers", "placements", "sublayers", "schemes")
MODULES = {"norms": "sublayer", "closures": "rule"}
KINDS = (*FOLDERS, *MODULES)
HERE = Path(__file__).parent


class Folder(Mapping[str, T]):
    """The values of type ``kind`` in a folder, one a file, loaded when it is asked for.

    A value's ``name`` is its file's with ``_`` written ``-``; the file may leave it out. Files
    that begin with an underscore are no values. A file that does not define exactly one value of
    its name raises ``TypeError``.
    """

    def __init__(self, folder: Path, kind: type[T]) -> None:
        paths = (path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_"))
        self._paths = {path.stem.replace("_", "-"): path for path in paths}
        self._kind = kind
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            path = self._paths[name]
            what = f"{path.name}: its {self._kind.__name__}"
            self._loaded[name] = _named(load_value(path, self._kind), name, what)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _named(value: T, name: str, what: str) -> T:
    """The value with the name of its file or constant; ``TypeError`` where it has another."""
    own = getattr(value, "name", None)
    if own and own != name:
        raise TypeError(f"{what} is named {own!r}, and not {name!r}")
    made: Any = value
    return value if own else cast(T, replace(made, name=name))


def declared(namespace: Mapping[str, object], kind: type[T]) -> dict[str, T]:
    """The values of type ``kind`` among a module's constants, each named as its constant is.

    A constant's name is its value's in capitals, with ``-`` written ``_``; anything else raises
    ``TypeError``.
    """
    values = {}
    for constant, value in namespace.items():
        if isinstance(value, kind):
            name = constant.lower().replace("_", "-")
            values[name] = _named(value, name, f"{constant}: its {kind.__name__}")
    return dict(sorted(values.items()))


def load_value(path: Path, kind: type[T]) -> T:
    """The one module-level value of type ``kind`` in the file ``path``."""
    module_name = f"deepnet_theory._discovered.{kind.__name__.lower()}.{path.stem}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise TypeError(f"{path} cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    values = [v for k, v in vars(module).items() if isinstance(v, kind) and not k.startswith("_")]
    if len(values) != 1:
        raise TypeError(f"{path.name} must define exactly one {kind.__name__}, not {len(values)}")
    return values[0]


def names(kind: str) -> list[str]:
    """The names of one of ``KINDS``; those of a folder without loading its values."""
    if kind in MODULES:
        module = import_module(f"deepnet_theory.definitions.{MODULES[kind]}")
        return sorted(getattr(module, kind.upper()))
    return sorted(Folder(HERE / kind, object))


def choose(what: str, name: str, values: Mapping[str, T]) -> T:
    """The value called ``name``, in any case; raises :class:`InputError` with the valid names.

    The sentence says where a name belongs that is one of another kind.
    """
    if isinstance(name, str) and name.lower() in values:
        return values[name.lower()]
    raise unknown(what, name, sorted(values), _kinds(name))


def _kinds(name: object) -> str:
    """What else goes by the name, to end a sentence with; empty if nothing does."""
    kinds = [kind for kind in KINDS if isinstance(name, str) and name.lower() in names(kind)]
    return f"; {name!r} is one of the {' and of the '.join(kinds)}" if kinds else ""
