"""A fact: a printed leaf, and what explicit sublayers or matrices show of it.

The answer comes from the algebra of sizes, and a second formula would make the same error twice. So
each leaf of the printed data has one fact, which knows nothing of the table. A leaf without a fact
is REFUTED, and so is a fact whose leaf is not printed: a row that is missing, or that should not be
there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepnet_theory.definitions.expression import DEPTH, evaluate
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.proof.explicit import SAME
from deepnet_theory.proof.stack import Depth

DEPTHS: tuple[Depth, ...] = (
    {"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6},
)  # fmt: skip
SHALLOW, DEEP = 10**3, 10**12  # a power of the depth is what lies between
CONSTANT = 1e-3  # a size that must not change with the depth, by a difference quotient
# keys that name or describe; what they say of a number, the number's own fact says
LABELS = frozenset({
    "select", "schema", "meaning", "closure", "training_closure", "training_refused", "depth",
    "role",
})  # fmt: skip
# what tells one entry of a printed list from the others
KEYS = ("stack", "part", "sublayer", "name", "in", "share")
Leaf = Any
Shows = Callable[[Leaf], bool]
Path_ = tuple[str, ...]


# ---- what is shown of one printed leaf ----


@dataclass(frozen=True)
class Shown:
    """What the explicit sublayers show of one leaf."""

    test: Shows | None  # None: no sublayer can show it
    because: str
    found: str

    def agrees(self, stated: Leaf) -> bool:
        """Whether a printed leaf is what is shown; False where it cannot be read."""
        try:
            return self.test is not None and self.test(stated)
        except (InputError, ArithmeticError, ValueError, TypeError):
            return False


def near(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def numbers(values: Sequence[float], because: str, *, up_to_constant: bool = False) -> Shown:
    """A formula that has these values at :data:`DEPTHS`."""

    def agrees(stated: Leaf) -> bool:
        said = [value_at(stated, depth) for depth in DEPTHS]
        if not any(values) or not any(said):
            return not any(values) and not any(said)
        ratios = [a / b for a, b in zip(said, values, strict=True)]
        level = ratios[0] if up_to_constant else 1.0
        if level <= 0:
            return False
        tolerance = CONSTANT if up_to_constant else SAME
        return all(abs(ratio / level - 1) <= tolerance for ratio in ratios)

    return Shown(agrees, because, ", ".join(f"{value:.6g}" for value in values))


def exactly(value: Leaf, because: str) -> Shown:
    return Shown(lambda stated: bool(stated == value), because, str(value))


def told(holds: bool, because: str, found: str) -> Shown:
    """What is decided before the leaf is read."""
    return Shown(lambda _: holds, because, found)


def grows(shallow: float, deep: float) -> bool:
    return deep > shallow * (1 + CONSTANT)


def power(sizes: Sequence[float]) -> float:
    """The exponent of a size between the two depths."""
    shallow, deep = sizes
    return math.log(deep / shallow) / math.log(DEEP / SHALLOW)


def value_at(text: str, depth: Depth) -> float:
    """A printed formula at a depth."""
    return float(evaluate(DEPTH.parse(text), **depth))


def value(text: str, depth: Depth) -> Shown:
    """The number of a formula at a depth."""
    number = value_at(text, depth)
    return Shown(lambda stated: near(stated, number), "the formula there", f"{number:.6g}")


@dataclass(frozen=True)
class Fact:
    """A printed leaf, where it is printed, and what the explicit sublayers show of it.

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


def compared(stated: Mapping[Path_, Leaf], shown: Mapping[Path_, Shown]) -> tuple[Fact, ...]:
    """A fact for every leaf that is printed, and for every one that is missing."""
    missing = Shown(None, "no explicit sublayer shows it", "nothing")
    facts = []
    for path in dict.fromkeys((*stated, *shown)):
        seen = shown.get(path, missing)
        there = path in stated and path in shown
        one = fact("/".join(path), stated.get(path), seen)
        facts.append(one if there else Fact(one.of, one.stated, False, seen.because, seen.found))
    return tuple(facts)


def fact(of: str, stated: Leaf, seen: Shown) -> Fact:
    """What is shown of a leaf that is printed."""
    holds = None if seen.test is None else seen.agrees(stated)
    return Fact(of, stated, holds, seen.because, seen.found)


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
    elif data is not None:
        found[at] = data
    return found
