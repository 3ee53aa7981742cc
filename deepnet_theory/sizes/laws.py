r"""Two folds of the formulas that ``definitions`` holds: of a branch, and of a residual equation.

Sizes are monomials in ``alpha``, the gain of every matrix by its name and ``stream``, the size X of
what enters. A rule puts one β for all scaled gains, a scheme a gain for each; nothing here knows
an optimizer.

The stack is near the identity: a sum of a path and a branch has the path's size, and a norm around
it divides by that. A branch answers a transverse change of a parameter, W → W + δV with V of order
one: where the branch is normalised its own direction is lost and says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial

from deepnet_theory.definitions.expression import Algebra, fold
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.sublayer import MATRICES, Norm, Role, Sublayer
from deepnet_theory.sizes.growth import SYMBOL, Hidden, Leading
from deepnet_theory.sizes.monomial import ONE, Monomial

ALPHA, BETA, STREAM = map(Monomial.of, ("alpha", "beta", "stream"))
DEPTHS = ("N", "M")

# ---- a branch ----


@dataclass(frozen=True)
class Move:
    """How far a parameter moves a value; ``same`` where it moves all its rows or columns alike."""

    size: Monomial
    same: str = ""  # "rows", "columns" or neither


@dataclass(frozen=True)
class Jet:
    """A value's size, None where it is 0, and how it moves with each parameter."""

    size: Monomial | None
    moved: Mapping[str, Move] = field(default_factory=dict)

    def scaled(self, by: Monomial, kept: str = "") -> Jet:
        """The moves times ``by``; of what is the same along rows or columns only ``kept`` stays."""
        moved = {
            name: Move(move.size * by, move.same if move.same in kept.split() else "")
            for name, move in self.moved.items()
        }
        return replace(self, moved=moved)

    def __add__(self, other: Jet) -> Jet:
        # unlike terms: which is the larger would have to be known, and where
        if self.size and other.size and self.size != other.size:
            raise ValueError(f"terms of the sizes {self.size} and {other.size}")
        moved = {**self.moved, **other.moved}
        if any(self.moved[n].size != other.moved[n].size for n in self.moved.keys() & other.moved):
            raise ValueError("a parameter that moves two terms by different sizes")
        return Jet(self.size or other.size, moved)

    __sub__ = __add__

    def __mul__(self, other: Jet) -> Jet:
        # a bias is the same for every token: A·(1bᵀ) is not, (1bᵀ)·B is, A·(b1ᵀ) is along columns
        moved: dict[str, Move] = {}
        if other.size:
            moved |= self.scaled(other.size, "rows").moved
        if self.size:
            moved |= other.scaled(self.size, "columns").moved
        return Jet(self.size * other.size if self.size and other.size else None, moved)

    def __truediv__(self, other: Jet) -> Jet:
        raise ValueError("a quotient")

    def __pow__(self, exponent: Fraction) -> Jet:
        """Of every entry, as a squared activation is; the constant in front is left out."""
        if self.size is None:
            raise ValueError("a power of 0")
        return replace(self.scaled(self.size ** (exponent - 1)), size=self.size**exponent)


class _Branch(Algebra):
    """Jets of a branch's formula; raises ``ValueError`` where it has no law."""

    def call(self, function: str, *arguments: Jet) -> Jet:
        first, *vectors = arguments
        match function:
            case "phi":  # positively homogeneous of degree 1
                return first.scaled(ONE)
            case "T":
                turned = {"rows": "columns", "columns": "rows", "": ""}
                moved = {n: Move(m.size, turned[m.same]) for n, m in first.moved.items()}
                return replace(first, moved=moved)
            case "softmax":  # an average, whose response is bounded; a whole row may be shifted
                felt = {n: Move(m.size) for n, m in first.moved.items() if m.same != "columns"}
                return Jet(ONE, felt)
            case "norm":  # of degree 0; its own gain and bias move what it gives by one
                assert first.size is not None
                moved = dict(first.scaled(first.size**-1).moved)
                return Jet(ONE, moved | {name: Move(ONE) for v in vectors for name in v.moved})
            case _:  # hadamard
                return first.scaled(ONE) * vectors[0].scaled(ONE)


def _constant(value: Fraction) -> Jet:
    return Jet(Monomial.number(abs(value)) if value else None)


@cache
def branch(sublayer: Sublayer, argument: Monomial = ONE, memory: Monomial = ONE) -> Jet:
    """The jet of a branch fed with a value of the size ``argument``, in the gains of its matrices.

    Raises :class:`Refusal` where its formula is no product of sizes.
    """
    names = {"x": Jet(argument), "memory": Jet(memory)}
    names |= {m.name: Jet(Monomial.of(m.name), {m.name: Move(ONE)}) for m in sublayer.matrices}
    names |= {v.name: Jet(None, {v.name: Move(ONE, "rows")}) for v in sublayer.vectors}
    try:
        jet: Jet = fold(sublayer.expression.root, _Branch(names, number=_constant, power=pow))
    except ValueError:
        raise no_one_gain(sublayer) from None
    # of experts the formula is one: k outputs weighed by 1/k add up in independent directions, what
    # one step makes of them in the direction of the loss, in line
    shrunk = Monomial.number(sublayer.chosen) ** Fraction(-1, 2)
    return jet if jet.size is None else replace(jet, size=jet.size * shrunk)


def factors(sublayer: Sublayer) -> tuple[str, ...]:
    """The scaled matrices, each as often as the branch grows with its gain; their number is P's
    degree in β: 3 of two matrices and a squared activation.
    """
    size = branch(sublayer).size
    assert size is not None
    return tuple(m.name for m in sublayer.scaled for _ in range(int(size.exponent(m.name))))


def no_one_gain(sublayer: Sublayer) -> Refusal:
    """The refusal of a branch that is no product which grows alike in every scaled matrix."""
    return Refusal(
        f"no law for the sublayer {sublayer.name!r}: its branch {sublayer.branch!r} is no "
        "product that grows alike in every scaled matrix, so that no one beta balances it"
    )


# ---- a residual equation ----


_NUMBER_ONE = Leading(Fraction(1))


def leading(number: Leading) -> Monomial:
    """The leading term of a number as α → ∞; ``ValueError`` where it is no positive monomial.

    ``(1 - 1/alpha)`` and ``alpha*(1 + alpha**2)**(-1/2)`` are no monomials, and what they differ
    by from 1 decides what S of them multiply the stream by.
    """
    if isinstance(number.coefficient, float):
        raise ValueError(f"{number.coefficient} is no rational number")
    return Monomial.number(number.coefficient) * ALPHA ** number.powers[0]


@dataclass(frozen=True)
class Divided:
    """What a norm divides: the sizes of its terms, the ``stream``'s and the ``branch``'s.

    ``where`` it stands: on the residual ``sum``, the branch's ``input`` or ``output``, or on the
    ``stream`` alone.
    """

    where: str
    stream: Monomial | None
    branch: Monomial | None


@dataclass(frozen=True)
class Signal:
    """A value of the equation: ``path`` times the stream plus what the branch adds.

    ``moved`` has for every parameter what it moves the value by, along one path or several.
    ``number`` alone is a scalar.
    """

    number: Leading | None = None
    path: Leading | None = None
    unit: Monomial = STREAM  # the size of the stream that ``path`` multiplies
    branch: Monomial | None = None
    moved: Mapping[str, tuple[Monomial, ...]] = field(default_factory=dict)
    norms: tuple[Divided, ...] = ()

    @property
    def size(self) -> Monomial:
        """Near the identity that of the path; of a branch alone its own."""
        if self.path is not None:
            return leading(self.path) * self.unit
        assert self.branch is not None
        return self.branch

    def __add__(self, other: Signal) -> Signal:
        if self.number is not None and other.number is not None:
            return Signal(self.number + other.number)
        if self.number or other.number or (self.branch and other.branch):
            raise ValueError("a sum of two branches, or of a number and a value")
        path = self.path + other.path if self.path and other.path else self.path or other.path
        moved = dict(self.moved)
        for name, moves in other.moved.items():
            moved[name] = (*moved.get(name, ()), *moves)
        units = {signal.unit for signal in (self, other) if signal.path is not None}
        unit = units.pop() if len(units) == 1 else STREAM
        norms = (*self.norms, *other.norms)
        return Signal(None, path, unit, self.branch or other.branch, moved, norms)

    def __sub__(self, other: Signal) -> Signal:
        return self + Signal(Leading(Fraction(-1))) * other

    def __mul__(self, other: Signal) -> Signal:
        scalar, value = (self.number, other) if self.number is not None else (other.number, self)
        if scalar is None:
            raise ValueError("a product of two values")
        if value.number is not None:
            return Signal(scalar * value.number)
        by = leading(scalar) if value.branch or value.moved else ONE
        return replace(
            value,
            path=None if value.path is None else value.path * scalar,
            branch=None if value.branch is None else value.branch * by,
            moved={name: tuple(m * by for m in moves) for name, moves in value.moved.items()},
        )

    def __truediv__(self, other: Signal) -> Signal:
        return self * other ** Fraction(-1)

    def __pow__(self, exponent: Fraction) -> Signal:
        if self.number is None:
            raise ValueError("a power of a value")
        return Signal(self.number**exponent)


def _normed(norm: Norm | None, value: Signal) -> Signal:
    """A value divided by its size; the norm's own gain and bias move what it gives by one."""
    size, by = value.size, value.size**-1
    where = "output" if value.path is None else ("stream" if value.branch is None else "sum")
    divided = Divided(where, None if value.path is None else size, value.branch)
    moved = {name: tuple(m * by for m in moves) for name, moves in value.moved.items()}
    if norm is not None:
        for name in ("norm_gain", "norm_bias")[: 2 if norm.bias else 1]:
            moved[name] = (*moved.get(name, ()), ONE)
    return Signal(
        path=None if value.path is None else _NUMBER_ONE,
        unit=ONE,
        branch=None if value.branch is None else value.branch * by,
        moved=moved,
        norms=(*value.norms, divided),
    )


def _branched(sublayer: Sublayer, argument: Signal) -> Signal:
    """What the branch of a sublayer makes of a value."""
    if argument.branch is not None or argument.path is None:
        raise ValueError("a branch of a branch")
    jet = branch(sublayer, argument.size, STREAM if argument.unit == STREAM else ONE)
    if jet.size is None:
        raise no_one_gain(sublayer)
    # an entry of the argument moves the branch by its own size over the argument's
    through = jet.size / argument.size
    moved = {name: tuple(m * through for m in moves) for name, moves in argument.moved.items()}
    moved |= {name: (move.size,) for name, move in jet.moved.items()}
    norms = tuple(replace(norm, where="input") for norm in argument.norms)
    return Signal(branch=jet.size, unit=argument.unit, moved=moved, norms=norms)


OF_NORMS = {"norm_gain": Role.NORM_GAIN, "norm_bias": Role.NORM_BIAS}  # around the branch


@dataclass(frozen=True)
class Law:
    """A sublayer in its residual equation, as monomials in α, the gains and the stream.

    ``weight`` is r, the branch against the identity path; ``added`` what it adds to the stream;
    ``responses`` what the output changes by with each parameter, along its paths; ``multiplied``
    what the stream is multiplied by, None where a norm takes it back; ``norms`` what they divide.
    """

    sublayer: Sublayer
    weight: Monomial
    added: Monomial
    responses: Mapping[str, tuple[Monomial, ...]]
    multiplied: Leading | None
    has_alpha: bool
    norms: tuple[Divided, ...]

    @property
    def normalised(self) -> bool:
        """Whether every sublayer ends in a norm, so that the stream keeps its size."""
        return self.multiplied is None

    def at(self, size: Monomial, gains: Mapping[str, Monomial]) -> Monomial | None:
        """A size of this law at gains; None where a factor is 0, which ``gains`` leave out."""
        return size.put(gains) if size.symbols <= gains.keys() else None

    def response(
        self, parameter: str, gains: Mapping[str, Monomial], depth: str
    ) -> Monomial | None:
        """What the output changes by with a parameter, None where no path carries a change.

        Of several the one that grows fastest in the part's own depth, then in the other.
        """
        paths = (self.at(path, gains) for path in self.responses.get(parameter, ()))
        order = sorted(DEPTHS, key=lambda symbol: symbol != depth)
        return max(
            (path for path in paths if path is not None),
            key=lambda path: [path.exponent(symbol) for symbol in order],
            default=None,
        )

    @property
    def keeps_stream(self) -> bool:
        """Whether the stream keeps its size, taken back by a norm or multiplied by exactly 1."""
        return self.multiplied is None or self.multiplied == _NUMBER_ONE

    def reached(self, parameter: str) -> Monomial:
        """What of the gradient reaches a parameter: of one of E experts 1/E.

        A share k/E of the tokens chooses it, and each weighs it by 1/k.
        """
        return ONE if parameter in OF_NORMS else Monomial.number(self.sublayer.experts) ** -1


def initial(parameter: str, role: Role, gains: Mapping[str, Monomial]) -> Monomial | None:
    """The size that a step meets: at initialisation, None at a gain of 0, and 1 of a vector.

    A library takes a vector at 0 as one of size 1.
    """
    return gains.get(parameter) if role in MATRICES else ONE


@cache
def law(placement: Placement, sublayer: Sublayer, norm: Norm | None = None) -> Law:
    """The law of a sublayer in a placement; with a norm its gain and bias are parameters too.

    Raises :class:`Refusal` where the equation is not an identity path plus one branch.
    """
    equation = Algebra(
        {"x": Signal(path=_NUMBER_ONE), "alpha": Signal(SYMBOL)},
        {"branch": partial(_branched, sublayer), "norm": partial(_normed, norm)},
        number=lambda value: Signal(Leading(value)),
        power=pow,
    )
    try:
        signal: Signal = fold(placement.expression.root, equation)
        if signal.path is None or signal.branch is None:
            raise ValueError("no path, or no branch")
        size = signal.size
    except (ValueError, ZeroDivisionError, Hidden):
        raise Refusal(
            f"no law for the placement {placement.name!r}: its equation {placement.equation!r} is "
            "not an identity path plus one branch"
        ) from None
    weight, added, responses = signal.branch / size, signal.branch, signal.moved
    multiplied = signal.path if signal.unit == STREAM else None  # else a norm has taken it
    has_alpha = "alpha" in placement.expression.names
    return Law(sublayer, weight, added, responses, multiplied, has_alpha, signal.norms)


def common_gains(
    sublayer: Sublayer, alpha: Monomial = ALPHA, beta: Monomial = BETA
) -> dict[str, Monomial]:
    """α, one β for the scaled matrices, 1 for the others, and a stream of size 1."""
    gains = dict.fromkeys((m.name for m in sublayer.unscaled), ONE)
    gains |= dict.fromkeys((m.name for m in sublayer.scaled), beta)
    return gains | {"alpha": alpha, "stream": ONE}
