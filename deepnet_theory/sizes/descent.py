"""Whether an update goes down the gradient: asked of numbers, entries of every sign.

The degrees of an update are counted in :mod:`deepnet_theory.sizes.update`. Whether it descends, and
whether a term is zero or no real number, is seen on 1 × 2 matrices at entries of several sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepnet_theory.definitions.arrays import OnArrays, on
from deepnet_theory.definitions.expression import Node, fold
from deepnet_theory.definitions.optimizer import Optimizer

Array = NDArray[np.float64]
SIZES = (  # of two entries of g and two of θ, incommensurable and in each order
    (3 / 7, 5 / 11, 17 / 5, 23 / 9),
    (29 / 8, 13 / 3, 2 / 17, 7 / 31),
    (1 / 5, 19.0, 6.0, 2 / 9),
)
SIGNS = np.array(list(product((1.0, -1.0), repeat=4)))
ROUNDING = 1e-12  # below this share of its terms a sum is 0
THIRD = dict.fromkeys(("eta", "epsilon", "decay"), 1 / 3)


class _OfEntries(OnArrays):
    """Sums that cancel are 0, and 0/0 is no number."""

    def operate(self, function: Any, left: Any, right: Any) -> Any:
        value = function(left, right)
        least = ROUNDING * np.maximum(np.abs(left), np.abs(right))
        return np.where(np.abs(value) <= least, 0.0, value)

    def _kept_at_zero(self, value: Any, *factors: Any) -> Any:
        return value


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
    algebra = _OfEntries(np, g, direction, {"g": g, "theta": theta, **THIRD})
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


def of_its_own(
    optimizer: Optimizer,
    rows: Sequence[int],
    columns: int,
    gradients: Sequence[float],
    sizes: Sequence[float],
) -> tuple[float, ...]:
    r"""How far each block of one packed matrix is stepped, as a part of its step by itself.

    The blocks' gradients are alike up to their sizes, so that each has the entries
    :math:`\pm s_b` of a matrix of rank one. The squares of the polar factor's blocks add up to its
    rank whatever the gradients are.
    """
    # what a step is to another does not depend on a common factor of all counts
    common = gcd(*rows, columns)
    rows, columns = [n // common for n in rows], columns // common

    def stepped(rows: Sequence[int], *entries: Sequence[float]) -> Array:
        g, theta = (np.repeat(each, rows)[:, None] * np.ones(columns) for each in entries)
        return np.asarray(on(np, optimizer.expression.root, g, theta, direction, eta=1.0))

    def rms(change: Array) -> float:
        return float(np.sqrt(np.mean(change**2)))

    shared = np.split(stepped(rows, gradients, sizes), np.cumsum(rows)[:-1])
    alone = (stepped([n], [g], [t]) for n, g, t in zip(rows, gradients, sizes, strict=True))
    return tuple(rms(a) / rms(b) for a, b in zip(shared, alone, strict=True))
