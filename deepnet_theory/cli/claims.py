"""Where the claims of the literature are, outside the package, and how their code is reached."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE = "paper_checks"  # how claim files import what they share
RUNNER = tuple(f"{PACKAGE}.shared.{name}" for name in ("claim", "check"))


def location() -> Path:
    """The folder of claims: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / f"_{PACKAGE}"
    return inside if inside.is_dir() else package.parent / PACKAGE


def importable(where: Path) -> None:
    """Let claim files write ``from paper_checks.shared.bench import …`` wherever they lie.

    Another folder of claims shares the runner with the package's own.
    """
    package, path = sys.modules.get(PACKAGE), list(dict.fromkeys((str(where), str(location()))))
    if package is None or list(getattr(package, "__path__", ())) != path:
        for name in [n for n in sys.modules if n == PACKAGE or n.startswith(f"{PACKAGE}.")]:
            if name not in RUNNER:
                del sys.modules[name]
        package = types.ModuleType(PACKAGE)
        package.__path__ = path
        sys.modules[PACKAGE] = package


def runner() -> Any:
    """``paper_checks/shared/check.py``, which finds, runs and judges claims."""
    importable(location())
    return import_module(RUNNER[1])


def answer(where: Path, name: str, full: bool, seed: int) -> Any:
    """What one claim's check finds, as plain data; a worker finds the claims' code here first."""
    return runner().answer(where, name, full, seed)
