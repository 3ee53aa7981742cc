"""The size of each room.

Every figure here is a limit that only falls: lower it with the commit that makes a room smaller.
"""

import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "deepnet_theory"
BUDGETS = {
    "(top level)": 119,
    "cli": 2009,
    "definitions": 5143,
    "laboratory": 4489,
    "models": 5149,
    "processes": 495,
    "proof": 4015,
    "report": 2238,
    "runtime": 941,
    "sizes": 5010,
    "trainers": 501,
}
FORMATTED_BY_HAND = 108


@cache
def tracked() -> dict[str, list[str]]:
    """The lines of each file of the package that Git knows and that is there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PACKAGE, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    files = [name for name in listed if (PACKAGE / name).is_file()]
    return {name: (PACKAGE / name).read_text(encoding="utf-8").splitlines() for name in files}


def test_no_room_outgrows_its_budget():
    """All tracked text counts. Whoever needs more takes it from another room's budget."""
    sizes = Counter[str]()
    for name, lines in tracked().items():
        room, *inside = Path(name).parts
        sizes[room if inside else "(top level)"] += len(lines)
    assert {room: n for room, n in sizes.items() if n > BUDGETS.get(room, 0)} == {}


def test_lines_are_not_packed_by_hand():
    marked = sum(line.endswith("# fmt: skip") for lines in tracked().values() for line in lines)
    assert marked <= FORMATTED_BY_HAND
