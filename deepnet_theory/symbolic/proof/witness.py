r"""One explicit sublayer: small matrices of numbers, each with its derivative in a direction.

The formulas of ``spec`` (branch and residual equation) are evaluated from their trees, without
SymPy and without any law. Steps hold their matrix identities against it; the table's sizes are read
off it. What a quantity :math:`f(\alpha, \beta)` does near the identity is its elasticity

.. math:: a = \frac{\log f(2\alpha, \beta) - \log f(\alpha, \beta)}{\log 2}

and likewise in β; where a sublayer's branch is small these are whole numbers, and
:math:`f = \alpha^a\beta^b` up to a constant that is the convention 1. Plain lists, so that a
derivation need not wait for an array library.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, NamedTuple

from deepnet_theory.spec.constants import Architecture
from deepnet_theory.spec.expression import OperatorAlgebra, fold
from deepnet_theory.spec.placement import STREAM_GAIN, Placement
from deepnet_theory.spec.sublayer import Role, Sublayer, sublayer

TOKENS, WIDTH = 2, 3
TOLERANCE = 1e-6  # of a derivative, beside a finite difference
SMALL = 1e-11  # beside the largest response: rounding, where the derivative is 0
NEAR = 0.02  # how far from whole an elasticity may be, the branch being small and not 0
ALPHA, BETA = 1000.0, 0.01  # near the identity, for every branch that feels a gain

Rows = list[list[float]]
OfToken = Callable[[list[float], list[float]], tuple[list[float], list[float]]]


@dataclass(frozen=True)
class Matrix:
    """Rows of numbers with the arithmetic of matrices, and their derivative in one direction.

    ``slope`` is None where nothing moves; ``normalised`` is what a norm has divided.
    """

    rows: Rows
    slope: Rows | None = None
    normalised: Matrix | None = None

    def __iter__(self) -> Iterator[list[float]]:
        return iter(self.rows)

    def __add__(self, other: Matrix) -> Matrix:
        return Matrix(_each(operator.add, self.rows, other.rows), _sum(self.slope, other.slope))

    def __sub__(self, other: Matrix) -> Matrix:
        return self + other * -1.0

    def __mul__(self, other: Matrix | float) -> Matrix:
        if isinstance(other, Matrix):
            return self._bilinear(_product, other)
        slope = self.slope and [[p * other for p in row] for row in self.slope]
        return Matrix([[p * other for p in row] for row in self.rows], slope)

    __rmul__ = __mul__

    def __truediv__(self, scalar: float) -> Matrix:
        return self * (1.0 / scalar)

    def hadamard(self, other: Matrix) -> Matrix:
        return self._bilinear(lambda a, b: _each(operator.mul, a, b), other)

    def _bilinear(self, product: Callable[[Rows, Rows], Rows], other: Matrix) -> Matrix:
        left = self.slope and product(self.slope, other.rows)
        right = other.slope and product(self.rows, other.slope)
        return Matrix(product(self.rows, other.rows), _sum(left, right))

    def by_token(self, of: OfToken) -> Matrix:
        """A function of every row, by its value and derivative."""
        still = self.slope or [[0.0] * len(row) for row in self.rows]
        pairs = [of(row, moved) for row, moved in zip(self.rows, still, strict=True)]
        return Matrix([value for value, _ in pairs], self.slope and [moved for _, moved in pairs])

    @property
    def T(self) -> Matrix:
        return Matrix(_transposed(self.rows), self.slope and _transposed(self.slope))

    @property
    def derivative(self) -> Matrix:
        """Its derivative by itself, a matrix of zeros where nothing moves."""
        return Matrix(self.slope) if self.slope else self * 0.0

    @property
    def norm(self) -> float:
        """The Frobenius norm."""
        return math.hypot(*(p for row in self.rows for p in row))

    @property
    def rms(self) -> float:
        """The root mean square of the entries."""
        return self.norm / math.sqrt(sum(map(len, self.rows)))


def _each(of: Callable[[float, float], float], a: Rows, b: Rows) -> Rows:
    return [list(map(of, p, q)) for p, q in zip(a, b, strict=True)]


def _sum(a: Rows | None, b: Rows | None) -> Rows | None:
    return _each(operator.add, a, b) if a and b else a or b


def _product(a: Rows, b: Rows) -> Rows:
    columns = list(zip(*b, strict=True))
    return [[math.fsum(map(operator.mul, row, column)) for column in columns] for row in a]


def _transposed(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


def random_matrix(generator: random.Random, rows: int = WIDTH, columns: int = WIDTH) -> Matrix:
    """A matrix of normal entries, small enough that no softmax saturates."""
    return Matrix([[generator.gauss(0.0, 0.6) for _ in range(columns)] for _ in range(rows)])


def distance(a: Matrix, b: Matrix) -> float:
    """The Frobenius distance, relative to the largest entry of both."""
    return (a - b).norm / max(1e-3, *(abs(p) for m in (a, b) for row in m for p in row))


# ---- the maps of a branch ----


def leaky_relu(a: Matrix) -> Matrix:
    """The activation used as witness: positively homogeneous of degree 1, and never all zero."""
    return a.by_token(
        lambda row, moved: (
            [max(p, 0.2 * p) for p in row],
            [d if p > 0 else 0.2 * d for p, d in zip(row, moved, strict=True)],
        )
    )


def softmax(a: Matrix) -> Matrix:
    return a.by_token(_softmax)


def _softmax(row: list[float], moved: list[float]) -> tuple[list[float], list[float]]:
    weights = [math.exp(p - max(row)) for p in row]
    shares = [w / math.fsum(weights) for w in weights]
    mean = math.fsum(map(operator.mul, shares, moved))
    return shares, [w * (d - mean) for w, d in zip(shares, moved, strict=True)]


def normalise(a: Matrix) -> Matrix:
    """LayerNorm without gain and bias."""
    normed = a.by_token(_normalised)
    return Matrix(normed.rows, normed.slope, a)


def _normalised(row: list[float], moved: list[float]) -> tuple[list[float], list[float]]:
    centred, moved = ([p - sum(of) / len(of) for p in of] for of in (row, moved))
    size = math.hypot(*centred) / math.sqrt(len(row))
    unit = [p / size for p in centred]
    along = math.fsum(map(operator.mul, unit, moved)) / len(row)
    return unit, [(d - u * along) / size for u, d in zip(unit, moved, strict=True)]


def _with_vectors(normed: Matrix, gain: Matrix | None = None, bias: Matrix | None = None) -> Matrix:
    """A norm with its gain and its bias, each as often as there are tokens."""
    scaled = normed if gain is None else normed.hadamard(gain)
    return scaled if bias is None else scaled + bias


_MAPS: Mapping[str, Callable[..., Matrix]] = {
    "phi": leaky_relu,
    "softmax": softmax,
    "norm": lambda a, *vectors: _with_vectors(normalise(a), *vectors),
    "T": lambda a: a.T,
    "hadamard": Matrix.hadamard,
}


@dataclass(frozen=True)
class OnMatrices(OperatorAlgebra[Any]):
    """A formula of ``spec`` on explicit matrices and numbers."""

    names: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]

    def number(self, value: Fraction) -> float:
        return float(value)

    def name(self, name: str) -> Any:
        return self.names[name]

    def power(self, base: float, exponent: Fraction) -> float:
        return math.pow(base, float(exponent))

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return self.functions[function](*arguments)


@dataclass(frozen=True)
class Learnt:
    """A learnt multiplier of a matrix: the number it starts at, and how each channel moves."""

    start: float
    moved: Matrix | None

    def __mul__(self, of: Matrix) -> Matrix:
        scaled = of * self.start
        if self.moved is None:
            return scaled
        return Matrix(scaled.rows, _sum(scaled.slope, self.moved.hadamard(of).rows))


# ---- k of E experts beside one dense branch ----


class Mixed(NamedTuple):
    """Against one dense branch: the output's ``size``, the gradient that ``reached`` one expert,
    and the output's change where all experts move alike, ``together``."""

    size: float
    reached: float
    together: float


@cache
def mixed(of: Sublayer) -> Mixed:
    """The three numbers, on matrices; all 1 for a branch without experts.

    Token t chooses the experts t, …, t + k − 1 (modulo E), each weighed by 1/k; all tokens have
    the same input and the same gradient at the output. Outputs are at right angles, as
    independent ones are in a wide space.
    """
    draw, gate = random.Random(0), 1 / of.chosen
    entering, pushed, moved = random_matrix(draw, 1), random_matrix(draw, 1), random_matrix(draw)
    gradient, change = 0.0 * (entering.T * pushed), 0.0 * entering
    for token in range(of.experts):
        if 0 in ((token + i) % of.experts for i in range(of.chosen)):  # of the first, in the mean
            gradient = gradient + entering.T * pushed * (gate / of.experts)
    for _ in range(of.chosen):
        change = change + entering * moved * gate
    return Mixed(
        math.hypot(*[gate] * of.chosen),
        gradient.norm / (entering.T * pushed).norm,
        change.norm / (entering * moved).norm,
    )


# ---- a branch of Xavier's matrices ----


@cache
def xavier_variance(of: Sublayer, width: int = 16, draws: int = 60) -> float:
    """The mean square of a branch's entries at gain 1, on an input whose entries have variance 1.

    With a ReLU, of one token and an open gate, both a softmax of 1: what others stay below.
    """
    plain = sublayer(of.name.partition("@")[0])
    draw, sizes = random.Random(0), {"d": width, "hidden": round(Architecture().ffn_ratio * width)}

    def normal(rows: int, columns: int, variance: float = 1.0) -> Matrix:
        scale = math.sqrt(variance)
        return Matrix([[draw.gauss(0.0, scale) for _ in range(columns)] for _ in range(rows)])

    maps = {
        **_MAPS,
        "phi": lambda a: Matrix([[max(p, 0.0) for p in row] for row in a]),
        "softmax": lambda a: Matrix([[1.0 for _ in row] for row in a]),
    }
    squares = []
    for _ in range(draws):
        names = dict.fromkeys(("x", "memory"), normal(1, width))
        for m in plain.matrices:
            fans = sizes[m.fan_in], sizes[m.fan_out]
            names[m.name] = normal(*fans, variance=2 / sum(fans))
        for v in plain.vectors:
            names[v.name] = Matrix([[float(v.role is Role.NORM_GAIN)] * sizes[v.size]])
        value: Matrix = fold(plain.expression.root, OnMatrices(names, maps))
        squares.append(value.rms**2)
    return math.fsum(squares) / draws * mixed(of).size ** 2


# ---- a sublayer in its residual equation ----


@dataclass(frozen=True)
class Witness:
    """A sublayer on numbers: every matrix its gain times a direction U, biases 0.

    ``branch`` picks other matrices behind the same stream; ``entering`` is another stream.
    """

    sublayer: Sublayer
    placement: Placement
    alpha: float
    gains: Mapping[str, float]
    seed: int = 0
    branch: int = 0
    entering: Matrix | None = None

    @classmethod
    def drawn(cls, sublayer: Sublayer, placement: Placement, seed: int = 0) -> Witness:
        """One whose α and gains are all different, so that none can stand for another.

        Of experts it is one with its gate.
        """
        sublayer = replace(sublayer, chosen=1, experts=1)
        draw = random.Random(seed)
        gains = {matrix.name: draw.uniform(0.4, 1.6) for matrix in sublayer.matrices}
        return cls(sublayer, placement, draw.uniform(1.1, 1.9), gains, seed)

    @classmethod
    def at(
        cls, sublayer: Sublayer, placement: Placement, alpha: float, beta: float, branch: int = 0
    ) -> Witness:
        """One at the knobs: the gain β on all scaled matrices, 1 on the others."""
        scaled = {matrix.name for matrix in sublayer.scaled}
        gains = {m.name: beta if m.name in scaled else 1.0 for m in sublayer.matrices}
        return cls(sublayer, placement, alpha, gains, branch=branch)

    @cached_property
    def stream(self) -> tuple[Matrix, Matrix]:
        """x and the memory."""
        draw = random.Random(self.seed)
        x, memory = (normalise(random_matrix(draw, TOKENS)) for _ in range(2))
        return self.entering or Matrix(x.rows), Matrix(memory.rows)

    @cached_property
    def directions(self) -> dict[str, tuple[Matrix, Matrix]]:
        """U of every matrix, the start of every vector, and V, the transverse direction of each."""
        found = {}
        draw = random.Random(1000 * self.seed + self.branch + 1)
        for matrix in self.sublayer.matrices:
            found[matrix.name] = random_matrix(draw), random_matrix(draw)
        for vector in self.sublayer.vectors:
            repeated = Matrix(random_matrix(draw, 1).rows * TOKENS)
            start = float(vector.role is Role.NORM_GAIN)
            found[vector.name] = Matrix([[start] * len(row) for row in repeated]), repeated
        for name in ("norm_gain", "norm_bias", *self.placement.learnt):
            found[name] = random_matrix(draw, 1), Matrix(random_matrix(draw, 1).rows * TOKENS)
        return found

    def output(
        self, moved: str = "", radially: bool = False, divided: list[Matrix] | None = None
    ) -> Matrix:
        """The output with one parameter moved along V, or ``radially`` along its own U.

        ``divided`` takes up what each norm of the equation divides.
        """
        x, memory = self.stream
        parameters = {}
        for name in (parameter.name for parameter in self.sublayer.parameters):
            own, transverse = self.directions[name]
            along = (own if radially else transverse).rows if name == moved else None
            parameters[name] = Matrix((own * self.gains.get(name, 1.0)).rows, along)

        def norm(of: Matrix) -> Matrix:
            if divided is not None:
                divided.append(of)
            normed = normalise(of)
            if moved not in ("norm_gain", "norm_bias"):
                return normed
            _, sideways = self.directions[moved]
            added = normed.hadamard(sideways) if moved == "norm_gain" else sideways
            return Matrix(normed.rows, _sum(normed.slope, added.rows), of)

        def branch(of: Matrix) -> Matrix:
            names = {"x": of, "memory": memory, **parameters}
            value: Matrix = fold(self.sublayer.expression.root, OnMatrices(names, _MAPS))
            several = mixed(self.sublayer)
            moving = several.together if moved in parameters else several.size
            return Matrix((value * several.size).rows, (value * moving).slope)

        multipliers = iter(self.placement.learnt)

        def learnt(start: float) -> Learnt:
            if (name := next(multipliers)) != moved:
                return Learnt(start, None)
            entry = self.directions[name][1].rows[0]
            row = entry if self.placement.per_channel else entry[:1] * len(entry)
            return Learnt(start, Matrix([row] * TOKENS))

        names = {"x": x, "alpha": self.alpha}
        equation = OnMatrices(names, {"norm": norm, "branch": branch, "learnt": learnt})
        value: Matrix = fold(self.placement.expression.root, equation)
        return value

    def inner(self, moved: str = "", radially: bool = False) -> Matrix:
        """z: what the outermost norm is applied to, with the identity path at weight 1."""
        placed = self.output(moved, radially)
        if placed.normalised is None:
            return placed
        return placed.normalised / self.placement.coefficients(self.alpha)[0]


# ---- sizes as powers of α and β ----


@dataclass(frozen=True)
class Powers:
    """The measured elasticities of a size in α and β."""

    alpha: int
    beta: int
    constant: float = 1.0  # of experts beside one dense branch

    def at(self, alpha: float, beta: float) -> float:
        """The size at a rule's α and β."""
        return float(alpha**self.alpha * beta**self.beta) * self.constant


@dataclass(frozen=True)
class Sizes:
    """Everything that is measured of a sublayer behind a placement, as powers of α and β.

    ``responses`` of the output to every parameter, None where it is 0; ``weight`` r, what another
    branch of the same size makes of the output; ``variances``, the mean square of what the norm at
    each place divides.
    """

    responses: Mapping[str, Powers | None]
    weight: Powers
    variances: Mapping[str, Powers]


def _less(of: Witness, sublayer: Sublayer) -> dict[str, float]:
    """Gains that make the branch smaller still."""
    scaled = {matrix.name for matrix in sublayer.scaled}
    return {name: gain / 8 if name in scaled else gain for name, gain in of.gains.items()}


@cache
def sizes(placement: Placement, sublayer: Sublayer) -> Sizes:
    """The sizes of a sublayer, measured near the identity and once more at each knob doubled.

    Of k experts they are held against one's, to a whole power of the root of k. Raises
    ``ArithmeticError`` where one is no whole power there.
    """
    on_norm = ("norm_gain", "norm_bias") if "norm" in placement.expression.functions else ()
    moving = (*(p.name for p in sublayer.parameters), *on_norm, *placement.learnt)

    def measured(alpha: float, beta: float, of: Sublayer = sublayer) -> dict[str, float]:
        one, other = (Witness.at(of, placement, alpha, beta, branch) for branch in (0, 1))
        divided: list[Matrix] = []
        still = one.output(divided=divided)
        weight = (still - other.output()).rms / still.rms

        def response(name: str) -> Matrix:
            """Of the output; to a multiplier of the stream, of what a later sublayer ends in."""
            if name != STREAM_GAIN or not placement.final_norm:
                return one.output(name).derivative
            # the norm at the end is curved in the branch: nearer to the identity than the others
            own, later = (replace(w, gains=_less(w, sublayer)) for w in (one, other))
            return normalise(own.output(name) + later.output() - own.stream[0]).derivative

        found = {f"response to {name}": response(name).rms for name in moving}
        norms = zip(placement.places, divided, strict=True)
        return {
            **found,
            "weight of the branch": weight,
            **{f"norm on the {place}": of.rms**2 for place, of in norms},
        }

    has_alpha = "alpha" in placement.expression.names
    alpha = ALPHA if has_alpha else 1.0
    base = measured(alpha, BETA)
    doubled = {"beta": measured(alpha, 2 * BETA)}
    if has_alpha:
        doubled["alpha"] = measured(2 * alpha, BETA)
    several = sublayer.chosen > 1
    alone = measured(alpha, BETA, replace(sublayer, chosen=1, experts=1)) if several else base

    def whole(what: str, knob: str, ratio: float, of: float = 2.0) -> int:
        power = math.log(ratio, of)
        if abs(power - round(power)) > NEAR:
            raise ArithmeticError(f"{what}: no power of {knob} near the identity, {power:.3f}")
        return round(power)

    def powers(what: str) -> Powers:
        found = {"alpha": 0, "beta": 0}
        found |= {k: whole(what, k, sizes[what] / base[what]) for k, sizes in doubled.items()}
        if not several:
            return Powers(**found)
        root = math.sqrt(sublayer.chosen)
        times = whole(what, "the root of k", base[what] / alone[what], root)
        return Powers(**found, constant=root**times)

    responses = {name: f"response to {name}" for name in moving}
    own = [responses[p.name] for p in sublayer.parameters]  # a norm's gain moves what is not small
    least = SMALL * max(base[what] for what in own)
    return Sizes(
        {name: powers(what) if base[what] > least else None for name, what in responses.items()},
        powers("weight of the branch"),
        {place: powers(f"norm on the {place}") for place in placement.places},
    )


@cache
def of_uses(placement: Placement, sublayer: Sublayer) -> Mapping[str, int]:
    """By what power of its uses one sublayer's responses, and its branch (``""``), grow.

    Two uses in a row beside one, another sublayer behind both, so that every use passes a norm.
    """
    # two uses see each other's branch: nearer to the identity than one
    sizes_of_one, alpha, beta = sizes(placement, sublayer), ALPHA, BETA / 16
    if "alpha" not in placement.expression.names:
        alpha = 1.0

    def output(uses: int, moved: str = "", branch: int = 0) -> Matrix:
        own = Witness.at(sublayer, placement, alpha, beta, branch)
        for _ in range(uses):
            own = replace(own, entering=own.output(moved))
        other = Witness.at(sublayer, placement, alpha, beta, 2)
        return replace(other, entering=own.entering).output()

    found = {}
    for moved in ("", *(name for name, of in sizes_of_one.responses.items() if of is not None)):
        once, twice = (
            (output(uses, moved).derivative if moved else output(uses) - output(uses, branch=1)).rms
            for uses in (1, 2)
        )
        found[moved] = round(math.log2(twice / once))
        if abs(math.log2(twice / once) - found[moved]) > NEAR:
            raise ArithmeticError(f"two uses of {moved or 'a branch'} are no power of one")
    return found
