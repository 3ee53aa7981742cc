"""How the two sides of a step are related, and how relations compose along a chain."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Relation(StrEnum):
    """EQUAL; ASYMPTOTIC: ratio → 1; AT_MOST: ≤; ORDER: Θ; BOUND: O."""

    EQUAL = "="
    ASYMPTOTIC = "~"
    AT_MOST = "<="
    ORDER = "Theta"
    BOUND = "O"


# What each relation still implies; joining two takes the strongest thing implied by both.
# a = b gives everything; a ~ b gives Θ and O; a ≤ b gives O; a = Θ(b) gives a = O(b).
_IMPLIES: dict[Relation, tuple[Relation, ...]] = {
    Relation.EQUAL: tuple(Relation),
    Relation.ASYMPTOTIC: (Relation.ASYMPTOTIC, Relation.ORDER, Relation.BOUND),
    Relation.AT_MOST: (Relation.AT_MOST, Relation.BOUND),
    Relation.ORDER: (Relation.ORDER, Relation.BOUND),
    Relation.BOUND: (Relation.BOUND,),
}
_STRENGTH = (
    Relation.EQUAL,
    Relation.ASYMPTOTIC,
    Relation.AT_MOST,
    Relation.ORDER,
    Relation.BOUND,
)


def join(relations: Iterable[Relation]) -> Relation:
    """The relation of a chain: EQUAL < ASYMPTOTIC < ORDER < BOUND, EQUAL < AT_MOST < BOUND.

    AT_MOST joined with ASYMPTOTIC or ORDER is BOUND.
    """
    common = set(Relation)
    for relation in relations:
        common &= set(_IMPLIES[relation])
    return next(r for r in _STRENGTH if r in common)
