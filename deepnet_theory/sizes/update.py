r"""The fold of an update: its degrees, what they need to hold, and whether it descends.

.. math:: u(\eta, t\,g, s\,\theta) = t^p s^q\,u(\eta, g, \theta), \qquad t, s > 0

A degree is a monomial in ``eta``, ``g``, ``theta`` and, where an update is taken as a library takes
it, ``epsilon`` and ``decay``. Nothing is typed in: a new update has its law as it is written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import Any, TypeAlias

from deepnet_theory.sizes.monomial import ONE, Monomial
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

CONSTANTS = ("epsilon", "decay")
COUNTS = frozenset({"numel", "rows", "columns"})  # of a parameter's entries, whatever they are
_DEGREE_ZERO = frozenset({"sign", "polar"}) | COUNTS
_DEGREE_KEPT = frozenset({"abs", "norm", "rms"})


@dataclass(frozen=True)
class Regime:
    """A stated regime that was needed, and the degrees of its sides."""

    larger: str
    smaller: str
    larger_degree: Monomial
    smaller_degree: Monomial

    @property
    def is_floor(self) -> bool:
        """Whether it is that of a floor, ``rms(theta) > constant``: it ends at a known depth."""
        left, right = UPDATE.parse(self.larger), UPDATE.parse(self.smaller)
        return left.root == Call("rms", (Name("theta"),)) and not right.names | right.functions

    def __str__(self) -> str:
        return f"{self.larger} > {self.smaller}"


@dataclass(frozen=True)
class Update:
    """p and q of an update, the regimes that it needs, and its winning terms alone.

    ``descent`` has the signs of the mean increment ⟨g, u⟩ over the signs of g and θ: {-1} where
    the loss falls at every size.
    """

    p: Fraction
    q: Fraction
    regimes: tuple[Regime, ...]
    reduced: Node
    descent: frozenset[int]

    @property
    def descends(self) -> bool:
        """Whether the loss falls under the update, whatever the sizes."""
        return self.descent == {-1}


class _Degrees:
    """Counts degrees bottom-up; a sum of unlike terms takes its stated regime.

    None is the degree of 0, which is homogeneous of every degree.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.stated = {
            (UPDATE.parse(a).root, UPDATE.parse(b).root): (a, b) for a, b in optimizer.regime
        }
        self.used: dict[Regime, None] = {}
        self.winners: dict[Node, Node] = {}  # a sum or an extreme → the term that wins
        self.known: dict[Node, Monomial | None] = {}
        self.constants: dict[str, Monomial] = {}

    def refuse(self, why: str) -> Refusal:
        return Refusal(
            f"no degree law for the update {shown(self.optimizer.update)}: {why}; a rule in "
            "powers of the depth needs an update that is homogeneous in g and in theta"
        )

    def of(self, node: Node) -> Monomial | None:
        if node not in self.known:
            self.known[node] = self._count(node)
        degree = self.known[node]
        return None if degree is None else degree.put(self.constants)

    def _count(self, node: Node) -> Monomial | None:
        match node:
            case Number(value):
                return ONE if value else None
            case Name(name):
                return Monomial.of(name)
            case Power(base, exponent):
                inner = self.of(base)
                if inner is None and exponent <= 0:
                    raise self.refuse("it divides by zero")
                return None if inner is None else inner**exponent
            case Operation("*", left, right):
                a, b = self.of(left), self.of(right)
                return None if a is None or b is None else a * b
            case Operation("/", left, right):
                return self.of(Operation("*", left, Power(right, Fraction(-1))))
            case Operation(_, left, right):
                return self._unite(node, left, right, largest=True)
            case Call("clip", (value, low, high)):
                return self._stands_for(node, Call("min", (Call("max", (value, low)), high)))
            case Call("max" | "min" as function, (first, second)):
                return self._unite(node, first, second, largest=function == "max")
            case Call("max" | "min" as function, (first, *others)):
                rest = Call(function, tuple(others))
                return self._stands_for(node, Call(function, (first, rest)))
            case Call("blocks", (inner_node, _)):
                return self.of(inner_node)
            case Call("sqrt", (inner_node,)):
                return self.of(Power(inner_node, Fraction(1, 2)))
            case Call("log", (inner_node,)):
                degree = self.of(inner_node)
                if degree != ONE:
                    raise self.refuse("a logarithm of something that scales")
                return degree
            case Call(function, (inner_node,)) if function in _DEGREE_ZERO:
                degree = self.of(inner_node)
                return None if degree is None and function not in COUNTS else ONE
            case Call(function, (inner_node,)) if function in _DEGREE_KEPT:
                return self.of(inner_node)
            case _:
                raise self.refuse(f"{node} has no law")

    def _stands_for(self, node: Node, other: Node) -> Monomial | None:
        self.winners[node] = other
        return self.of(other)

    def _unite(self, node: Node, left: Node, right: Node, *, largest: bool) -> Monomial | None:
        a, b = self.of(left), self.of(right)
        if a is None or b is None:
            return a if b is None else b
        if self._alike(a, b):
            return a.put(self.constants)
        winner = self._dominant(left, right, largest=largest)
        if winner is None:
            raise self.refuse(
                f"it joins terms of different degrees ({_words(a)} and {_words(b)}) and no "
                "regime says which is the larger"
            )
        self.winners[node] = winner
        return a if winner is left else b

    def _alike(self, a: Monomial, b: Monomial) -> bool:
        """Whether two terms are alike; a constant that is new takes the degree that makes it so."""
        apart = a / b
        new = [name for name in CONSTANTS if apart.exponent(name)]
        if len(new) == 1:
            (name,) = new
            rest = apart / Monomial.of(name) ** apart.exponent(name)
            self.constants[name] = rest ** (-1 / apart.exponent(name))
        return apart == ONE or len(new) == 1

    def _dominant(self, left: Node, right: Node, *, largest: bool) -> Node | None:
        for (larger, smaller), texts in self.stated.items():
            for one, other in ((left, right), (right, left)):
                if _same(one, larger) and _same(other, smaller):
                    large, small = self.of(one), self.of(other)
                    assert large is not None and small is not None  # neither is 0: see _unite
                    self.used[Regime(*texts, large, small)] = None
                    return one if largest else other
        return None


def _same(node: Node, stated: Node) -> bool:
    # a regime may state the magnitude of a term whose sign does not matter
    if node == stated:
        return True
    if isinstance(node, Operation) and node.operator == "*" and node.left == Number(Fraction(-1)):
        return _same(node.right, stated)
    return isinstance(stated, Call) and stated.function == "abs" and node == stated.arguments[0]


def _words(degree: Monomial) -> str:
    return " ".join(f"{name}^{degree.exponent(name)}" for name in ("eta", "g", "theta"))


def _reduced(node: Node, winners: Mapping[Node, Node]) -> Node:
    """The tree with the winning term in place of every sum or extreme that a regime decides."""
    if node in winners:
        return _reduced(winners[node], winners)
    match node:
        case Operation(symbol, left, right):
            return Operation(symbol, _reduced(left, winners), _reduced(right, winners))
        case Power(base, exponent):
            return Power(_reduced(base, winners), exponent)
        case Call(function, arguments):
            return Call(function, tuple(_reduced(a, winners) for a in arguments))
        case _:
            return node


@cache
def law(optimizer: Optimizer) -> Update:
    """The law of an optimizer's first update.

    Raises :class:`Refusal` where the update is not homogeneous, not proportional to η, or
    vanishes identically.
    """
    degrees = _Degrees(optimizer)
    degree = degrees.of(optimizer.expression.root)
    reduced = _reduced(optimizer.expression.root, degrees.winners)
    try:
        descent = _descent(reduced)
    except (ArithmeticError, ValueError):
        raise degrees.refuse("it is not finite and real at every sign of g and theta") from None
    if degree is None or descent is None:
        raise degrees.refuse("it is identically zero")
    if degree.exponent("eta") != 1:
        raise degrees.refuse(f"it is of degree {degree.exponent('eta')} in eta, not 1")
    p, q = degree.exponent("g"), degree.exponent("theta")
    return Update(p, q, tuple(degrees.used), reduced, descent)


def descending(optimizer: Optimizer, allow_ascent: bool = False) -> Update:
    """The law of an update that goes down the gradient.

    Raises :class:`Refusal` where the loss rises, or does not feel the update in the mean.
    """
    of, written = law(optimizer), f"the update {shown(optimizer.update)}"
    if of.descent == {0}:
        raise Refusal(
            f"{written} does not follow the gradient: <g, update> is 0 in the mean over the signs "
            "of g and theta, as for directions that are independent of the loss; the changes of S "
            "sublayers then add as sqrt(S), while a rule balances changes that are aligned and add "
            "as S"
        )
    if not of.descends and not allow_ascent:
        says = "rises" if of.descent == {1} else "rises or falls with the sizes of g and theta"
        raise Refusal(
            f"under {written} the loss {says}: <g, update> is not negative; write it with a minus "
            "sign, or allow an ascent with --allow-ascent (in Python allow_ascent=True)"
        )
    return of


@dataclass(frozen=True)
class Practised:
    """The first update with ε and weight decay: their degrees, its regimes and winning terms."""

    constants: Mapping[str, Monomial]
    regimes: tuple[Regime, ...]
    reduced: Node


@cache
def practised(optimizer: Optimizer) -> Practised:
    """The degrees in g and θ that ``epsilon`` and ``decay`` need in the update as it is practised.

    Each stands in a sum, and a sum is homogeneous where its terms are alike: beside |g| an
    epsilon is of degree 1 in g; a decay times θ beside g is of degree 1 in g and −1 in θ. One that
    does not occur is absent. Raises :class:`Refusal` where one would need two degrees.
    """
    degrees, root = _Degrees(optimizer), optimizer.practised.root
    degrees.of(root)
    return Practised(degrees.constants, tuple(degrees.used), _reduced(root, degrees.winners))


def is_coupled(optimizer: Optimizer) -> bool:
    """Whether weight decay is a term beside g in the update as it is practised."""
    decay = practised(optimizer).constants.get("decay", ONE)
    return decay == Monomial.of("g") / Monomial.of("theta")


# ---- descent: ⟨g, u⟩ on a 1 × 2 matrix, at entries of every sign and of several sizes ----

Entries: TypeAlias = tuple[Decimal, Decimal]
Value: TypeAlias = Decimal | Entries

SIZES = (  # of g's and θ's entries, incommensurable and in each order
    ("3/7", "5/11", "17/5", "23/9"),
    ("29/8", "13/3", "2/17", "7/31"),
    ("1/5", "19", "6", "2/9"),
)
_ZERO = Decimal(0)
DIGITS = 40  # below this share of its terms a value is 0
_ENTRYWISE: dict[str, Callable[..., Decimal]] = {
    "sign": lambda a: Decimal((a > 0) - (a < 0)),
    "abs": abs,
    "sqrt": lambda a: a.sqrt(),
    "log": lambda a: a.ln(),
    "max": max,
    "min": min,
}


@dataclass(frozen=True)
class OnEntries(OperatorAlgebra[Any]):
    """Values are scalars and pairs; a scalar stands for a parameter of two such entries.

    The scalars are of any arithmetic: ``number_of`` makes one, ``functions`` act on them.
    """

    values: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]
    number_of: Callable[[Fraction], Any]

    def number(self, value: Fraction) -> Any:
        return self.number_of(value)

    def name(self, name: str) -> Any:
        return self.values[name]

    def add(self, left: Any, right: Any) -> Any:
        return _each(operator.add, left, right)

    def subtract(self, left: Any, right: Any) -> Any:
        return _each(operator.sub, left, right)

    def multiply(self, left: Any, right: Any) -> Any:
        return _each(operator.mul, left, right)

    def divide(self, left: Any, right: Any) -> Any:
        return _each(operator.truediv, left, right)

    def power(self, base: Any, exponent: Fraction) -> Any:
        return _each(operator.pow, base, self.number_of(exponent))

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        match function:
            case "norm":
                first, second = pair(arguments[0])
                return self.functions["sqrt"](first**2 + second**2)
            case "rms":
                root = self.functions["sqrt"](self.number_of(Fraction(2)))
                return self.call("norm", arguments) / root
            case "numel" | "columns":
                return self.number_of(Fraction(2))
            case "rows":
                return self.number_of(Fraction(1))
            case "polar":  # of one row: its direction
                return self.divide(pair(arguments[0]), self.call("norm", arguments))
            case "clip":
                value, low, high = arguments
                return self.call("min", (self.call("max", (value, low)), high))
            case _:
                return _each(self.functions[function], *arguments)


def pair(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, value)


def _each(function: Callable[..., Any], *arguments: Any) -> Any:
    if any(isinstance(a, tuple) for a in arguments):
        first, second = (function(*e) for e in zip(*map(pair, arguments), strict=True))
        return first, second
    return function(*arguments)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def entries(update: Node, values: Mapping[str, Value]) -> Entries:
    """The two entries of an update at numbers, in the precision that is set.

    Raises ``ArithmeticError`` where one is not finite or not real.
    """
    first, second = pair(fold(update, OnEntries(values, _ENTRYWISE, _decimal)))
    if not (first.is_finite() and second.is_finite()):
        raise ArithmeticError("not finite")
    return first, second


def number(root: Node, values: Mapping[str, Decimal]) -> Decimal:
    """The value of a scalar expression at numbers, in the precision that is set."""
    value = fold(root, OnEntries(values, _ENTRYWISE, _decimal))
    assert isinstance(value, Decimal)
    return value


Point = tuple[Fraction, ...]  # two entries of g, two of θ


def points(size: tuple[str, ...], scale_g: int = 1, scale_theta: int = 1) -> Iterator[Point]:
    """Entries of g and θ at one size, of every sign."""
    scales = (scale_g, scale_g, scale_theta, scale_theta)
    for signs in product((1, -1), repeat=4):
        yield tuple(c * s * Fraction(m) for c, s, m in zip(scales, signs, size, strict=True))


@lru_cache(maxsize=256)
def exactly(update: Node, at: Point) -> Entries:
    """The update at η = 1/3, to ``DIGITS`` digits: what is below those of its terms is 0.

    Raises ``ArithmeticError`` where it is not finite or not real.
    """
    found = []
    # rounding differs between two precisions, a value does not
    for digits in (DIGITS + 20, 2 * DIGITS + 40):
        with localcontext(prec=digits):
            a, b, c, d = map(_decimal, at)
            values: dict[str, Value] = {"g": (a, b), "theta": (c, d)}
            values["eta"] = _decimal(Fraction(1, 3))
            found.append(entries(update, values))
    with localcontext(prec=2 * DIGITS):
        first, second = (
            f if abs(c - f) <= abs(f) * Decimal(10) ** -DIGITS else _ZERO
            for c, f in zip(*found, strict=True)
        )
    return first, second


def _descent(update: Node) -> frozenset[int] | None:
    """The sign of the mean of ⟨g, u⟩ over the signs of g and θ at each size; None where u is 0."""
    found, moves = set(), False
    for size in SIZES:
        sampled = [(at, exactly(update, at)) for at in points(size)]
        moves = moves or any(any(kept) for _, kept in sampled)
        with localcontext(prec=2 * DIGITS):
            each = [_decimal(g) * u for at, kept in sampled for g, u in zip(at, kept, strict=False)]
            mean, whole = sum(each, _ZERO), sum(map(abs, each), _ZERO)
            null = abs(mean) <= whole * Decimal(10) ** (5 - DIGITS)
            found.add(0 if null else (1 if mean > 0 else -1))
    return frozenset(found) if moves else None
