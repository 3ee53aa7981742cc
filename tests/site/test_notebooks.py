"""The notebooks run, end in asserts, import what is there, and carry no timings or warnings."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import deepnet_theory

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
assert len(NOTEBOOKS) >= 6
SECONDS = 1200  # of one cell: a limit against waiting for ever, on a busy machine, too
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_of(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


@every_notebook
def test_committed_outputs_are_clean(path):
    cells = code_of(path)
    assert all(cell.execution_count for cell in cells), "commit it with its outputs"
    outputs = [output for cell in cells for output in cell.outputs]
    drawn = set()
    for output in outputs:
        assert output.output_type != "error" and output.get("name") != "stderr"
        data = output.get("data", {})
        shown = f"{output.get('text', '')}{data.get('text/plain', '')}"
        assert not re.search(r"(/home/|/root/|/tmp/|[A-Z]:\\|Warning)", shown)
        assert not re.search(r"\b\d+(\.\d+)? ?(s|ms|seconds)\b", shown)
        drawn |= {*data} & {"image/svg+xml", "text/html"}
    assert drawn, "a figure or a table"


@every_notebook
def test_it_imports_what_is_there_and_ends_in_asserts(path, monkeypatch):
    """A name that has moved is seen here, and not after the minutes of a notebook's trainings."""
    monkeypatch.syspath_prepend(FOLDER)
    cells = [cell.source for cell in code_of(path)]
    for node in ast.walk(ast.parse("\n".join(cells))):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            assert [a.name for a in node.names if not hasattr(module, a.name)] == []
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "dt":
            assert hasattr(deepnet_theory, node.attr)
    assert any(isinstance(node, ast.Assert) for node in ast.parse(cells[-1]).body)


@pytest.mark.notebooks
@every_notebook
def test_it_runs(path):
    client = nbclient.NotebookClient(
        read(path), timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": FOLDER}}
    )
    client.execute()
