r"""One role's update on explicit matrices of several widths, which knows no law of sizes.

W, the inputs and what comes back to the outputs are drawn at the sizes at hand,
:math:`g = c\sum_t \delta_t x_t^\top` of a few tokens, and the optimizer's own expression is
evaluated on them. What a size is in the width is the slope of its logarithm,

.. math:: a = \frac{\mathrm{d}\log f}{\mathrm{d}\log d},

over :data:`WIDTHS`. Few tokens, for ``sign(g)`` of T tokens acts by
:math:`n_{in}\sqrt{2/\pi T} \oplus \sqrt{n_{in}}`; the second wins at
:math:`T \gtrsim 2n_{in}/\pi`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepnet_theory.definitions.expression import (
    Call,
    Name,
    Node,
    Operation,
    OperatorAlgebra,
    fold,
    parts,
)

WIDTHS = (64, 128, 256, 512)
HEAD_SIZES = (8, 16, 32, 64)
TOKENS, FRESH = 2, 128  # inputs that made the gradient, and others
LOGITS = 3  # explicit outputs of the head, which has a fixed number of them
ENTRIES, DRAWS = 1 << 19, 24  # drawn for each width, in as many matrices as that makes
NEAR = 0.1  # how far a slope may be from its law: quarters stay distinct
LOW_RANK = 16
FAINT = 1e-4

Array = NDArray[np.float64]
Values = dict[str, Array | float]


@dataclass(frozen=True)
class Drawn:
    """What a role is drawn at: counts, c, σ (None: it is 0), the size of δ, and a learning rate.

    A gradient of ``full_rank`` has :data:`FAINT` entries of its own beside those of the few tokens.
    A table is stepped as it is stored, with a row a token.
    """

    inputs: int
    outputs: int
    multiplier: float
    init: float | None
    backward: float
    rate: float = 1.0
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
    increment: float  # ⟨g, ΔW⟩
    beside: float  # what ε stands beside


class Entrywise(OperatorAlgebra[Any]):
    """An update on a matrix of numbers."""

    def __init__(self, **values: Array | float) -> None:
        self.values = values

    def number(self, value: Fraction) -> float:
        return float(value)

    def name(self, name: str) -> Any:
        return self.values[name]

    def power(self, base: Any, exponent: Fraction) -> Any:
        # a whole exponent stays an integer: 0.0 to the power -1.0 is no more finite, but negative
        # bases have powers
        whole = exponent.denominator == 1
        return np.power(np.asarray(base, float), exponent.numerator if whole else float(exponent))

    def multiply(self, left: Any, right: Any) -> Any:
        return np.where(np.equal(left, 0) | np.equal(right, 0), 0.0, left * right)

    def divide(self, left: Any, right: Any) -> Any:
        """0/0 is 0: a row without a gradient, as of a unit that no token reaches, takes no step."""
        return np.where(np.equal(left, 0), 0.0, np.divide(left, right))

    def blocks(self, inner: Node, rows: int) -> Any:
        shape = np.shape(self.values["g"])

        def block(start: int) -> Array:
            values = {
                name: np.asarray(value)[start : start + rows] if np.shape(value) == shape else value
                for name, value in self.values.items()
            }
            change: Array = fold(inner, Entrywise(**values)) * np.ones_like(values["g"])
            return change

        return np.vstack([block(start) for start in range(0, shape[0], rows)])

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return _FUNCTIONS[function](*arguments)


def rms(values: Array | float) -> float:
    return math.sqrt(np.vdot(values, values) / np.size(values))


def polar(matrix: Array) -> Array:
    """UVᵀ of the singular vectors whose values are not 0; 0 for a matrix of zeros."""
    left: Array = np.eye(len(matrix))
    core = matrix
    if min(matrix.shape) > 2 * LOW_RANK:
        # a few tokens make a gradient of low rank: its range first, which costs a twentieth
        sketch = matrix @ np.random.default_rng(0).normal(size=(matrix.shape[1], LOW_RANK))
        basis = np.linalg.qr(sketch)[0]
        inner = basis.T @ matrix
        if rms(matrix - basis @ inner) <= 1e-9 * rms(matrix):
            left, core = basis, inner
    u, values, v = np.linalg.svd(core, full_matrices=False)
    kept = values > 1e-9 * values[0]
    factor: Array = left @ (u[:, kept] @ v[kept])
    return factor


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sign": np.sign,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "log": np.log,
    "norm": lambda a: math.sqrt(np.vdot(a, a)),
    "rms": rms,
    "numel": lambda a: float(np.size(a)),
    "rows": lambda a: float(np.shape(a)[0]),
    "columns": lambda a: float(np.shape(a)[1]),
    "polar": polar,
    "max": lambda *a: reduce(np.maximum, a),
    "min": lambda *a: reduce(np.minimum, a),
    "clip": lambda a, low, high: np.minimum(np.maximum(a, low), high),
}


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


@lru_cache(maxsize=1024)
def see(update: Node, practice: Node, at: Drawn, *, aligned: bool) -> Seen:
    """The sizes of one update; the inputs are those that made the gradient, or fresh ones."""
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
        theta: Array = np.zeros((at.outputs, at.inputs))
        if at.init is not None:
            # a vector and a row of a table have entries of either sign too
            vector = at.inputs == 1
            drawn = _bounded(draw, *(theta.T if vector else theta).shape)
            theta = at.init * (drawn.T if vector else drawn)
        stored = (gradient.T, theta.T) if at.is_table else (gradient, theta)
        values: Values = {"eta": 1.0, "g": stored[0], "theta": stored[1], "decay": 0.0}
        with np.errstate(all="ignore"):
            change = fold(update, Entrywise(**values)) * np.ones_like(stored[0])
        change = change.T if at.is_table else change
        signal = _bounded(draw, TOKENS, at.outputs)
        met = x if aligned else _bounded(draw, FRESH, at.inputs)
        moved = signal @ theta if aligned else met
        sizes = [
            at.multiplier * rms(x @ theta.T),
            at.multiplier * rms(signal @ theta),
            at.multiplier * rms(moved @ theta.T) / (rms(moved) or 1.0),
            rms(gradient),
            rms(change),
            at.multiplier * rms(met @ change.T),
            at.rate * float(np.vdot(gradient, change)),
            _beside(beside, values) if beside else 0.0,
        ]
        with np.errstate(divide="ignore"):
            logarithms.append(np.log(np.abs(sizes)))
    return Seen(*(float(s) for s in np.exp(np.mean(logarithms, axis=0))))


def _beside(terms: tuple[Node, Node], values: Values) -> float:
    """The ε that makes its term as large as the one beside it."""
    with_epsilon, other = terms
    one, two = (rms(fold(with_epsilon, Entrywise(**values, epsilon=e))) for e in (1.0, 2.0))
    power = math.log2(two / one)
    return float((rms(fold(other, Entrywise(**values))) / one) ** (1 / power))


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

    def tends_to(self, power: float) -> bool:
        """Whether a power is where the slope is, or on its way, to within :data:`NEAR`."""
        drift = self.far - self.near
        on = (1 + math.sqrt(2)) * drift if abs(drift) > NEAR / 2 else 0.0  # no draw's noise
        return min(0.0, on) - NEAR < power - self.far < max(0.0, on) + NEAR


def slopes(
    update: Node, practice: Node, drawn: Callable[[int, int], Drawn], *, aligned: bool, heads: bool
) -> dict[str, dict[str, Slope]]:
    """What each of the sizes of :class:`Seen` is in d, in k, and in the factors of g and of θ.

    ``drawn`` says what is drawn at a width and a head size. What is 0 or not finite somewhere is
    left out; so are k where no heads are, and θ where it is 0.
    """
    head, (near, *_, far, _) = HEAD_SIZES[1], WIDTHS
    sees = cache(lambda point: see(update, practice, point, aligned=aligned)._asdict())

    def halves(points: Mapping[int, Drawn]) -> list[dict[int, Drawn]]:
        sizes = [*points]
        return [{x: points[x] for x in part} for part in (sizes[:-1], sizes[1:])]

    def doubled(field: str) -> list[dict[int, Drawn]]:
        fixed = (drawn(width, head) for width in (near, far))
        return [{1: p, 2: replace(p, **{field: 2 * getattr(p, field)})} for p in fixed]

    curves = {  # two of each: at small sizes, and at large ones
        "d": halves({width: drawn(width, head) for width in WIDTHS}),
        "g": doubled("backward"),
    }
    if heads:
        curves["k"] = halves({size: drawn(WIDTHS[1], size) for size in HEAD_SIZES})
    if drawn(near, head).init is not None:
        curves["theta"] = doubled("init")
    fitted: dict[str, dict[str, Slope]] = {}
    for variable, pair in curves.items():
        seen = [{x: sees(point) for x, point in curve.items()} for curve in pair]
        fitted[variable] = {
            name: Slope(*(slope({x: sizes[name] for x, sizes in at.items()}) for at in seen))
            for name in Seen._fields
            if all(s[name] > 0 and math.isfinite(s[name]) for at in seen for s in at.values())
        }
    return fitted


def moves_zeros(update: Node) -> bool:
    """Whether an update of a parameter of zeros is not 0 itself."""
    gradient = np.random.default_rng(0).normal(size=(3, 2))
    with np.errstate(all="ignore"):
        change = fold(update, Entrywise(eta=1.0, g=gradient, theta=np.zeros((3, 2))))
    return bool(np.any(np.isfinite(change) & (change != 0)))


def key_bias_is_idle() -> bool:
    """Whether a key bias leaves the weights of explicit scores alone, beside one that does not."""
    draw = np.random.default_rng(0)
    queries, keys, bias = (draw.normal(size=shape) for shape in ((4, 8), (5, 8), (1, 8)))

    def weights(queries: Array, keys: Array) -> Array:
        raised: Array = np.exp(queries @ keys.T)
        raised /= raised.sum(axis=1, keepdims=True)
        return raised

    start = weights(queries, keys)
    idle = np.abs(weights(queries, keys + bias) - start).max()
    moved = np.abs(weights(queries + bias, keys) - start).max()
    return bool(idle < 1e-12 < moved)
