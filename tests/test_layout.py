"""The package's layout: imports at the top, but for what is put off on purpose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import deepnet_theory

PACKAGE = Path(deepnet_theory.__file__).parent
# A function imports only what most callers never need and what costs: here is all of it.
PUT_OFF = {
    "cli/__init__.py": {"deepnet_theory.cli"},  # a failure while importing is answered too
    "cli": {"deepnet_theory"},  # each command and each function of the workflow imports the
    "workflow": {"deepnet_theory"},  # room that it needs: SymPy, torch, or a printer
    "symbolic/derivation.py": {"deepnet_theory.report"},  # results show themselves
    "spec": {"deepnet_theory.report"},
    "claims/check.py": {"importlib.metadata", "deepnet_theory.runtime"},
    "spec/errors.py": {"difflib"},  # when a name is unknown
    "processes/pool.py": {"loky"},
    "processes/cluster.py": {"distributed", "deepnet_theory.processes"},
    "processes/identity.py": {"torch"},  # the check of a claim may need none
    "report/live.py": {"rich"},
    "report/terminal.py": {"plotext"},
    "report/text.py": {"deepnet_theory.report.notation"},  # SymPy, for steps alone
    "runtime/applying.py": {"deepnet_theory.models"},  # somebody else's model is read there
    "runtime/building.py": {"safetensors"},
    "runtime/groups.py": {"deepnet_theory.sizes"},  # where constants have no base of their own
}


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
