"""What importing costs, and what the files of the project promise."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import deepnet_theory as dt

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "sympy", "numpy", "scipy", "matplotlib")
IMPORTS = f"""
import sys
from deepnet_theory.cli import main
def told():
    print("loaded", *(m for m in {HEAVY!r} if m in sys.modules))
import deepnet_theory.cli.parser, deepnet_theory.cli; deepnet_theory.Constants
main(['list', 'optimizers']); main(['derive', '--help'])
main(['derive', '--optimizer', 'nope']); main(['derive', '--scheme', 'gpt-2'])
told()
main(['derive', '--optimizer', 'adam'])
told()
main(['derive', '--optimizer', 'adam', '--steps'])
import deepnet_theory as dt
dt.export(dt.derive(optimizer='lamb'), 8)
told()
print("published", *(m for m in sys.modules if "_discovered.scheme." in m))
"""


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_nothing_heavy_is_imported_early():
    """Not SymPy before a step, not torch before a measurement, and no published scheme."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, cwd=ROOT
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    listed, derived, proved = (line[1:] for line in lines if line[:1] == ["loaded"])
    assert listed == derived == ["numpy"] and proved == ["sympy", "numpy"]
    assert [line for line in lines if line[:1] == ["published"]] == [
        ["published", "deepnet_theory._discovered.scheme.gpt_2"]  # which was asked for, alone
    ]


def test_every_public_name_is_there_and_says_what_it_is():
    for name in dt.__all__:
        assert getattr(dt, name).__doc__, name
    assert dir(dt) == sorted(["__version__", *dt.__all__])
    offered = {"audit", "measure", "apply_", "build", "train", "predict_update", "transfer"}
    assert offered <= set(dir(dt))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dt.nonsense


def test_version_citation_and_pins_have_one_source():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert "version" not in project
    assert re.search(rf"^## {re.escape(dt.__version__)}\b", read("CHANGELOG.md"), re.M)
    cited = (
        f"title: {project['name']}",
        f"version: {dt.__version__}",
        f"license: {project['license']}",
    )
    assert {*cited} <= {*read("CITATION.cff").splitlines()}
    pinned = {pin.partition("==")[0] for pin in read("constraints.txt").splitlines()}
    assert {re.split(r"[<>=\[]", name)[0] for name in project["dependencies"]} <= pinned


PYTHON = ("definitions", "proof", "runtime", "laboratory", "models")  # rooms that speak it


def test_every_file_of_the_package_keeps_to_what_holds_of_all():
    """A class name means one thing; no import of the package's face; texts are UTF-8 …"""
    package, classes = ROOT / "deepnet_theory", Counter()
    rooms = {p.stem for p in package.iterdir()}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            at = f"{path}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.ClassDef(name=name):
                    classes[name] += 1
                case ast.ImportFrom(module="deepnet_theory"):  # a room would go in a circle
                    assert {alias.name for alias in node.names} <= rooms, at
                case ast.Constant(value=str(said)) if room in PYTHON and "in Python" not in said:
                    assert not re.search(r"--[a-z][a-z-]+", said), at
                case ast.Call(func=ast.Attribute(attr="read_text" | "write_text")):
                    given = {k.arg for k in node.keywords} | {ast.unparse(a) for a in node.args}
                    assert given & {"encoding", "'utf-8'"}, at
    assert [name for name, count in classes.items() if count > 1] == []
