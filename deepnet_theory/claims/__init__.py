"""The claims of the literature: where they lie, and how they are read."""

from __future__ import annotations

import sys
import types
from pathlib import Path

from deepnet_theory.definitions.claim import Claim
from deepnet_theory.definitions.discovery import choose, load_value

PACKAGE = "paper_checks"  # how claim files import the bench that they share
SHARED = "shared"  # the folder of what the claims share: no claims
NOT_CLAIMS = ("conftest.py",)


def location() -> Path:
    """The folder of claims: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / f"_{PACKAGE}"
    return inside if inside.is_dir() else package.parent / PACKAGE


def importable(where: Path) -> None:
    """Let claim files write ``from paper_checks.shared.bench import …`` wherever they lie."""
    package = sys.modules.get(PACKAGE)
    if package is None or list(getattr(package, "__path__", ())) != [str(where)]:
        for name in [n for n in sys.modules if n == PACKAGE or n.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(where)]
        sys.modules[PACKAGE] = package


def path_of(where: Path, name: str) -> Path:
    """The file of the claim ``name``; its folder is the prefix of its name."""
    return where / name.split("-")[0] / f"{name.replace('-', '_')}.py"


def load(where: Path, name: str) -> Claim:
    """The one claim called ``name``; raises ``TypeError`` where its file is irregular."""
    importable(where)
    claim = load_value(path_of(where, name), Claim)
    if claim.name != name:
        raise TypeError(f"{path_of(where, name).name}: its Claim is named {claim.name!r}")
    claim.require_whole()
    return claim


def claims(where: Path | None = None) -> dict[str, Claim]:
    """Every claim of the folder, by name; raises ``TypeError`` where a file is irregular."""
    where = location() if where is None else where
    names = []
    for path in where.rglob("*.py"):
        inside = path.relative_to(where)
        if inside.parts[0] == SHARED or str(inside) in NOT_CLAIMS:
            continue
        name = path.stem.replace("_", "-")
        if path != path_of(where, name):
            raise TypeError(f"{inside}: a claim {name!r} lies in {path_of(where, name)}")
        names.append(name)
    return {name: load(where, name) for name in sorted(names)}


def claim(name: str) -> Claim:
    """The claim called ``name``; raises :class:`InputError` that lists the valid names."""
    return choose("claim", name, claims())
