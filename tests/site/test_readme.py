"""What the README and CONTRIBUTING say is so: tables, commands, code, links."""

import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from quoted import is_taken

from deepnet_theory import derive
from deepnet_theory.definitions.optimizer import optimizer

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md")
}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.M | re.S)


def commands():
    return re.findall(r"`deepnet-theory ((?:derive|check|audit)[^`]*)`", PAGES["README.md"])


def script(name):
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / f"{name}.py")))


def test_the_tables_are_what_the_engine_derives():
    page, written = PAGES["README.md"], script("tables").written
    planted = page.replace("^{1/2}", "^{1/3}", 1)
    assert planted != page and written(planted) == page, "run: make readme"
    assert len(page.splitlines()) <= 90  # it fits on two screens


def test_the_first_figures_are_drawn_from_the_measured_page():
    loss = script("loss")
    drawn = loss.pictures()
    for name, svg in drawn.items():  # matplotlib's paths differ between its versions, words do not
        kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
        one, other = (re.findall(r">([^<>]+)</text>", each) for each in (kept, svg))
        assert one == other, "run: make readme"
    assert all("prefers-color-scheme: dark" in svg for svg in drawn.values())
    assert all(f"(docs/{name})" in PAGES["README.md"] for name in drawn if "loss" in name)


@pytest.mark.parametrize("command", commands())
def test_every_command_is_taken(command):
    assert is_taken(command)


def paired(code):
    """Run the ten lines; the optimizer is the constants', on all parameters of its one model."""
    session, printed = {}, io.StringIO()
    with redirect_stdout(printed):
        exec(code, session)
    (model,) = (v for v in session.values() if isinstance(v, torch.nn.Module))
    (stepper,) = (v for v in session.values() if isinstance(v, torch.optim.Optimizer))
    reference = optimizer(session["constants"].optimizer).reference
    assert reference is not None and reference.target == f"torch.optim:{type(stepper).__name__}"
    stepped = {id(p) for group in stepper.param_groups for p in group["params"]}
    assert stepped == {id(p) for p in model.parameters()}, "another model is stepped"
    assert len({group["lr"] for group in stepper.param_groups}) > 1, "one rate for all"
    (part,), (written,) = model.parts.values(), session["constants"].parts
    assert written.layers == len(part.layers), "another depth"
    return printed.getvalue()


def test_the_ten_lines_print_what_is_below_them_and_pair_rule_model_and_optimizer():
    (code,), (printed,) = blocks("README.md", "python"), blocks("README.md", "text")
    assert len(code.splitlines()) <= 10 and paired(code) == printed
    small = code.replace("48", "4")
    for planted, change in (
        (small.replace('derive("adamw"', 'derive("lamb"'), "target"),
        (small.replace("groups(model", "groups(dt.build(constants)"), "another model"),
        (small.replace("dt.parameter_groups(model, lr=1e-3)", "model.parameters()"), "one rate"),
        (small.replace("build(constants)", "build(dt.export(rule, depth=6, heads=4))"), "depth"),
    ):
        assert planted != small
        with pytest.raises(AssertionError, match=change):
            paired(planted)


def test_every_decision_is_listed_and_fits_on_a_page():
    folder = ROOT / "docs" / "decisions"
    pages = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    index = pages.pop("README.md")
    assert set(re.findall(r"\]\((.+)\)", index)) == set(pages)
    for page in pages.values():
        assert "**Choice.**" in page and "**Why.**" in page and "**What would change it.**" in page
        assert len(page.splitlines()) <= 30
        for target in re.findall(r"\]\((.+?)\)", page):
            assert (folder / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere_and_named_make_targets_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES[page]):
        assert "://" in target or (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    named = set(re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", PAGES[page], re.M))
    assert named and {a or b for a, b in named} <= targets


def test_from_clone_to_a_rule_for_an_optimizer_of_ones_own(tmp_path):
    """A newcomer's session: take the sources, add the files that CONTRIBUTING shows, use them."""
    clone = tmp_path / "clone"
    for folder in ("deepnet_theory", "paper_checks"):
        shutil.copytree(ROOT / folder, clone / folder)
    shown = [re.match(r"# (\S+\.py)\n", block) for block in blocks("CONTRIBUTING.md", "python")]
    names = [found[1] for found in shown if found is not None]
    assert [name.split("/")[-2] for name in names] == ["optimizers", "placements", "example"]
    for name, block in zip(names, blocks("CONTRIBUTING.md", "python"), strict=True):
        (clone / name).parent.mkdir(exist_ok=True)  # the first claim of a source makes its folder
        (clone / name).write_text(block, encoding="utf-8")
    session = (
        "list optimizers",
        "derive --optimizer cube-root --format json",
        "derive --optimizer cube-root --placement half-branch --format json",
        "check example-length",
        "export --optimizer cube-root --depth 8 -o constants.json",
    )
    code = f"from deepnet_theory.cli import main\nfor one in {session}:\n    " + (
        "assert main(one.split()) == 0, one\n    print('====')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=clone, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(clone)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    listed, named, half, checked, _ = done.stdout.split("====\n", 4)
    assert "cube-root\n    update: -eta*sign(g)*abs(g)**(1/3)\n" in listed
    named, half = json.loads(named), json.loads(half)
    typed = derive("-eta*sign(g)*abs(g)**(1/3)").to_dict()
    assert named["rule"] == json.loads(json.dumps(typed["rule"]))
    assert named["verdict"] == half["verdict"] == "PROVED"
    assert (clone / "constants.json").exists()
    assert "example-length: holds" in checked


PATHS = ROOT / "docs" / "paths"
SCRIPTS = ("own_model", "deepnet_and_su", "deepnorm")


def run(script):
    search = os.pathsep.join((str(ROOT), str(PATHS)))
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=script.parent,
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.notebooks  # they take as long as one does
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_path_runs_to_its_end(name):
    done = run(PATHS / f"{name}.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr


def test_the_readme_links_the_scripts_and_their_page_has_them():
    assert all(f"docs/paths/{name}.py" in PAGES["README.md"] for name in SCRIPTS)
    page = (PATHS / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r'--8<-- "(\w+)\.py"', page)) == {p.stem for p in PATHS.glob("*.py")}
