r"""An optimizer's own update on explicit arrays: its degrees, and its sizes at several widths.

No law of sizes enters. In depth the update is evaluated where g and θ have given norms. In width W,
the inputs and the gradient of the outputs are drawn at given sizes,
:math:`g = c\sum_t \delta_t x_t^\top` of a few tokens. The power of a size in the width is the slope

.. math:: a = \frac{\mathrm{d}\log f}{\mathrm{d}\log d}

over :data:`WIDTHS`. Few tokens, for ``sign(g)`` of T tokens acts by
:math:`n_{in}\sqrt{2/\pi T} \oplus \sqrt{n_{in}}`; the second wins at
:math:`T \gtrsim 2n_{in}/\pi`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from deepnet_theory.definitions.arrays import on
from deepnet_theory.definitions.expression import (
    Call,
    Name,
    Node,
    Number,
    Operation,
    constant,
    mapped,
    parts,
)
from deepnet_theory.definitions.optimizer import Optimizer, above_floors
from deepnet_theory.proof.witness import Array, rms

SAME = 1e-6  # two roads to one number
ROUNDING = 1e-13  # of an update's size: a smaller difference is none
SHAPE = (2, 3)  # of the matrix whose update is evaluated in depth


# ---- an update on arrays ----


def polar(matrix: Array) -> Array:
    """UVᵀ of the singular vectors whose values are not 0; 0 for a matrix of zeros."""
    u, values, v = np.linalg.svd(matrix, full_matrices=False)
    kept = values > 1e-9 * values[..., :1]
    factor: Array = (u * kept[..., None, :]) @ v
    return factor


def evaluated(node: Node, g: Array, theta: Array, **constants: Any) -> Array:
    """A term of an update at arrays of g and θ, and at numbers, in every entry."""
    with np.errstate(all="ignore"):
        return np.asarray(on(np, node, g, theta, polar, **constants))


def change(update: Node, g: Array, theta: Array, **constants: Any) -> Array:
    """Δθ at η = 1; raises ``ArithmeticError`` where it is not finite or not real."""
    changed = evaluated(update, g, theta, eta=1.0, **constants)
    if not np.all(np.isfinite(changed)):
        raise ArithmeticError("not finite")
    return changed


@cache
def unit_pair(seed: int = 0) -> tuple[Array, Array]:
    """g and θ of norm 1, with entries of every pair of signs."""
    draw = np.random.default_rng(seed)
    sizes = draw.uniform(0.2, 1.0, (2, *SHAPE))
    signs = np.array([[[1, -1, 1], [-1, 1, -1]], [[1, 1, -1], [-1, -1, 1]]])
    g, theta = sizes * signs
    return g / np.linalg.norm(g), theta / np.linalg.norm(theta)


def pairs_at(gradient: Any, size: Any) -> tuple[Array, Array]:
    """g and θ of given norms: a pair of matrices for each of several."""
    g, theta = unit_pair()
    return matrices(gradient) * g, matrices(size) * theta


def matrices(numbers: Any) -> Array:
    """Numbers that multiply as many matrices."""
    return np.asarray(numbers, dtype=float)[..., None, None]


def norms(of: Array) -> Array:
    """The Frobenius norm of each of several matrices."""
    length: Array = np.linalg.norm(of, axis=(-2, -1))
    return length


def moves_zeros(update: Node) -> bool:
    """Whether an update of a parameter of zeros is not 0 itself."""
    g = unit_pair()[0]
    moved = evaluated(update, g, np.zeros(SHAPE), eta=1.0)
    return bool(np.any(np.isfinite(moved) & (moved != 0)))


def update_of(optimizer: Optimizer, at_zero: bool = False) -> Node:
    """The update that a parameter takes: above its floors, and a library's for what is 0."""
    root = optimizer.expression.root
    if not at_zero:
        return above_floors(root)
    return root if moves_zeros(root) else optimizer.from_zero.root


def is_linear(update: Node) -> bool:
    """Whether an update is a multiple of the gradient's entries, whatever θ is."""
    once, twice, other = change(update, *pairs_at([1, 2, 1], [1, 1, 2]))
    return bool(np.allclose(twice, 2 * once) and np.allclose(other, once))


def is_additive(update: Node) -> bool:
    """Whether the update of a sum of two gradients is the sum of theirs."""
    (g, theta), (other, _) = unit_pair(0), unit_pair(1)
    parts = change(update, g, theta) + change(update, other, theta)
    return bool(np.allclose(change(update, g + other, theta), parts))


# ---- in depth: where g and θ have given norms ----


def degrees(optimizer: Optimizer) -> tuple[float, float]:
    """p and q of an update, from doubling g and θ."""
    doubled = Practised(optimizer, np.array([2.0, 1.0]), np.array([1.0, 2.0]))
    p, q = np.log2(doubled.length)
    return float(p), float(q)


@dataclass(frozen=True)
class Practised:
    """One update at given norms of g and θ, also as a library takes it, with ε and decay."""

    optimizer: Optimizer
    gradient: Array
    size: Array

    @property
    def length(self) -> Array:
        """‖Δθ‖ over that where both norms are 1; above all floors."""
        update = above_floors(self.optimizer.expression.root)
        there, unit = pairs_at(self.gradient, self.size), unit_pair()
        return norms(change(update, *there)) / norms(change(update, *unit))

    def _change(self, epsilon: Any = 0.0, decay: Any = 0.0, along: Any = 0.0) -> Array:
        """The update, ``along`` times the parameter added to the gradient."""
        g, theta = pairs_at(self.gradient, self.size)
        constants = {"epsilon": matrices(epsilon), "decay": matrices(decay)}
        return change(
            self.optimizer.practised.root, g + matrices(along) * theta, theta, **constants
        )

    @cached_property
    def _still(self) -> Array:
        """The update without ε and decay."""
        return self._change()

    def hidden(self, epsilon: Any) -> Array:
        """By how much of itself an ε changes the update."""
        share = norms(self._change(epsilon) - self._still) / norms(self._still)
        return np.where(share > ROUNDING, share, 0.0)

    @cached_property
    def shrinks(self) -> Array:
        """The share of the parameter that a weight decay of 1 takes in one step.

        A decay in the gradient moves the parameter by as much of ‖Δθ‖ as λθ is of g. One beside
        the update is seen in the update, as one of its terms.
        """
        length = norms(self._still)
        # beside the gradient's size, and beside the update's: where either would show
        if all(self._in_gradient(by / self.size) for by in (self.gradient, length)):
            return np.asarray(length / self.gradient)
        tiny = 1e-6 * length / self.size
        return np.asarray(norms(self._change(decay=tiny) - self._still) / tiny / self.size)

    def _in_gradient(self, lam: Array | float) -> bool:
        """Whether the decay acts as a part of the gradient: u(g, λ) = u(g + λθ, 0).

        In direction alone: a norm in a denominator may count the decay another way.
        """
        one, other = self._change(decay=lam), self._change(along=lam)
        unit = one / matrices(norms(one))
        across = other - unit * (unit * other).sum(axis=(-2, -1), keepdims=True)
        return bool(np.all(norms(across) <= SAME * norms(other)))


# ---- in width: where a role is drawn at the sizes of several widths ----

WIDTHS = (64, 128, 256, 512)
TOKENS, FRESH = 2, 128  # inputs that made the gradient, and others
LOGITS = 3  # explicit outputs of the head, which has a fixed number of them
ENTRIES, DRAWS = 1 << 18, 24  # drawn for each width, in as many matrices as that makes
NEAR = 0.1  # how far a slope may be from its law: quarters stay distinct
FAINT = 1e-4


@dataclass(frozen=True)
class Drawn:
    """What a role is drawn at: counts, c, σ (None: it is 0), and the size of δ.

    A gradient of ``full_rank`` has :data:`FAINT` entries of its own beside those of the few tokens.
    A table is stepped as it is stored, with a row a token.
    """

    inputs: int
    outputs: int
    multiplier: float
    init: float | None
    backward: float
    full_rank: bool = False
    is_table: bool = False


class Seen(NamedTuple):
    """Typical sizes at the start and of one update: geometric means over draws, 0 for nothing."""

    forward: float  # of c·Wx
    back: float  # of c·Wᵀe
    read: float  # of c·WΔx for Δx of size 1, along the rows of W where it is aligned
    gradient: float  # of entries, as the update
    update: float
    action: float  # of c·ΔWx
    epsilon: float  # what ε is added to


def _bounded(draw: np.random.Generator, *shape: int) -> Array:
    """Rows of independent bounded entries and of root mean square 1; ones if a row has one entry.

    A high power of normal entries is decided by the few largest: its mean square at a finite width
    is far from the limit.
    """
    if shape[-1] == 1:
        return np.ones(shape)
    drawn: Array = draw.uniform(-1.0, 1.0, size=shape)
    drawn /= np.sqrt(np.mean(drawn**2, axis=-1, keepdims=True))
    return drawn


def at_large_widths(node: Node) -> Node:
    """An update with every number of a maximum, a minimum or a clip taken as 1 or −1.

    A law in the width leaves numbers out: ``max(rms(theta), 1/1000)`` is 1/1000 at widths that no
    explicit matrix has, and ``max(rms(theta), 1)`` is 1 at those that it has.
    """
    match node:
        case Call("max" | "min" | "clip" as function, arguments):
            numbers = [constant(argument) for argument in arguments]
            if None in numbers:  # else it is a number itself
                return Call(
                    function,
                    tuple(
                        Number(Fraction(1 if number > 0 else -1)) if number else at_large_widths(of)
                        for of, number in zip(arguments, numbers, strict=True)
                    ),
                )
    return mapped(node, at_large_widths)


def beside_epsilon(practice: Node) -> tuple[Node, Node] | None:
    """The term in ε of the first sum, or maximum, that holds one, and the term beside it."""
    epsilon = Name("epsilon")
    for node in parts(practice):
        match node:
            case Operation("+" | "-", left, right) | Call("max" | "min", (left, right)):
                for term, other in ((left, right), (right, left)):
                    if epsilon in parts(term) and epsilon not in parts(other):
                        return term, other
    return None


def as_large(terms: tuple[Node, Node], g: Array, theta: Array) -> float:
    """The ε that makes its term as large as the one beside it."""
    with_epsilon, beside = terms
    constants = {"eta": 1.0, "decay": 0.0}
    one, two = (rms(evaluated(with_epsilon, g, theta, epsilon=e, **constants)) for e in (1.0, 2.0))
    other = rms(evaluated(beside, g, theta, **constants))
    return float((other / one) ** (1 / math.log2(two / one)))


@lru_cache(maxsize=1024)
def see(update: Node, practice: Node, at: Drawn, *, aligned: bool) -> Seen:
    """The sizes of one update; the inputs are those that made the gradient, or fresh ones."""
    update = at_large_widths(update)
    draws = max(1, min(DRAWS, ENTRIES // (at.inputs * at.outputs)))
    beside = beside_epsilon(practice)
    logarithms = []
    for index in range(draws):
        draw = np.random.default_rng((index, at.inputs, at.outputs))
        x = _bounded(draw, TOKENS, at.inputs)
        # a head's few logits are the same ones at every width, so that no slope holds their noise
        of_outputs = np.random.default_rng((index, at.outputs))
        back = at.backward * _bounded(of_outputs, TOKENS, at.outputs)
        gradient = at.multiplier * back.T @ x
        if at.full_rank:
            gradient += FAINT * at.multiplier * at.backward * _bounded(draw, *gradient.shape)
        # a vector and a row of a table have entries of either sign too
        shape, is_vector = (at.outputs, at.inputs), at.inputs == 1
        theta = _bounded(draw, *(shape[::-1] if is_vector else shape)) * (at.init or 0.0)
        theta = theta.T if is_vector else theta
        stored = (gradient.T, theta.T) if at.is_table else (gradient, theta)
        changed = evaluated(update, *stored, eta=1.0)
        changed = changed.T if at.is_table else changed
        signal = _bounded(draw, TOKENS, at.outputs)
        met = x if aligned else _bounded(draw, FRESH, at.inputs)
        moved = signal @ theta if aligned else met
        sizes = [
            at.multiplier * rms(x @ theta.T),
            at.multiplier * rms(signal @ theta),
            at.multiplier * rms(moved @ theta.T) / (rms(moved) or 1.0),
            rms(gradient),
            rms(changed),
            at.multiplier * rms(met @ changed.T),
            as_large(beside, *stored) if beside else 0.0,
        ]
        with np.errstate(divide="ignore"):
            logarithms.append(np.log(np.abs(sizes)))
    return Seen(*map(float, np.exp(np.mean(logarithms, axis=0))))


def of_one(count: int) -> float:
    """What comes back to one of as many tokens, or experts, each with as many samples."""
    apart = np.eye(count) - 1 / count  # y - p of a softmax
    return rms(apart @ np.random.default_rng(0).choice((-1.0, 1.0), count)) / count


def of_group(count: int, *, aligned: bool) -> float:
    """What comes back to one of as many key-value heads, from its share of the query heads."""
    draw, readers = np.random.default_rng(0), 2 * WIDTHS[-1] // count
    signs = draw.choice((-1.0, 1.0), (DRAWS, count, 1 if aligned else readers))
    return rms(np.broadcast_to(signs, (DRAWS, count, readers)).sum(axis=-1))


def routed(chosen: int, aligned: bool = True) -> tuple[float, float]:
    """What comes back to one of as many experts of a token, and the size of their average."""
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(64, 2 * WIDTHS[-1])) / 8
    gates = np.exp(scores) * (scores >= np.sort(scores)[:, [-chosen]])
    gates /= gates.sum(axis=1, keepdims=True)
    outputs = 1.0 if aligned else draw.choice((-1.0, 1.0), gates.shape)
    return rms(gates.mean(axis=0)), rms((gates * outputs).sum(axis=1))


def slope(sizes: Mapping[int, float]) -> float:
    """The slope of the logarithm of a size in that of its argument, by least squares."""
    logs = np.log2(list(sizes)), np.log2(list(sizes.values()))
    return float(np.polyfit(*logs, 1)[0])


@dataclass(frozen=True)
class Slope:
    r"""A slope at small and at large sizes.

    A sum of unlike terms has its power in the end alone. Where what is left of the smaller one is
    r times as much at the large sizes, the slope goes on by :math:`r/(1 - r)` of what it went from
    ``near`` to ``far``; :math:`r = 1/\sqrt{2}` is taken.
    """

    near: float
    far: float

    def __mul__(self, times: float) -> Slope:
        """That of a power of the size."""
        return Slope(self.near * times, self.far * times)

    def __add__(self, other: Slope) -> Slope:
        """That of a product of sizes."""
        return Slope(self.near + other.near, self.far + other.far)

    def tends_to(self, power: float) -> bool:
        """Whether a power is where the slope is, or on its way, to within :data:`NEAR`."""
        drift = self.far - self.near
        on = (1 + math.sqrt(2)) * drift if abs(drift) > NEAR / 2 else 0.0  # no draw's noise
        return min(0.0, on) - NEAR < power - self.far < max(0.0, on) + NEAR


def slopes(see_at: Callable[[int], Seen]) -> dict[str, Slope]:
    """What each of the sizes of :class:`Seen` is in d; one that is 0 or not finite is left out."""
    seen, found = {width: see_at(width) for width in WIDTHS}, {}
    for name in Seen._fields:
        sizes = [(width, getattr(at, name)) for width, at in seen.items()]
        if all(size > 0 and math.isfinite(size) for _, size in sizes):
            found[name] = Slope(slope(dict(sizes[:-1])), slope(dict(sizes[1:])))
    return found
