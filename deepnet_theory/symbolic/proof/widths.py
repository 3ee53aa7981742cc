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
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepnet_theory.spec.expression import Call, Name, Node, Operation, OperatorAlgebra, fold, parts

WIDTHS = (64, 128, 256, 512)
HEAD_SIZES = (8, 16, 32, 64)
TOKENS, FRESH = 2, 128  # inputs that made the gradient, and others
LOGITS = 3  # explicit outputs of the head, which has a fixed number of them
ENTRIES, DRAWS = 1 << 19, 24  # drawn for each width, in as many matrices as that makes
NEAR = 0.1  # how far a slope may be from its law: quarters stay distinct
LOW_RANK = 16

Array = NDArray[np.float64]
Values = dict[str, Array | float]


@dataclass(frozen=True)
class Drawn:
    """What a role is drawn at: counts, c, σ (None: it is 0), the size of δ, and a learning rate."""

    inputs: int
    outputs: int
    multiplier: float
    init: float | None
    backward: float
    rate: float = 1.0


@dataclass(frozen=True)
class Seen:
    """Root mean squares at the start and of one update; 0 where there is nothing.

    ``forward`` is that of c·Wx, ``back`` of c·Wᵀe, and ``read`` of c·WΔx for Δx of size 1, along
    the rows of W where it is aligned. ``gradient`` and ``update`` are of entries, ``action`` is of
    c·ΔWx, ``increment`` is ⟨g, ΔW⟩, and ``beside`` the size of what ε stands beside.
    """

    forward: float
    back: float
    read: float
    gradient: float
    update: float
    action: float
    increment: float
    beside: float


class Entrywise(OperatorAlgebra[Any]):
    """An update on a matrix of numbers."""

    def __init__(self, **values: Array | float) -> None:
        self.values = values

    def number(self, value: Fraction) -> float:
        return float(value)

    def name(self, name: str) -> Any:
        return self.values[name]

    def power(self, base: Any, exponent: Fraction) -> Any:
        whole = exponent.denominator == 1
        return np.power(np.asarray(base, float), exponent.numerator if whole else float(exponent))

    def blocks(self, inner: Node, rows: int) -> Any:
        shape = np.shape(self.values["g"])
        found = []
        for start in range(0, shape[0], rows):
            own = {
                name: np.asarray(value)[start : start + rows] if np.shape(value) == shape else value
                for name, value in self.values.items()
            }
            found.append(fold(inner, Entrywise(**own)) * np.ones_like(own["g"]))
        return np.vstack(found)

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        first = arguments[0]
        match function:
            case "norm":
                return math.sqrt(np.vdot(first, first))
            case "rms":
                return rms(first)
            case "numel":
                return float(np.size(first))
            case "rows":
                return float(np.shape(first)[0])
            case "columns":
                return float(np.shape(first)[1])
            case "polar":
                return polar(first)
            case "clip":
                return np.minimum(np.maximum(first, arguments[1]), arguments[2])
            case "max" | "min":
                of = np.maximum if function == "max" else np.minimum
                value = first
                for other in arguments[1:]:
                    value = of(value, other)
                return value
        return getattr(np, function)(first)


def rms(of: Array | float) -> float:
    return math.sqrt(np.vdot(of, of) / np.size(of))


def polar(of: Array) -> Array:
    """UVᵀ of the singular vectors whose values are not 0; 0 for a matrix of zeros."""
    left: Array = np.eye(len(of))
    core = of
    if min(of.shape) > 2 * LOW_RANK:  # a few tokens make a gradient of low rank
        found = np.linalg.qr(of @ np.random.default_rng(0).normal(size=(of.shape[1], LOW_RANK)))[0]
        inner = found.T @ of
        if rms(of - found @ inner) <= 1e-9 * rms(of):
            left, core = found, inner
    u, values, v = np.linalg.svd(core, full_matrices=False)
    kept = values > 1e-9 * values[0]
    result: Array = left @ (u[:, kept] @ v[kept])
    return result


def _normal(draw: np.random.Generator, *shape: int) -> Array:
    """Independent entries whose root mean square is 1; ones where each row has one entry."""
    if shape[-1] == 1:
        return np.ones(shape)
    drawn: Array = draw.normal(size=shape)
    drawn /= np.sqrt(np.mean(drawn**2, axis=-1, keepdims=True))
    return drawn


def beside_epsilon(practice: Node) -> tuple[Node, Node] | None:
    """The term in ε of the first sum, or maximum, that holds one, and the term beside it."""
    for node in parts(practice):
        match node:
            case Operation("+" | "-", left, right) | Call("max" | "min", (left, right)):
                for own, other in ((left, right), (right, left)):
                    if _holds_epsilon(own) and not _holds_epsilon(other):
                        return own, other
    return None


def _holds_epsilon(node: Node) -> bool:
    return Name("epsilon") in parts(node)


def see(update: Node, practice: Node, at: Drawn, *, aligned: bool) -> Seen:
    """The sizes of one update; the inputs are those that made the gradient, or fresh ones."""
    draws = max(1, min(DRAWS, ENTRIES // (at.inputs * at.outputs)))
    beside = beside_epsilon(practice)
    squares = []
    for index in range(draws):
        draw = np.random.default_rng((index, at.inputs, at.outputs))
        x = _normal(draw, TOKENS, at.inputs)
        back = at.backward * _normal(draw, TOKENS, at.outputs)
        gradient = at.multiplier * back.T @ x
        theta: Array = np.zeros((at.outputs, at.inputs))
        if at.init is not None:
            theta = at.init * draw.normal(size=theta.shape)
        values: Values = {"eta": 1.0, "g": gradient, "theta": theta, "decay": 0.0}
        with np.errstate(all="ignore"):
            change = fold(update, Entrywise(**values)) * np.ones_like(gradient)
        signal = _normal(draw, TOKENS, at.outputs)
        met = x if aligned else _normal(draw, FRESH, at.inputs)
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
        squares.append(np.square(sizes))
    return Seen(*(float(s) for s in np.sqrt(np.mean(squares, axis=0))))


def _beside(of: tuple[Node, Node], values: Values) -> float:
    """The ε that makes its term as large as the one beside it."""
    one, two = (rms(fold(of[0], Entrywise(**values, epsilon=e))) for e in (1.0, 2.0))
    power = math.log2(two / one)
    return float((rms(fold(of[1], Entrywise(**values))) / one) ** (1 / power))


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
    update: Node, practice: Node, at: Callable[[int, int], Drawn], *, aligned: bool, heads: bool
) -> dict[str, dict[str, Slope]]:
    """What each of the sizes of :class:`Seen` is in d, in k, and in the factors of g and of θ.

    ``at`` says what is drawn at a width and a head size. What is 0 or not finite somewhere is left
    out; so are k where no heads are, and θ where it is 0.
    """
    head, (near, *_, far, _) = HEAD_SIZES[1], WIDTHS

    @cache
    def sees(of: Drawn) -> dict[str, float]:
        return vars(see(update, practice, of, aligned=aligned))

    def fitted(*curves: Mapping[int, Drawn]) -> dict[str, Slope]:
        """Of the sizes along two curves, at small sizes and at large ones."""
        seen = [{x: sees(of) for x, of in curve.items()} for curve in curves]
        return {
            name: Slope(*(slope({x: of[name] for x, of in found.items()}) for found in seen))
            for name in Seen.__dataclass_fields__
            if all(of[name] > 0 and math.isfinite(of[name]) for f in seen for of in f.values())
        }

    def along(points: Mapping[int, Drawn]) -> dict[str, Slope]:
        sizes = [*points]
        return fitted(*({x: points[x] for x in part} for part in (sizes[:-1], sizes[1:])))

    def doubled(field: str) -> dict[str, Slope]:
        fixed = [at(width, head) for width in (near, far)]
        return fitted(*({1: f, 2: replace(f, **{field: 2 * getattr(f, field)})} for f in fixed))

    found = {"d": along({width: at(width, head) for width in WIDTHS}), "g": doubled("backward")}
    if heads:
        found["k"] = along({size: at(WIDTHS[1], size) for size in HEAD_SIZES})
    if at(near, head).init is not None:
        found["theta"] = doubled("init")
    return found


def moves_zeros(update: Node) -> bool:
    """Whether an update of a parameter of zeros is not 0 itself."""
    draw = np.random.default_rng(0)
    values: Values = {"eta": 1.0, "g": draw.normal(size=(3, 2)), "theta": np.zeros((3, 2))}
    with np.errstate(all="ignore"):
        change = fold(update, Entrywise(**values))
    return bool(np.any(np.isfinite(change) & (change != 0)))


def key_bias_is_idle() -> bool:
    """Whether a key bias leaves the weights of explicit scores alone, beside one that does not."""
    draw = np.random.default_rng(0)
    queries, keys, bias = (draw.normal(size=shape) for shape in ((4, 8), (5, 8), (1, 8)))

    def weights(of: Array, to: Array) -> Array:
        raised: Array = np.exp(of @ to.T)
        raised /= raised.sum(axis=1, keepdims=True)
        return raised

    start = weights(queries, keys)
    idle = np.abs(weights(queries, keys + bias) - start).max()
    moved = np.abs(weights(queries + bias, keys) - start).max()
    return bool(idle < 1e-12 < moved)
