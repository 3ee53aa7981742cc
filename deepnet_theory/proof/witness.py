r"""One explicit sublayer: small matrices of numbers, which know no law of sizes.

The formulas of ``definitions`` (branch and residual equation) are evaluated from their trees,
without
SymPy and without any law. Steps hold their matrix identities against it; the table's sizes are read
off it. What moves has an imaginary part: :math:`f(x + ihv) = f(x) + ih\,\partial_v f(x)` to
rounding, so that no map needs a formula of its derivative. What a quantity
:math:`f(\alpha, \beta)` does near the identity is its elasticity

.. math:: a = \frac{\log f(2\alpha, \beta) - \log f(\alpha, \beta)}{\log 2}

and likewise in β; where a sublayer's branch is small these are whole numbers, and
:math:`f = \alpha^a\beta^b` up to a constant that is the convention 1.
"""

from __future__ import annotations

import cmath
import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from deepnet_theory.definitions.expression import Call, OperatorAlgebra, fold
from deepnet_theory.definitions.placement import STREAM_GAIN, Placement
from deepnet_theory.definitions.sublayer import Role, Sublayer

TOKENS, WIDTH = 2, 3
TOLERANCE = 1e-6  # of a derivative, beside a finite difference
SMALL = 1e-11  # beside the largest response: rounding, where the derivative is 0
NEAR = 0.02  # how far from whole an elasticity may be, the branch being small and not 0
ALPHA, BETA = 1000.0, 0.01  # near the identity, for every branch that feels a gain
MOVE = 2.0**-80  # h: its square is far below rounding, and nothing is subtracted

Row = list[Any]  # floats, or complex numbers where something moves


@dataclass(frozen=True)
class Matrix:
    """Rows of numbers with the arithmetic of matrices.

    Lists, though NumPy is there: at this size they are no slower, a derivation need not wait for
    NumPy's import, and no array library stands between a formula's tree and its value.
    """

    rows: list[Row]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __add__(self, other: Matrix) -> Matrix:
        return self._entrywise(operator.add, other)

    def __sub__(self, other: Matrix) -> Matrix:
        return self._entrywise(operator.sub, other)

    def __mul__(self, other: Matrix | complex) -> Matrix:
        if not isinstance(other, Matrix):
            return Matrix([[p * other for p in row] for row in self.rows])
        columns = list(zip(*other.rows, strict=True))
        return Matrix([[sum(map(operator.mul, row, c)) for c in columns] for row in self.rows])

    __rmul__ = __mul__

    def __truediv__(self, scalar: float) -> Matrix:
        return self * (1.0 / scalar)

    def hadamard(self, other: Matrix) -> Matrix:
        return self._entrywise(operator.mul, other)

    def _entrywise(self, function: Callable[[Any, Any], Any], other: Matrix) -> Matrix:
        pairs = zip(self.rows, other.rows, strict=True)
        return Matrix([list(map(function, p, q)) for p, q in pairs])

    def by_token(self, function: Callable[[Row], Row]) -> Matrix:
        return Matrix([function(row) for row in self.rows])

    @property
    def T(self) -> Matrix:
        return Matrix([list(column) for column in zip(*self.rows, strict=True)])

    def moved(self, along: Matrix) -> Matrix:
        """Itself, moving in a direction."""
        return self + along * (MOVE * 1j)

    @property
    def derivative(self) -> Matrix:
        """Its derivative by what moves in it, a matrix of zeros where nothing does."""
        return self.by_token(lambda row: [p.imag / MOVE for p in row])

    @property
    def norm(self) -> float:
        """The Frobenius norm."""
        return math.hypot(*(p.real for row in self.rows for p in row))

    @property
    def rms(self) -> float:
        """The root mean square of the entries."""
        return self.norm / math.sqrt(sum(map(len, self.rows)))


class Channels(Matrix):
    """A learnt multiplier that moves: it multiplies the channels of every token."""

    def __mul__(self, other: Matrix | complex) -> Matrix:
        return self.hadamard(other) if isinstance(other, Matrix) else super().__mul__(other)


def random_matrix(generator: random.Random, rows: int = WIDTH, columns: int = WIDTH) -> Matrix:
    """A matrix of normal entries, small enough that no softmax saturates."""
    return Matrix([[generator.gauss(0.0, 0.6) for _ in range(columns)] for _ in range(rows)])


def distance(a: Matrix, b: Matrix) -> float:
    """The Frobenius distance, relative to the largest entry of both."""
    largest: float = max(1e-3, *(abs(p) for m in (a, b) for row in m for p in row))
    return (a - b).norm / largest


# ---- the maps of a branch ----


def leaky_relu(a: Matrix) -> Matrix:
    """The activation used as witness: positively homogeneous of degree 1, and never all zero."""
    return a.by_token(lambda row: [p if p.real > 0 else 0.2 * p for p in row])


def softmax(a: Matrix) -> Matrix:
    def shares(row: Row) -> Row:
        top = max(p.real for p in row)
        # a real row stays one of floats
        weights = [(cmath if isinstance(p, complex) else math).exp(p - top) for p in row]
        total = sum(weights)
        return [weight / total for weight in weights]

    return a.by_token(shares)


def normalise(a: Matrix) -> Matrix:
    """LayerNorm without gain and bias."""

    def unit(row: Row) -> Row:
        mean = sum(row) / len(row)
        centred = [p - mean for p in row]
        size = (sum(p * p for p in centred) / len(row)) ** 0.5
        return [p / size for p in centred]

    return a.by_token(unit)


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
    """A formula of ``definitions`` on explicit matrices and numbers."""

    names: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]

    def number(self, value: Fraction) -> float:
        return float(value)

    def name(self, name: str) -> Any:
        return self.names[name]

    def power(self, base: Any, exponent: Fraction) -> Any:
        if isinstance(base, Matrix):  # of every entry
            return base.by_token(lambda row: [p ** float(exponent) for p in row])
        return math.pow(base, float(exponent))

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return self.functions[function](*arguments)


# ---- k of E experts beside one dense branch ----


class Mixed(NamedTuple):
    """Against one dense branch: the output's ``size``, the gradient that ``reached`` one expert,
    and the output's change where all experts move alike, ``together``."""

    size: float
    reached: float
    together: float


@cache
def mixed(branch: Sublayer) -> Mixed:
    """The three numbers, on matrices; all 1 for a branch without experts.

    Token t chooses the experts t, …, t + k − 1 (modulo E), each weighed by 1/k; all tokens have
    the same input and the same gradient at the output. Outputs are at right angles, as
    independent ones are in a wide space.
    """
    draw, gate, chosen = random.Random(0), 1 / branch.chosen, range(branch.chosen)
    entering, pushed, moved = random_matrix(draw, 1), random_matrix(draw, 1), random_matrix(draw)
    gradient, change = 0.0 * (entering.T * pushed), 0.0 * entering
    for token in range(branch.experts):
        if 0 in ((token + i) % branch.experts for i in chosen):  # of the first, in the mean
            gradient = gradient + entering.T * pushed * (gate / branch.experts)
    for _ in chosen:
        change = change + entering * moved * gate
    return Mixed(
        math.hypot(*[gate] * branch.chosen),
        gradient.norm / (entering.T * pushed).norm,
        change.norm / (entering * moved).norm,
    )


# ---- a branch of Xavier's matrices ----


class _OnArrays(OnMatrices):
    """A formula on NumPy's arrays, a product of matrices being one of matrices."""

    def multiply(self, left: Any, right: Any) -> Any:
        return left @ right if np.ndim(left) and np.ndim(right) else left * right

    def power(self, base: Any, exponent: Fraction) -> Any:
        return base ** float(exponent)


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

    @property
    def smaller(self) -> Witness:
        """One whose branch is smaller still."""
        scaled = {matrix.name for matrix in self.sublayer.scaled}
        gains = {name: gain / (8 if name in scaled else 1) for name, gain in self.gains.items()}
        return replace(self, gains=gains)

    @cached_property
    def stream(self) -> tuple[Matrix, Matrix]:
        """x and the memory."""
        draw = random.Random(self.seed)
        x, memory = (normalise(random_matrix(draw, TOKENS)) for _ in range(2))
        return self.entering or x, memory

    @cached_property
    def directions(self) -> dict[str, tuple[Matrix, Matrix]]:
        """U of every matrix, the start of every vector, and V, the transverse direction of each."""
        draw = random.Random(1000 * self.seed + self.branch + 1)
        directions = {}
        for matrix in self.sublayer.matrices:
            directions[matrix.name] = random_matrix(draw), random_matrix(draw)
        for vector in self.sublayer.vectors:
            repeated = Matrix(random_matrix(draw, 1).rows * TOKENS)
            start = float(vector.role is Role.NORM_GAIN)
            directions[vector.name] = Matrix([[start] * WIDTH] * TOKENS), repeated
        for name in ("norm_gain", "norm_bias", *self.placement.learnt):
            directions[name] = random_matrix(draw, 1), Matrix(random_matrix(draw, 1).rows * TOKENS)
        return directions

    def output(
        self, moved: str = "", radially: bool = False, divided: list[Matrix] | None = None
    ) -> Matrix:
        """The output with one parameter moving along V, or ``radially`` along its own U.

        ``divided`` takes up what each norm of the equation divides.
        """
        x, memory = self.stream
        parameters = {}
        for name in (parameter.name for parameter in self.sublayer.parameters):
            start, transverse = self.directions[name]
            still, along = start * self.gains.get(name, 1.0), start if radially else transverse
            parameters[name] = still.moved(along) if name == moved else still
        several = mixed(self.sublayer)
        moving = several.together if moved in parameters else several.size

        def norm(argument: Matrix) -> Matrix:
            if divided is not None:
                divided.append(argument)
            normed = normalise(argument)
            if moved not in ("norm_gain", "norm_bias"):
                return normed
            _, sideways = self.directions[moved]
            return normed.moved(normed.hadamard(sideways) if moved == "norm_gain" else sideways)

        def branch(argument: Matrix) -> Matrix:
            names = {"x": argument, "memory": memory, **parameters}
            value: Matrix = fold(self.sublayer.expression.root, OnMatrices(names, _MAPS))
            if several.size == moving:
                return value * moving
            return Matrix([[complex(p.real * several.size, p.imag * moving) for p in row]
                           for row in value])  # fmt: skip

        multipliers = iter(self.placement.learnt)

        def learnt(start: float) -> float | Channels:
            if next(multipliers) != moved:
                return start
            entry = self.directions[moved][1].rows[0]
            row = entry if self.placement.per_channel else entry[:1] * len(entry)
            return Channels([[start + MOVE * 1j * p for p in row]] * TOKENS)

        names = {"x": x, "alpha": self.alpha}
        equation = OnMatrices(names, {"norm": norm, "branch": branch, "learnt": learnt})
        value: Matrix = fold(self.placement.expression.root, equation)
        return value

    def inner(self, moved: str = "", radially: bool = False) -> Matrix:
        """z: what the outermost norm is applied to, with the identity path at weight 1."""
        divided: list[Matrix] = []
        placed = self.output(moved, radially, divided)
        match self.placement.expression.root:
            case Call("norm", _):
                return divided[-1] / self.placement.coefficients(self.alpha)[0]
        return placed


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


def whole(power: float, words: str) -> int:
    """A power that is a whole number near the identity; raises ``ArithmeticError`` else."""
    if abs(power - round(power)) > NEAR:
        raise ArithmeticError(f"{words} near the identity, {power:.3f}")
    return round(power)


@cache
def sizes(placement: Placement, sublayer: Sublayer) -> Sizes:
    """The sizes of a sublayer, measured near the identity and once more at each knob doubled.

    Of k experts they are held against one's, to a whole power of the root of k. Raises
    ``ArithmeticError`` where one is no whole power there.
    """
    on_norm = ("norm_gain", "norm_bias") if "norm" in placement.expression.functions else ()
    of_branch = [parameter.name for parameter in sublayer.parameters]
    moving = (*of_branch, *on_norm, *placement.learnt)
    behind = placement.final_norm  # a multiplier of the stream moves what a later sublayer ends in

    def measured(alpha: float, beta: float, branch: Sublayer = sublayer) -> dict[str, float]:
        one, other = (Witness.at(branch, placement, alpha, beta, i) for i in (0, 1))
        divided: list[Matrix] = []
        still = one.output(divided=divided)
        # the norm at the end is curved in the branch: nearer to the identity than the others
        near, later = one.smaller, other.smaller
        numbers = {}
        for name in moving:
            output = one.output(name)
            if name == STREAM_GAIN and behind:
                output = normalise(near.output(name) + later.output() - near.stream[0])
            numbers[f"response to {name}"] = output.derivative.rms
        numbers["weight of the branch"] = (still - other.output()).rms / still.rms
        for place, argument in zip(placement.places, divided, strict=True):
            numbers[f"norm on the {place}"] = argument.rms**2
        return numbers

    has_alpha = "alpha" in placement.expression.names
    alpha = ALPHA if has_alpha else 1.0
    base = measured(alpha, BETA)
    doubled = {"beta": measured(alpha, 2 * BETA)}
    if has_alpha:
        doubled["alpha"] = measured(2 * alpha, BETA)
    several = sublayer.chosen > 1
    alone = measured(alpha, BETA, replace(sublayer, chosen=1, experts=1)) if several else base

    def powers(what: str) -> Powers:
        ratios = {knob: sizes[what] / base[what] for knob, sizes in doubled.items()}
        by = {x: whole(math.log2(ratio), f"{what}: no power of {x}") for x, ratio in ratios.items()}
        root = math.sqrt(sublayer.chosen)
        times = math.log(base[what] / alone[what], root) if several else 0.0
        of_experts = root ** whole(times, f"{what}: no power of the root of k")
        return Powers(**{"alpha": 0, **by}, constant=of_experts)

    # a norm's gain moves what is not small
    least = SMALL * max(base[f"response to {name}"] for name in of_branch)
    responses = {name: f"response to {name}" for name in moving}
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
        shared = Witness.at(sublayer, placement, alpha, beta, branch)
        for _ in range(uses):
            shared = replace(shared, entering=shared.output(moved))
        other = Witness.at(sublayer, placement, alpha, beta, 2)
        return replace(other, entering=shared.entering).output()

    powers = {}
    for moved in ("", *(name for name, size in sizes_of_one.responses.items() if size is not None)):
        once, twice = (
            (output(uses, moved).derivative if moved else output(uses) - output(uses, branch=1)).rms
            for uses in (1, 2)
        )
        growth = math.log2(twice / once)
        powers[moved] = whole(growth, f"two uses of {moved or 'a branch'} are no power of one")
    return powers
