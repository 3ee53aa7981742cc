"""What importing costs, and what the files of the project promise."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import deepnet_theory as dt

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "sympy", "numpy", "scipy", "rich", "matplotlib", "torch._dynamo")


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after ``code``."""
    ask = f"{code}\nimport sys\nprint('loaded', *(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "code",
    [
        "import deepnet_theory",
        "import deepnet_theory.cli",
        "import deepnet_theory.cli.parser, deepnet_theory.workflow",
        "from deepnet_theory.cli import main; main(['list', 'optimizers'])",
        "from deepnet_theory.cli import main; main(['derive', '--help'])",
        "from deepnet_theory.cli import main; main(['derive', '--optimizer', 'nope'])",
        "from deepnet_theory.cli import main; main(['derive', '--scheme', 'gpt-2'])",
        "import deepnet_theory; deepnet_theory.Constants",
    ],
)
def test_nothing_heavy_is_imported_early(code: str) -> None:
    assert loaded_by(code) == set()


def test_derive_does_not_pay_for_torch() -> None:
    code = "from deepnet_theory.cli import main; main(['derive', '--optimizer', 'adam'])"
    assert loaded_by(code) == {"sympy"}
    code = "import deepnet_theory as dt; dt.export(dt.derive(optimizer='lamb'), 8)"
    assert loaded_by(code) == {"sympy"}


def test_a_prediction_does_not_pay_for_the_compiler_of_torch() -> None:
    code = (
        "import deepnet_theory as dt\n"
        "dt.predict_update('adam', [2], seeds=2, width=8, heads=1, tokens=4)"
    )
    assert "torch._dynamo" not in loaded_by(code)


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert sorted(dt.__all__) == sorted(dt._HOMES)
    for name in dt.__all__:
        assert getattr(dt, name).__doc__, name
    assert dir(dt) == sorted(["__version__", *dt.__all__])
    offered = {"audit", "measure", "apply_", "build", "train", "predict_update", "transfer"}
    assert offered <= set(dir(dt))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dt.nonsense  # type: ignore[attr-defined]


def test_the_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert "version" not in project["project"]
    assert re.search(rf"^## {re.escape(dt.__version__)}\b", read("CHANGELOG.md"), re.M)


def test_no_module_imports_a_name_of_the_package_itself() -> None:
    """The package's face stands on the rooms; a room that looked at it would go in a circle."""
    package = ROOT / "deepnet_theory"
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "deepnet_theory":
                rooms = {p.stem for p in package.iterdir()}
                assert {alias.name for alias in node.names} <= rooms, f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("room", ["spec", "symbolic", "runtime", "numeric", "models", "training"])
def test_the_library_speaks_python_and_not_options(room: str) -> None:
    """Whoever calls ``derive(...)`` has no ``--closure``; an option stands beside its Python."""
    for path in sorted((ROOT / "deepnet_theory" / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            said = node.value if isinstance(node, ast.Constant) else ""
            found = re.search(r"--[a-z][a-z-]+", said) if isinstance(said, str) else None
            found = None if found and "in Python" in said else found
            assert found is None, f"{path.name}:{node.lineno} says {found and found[0]}"


def test_the_citation_is_of_this_version() -> None:
    citation = read("CITATION.cff")
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert f"\nversion: {dt.__version__}\n" in citation
    assert (
        f"\ntitle: {project['name']}\n" in citation
        and f"license: {project['license']}\n" in citation
    )


def test_the_hooks_of_a_commit_are_checks_of_ci() -> None:
    hooks = set(re.findall(r"^ +entry: make (\w+)$", read(".pre-commit-config.yaml"), re.M))
    (made,) = re.findall(r"^make (lint .*)$", read(".ci/run"), re.M)
    assert hooks == set(made.split())
    assert re.findall(r"repo: (.*)", read(".pre-commit-config.yaml")) == ["local"]


def test_the_pins_hold_no_hosts_and_cover_the_core() -> None:
    pins = read("constraints.txt")
    assert "torch==2.13.0\n" in pins
    assert "http" not in pins and "index" not in pins and "+cpu" not in pins
    project = tomllib.loads(read("pyproject.toml"))["project"]
    for requirement in project["dependencies"]:
        name = re.split(r"[<>=\[]", requirement)[0]
        assert re.search(rf"^{re.escape(name)}==", pins, re.M), name


def test_jupyter_is_not_in_the_core() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    core = " ".join(project["dependencies"])
    assert not re.search("jupyter|notebook|matplotlib|transformers", core)


def test_every_file_is_read_and_written_as_utf8() -> None:
    """Text is opened with an encoding, and no path is put together by hand."""
    for path in sorted((ROOT / "deepnet_theory").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr in ("read_text", "write_text"):
                said = {k.arg for k in node.keywords} | {ast.unparse(a) for a in node.args}
                assert said & {"encoding", "'utf-8'"}, f"{path.name}:{node.lineno}"
            if node.func.attr == "join" and isinstance(node.func.value, ast.Attribute):
                assert node.func.value.attr != "path", f"{path.name}:{node.lineno}"


@pytest.mark.slow
def test_the_wheel_carries_everything(tmp_path: Path) -> None:
    import zipfile

    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)],
        check=True, cwd=ROOT, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    folder = ROOT / "paper_checks"
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*.py")}
    assert {f"deepnet_theory/_paper_checks/{name}" for name in files} <= names
    styles = {"page.css", "plot.css"}
    data = {"deepnet_theory/py.typed", *(f"deepnet_theory/report/{name}" for name in styles)}
    assert data <= names
    assert not any(name.startswith(("tests/", "benchmarks/", "paper_checks/")) for name in names)
    # from the wheel alone, in a folder without the checkout
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()

    def theory(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "deepnet_theory", *words, "--format", "json"],
            cwd=tmp_path / "empty", capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    claims = [n for n in files if "/" in n and not n.startswith("shared/")]
    assert theory("list", "claims").count('"name"') == len(claims) > 80
    assert '"as_recorded": true' in theory("check", "su-ln-scale")  # with the wheel's own bench


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
