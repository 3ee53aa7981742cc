"""The notebooks run, end in asserts, and carry no timings, paths, warnings or own mathematics."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from quoted import is_taken

import deepnet_theory

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
assert len(NOTEBOOKS) >= 6
SECONDS = 1200  # of one cell: a limit against waiting for ever, on a busy machine, too
OURS = {"deepnet_theory", "nano_gpt", "paper_checks"}
ALLOWED = OURS | {"sympy", "torch", "collections", "dataclasses", "math"}


def read(path):
    return nbformat.read(path, as_version=4)


def code_of(notebook):
    return [c.source for c in notebook.cells if c.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_committed_outputs_are_clean(path):
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        assert cell.execution_count is not None, "commit it with its outputs"
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr"
            shown = str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
            assert not re.search(r"(/home/|/root/|/tmp/|[A-Z]:\\|Warning)", shown)
            assert not re.search(r"\b\d+(\.\d+)? ?(s|ms|seconds)\b", shown)
    assert any("image/svg+xml" in o.get("data", {}) or "text/html" in o.get("data", {})
               for c in notebook.cells if c.cell_type == "code" for o in c.outputs)  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_imports_what_is_there_has_no_mathematics_of_its_own_and_ends_in_asserts(
    path, monkeypatch
):
    """A name that has moved is seen here, and not after the minutes of a notebook's trainings."""
    monkeypatch.syspath_prepend(FOLDER)
    cells = code_of(read(path))
    for node in ast.walk(ast.parse("\n".join(cells))):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
            module = importlib.import_module(node.module)
            assert [a.name for a in node.names if not hasattr(module, a.name)] == []
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "dt":
            assert hasattr(deepnet_theory, node.attr)
        elif isinstance(node, ast.FunctionDef):  # it may lay out a table
            sums = [n for n in ast.walk(node) if isinstance(n, ast.BinOp | ast.AugAssign)]
            assert not sums, "mathematics belongs in the package"
        assert {n.split(".")[0] for n in names} <= ALLOWED
    assert any(isinstance(node, ast.Assert) for node in ast.parse(cells[-1]).body)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_ends_in_exercises_whose_answers_a_command_or_a_cell_shows(path):
    cells = read(path).cells
    (place,) = (i for i, cell in enumerate(cells) if cell.source.startswith("## Exercises"))
    asked = re.split(r"^\d\. ", cells[place].source, flags=re.M)[1:]
    assert len(asked) >= 2
    if any(cell.cell_type == "code" for cell in cells[place:]):
        return  # the cells below answer them
    for exercise in asked:
        commands = re.findall(r"^ *deepnet-theory (.*)$", exercise, re.M)
        assert commands, "the reader checks the answer by a command"
        assert all(map(is_taken, commands))


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs(path):
    notebook = read(path)
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": FOLDER}}
    )
    client.execute()
