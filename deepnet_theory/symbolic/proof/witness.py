r"""One explicit sublayer, which measures every size of the table without its laws.

The formulas of ``spec`` are evaluated on small matrices of numbers, each with its derivative in a
direction. What a quantity :math:`f(\alpha, \beta)` does near the identity is its elasticity

.. math:: a = \frac{\log f(2\alpha, \beta) - \log f(\alpha, \beta)}{\log 2}

and likewise in β; where a sublayer's branch is small these are whole numbers, and
:math:`f = \alpha^a\beta^b` up to a constant that is the convention 1. Plain lists, so that a
derivation need not wait for an array library.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from deepnet_theory.spec.expression import OperatorAlgebra, fold
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import Role, Sublayer

TOKENS, WIDTH = 2, 3
SMALL = 1e-11  # beside the largest response: rounding, where the derivative is 0
NEAR = 0.02  # how far from whole an elasticity may be, the branch being small and not 0
ALPHA, BETA = 1000.0, 0.05  # near the identity, for every branch of two matrices and more

Rows = list[list[float]]
OfToken = Callable[[list[float], list[float]], tuple[list[float], list[float]]]


@dataclass(frozen=True)
class Dual:
    """A matrix and its derivative in one direction."""

    value: Rows
    slope: Rows

    @classmethod
    def constant(cls, value: Rows) -> Dual:
        return cls(value, [[0.0] * len(row) for row in value])

    def each(self, of: Callable[[float], float], derivative: Callable[[float], float]) -> Dual:
        """A function of every entry, by its derivative."""
        pairs = zip(self.value, self.slope, strict=True)
        slope = [[derivative(p) * d for p, d in zip(r, s, strict=True)] for r, s in pairs]
        return Dual([[of(p) for p in row] for row in self.value], slope)

    def __add__(self, other: Dual) -> Dual:
        return Dual(_sum(self.value, other.value), _sum(self.slope, other.slope))

    def __sub__(self, other: Dual) -> Dual:
        return self + other * -1.0

    def __mul__(self, other: Dual | float) -> Dual:
        if isinstance(other, Dual):
            slope = _sum(_product(self.slope, other.value), _product(self.value, other.slope))
            return Dual(_product(self.value, other.value), slope)
        return Dual(*([[p * other for p in row] for row in m] for m in (self.value, self.slope)))

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Dual:
        return self * (1.0 / other)

    def hadamard(self, other: Dual) -> Dual:
        """The entrywise product."""
        slope = _sum(_entrywise(self.slope, other.value), _entrywise(self.value, other.slope))
        return Dual(_entrywise(self.value, other.value), slope)

    @property
    def T(self) -> Dual:
        """The transpose."""
        return Dual(*([list(c) for c in zip(*m, strict=True)] for m in (self.value, self.slope)))

    def by_row(self, of: OfToken) -> Dual:
        """A function of every token, by its value and derivative."""
        pairs = [of(r, s) for r, s in zip(self.value, self.slope, strict=True)]
        return Dual([v for v, _ in pairs], [s for _, s in pairs])


def _sum(a: Rows, b: Rows) -> Rows:
    return [[p + q for p, q in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def _entrywise(a: Rows, b: Rows) -> Rows:
    return [[p * q for p, q in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def _product(a: Rows, b: Rows) -> Rows:
    columns = list(zip(*b, strict=True))
    return [[math.fsum(p * q for p, q in zip(r, c, strict=True)) for c in columns] for r in a]


def rms(of: Rows) -> float:
    """The root mean square of the entries."""
    entries = [p for row in of for p in row]
    return math.sqrt(math.fsum(p * p for p in entries) / len(entries))


def _softmax(row: list[float], slope: list[float]) -> tuple[list[float], list[float]]:
    weights = [math.exp(p - max(row)) for p in row]
    shares = [w / math.fsum(weights) for w in weights]
    mean = math.fsum(w * d for w, d in zip(shares, slope, strict=True))
    return shares, [w * (d - mean) for w, d in zip(shares, slope, strict=True)]


def _normalised(row: list[float], slope: list[float]) -> tuple[list[float], list[float]]:
    size = math.sqrt(math.fsum(p * p for p in row) / len(row))
    unit = [p / size for p in row]
    along = math.fsum(u * d for u, d in zip(unit, slope, strict=True)) / len(row)
    return unit, [(d - u * along) / size for u, d in zip(unit, slope, strict=True)]


@dataclass(frozen=True)
class Knobs:
    """α and β of an evaluated sublayer."""

    alpha: float
    beta: float

    def doubled(self, knob: str) -> Knobs:
        """The same with one of them doubled."""
        return Knobs(self.alpha * (1 + (knob == "alpha")), self.beta * (1 + (knob == "beta")))


@dataclass(frozen=True)
class Witness:
    """A sublayer in its residual equation, on numbers."""

    placement: Placement
    sublayer: Sublayer

    def output(self, at: Knobs, moved: str = "", branch: int = 0) -> tuple[Dual, dict[str, Rows]]:
        """The output with one parameter moved in a direction, and what each norm divides.

        ``branch`` picks other matrices for the branch.
        """
        evaluation = _Equation(self, at, moved, branch)
        value: Dual = fold(self.placement.expression.root, evaluation)
        return value, dict(zip(self.placement.places, evaluation.divided, strict=True))

    def response(self, parameter: str, at: Knobs) -> float:
        """How far the output moves with a parameter that moves by entries of order one."""
        return rms(self.output(at, parameter)[0].slope)

    def weight(self, at: Knobs) -> float:
        """r: what another branch of the same size makes of the output, over the output."""
        one, other = (self.output(at, branch=index)[0].value for index in (0, 1))
        gap = [[p - q for p, q in zip(r, s, strict=True)] for r, s in zip(one, other, strict=True)]
        return rms(gap) / rms(one)

    def variance(self, place: str, at: Knobs) -> float:
        """The mean square of what the norm at a place divides."""
        return rms(self.output(at)[1][place]) ** 2


class _Equation(OperatorAlgebra[Dual]):
    """The residual equation on duals."""

    def __init__(self, of: Witness, at: Knobs, moved: str, branch: int) -> None:
        self.of, self.at, self.moved, self.index = of, at, moved, branch
        self.divided: list[Rows] = []
        draw = random.Random(1)
        self.x, self.memory = (
            Dual.constant(_drawn(draw, TOKENS)).by_row(_normalised) for _ in range(2)
        )

    def number(self, value: Fraction) -> float:  # type: ignore[override]
        return float(value)

    def name(self, name: str) -> Dual | float:
        return self.at.alpha if name == "alpha" else self.x

    def power(self, base: float, exponent: Fraction) -> float:  # type: ignore[override]
        return math.pow(base, float(exponent))

    def call(self, function: str, arguments: tuple[Dual, ...]) -> Dual:
        (argument,) = arguments
        if function == "branch":
            algebra = _Branch(self.of.sublayer, argument, self.memory, self)
            value: Dual = fold(self.of.sublayer.expression.root, algebra)
            return value
        self.divided.append(argument.value)
        normed = argument.by_row(_normalised)
        draw = random.Random(7)
        direction = [[draw.gauss(0.0, 1.0) for _ in range(WIDTH)]] * len(normed.value)
        if self.moved == "norm_gain":
            return Dual(normed.value, _sum(normed.slope, _entrywise(normed.value, direction)))
        if self.moved == "norm_bias":
            return Dual(normed.value, _sum(normed.slope, direction))
        return normed


class _Branch(OperatorAlgebra[Dual]):
    """A branch's formula on duals; biases start at 0."""

    def __init__(self, of: Sublayer, x: Dual, memory: Dual, equation: _Equation) -> None:
        self.names: Mapping[str, Dual] = {"x": x, "memory": memory}
        scaled = {m.name for m in of.scaled}
        for place, matrix in enumerate(of.matrices):
            draw = random.Random(100 * equation.index + place)
            gain = equation.at.beta if matrix.name in scaled else 1.0
            start = [[gain * p for p in row] for row in _drawn(draw, WIDTH)]
            self._put(matrix.name, start, _drawn(draw, WIDTH), equation.moved)
        for place, vector in enumerate(of.vectors):
            draw = random.Random(1000 + place)
            zero = [[0.0] * WIDTH] * TOKENS
            self._put(vector.name, zero, _drawn(draw, 1) * TOKENS, equation.moved)

    def _put(self, name: str, start: Rows, direction: Rows, moved: str) -> None:
        value = Dual(start, direction) if name == moved else Dual.constant(start)
        self.names = {**self.names, name: value}

    def name(self, name: str) -> Dual:
        return self.names[name]

    def number(self, value: Fraction) -> Dual:
        raise TypeError("a branch holds a number")

    def power(self, base: Dual, exponent: Fraction) -> Dual:
        raise TypeError("a branch holds a power")

    def call(self, function: str, arguments: tuple[Dual, ...]) -> Dual:
        of = arguments[0]
        match function:
            case "phi":  # positively homogeneous of degree 1, and never all zero
                return of.each(lambda p: max(p, 0.2 * p), lambda p: 1.0 if p > 0 else 0.2)
            case "softmax":
                return of.by_row(_softmax)
            case "norm":
                return of.by_row(_normalised)
            case "T":
                return of.T
            case _:
                return of.hadamard(arguments[1])


def _drawn(draw: random.Random, rows: int) -> Rows:
    return [[draw.gauss(0.0, 0.6) for _ in range(WIDTH)] for _ in range(rows)]


@dataclass(frozen=True)
class Powers:
    """The measured elasticities of a size in α and β."""

    alpha: int
    beta: int

    def at(self, knobs: Knobs) -> float:
        """The size at a rule's α and β."""
        return float(knobs.alpha**self.alpha * knobs.beta**self.beta)


def _powers(size: Callable[[Knobs], float], has_alpha: bool, what: str) -> Powers:
    at = Knobs(ALPHA if has_alpha else 1.0, BETA)
    found = {"alpha": 0, "beta": 0}
    for knob in found if has_alpha else ("beta",):
        power = math.log2(size(at.doubled(knob)) / size(at))
        found[knob] = round(power)
        if abs(power - found[knob]) > NEAR:
            raise ArithmeticError(f"{what} is no power of {knob} near the identity: {power:.3f}")
    return Powers(**found)


@cache
def responses(placement: Placement, sublayer: Sublayer) -> Mapping[str, Powers | None]:
    """Every parameter's response as powers of α and β; None where it is 0."""
    witness = Witness(placement, sublayer)
    has_alpha = "alpha" in placement.expression.names
    names = [p.name for p in sublayer.parameters]
    names += ["norm_gain", "norm_bias"] if "norm" in placement.expression.functions else []
    at = Knobs(ALPHA if has_alpha else 1.0, BETA)
    sizes = {name: witness.response(name, at) for name in names}
    least = SMALL * max(sizes.values())
    return {
        name: None
        if sizes[name] <= least
        else _powers(lambda k, n=name: witness.response(n, k), has_alpha, f"{name}'s response")  # type: ignore[misc]
        for name in names
    }


@cache
def weight(placement: Placement, sublayer: Sublayer) -> Powers:
    """r as powers of α and β."""
    witness = Witness(placement, sublayer)
    return _powers(witness.weight, "alpha" in placement.expression.names, "the branch's weight")


@cache
def variances(placement: Placement, sublayer: Sublayer) -> Mapping[str, Powers]:
    """The mean square of what each norm divides, as powers of α and β, by its place."""
    witness = Witness(placement, sublayer)
    has_alpha = "alpha" in placement.expression.names
    return {
        place: _powers(lambda k, p=place: witness.variance(p, k), has_alpha, f"the norm on {place}")  # type: ignore[misc]
        for place in placement.places
    }


def is_matrix(role: Role) -> bool:
    """Whether a parameter of the role is a matrix."""
    return role in (Role.SCALED, Role.UNSCALED)
