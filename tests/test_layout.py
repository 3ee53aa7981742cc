"""The package's layout: small levels, imports at the top, and the walk in CONTRIBUTING."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import deepnet_theory

PACKAGE = Path(deepnet_theory.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
MOST_ENTRIES = 12
LEVELS = sorted(
    {path.parent for room in ("symbolic", "report") for path in (PACKAGE / room).rglob("*.py")}
)
# A function imports only what most callers never need and what costs: here is all of it.
PUT_OFF = {
    "cli/__init__.py": {"deepnet_theory.cli"},  # a failure while importing is answered too
    "cli": {"deepnet_theory"},  # each command and each function of the workflow imports the
    "workflow": {"deepnet_theory"},  # room that it needs: SymPy, torch, or a printer
    "symbolic/derivation.py": {"deepnet_theory.report"},  # results show themselves
    "spec": {"deepnet_theory.report"},
    "symbolic/derive.py": {"deepnet_theory.symbolic.asides"},  # told where one asks for them
    "symbolic/asides/catalogue.py": {"deepnet_theory.symbolic.asides"},
    "claims/run.py": {"deepnet_theory.runtime"},  # torch
    "claims/check.py": {"importlib.metadata"},
    "spec/errors.py": {"difflib"},  # when a name is unknown
    "processes/pool.py": {"loky"},
    "processes/cluster.py": {"distributed", "deepnet_theory.processes"},
    "processes/identity.py": {"torch"},  # the check of a claim may need none
    "report/live.py": {"rich"},
    "report/figures/terminal.py": {"plotext"},
    "runtime/applying.py": {"deepnet_theory.models"},  # somebody else's model is read there
    "runtime/saving.py": {"safetensors"},
}


@pytest.mark.parametrize("level", LEVELS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_level_of_these_rooms_has_more_than_a_dozen_entries(level: Path) -> None:
    entries = [p for p in level.iterdir() if p.name != "__pycache__" and p.name != "__init__.py"]
    assert len(entries) <= MOST_ENTRIES, sorted(p.name for p in entries)


def imported_in_functions(path: Path) -> Iterator[str]:
    """The modules that a file imports when a function of it is called."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module
                elif isinstance(node, ast.Import):
                    yield from (name.name for name in node.names)


def test_a_function_imports_only_what_is_put_off_on_purpose() -> None:
    used = set()
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        for module in imported_in_functions(path):
            allowed = {
                (name, start)
                for name, starts in PUT_OFF.items()
                for start in starts
                if (file == name or file.startswith(f"{name}/")) and module.startswith(start)
            }
            assert allowed, f"{file} imports {module} in a function"
            used |= allowed
    assert used == {(name, start) for name, starts in PUT_OFF.items() for start in starts}


# what a profile of the command sees: the files of the package in the order of their first call,
# without what runs while a module is imported
TRACED = """
import sys
from deepnet_theory.cli import main
package, files = sys.argv[1], {}

def importing(frame):
    while frame is not None:
        code, frame = frame.f_code, frame.f_back
        if code.co_name == "<module>" and code.co_filename.startswith(package):
            return True

def called(frame, event, _):
    code = frame.f_code
    function = code.co_flags & 1  # the body of a class is none
    if event == "call" and function and code.co_filename.startswith(package):
        if code.co_filename not in files and not importing(frame):
            files[code.co_filename] = None

sys.setprofile(called)
main(["derive", "--optimizer", "lamb"])
sys.setprofile(None)
print(*(file.removeprefix(package) for file in files), sep="\\n", file=sys.stderr)
"""


def test_the_walk_names_every_file_once_in_the_order_in_which_it_runs() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", TRACED, f"{PACKAGE}/"], capture_output=True, text=True, check=True
    )
    walk = re.split("^## ", CONTRIBUTING.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (section,) = (part for part in walk if part.startswith("A walk"))
    assert re.findall(r"`([\w/]+\.py)`", section) == ended.stderr.splitlines()
