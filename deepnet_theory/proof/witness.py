r"""One explicit sublayer on small NumPy arrays, which knows no law of sizes.

The formulas of ``definitions`` (branch and residual equation) are evaluated from their trees,
without SymPy and without any law. Steps hold their matrix identities against the arrays, and the
table's sizes are read off them. The part that moves is imaginary:
:math:`f(x + ihv) = f(x) + ih\,\partial_v f(x)` to rounding, so that no map needs a formula of its
derivative. Near the identity a quantity :math:`f(\alpha, \beta)` has the elasticity

.. math:: a = \frac{\log f(2\alpha, \beta) - \log f(\alpha, \beta)}{\log 2}

in α, and likewise in β. Where a sublayer's branch is small these are whole numbers, and
:math:`f = \alpha^a\beta^b` up to a constant that is the convention 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepnet_theory.definitions.expression import OPERATORS, Algebra, Call, fold
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.sublayer import Role, Sublayer
from deepnet_theory.sizes.monomial import Monomial

TOKENS, WIDTH = 2, 3
TOLERANCE = 1e-6  # of a derivative, beside a finite difference
SMALL = 1e-11  # beside the largest response: rounding, where the derivative is 0
NEAR = 0.02  # how far from whole an elasticity may be, the branch being small and not 0
ALPHA, BETA = 1000.0, 0.01  # near the identity, for every branch that depends on a gain
MOVE = 2.0**-80  # h: its square is far below rounding, and nothing is subtracted

Array = NDArray[Any]
Maps = Mapping[str, Callable[..., Any]]


# ---- arrays, and the maps of a branch on them ----


def normal(draw: np.random.Generator, rows: int = WIDTH, columns: int = WIDTH) -> Array:
    """A matrix of normal entries, small enough that no softmax saturates."""
    return draw.normal(0.0, 0.6, (rows, columns))


def rms(values: Any) -> float:
    """The root mean square of the entries."""
    return float(np.sqrt(np.mean(np.square(np.real(values)))))


def distance(a: Array, b: Array) -> float:
    """The Frobenius distance, relative to the largest entry of both."""
    largest = max(1e-3, *(float(np.max(np.abs(of))) for of in (a, b)))
    return float(np.linalg.norm(np.subtract(a, b))) / largest


def derivative(moved: Array) -> Array:
    """The derivative of what moves in an array; zeros where nothing does."""
    return np.imag(moved) / MOVE


def leaky_relu(a: Array) -> Array:
    """The activation used as witness: positively homogeneous of degree 1, and never all zero."""
    return np.where(np.real(a) > 0, a, 0.2 * a)


def softmax(a: Array) -> Array:
    weights: Array = np.exp(a - np.max(np.real(a), axis=-1, keepdims=True))
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def normalise(a: Array) -> Array:
    """LayerNorm without gain and bias."""
    centred = a - a.mean(axis=-1, keepdims=True)
    normed: Array = centred / np.mean(centred**2, axis=-1, keepdims=True) ** 0.5
    return normed


MAPS: Maps = {
    "phi": leaky_relu,
    "softmax": softmax,
    "norm": lambda a, gain=1.0, bias=0.0: normalise(a) * gain + bias,
    "T": np.transpose,
    "hadamard": np.multiply,
}


def product(left: Any, right: Any) -> Any:
    """The product of matrices, or a multiple of one."""
    return left @ right if np.ndim(left) == np.ndim(right) == 2 else left * right


ON_MATRICES = {**OPERATORS, "*": product}


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

    Token t chooses the experts t, …, t + k − 1 (modulo E), each weighed by 1/k. All tokens have the
    same input and the same gradient at the output. Outputs are at right angles, as independent ones
    are in a wide space.
    """
    draw, gate, experts = np.random.default_rng(0), 1 / branch.chosen, range(branch.experts)
    entering, pushed, moved = normal(draw, 1), normal(draw, 1), normal(draw)
    gates = np.array(
        [[gate * ((e - t) % branch.experts < branch.chosen) for e in experts] for t in experts]
    )
    gradient = sum(gates[t, 0] * entering.T @ pushed for t in experts) / branch.experts
    change = sum(gates[0, e] * entering @ moved for e in experts)
    return Mixed(
        float(np.linalg.norm(gates[0])),
        float(np.linalg.norm(gradient) / np.linalg.norm(entering.T @ pushed)),
        float(np.linalg.norm(change) / np.linalg.norm(entering @ moved)),
    )


# ---- a sublayer in its residual equation ----


@dataclass(frozen=True, eq=False)
class Witness:
    """A sublayer on numbers: every matrix its gain times a direction U, biases 0.

    ``branch`` picks other matrices behind the same stream.
    """

    sublayer: Sublayer
    placement: Placement
    alpha: float
    gains: Mapping[str, float]
    seed: int = 0
    branch: int = 0

    @classmethod
    def drawn(cls, sublayer: Sublayer, placement: Placement, seed: int = 0) -> Witness:
        """One whose α and gains are all different, so that none can stand for another.

        Of experts it is one with its gate.
        """
        sublayer = replace(sublayer, chosen=1, experts=1)
        draw = np.random.default_rng(seed)
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
    def stream(self) -> tuple[Array, Array]:
        """x and the memory."""
        draw = np.random.default_rng(self.seed)
        x, memory = (normalise(normal(draw, TOKENS)) for _ in range(2))
        return x, memory

    @cached_property
    def directions(self) -> dict[str, tuple[Array, Array]]:
        """U of every matrix, the start of every vector, and V, the transverse direction of each."""
        draw = np.random.default_rng(1000 * self.seed + self.branch + 1)
        directions = {m.name: (normal(draw), normal(draw)) for m in self.sublayer.matrices}
        starts = {v.name: float(v.role is Role.NORM_GAIN) for v in self.sublayer.vectors}
        starts |= {"norm_gain": 1.0, "norm_bias": 0.0}
        for name, start in starts.items():
            directions[name] = np.full((1, WIDTH), start), normal(draw, 1)
        return directions

    def output(
        self, moved: str = "", radially: bool = False, divided: list[Array] | None = None
    ) -> Array:
        """The output with one parameter moving along V, or ``radially`` along its own U.

        ``divided`` takes up what each norm of the equation divides.
        """
        x, memory = self.stream
        parameters = {}
        for name, (start, transverse) in self.directions.items():
            along = MOVE * 1j * (start if radially else transverse)
            parameters[name] = start * self.gains.get(name, 1.0) + (name == moved) * along
        of_branch = {p.name for p in self.sublayer.parameters}
        several = mixed(self.sublayer)

        def norm(argument: Array) -> Array:
            if divided is not None:
                divided.append(argument)
            if moved not in ("norm_gain", "norm_bias"):
                return normalise(argument)
            return normalise(argument) * parameters["norm_gain"] + parameters["norm_bias"]

        def branch(argument: Array) -> Array:
            names = {**parameters, "x": argument, "memory": memory}
            value = fold(self.sublayer.expression.root, Algebra(names, MAPS, ON_MATRICES))
            moving = several.together if moved in of_branch else several.size
            sized: Array = several.size * np.real(value) + 1j * moving * np.imag(value)
            return sized

        names, functions = {"x": x, "alpha": self.alpha}, {"norm": norm, "branch": branch}
        equation = Algebra(names, functions, ON_MATRICES)
        return np.asarray(fold(self.placement.expression.root, equation))

    def inner(self, moved: str = "", radially: bool = False) -> Array:
        """z: what the outermost norm is applied to, with the identity path at weight 1."""
        divided: list[Array] = []
        placed = self.output(moved, radially, divided)
        match self.placement.expression.root:
            case Call("norm", _):
                return divided[-1] / self.placement.coefficients(self.alpha)[0]
        return placed


# ---- sizes as powers of α and β ----


@dataclass(frozen=True)
class Sizes:
    """Everything that is measured of a sublayer behind a placement, as monomials in α and β.

    ``responses`` of the output to every parameter, None where it is 0; ``weight`` r, what another
    branch of the same size makes of the output; ``variances``, the mean square of what the norm at
    each place divides.
    """

    responses: Mapping[str, Monomial | None]
    weight: Monomial
    variances: Mapping[str, Monomial]


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
    moving = (*of_branch, *on_norm)

    def measured(alpha: float, beta: float, branch: Sublayer = sublayer) -> dict[str, float]:
        one, other = (Witness.at(branch, placement, alpha, beta, i) for i in (0, 1))
        divided: list[Array] = []
        still = one.output(divided=divided)
        numbers = {f"response to {name}": rms(derivative(one.output(name))) for name in moving}
        numbers["weight of the branch"] = rms(still - other.output()) / rms(still)
        for place, argument in zip(placement.places, divided, strict=True):
            numbers[f"norm on the {place}"] = rms(argument) ** 2
        return numbers

    has_alpha = "alpha" in placement.expression.names
    alpha = ALPHA if has_alpha else 1.0
    base = measured(alpha, BETA)
    doubled = {"beta": measured(alpha, 2 * BETA)}
    if has_alpha:
        doubled["alpha"] = measured(2 * alpha, BETA)
    several = sublayer.chosen > 1
    alone = measured(alpha, BETA, replace(sublayer, chosen=1, experts=1)) if several else base

    def powers(what: str) -> Monomial:
        ratios = {knob: sizes[what] / base[what] for knob, sizes in doubled.items()}
        by = {x: whole(math.log2(ratio), f"{what}: no power of {x}") for x, ratio in ratios.items()}
        times = math.log(base[what] / alone[what], math.sqrt(sublayer.chosen)) if several else 0.0
        of_experts = whole(times, f"{what}: no power of the root of k")
        constant = Monomial.number(sublayer.chosen) ** Fraction(of_experts, 2)
        return constant * Monomial.from_powers({x: Fraction(p) for x, p in by.items()})

    # a norm's gain moves what is not small
    least = SMALL * max(base[f"response to {name}"] for name in of_branch)
    responses = {name: f"response to {name}" for name in moving}
    return Sizes(
        {name: powers(what) if base[what] > least else None for name, what in responses.items()},
        powers("weight of the branch"),
        {place: powers(f"norm on the {place}") for place in placement.places},
    )
