"""A fact: a printed leaf, and what explicit sublayers or matrices show.

The answer comes from the algebra of sizes, and a second formula would make the same error twice. So
each leaf of the printed data has one fact, which knows nothing of the table. A leaf without a fact
is REFUTED, and so is a fact whose leaf is not printed: a row that is missing, or that should not be
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deepnet_theory.definitions.outcome import InputError, Verdict

# keys that name or describe; what they say of a number, the number's own fact says
LABELS = frozenset({
    "select", "schema", "meaning", "closure", "refused_for_training", "depth", "role",
})  # fmt: skip
# what tells one entry of a printed list from the others
KEYS = ("stack", "part", "sublayer", "name", "in", "share")
Leaf = Any
Path_ = tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """What the explicit sublayers show of one leaf, in words or numbers, and why it matters.

    ``test`` is asked of the leaf, or was decided before it is read; None where no sublayer can
    show it.
    """

    test: Callable[[Leaf], bool | None] | bool | None
    because: str
    found: str


def exactly(value: Leaf, because: str) -> Shown:
    return Shown(lambda stated: bool(stated == value), because, str(value))


@dataclass(frozen=True)
class Fact:
    """A printed leaf, where it is printed, and what the explicit sublayers show.

    ``stated`` is None where the leaf is missing. ``found`` says in words or numbers what was seen.
    """

    of: str
    stated: Leaf
    holds: bool | None
    because: str
    found: str

    @property
    def verdict(self) -> Verdict:
        """MEASURED or REFUTED; UNDECIDED where no sublayer can show it."""
        if self.holds is None:
            return Verdict.UNDECIDED
        return Verdict.MEASURED if self.holds else Verdict.REFUTED

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "of": self.of,
            "says": self.stated,
            "because": self.because,
            "measured": self.found,
            "verdict": self.verdict.value,
        }


def fact(of: str, stated: Leaf, seen: Shown) -> Fact:
    """What is shown of a leaf that is printed: refuted where the leaf cannot be read."""
    try:
        holds = seen.test(stated) if callable(seen.test) else seen.test
    except (InputError, ArithmeticError, ValueError, TypeError):
        holds = False
    return Fact(of, stated, holds, seen.because, seen.found)


def compared(stated: Mapping[Path_, Leaf], shown: Mapping[Path_, Shown]) -> tuple[Fact, ...]:
    """A fact for every leaf that is printed, and for every one that is missing."""
    unseen = Shown(False, "no explicit sublayer shows it", "nothing")
    return tuple(
        fact("/".join(path), stated.get(path), shown.get(path, unseen))
        if path in stated
        else Fact("/".join(path), None, False, shown[path].because, shown[path].found)
        for path in dict.fromkeys((*stated, *shown))
    )


def leaves(data: Any, at: Path_ = ()) -> dict[Path_, Leaf]:
    """Every printed number and word by its path; entries of a list by what names them."""
    found: dict[Path_, Leaf] = {}
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key not in LABELS and not (at and at[0] != "consequences" and key in KEYS):
                found |= leaves(value, (*at, str(key)))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            named = isinstance(value, Mapping)
            name = "/".join(str(value[k]) for k in KEYS if k in value) if named else str(index)
            found |= leaves(value, (*at, name or str(index)))
    elif data not in (None, ""):
        found[at] = data
    return found
