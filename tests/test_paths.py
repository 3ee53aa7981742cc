"""The three readers' paths run, see what they are there to show, and are what the README quotes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PATHS = ROOT / "docs" / "paths"
SCRIPTS = ("own_model", "deepnet_and_su", "deepnorm")


def run(script: Path) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join((str(ROOT), str(PATHS)))
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=script.parent,
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.notebooks  # they take as long as one does
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_path_runs_to_its_end(name: str) -> None:
    done = run(PATHS / f"{name}.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr


@pytest.mark.parametrize("swapped", ["faulty as faithful, faulty", "faithful, faithful as faulty"])
def test_the_wrong_deepnorm_in_either_place_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], swapped: str
) -> None:
    script = (PATHS / "deepnorm.py").read_text(encoding="utf-8")
    planted = script.replace("N = 100", "N = 4").replace("faithful, faulty", swapped, 1)
    assert planted.count(swapped) == 1
    monkeypatch.syspath_prepend(PATHS)
    with pytest.raises(AssertionError):
        exec(compile(planted, "deepnorm.py, swapped", "exec"), {"__name__": "__main__"})


def quoted(readme: str) -> list[tuple[str, str]]:
    """The Python of a path in the README, with the script that is linked before it."""
    (section,) = re.findall(r"^## Three paths\n(.*?)^## ", readme, re.M | re.S)
    return re.findall(r"docs/paths/(\w+\.py).*?^```python\n(.*?)^```", section, re.M | re.S)


def in_order(block: str, script: str) -> bool:
    lines = iter(re.sub(r"  # fmt: skip", "", script).splitlines())
    return all(line in lines for line in block.splitlines() if line)


def test_the_readme_quotes_the_scripts() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"docs/paths/{name}.py" in readme for name in SCRIPTS)
    blocks = quoted(readme)
    assert blocks
    for name, block in blocks:
        script = (PATHS / name).read_text(encoding="utf-8")
        assert in_order(block, script), name
        assert not in_order(block.replace("100", "99"), script), "a change is seen"
    page = (PATHS / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r'--8<-- "(\w+)\.py"', page)) == {p.stem for p in PATHS.glob("*.py")}
