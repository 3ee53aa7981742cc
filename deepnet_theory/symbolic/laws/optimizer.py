"""An update on a 1 × 2 matrix, entry by entry: on symbols, or on numbers of every sign."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import TypeAlias

import mpmath
import sympy as sp

from deepnet_theory.spec.errors import Refusal, shown
from deepnet_theory.spec.expression import (
    UPDATE,
    Call,
    Name,
    Node,
    Number,
    Operation,
    OperatorAlgebra,
    Power,
    fold,
)
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.symbolic.algebra.monomial import eta, rational
from deepnet_theory.symbolic.proof.step import Check, Section, Step

Scalar: TypeAlias = sp.Expr | mpmath.mpf
Entries: TypeAlias = tuple[Scalar, Scalar]
Value: TypeAlias = Scalar | Entries

# SymPy would compare the arguments of a maximum, each with each, which nesting makes exponential
_SYMBOLIC: dict[str, Callable[..., sp.Expr]] = {
    "sign": sp.sign,
    "abs": sp.Abs,
    "sqrt": sp.sqrt,
    "log": sp.log,
    "max": lambda *of: sp.Max(*of, evaluate=False),
    "min": lambda *of: sp.Min(*of, evaluate=False),
}
_NUMERIC: dict[str, Callable[..., mpmath.mpf]] = {
    "sign": mpmath.sign,
    "abs": abs,
    "sqrt": mpmath.sqrt,
    "log": mpmath.log,
    "max": max,
    "min": min,
}


@dataclass(frozen=True)
class _OnEntries(OperatorAlgebra[Value]):
    """Values are scalars and pairs; a scalar stands for a parameter of two such entries."""

    values: dict[str, Value]
    functions: dict[str, Callable[..., Scalar]]
    number_of: Callable[[Fraction], Scalar]

    def number(self, value: Fraction) -> Value:
        return self.number_of(value)

    def name(self, name: str) -> Value:
        return self.values[name]

    def add(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a + b, left, right)

    def subtract(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a - b, left, right)

    def multiply(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a * b, left, right)

    def divide(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a / b, left, right)

    def power(self, base: Value, exponent: Fraction) -> Value:
        return _each(lambda a: a ** self.number_of(exponent), base)

    def call(self, function: str, arguments: tuple[Value, ...]) -> Value:
        match function:
            case "norm":
                first, second = _pair(arguments[0])
                return self.functions["sqrt"](first**2 + second**2)
            case "rms":
                root = self.functions["sqrt"](self.number_of(Fraction(2)))
                return self.call("norm", arguments) / root
            case "numel":
                return self.number_of(Fraction(2))
            case "polar":  # of one row: its direction
                return self.divide(_pair(arguments[0]), self.call("norm", arguments))
            case "clip":
                value, low, high = arguments
                return self.call("min", (self.call("max", (value, low)), high))
            case _:
                return _each(self.functions[function], *arguments)


def _pair(value: Value) -> Entries:
    return value if isinstance(value, tuple) else (value, value)


def _each(function: Callable[..., Scalar], *arguments: Value) -> Value:
    if any(isinstance(a, tuple) for a in arguments):
        return tuple(function(*e) for e in zip(*map(_pair, arguments), strict=True))
    return function(*arguments)


def on_symbols(update: Node, rate: sp.Expr, g: Entries, theta: Entries) -> Entries:
    """The two entries of an update as SymPy expressions."""
    values = {"eta": rate, "g": g, "theta": theta}
    return _pair(fold(update, _OnEntries(values, _SYMBOLIC, rational)))


def _mpf(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


# sizes of g's and θ's entries, incommensurable and in each order
_SIZES = (
    ("3/7", "5/11", "17/5", "23/9"),
    ("29/8", "13/3", "2/17", "7/31"),
    ("1/5", "19", "6", "2/9"),
)
_SIGNS = tuple(product((1, -1), repeat=4))
DIGITS = 40  # that two evaluations of a value have in common


@dataclass(frozen=True)
class Sample:
    """The update at one point: its entries, those of g, and which of the sizes the point has."""

    size: int
    g: Entries
    value: Entries


@lru_cache(maxsize=64)
def samples(
    update: Node, scale_g: int = 1, scale_theta: int = 1, sizes: int = len(_SIZES)
) -> tuple[Sample, ...]:
    """The update at entries of every sign and of several sizes, to ``DIGITS`` digits.

    What is below the digits of its terms is 0. Raises ``ArithmeticError`` where it is not finite,
    ``ValueError`` where it is not real.
    """
    found = []
    for (size, magnitudes), signs in product(enumerate(_SIZES[:sizes]), _SIGNS):
        exact = [s * Fraction(m) for s, m in zip(signs, magnitudes, strict=True)]
        g, theta = [scale_g * e for e in exact[:2]], [scale_theta * e for e in exact[2:]]
        # rounding differs between two precisions, a value does not
        coarse, fine = (_value(update, g, theta, d) for d in (DIGITS + 20, 2 * DIGITS + 40))
        with mpmath.workdps(2 * DIGITS):
            first, second = (
                f if abs(c - f) <= mpmath.mpf(10) ** -DIGITS * abs(f) else mpmath.mpf(0)
                for c, f in zip(coarse, fine, strict=True)
            )
            found.append(Sample(size, (_mpf(g[0]), _mpf(g[1])), (first, second)))
    return tuple(found)


def _value(update: Node, g: list[Fraction], theta: list[Fraction], digits: int) -> Entries:
    with mpmath.workdps(digits):
        return on_numbers(
            update,
            {
                "eta": _mpf(Fraction(1, 3)),
                "g": (_mpf(g[0]), _mpf(g[1])),
                "theta": (_mpf(theta[0]), _mpf(theta[1])),
            },
        )


def on_numbers(update: Node, values: Mapping[str, Value]) -> Entries:
    """The two entries of an update at numbers, to mpmath's precision.

    Raises ``ArithmeticError`` where one is not finite, ``ValueError`` where it is not real.
    """
    result = _pair(fold(update, _OnEntries(dict(values), _NUMERIC, _mpf)))
    for entry in result:
        if not isinstance(entry, mpmath.mpf):
            raise ValueError(f"{entry} is not real")
        if not mpmath.isfinite(entry):
            raise ArithmeticError(f"{entry} is not finite")
    return result


# ---- Degrees of homogeneity of an update rule, computed from its expression ----


_ZERO = Fraction(0)


@dataclass(frozen=True)
class Degree:
    """The degrees in η, g and θ of a homogeneous expression, and in constants not yet settled."""

    eta: Fraction = _ZERO
    g: Fraction = _ZERO
    theta: Fraction = _ZERO
    epsilon: Fraction = _ZERO
    decay: Fraction = _ZERO

    def __add__(self, other: Degree) -> Degree:
        return Degree(*map(operator.add, astuple(self), astuple(other)))

    def __mul__(self, times: Fraction) -> Degree:
        return Degree(*(degree * times for degree in astuple(self)))

    def __str__(self) -> str:
        return f"eta^{self.eta} g^{self.g} theta^{self.theta}"


CONSTANTS = ("epsilon", "decay")


# An identically vanishing expression is homogeneous of every degree.
_Degree = Degree | None

_DEGREE_ZERO = {"sign", "polar", "numel"}
_DEGREE_KEPT = {"abs", "norm", "rms"}


@dataclass(frozen=True)
class Regime:
    """A stated regime that was needed, and the degrees of both sides."""

    larger: str
    smaller: str
    larger_degree: Degree
    smaller_degree: Degree

    def __str__(self) -> str:
        return f"{self.larger} > {self.smaller}"


@dataclass(frozen=True)
class Degrees:
    """p and q of :math:`|\\Delta\\theta| \\sim \\eta\\,|g|^p |\\theta|^q`."""

    p: sp.Rational
    q: sp.Rational
    regimes: tuple[Regime, ...]
    reduced: Node  # the update with only its winning terms

    @property
    def regime(self) -> tuple[str, ...]:
        """The stated regimes that were needed, in words."""
        return tuple(map(str, self.regimes))


class _Counter:
    """Computes degrees bottom-up; a sum of unlike terms takes its stated regime."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.larger = {
            (UPDATE.parse(a).root, UPDATE.parse(b).root): (a, b) for a, b in optimizer.regime
        }
        self.used: dict[Regime, None] = {}
        self.reduced: dict[Node, Node] = {}  # a sum or an extreme → the term that wins
        self.known: dict[Node, _Degree] = {}
        self.constants: dict[str, Degree] = {}

    def refuse(self, why: str) -> Refusal:
        return Refusal(
            f"no degree law for the update {shown(self.optimizer.update)}: {why}; a rule in "
            "powers of the depth needs an update that is homogeneous in g and in theta"
        )

    def of(self, node: Node) -> _Degree:
        if node not in self.known:
            self.known[node] = self._count(node)
        return self.settled(self.known[node])

    def settled(self, degree: _Degree) -> _Degree:
        """The degree with the constants that have found theirs put in."""
        for name, own in self.constants.items():
            if degree is not None and (times := getattr(degree, name)):
                degree = replace(degree, **{name: _ZERO}) + own * times
        return degree

    def settle(self, a: Degree, b: Degree) -> bool:
        """Whether two terms are alike; a constant that is new takes the degree that makes it so."""
        apart = a + b * Fraction(-1)
        new = [name for name in CONSTANTS if getattr(apart, name)]
        if len(new) == 1:
            (name,) = new
            times = getattr(apart, name)
            self.constants[name] = replace(apart, **{name: _ZERO}) * (-1 / times)
        return apart == Degree() or len(new) == 1

    def _count(self, node: Node) -> _Degree:
        match node:
            case Number(value):
                return Degree() if value else None
            case Name(name):
                return Degree(**{name: Fraction(1)})
            case Power(base, exponent):
                inner = self.of(base)
                if inner is None and exponent <= 0:
                    raise self.refuse("it divides by zero")
                return None if inner is None else inner * exponent
            case Operation("*", left, right):
                a, b = self.of(left), self.of(right)
                return None if a is None or b is None else a + b
            case Operation("/", left, right):
                a, b = self.of(left), self.of(right)
                if b is None:
                    raise self.refuse("it divides by zero")
                return None if a is None else a + b * Fraction(-1)
            case Operation(_, left, right):
                return self.unite(node, left, right, largest=True)
            case Call("clip", (value, low, high)):
                return self.stands_for(node, Call("min", (Call("max", (value, low)), high)))
            case Call("max" | "min" as function, (first, second)):
                return self.unite(node, first, second, largest=function == "max")
            case Call("max" | "min" as function, (first, *others)):
                return self.stands_for(node, Call(function, (first, Call(function, tuple(others)))))
            case Call("sqrt", (inner,)):
                degree = self.of(inner)
                return None if degree is None else degree * Fraction(1, 2)
            case Call("log", (inner,)):
                degree = self.of(inner)
                if degree != Degree():
                    raise self.refuse("a logarithm of something that scales")
                return degree
            case Call(function, (inner,)) if function in _DEGREE_ZERO:
                degree = self.of(inner)
                return None if degree is None and function != "numel" else Degree()
            case Call(function, (inner,)) if function in _DEGREE_KEPT:
                return self.of(inner)
            case _:
                raise self.refuse(f"{node} has no law")

    def stands_for(self, node: Node, other: Node) -> _Degree:
        self.reduced[node] = other
        return self.of(other)

    def unite(self, node: Node, left: Node, right: Node, *, largest: bool) -> _Degree:
        """The degree of a sum or an extreme of two terms, ``node``."""
        a, b = self.of(left), self.of(right)
        if a is None or b is None:
            return a if b is None else b
        if self.settle(a, b):
            return self.settled(a)
        winner = self.dominant(left, right, largest=largest)
        if winner is None:
            raise self.refuse(
                f"it joins terms of different degrees ({a} and {b}) and no regime says which "
                "is the larger"
            )
        self.reduced[node] = winner
        return a if winner is left else b

    def dominant(self, left: Node, right: Node, *, largest: bool) -> Node | None:
        for (larger, smaller), told in self.larger.items():
            for one, other in ((left, right), (right, left)):
                if _same(one, larger) and _same(other, smaller):
                    large, small = self.of(one), self.of(other)
                    assert large is not None and small is not None  # neither is zero: see unite
                    self.used[Regime(*told, large, small)] = None
                    return one if largest else other
        return None


def _same(node: Node, stated: Node) -> bool:
    # a regime may state the magnitude of a term whose sign does not matter
    if node == stated:
        return True
    if isinstance(node, Operation) and node.operator == "*" and node.left == Number(Fraction(-1)):
        return _same(node.right, stated)
    return isinstance(stated, Call) and stated.function == "abs" and node == stated.arguments[0]


@cache
def degrees(optimizer: Optimizer) -> Degrees:
    """p and q of the optimizer's first step.

    Raises :class:`Refusal` where the update is not homogeneous, not proportional to η, or
    vanishes identically.
    """
    counter = _Counter(optimizer)
    degree = counter.of(optimizer.expression.root)
    reduced = _reduce(optimizer.expression.root, counter.reduced)
    try:
        values = [entry for sample in samples(reduced) for entry in sample.value]
    except (ArithmeticError, ValueError):
        raise counter.refuse("it is not finite and real at every sign of g and theta") from None
    if degree is None or not any(values):
        raise counter.refuse("it is identically zero")
    if degree.eta != 1:
        raise counter.refuse(f"it is of degree {degree.eta} in eta, not 1")
    return Degrees(rational(degree.g), rational(degree.theta), tuple(counter.used), reduced)


@dataclass(frozen=True)
class Practised:
    """The first update with epsilon and weight decay, and the degrees that these need in it."""

    constants: Mapping[str, Degree]
    regimes: tuple[Regime, ...]
    reduced: Node


@cache
def practised(optimizer: Optimizer) -> Practised:
    """The degrees that ``epsilon`` and ``decay`` need for the update to be homogeneous with them.

    Each stands in a sum, and a sum is homogeneous where its terms are alike: beside |g| an
    epsilon is of degree 1 in g; a decay times θ beside g is of degree 1 in g and −1 in θ. One that
    does not occur is absent. Raises :class:`Refusal` where one would need two degrees.
    """
    counter = _Counter(optimizer)
    root = optimizer.practised.root
    counter.of(root)
    return Practised(counter.constants, tuple(counter.used), _reduce(root, counter.reduced))


def _reduce(node: Node, winners: dict[Node, Node]) -> Node:
    """The tree in which every sum or extreme that a regime decides is its winning term."""
    if node in winners:
        return _reduce(winners[node], winners)
    match node:
        case Operation(operator, left, right):
            return Operation(operator, _reduce(left, winners), _reduce(right, winners))
        case Power(base, exponent):
            return Power(_reduce(base, winners), exponent)
        case Call(function, arguments):
            return Call(function, tuple(_reduce(a, winners) for a in arguments))
        case _:
            return node


def entrywise(
    optimizer: Optimizer, rate: sp.Expr, g: Sequence[sp.Expr], theta: Sequence[sp.Expr]
) -> Entries:
    """The update of a 1 × 2 matrix with the given symbolic entries, winning terms only."""
    root = degrees(optimizer).reduced
    return on_symbols(root, rate, tuple(g), tuple(theta))


def step_length(optimizer: Optimizer, gradient: sp.Expr, size: sp.Expr) -> sp.Expr:
    """‖Δθ‖ of one 1 × 2 matrix at η = 1, of exact entries whose norms ‖g‖ and ‖θ‖ are given.

    Their signs are such that the update is not 0, as max(-theta, 0)*g is at some.
    """
    return _length(optimizer, gradient, size, _telling_signs(optimizer))


@cache
def _telling_signs(optimizer: Optimizer) -> tuple[int, ...]:
    one = sp.Integer(1)
    every = product((1, -1), repeat=4)
    return next(s for s in every if sp.N(_length(optimizer, one, one, s), DIGITS) > 0)


def _length(
    optimizer: Optimizer, gradient: sp.Expr, size: sp.Expr, signs: tuple[int, ...]
) -> sp.Expr:
    directions = sp.Rational(3, 5), sp.Rational(-4, 5), sp.Rational(5, 13), sp.Rational(12, 13)
    first, second, *parameter = (s * e for s, e in zip(signs, directions, strict=True))
    g, theta = (gradient * first, gradient * second), [size * e for e in parameter]
    update = entrywise(optimizer, sp.Integer(1), g, theta)
    return sp.sqrt(sum(entry**2 for entry in update)).doit()  # its maxima are still to be taken


def _scaled(update: Node, scale_g: int, scale_theta: int, times: sp.Expr) -> bool:
    """Whether the update of scaled g and θ is ``times`` that of g and θ."""
    with mpmath.workdps(2 * DIGITS):
        least, factor = mpmath.mpf(10) ** (5 - DIGITS), mpmath.mpf(times)
        return all(
            abs(other - factor * one) <= least * abs(other)
            for before, after in zip(
                samples(update), samples(update, scale_g, scale_theta, sizes=1), strict=False
            )
            for one, other in zip(before.value, after.value, strict=True)
        )


def homogeneity_step(optimizer: Optimizer, found: Degrees) -> Step:
    """The step that states the degrees, checked on exact entries at several scales."""
    t, s, g, theta = sp.symbols("t s g theta", positive=True)
    update = sp.Function("u")
    because = f"degrees of {optimizer.update} counted from its expression"
    if found.regime:
        because += f", in the regime {', '.join(found.regime)}"

    def scales(step: Step) -> bool:
        if step.lhs != update(eta, t * g, s * theta):
            return False
        factor = sp.simplify(step.rhs / update(eta, g, theta))
        root = found.reduced
        if not factor.free_symbols <= {t, s}:
            return False
        return all(
            _scaled(root, a, b, sp.N(factor.subs({t: a, s: b}), 2 * DIGITS))
            for a, b in ((2, 3), (5, 7))  # primes: a wrong p cannot hide behind a wrong q
        )

    return Section("The optimizer").equal(
        "degrees",
        update(eta, t * g, s * theta),
        t**found.p * s**found.q * update(eta, g, theta),
        because,
        source=optimizer.source or "derived here",
        assumptions=("stated-regime",) if found.regime else (),
        checks=(Check("the update on exact entries, rescaled", scales),),
        establishes=(t, s, g, theta),
    )


def degrees_of(step: Step) -> tuple[sp.Rational, sp.Rational]:
    """p and q as the degrees' step states them."""
    t, s = sp.symbols("t s", positive=True)
    powers = step.rhs.as_powers_dict()
    return powers.get(t, sp.Integer(0)), powers.get(s, sp.Integer(0))
