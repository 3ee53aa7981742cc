"""What the README and CONTRIBUTING say is so: tables, figures, code, links."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deepnet_theory import derive

ROOT = Path(__file__).parents[2]
PATHS = ROOT / "docs" / "paths"
SCRIPTS = ("own_model", "deepnet_and_su", "deepnorm")


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.M | re.S)


def script(name):
    return runpy.run_path(str(ROOT / "docs" / f"{name}.py"))


def test_the_tables_are_what_the_engine_derives():
    page = read("README.md")
    planted = page.replace("^{1/2}", "^{1/3}", 1)
    assert planted != page and script("tables")["written"](planted) == page, "run: make readme"
    assert len(page.splitlines()) <= 90  # it fits on two screens


def test_the_first_figures_are_drawn_from_the_measured_page():
    drawn = script("loss")["pictures"]()
    for name, svg in drawn.items():  # matplotlib's paths differ between its versions, words do not
        kept = read(f"docs/{name}")
        one, other = (re.findall(r">([^<>]+)</text>", each) for each in (kept, svg))
        assert one == other, "run: make readme"
    assert all("prefers-color-scheme: dark" in svg for svg in drawn.values())
    assert all(f"(docs/{name})" in read("README.md") for name in drawn if "loss" in name)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_ten_lines_print_what_is_below_them(page, capsys):
    (code,), (printed,) = blocks(page, "python"), blocks(page, "text")
    assert len(code.splitlines()) <= 10
    exec(code, {})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere_and_named_make_targets_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", read(page)):
        assert "://" in target or (ROOT / target).exists(), target
    named = re.findall(r"`make\s([a-z-]+)`", read(page))
    assert named and set(named) <= set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))


def run(*words, folder, search):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, search))}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=folder, env=environment
    )


SESSION = """
from deepnet_theory.cli import main
for words in (
    "list optimizers",
    "derive --optimizer cube-root --format json",
    "derive --optimizer cube-root --placement half-branch --format json",
    "check example-length",
    "export --optimizer cube-root --depth 8 -o constants.json",
):
    assert main(words.split()) == 0, words
    print("====")
"""


def test_from_clone_to_a_rule_for_an_optimizer_of_ones_own(tmp_path):
    """A newcomer's session: take the sources, add the files that CONTRIBUTING shows, use them."""
    for folder in ("deepnet_theory", "paper_checks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    added = [re.match(r"# (\S+\.py)\n", block) for block in blocks("CONTRIBUTING.md", "python")]
    assert len(added) == 3  # an optimizer, a placement, a claim
    for name in added:
        file = tmp_path / name[1]
        file.parent.mkdir(exist_ok=True)  # the first claim of a source makes its folder
        file.write_text(name.string, encoding="utf-8")
    done = run("-c", SESSION, folder=tmp_path, search=[tmp_path])
    assert done.returncode == 0, done.stderr
    listed, named, half, checked, _ = done.stdout.split("====\n", 4)
    assert "cube-root\n    update: -eta*sign(g)*abs(g)**(1/3)\n" in listed
    named, half = json.loads(named), json.loads(half)
    typed = derive("-eta*sign(g)*abs(g)**(1/3)").to_dict()
    assert named["rule"] == json.loads(json.dumps(typed["rule"]))
    assert named["verdict"] == half["verdict"] == "PROVED"
    assert (tmp_path / "constants.json").exists() and "example-length: holds" in checked


@pytest.mark.notebooks  # they take as long as one does
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_path_runs_to_its_end(name):
    done = run(PATHS / f"{name}.py", folder=PATHS, search=[ROOT, PATHS])
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr
