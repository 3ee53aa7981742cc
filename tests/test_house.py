"""The size of each room, and one meaning for each class name.

Every figure here is a limit that only falls: lower it with the commit that makes a room smaller.
"""

import ast
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "deepnet_theory"
BUDGETS = {
    "(top level)": 119,
    "cli": 2007,
    "definitions": 5234,
    "laboratory": 4489,
    "models": 5156,
    "processes": 495,
    "proof": 4057,
    "report": 2244,
    "runtime": 964,
    "sizes": 5021,
    "trainers": 501,
}
FORMATTED_BY_HAND = 116


@cache
def tracked(folder: str = PACKAGE) -> tuple[str, ...]:
    """The files of a folder that Git knows and that are there, by their paths from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return tuple(name for name in listed if name and (ROOT / name).is_file())


def lines(name: str) -> list[str]:
    return (ROOT / name).read_text(encoding="utf-8").splitlines()


def python() -> list[str]:
    return [name for name in tracked() if name.endswith(".py")]


def test_no_room_outgrows_its_budget():
    """All tracked text counts. Whoever needs more takes it from another room's budget."""
    sizes = Counter[str]()
    for name in tracked():
        room, *inside = Path(name).relative_to(PACKAGE).parts
        sizes[room if inside else "(top level)"] += len(lines(name))
    assert {room: n for room, n in sizes.items() if n > BUDGETS.get(room, 0)} == {}


def test_lines_are_not_packed_by_hand():
    marked = sum(line.endswith("# fmt: skip") for name in python() for line in lines(name))
    assert marked <= FORMATTED_BY_HAND


def test_a_class_name_means_one_thing():
    classes = Counter(
        node.name
        for name in python()
        for node in ast.walk(ast.parse("\n".join(lines(name))))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []
