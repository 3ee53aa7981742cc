"""Whether an update goes down the gradient: asked of numbers, entries of every sign.

The degrees of an update are counted in :mod:`deepnet_theory.sizes.update`. Whether it descends, and
whether a term is zero or no real number, is seen on 1 × 2 matrices at entries of several sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepnet_theory.definitions.arrays import OnArrays
from deepnet_theory.definitions.expression import OPERATORS, Functions, Node, fold

Array = NDArray[np.float64]
SIZES = (  # of two entries of g and two of θ, incommensurable and in each order
    (3 / 7, 5 / 11, 17 / 5, 23 / 9),
    (29 / 8, 13 / 3, 2 / 17, 7 / 31),
    (1 / 5, 19.0, 6.0, 2 / 9),
)
SIGNS = np.array(list(product((1.0, -1.0), repeat=4)))
ROUNDING = 1e-12  # below this share of its terms a sum is 0
THIRD = dict.fromkeys(("eta", "epsilon", "decay"), 1 / 3)


def _summed(sign: str, left: Any, right: Any) -> Any:
    """A sum, which is 0 where it cancels; unlike in a step 0/0 stays no number here."""
    total = OPERATORS[sign](left, right)
    least = ROUNDING * np.maximum(np.abs(left), np.abs(right))
    return np.where(np.abs(total) <= least, 0.0, total)


def direction(matrix: Array) -> Array:
    """The polar factor of a matrix of rank one."""
    factor: Array = matrix / np.sqrt((matrix * matrix).sum(axis=(-2, -1), keepdims=True))
    return factor


def sampled(update: Node, size: Sequence[float]) -> tuple[Array, Array]:
    """g and the update at η = 1/3, each (16, 1, 2), at one size and every sign of the entries.

    Raises ``ArithmeticError`` where it is not finite or not real.
    """
    entries = SIGNS * np.array(size)
    g, theta = entries[:, None, :2], entries[:, None, 2:]
    operators: Functions = OPERATORS | {sign: partial(_summed, sign) for sign in "+-"}
    values = {"g": g, "theta": theta, **THIRD}
    algebra = OnArrays(values, operators=operators, xp=np, like=g, polar=direction)
    with np.errstate(divide="raise", invalid="raise", over="ignore", under="ignore"):
        change = algebra.whole(fold(update, algebra))
    if not np.isfinite(change).all():
        raise ArithmeticError("not finite")
    return g, change


def is_zero(term: Node) -> bool:
    """Whether a term is 0 at entries of every sign; one that has no value there is not."""
    try:
        return not sampled(term, SIZES[0])[1].any()
    except ArithmeticError:
        return False


def descent(update: Node) -> frozenset[int] | None:
    """The sign of the mean of ⟨g, u⟩ over the signs of g and θ at each size; None where u is 0."""
    signs, moves = set(), False
    for size in SIZES:
        g, change = sampled(update, size)
        moves = moves or bool(change.any())
        terms = g * change
        null = abs(terms.sum()) <= 1e3 * ROUNDING * np.abs(terms).sum()
        signs.add(0 if null else int(np.sign(terms.sum())))
    return frozenset(signs) if moves else None


def is_odd_in_gradient(update: Node) -> bool:
    """Whether the update of -g is minus that of g, so that symmetric noise adds up to nothing."""
    for size in SIZES:
        change = sampled(update, size)[1].reshape(2, 2, -1)  # by the two signs of g
        if np.abs(change + change[::-1, ::-1]).max() > 1e3 * ROUNDING * np.abs(change).max():
            return False
    return True


def is_additive(update: Node) -> bool:
    """Whether the update of a sum of two gradients is the sum of theirs."""
    (a, b, *theta), (c, d, *_) = SIZES[:2]
    one, other, both = (sampled(update, (*g, *theta))[1] for g in ((a, b), (c, d), (a + c, b + d)))
    return bool(np.abs(one + other - both).max() <= 1e3 * ROUNDING * np.abs(both).max())
