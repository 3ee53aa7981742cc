"""The sign of an update's terms over the reals: no root or logarithm of what may be negative."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import add, mul, sub, truediv

from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.expression import (
    Call,
    Expression,
    Name,
    Node,
    Number,
    Operation,
    Power,
    parts,
)

_ARITHMETIC: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
}
_NEVER_NEGATIVE = {"abs", "norm", "rms", "numel", "rows", "columns", "sqrt"}


@dataclass(frozen=True)
class Sign:
    """``factor`` (1, 0 or -1) times the signs of the terms ``of``; each may be either."""

    factor: int
    of: frozenset[Node] = frozenset()

    @property
    def never_negative(self) -> bool:
        """Whether it is 1 or 0 whatever g and theta are."""
        return self.factor >= 0 and not self.of

    def __mul__(self, other: Sign) -> Sign:
        return Sign(self.factor * other.factor, self.of ^ other.of)


def sign(node: Node) -> Sign:
    """The sign of a term; constants are positive, entries of g and theta are of any sign."""
    constant = _constant(node)
    if constant is not None:
        return Sign((constant > 0) - (constant < 0))
    match node:
        case Name("eta" | "epsilon" | "decay"):
            return Sign(1)
        case Power(base, exponent):
            return Sign(1) if exponent.numerator % 2 == 0 else sign(base)
        case Operation("*" | "/", left, right):
            return sign(left) * sign(right)
        case Operation("-", left, right):
            return _of_sum(node, sign(left), Sign(-1) * sign(right))
        case Operation("+", left, right):
            return _of_sum(node, sign(left), sign(right))
        case Call(function, _) if function in _NEVER_NEGATIVE:
            return Sign(1)
        case Call("sign", (inner,)):
            return sign(inner)
        case Call("blocks", (inner, _)) if sign(inner).never_negative:
            return sign(inner)
        case Call("max" | "min" as function, arguments):
            return _of_extreme(node, [sign(a) for a in arguments], 1 if function == "max" else -1)
        case Call("clip", (value, low, high)):
            return sign(Call("min", (Call("max", (value, low)), high)))
        case _:
            return Sign(1, frozenset({node}))


def _constant(node: Node) -> Fraction | None:
    """The value of a tree of numbers alone, None where it has another or none."""
    match node:
        case Number(value):
            return value
        case Operation(operator, left, right):
            a, b = _constant(left), _constant(right)
            if a is None or b is None or (operator == "/" and b == 0):
                return None
            return _ARITHMETIC[operator](a, b)
        case Power(base, exponent) if exponent.denominator == 1:
            inner = _constant(base)
            return Fraction(inner**exponent.numerator) if inner else None
        case _:
            return None


def _of_sum(node: Node, left: Sign, right: Sign) -> Sign:
    if left.factor == 0 or right.factor == 0:
        return right if left.factor == 0 else left
    return left if left == right else Sign(1, frozenset({node}))


def _of_extreme(node: Node, signs: list[Sign], way: int) -> Sign:
    """Of a maximum (``way`` 1) or a minimum (-1): one term on its side of zero decides."""
    if any((Sign(way) * s).never_negative for s in signs):
        return Sign(way)
    return signs[0] if len(set(signs)) == 1 else Sign(1, frozenset({node}))


def refuse_unless_real(expression: Expression) -> None:
    """Raises :class:`InputError` where a fractional power or a logarithm may be of a negative."""
    for function, base, exponent in _roots(expression.root):
        if sign(base).never_negative:
            continue
        written = shown(expression.text)
        if exponent is None:
            raise InputError(
                f"{written} is not real: it takes the logarithm of {text(base)}, which may be "
                f"negative; write log(abs({text(base)}))"
            )
        plain, power = text(base), "" if function == "sqrt" else f"**({exponent})"
        meant = f"sqrt(abs({plain}))" if function == "sqrt" else f"abs({plain}){power}"
        raise InputError(
            f"{written} is not real: it takes a fractional power of {plain}, which may be "
            f"negative; write sign({plain})*{meant}, or {meant} where the sign is not meant"
        )


def _roots(root: Node) -> Iterator[tuple[str, Node, Fraction | None]]:
    """Every fractional power, square root and logarithm of a tree, innermost first."""
    for node in parts(root):
        match node:
            case Power(base, exponent) if exponent.denominator != 1:
                yield "**", base, exponent
            case Call("sqrt", (inner, *_)):
                yield "sqrt", inner, Fraction(1, 2)
            case Call("log", (inner, *_)):
                yield "log", inner, None


def text(node: Node) -> str:
    """A term as the grammar writes it."""
    match node:
        case Number(value):
            return str(value)
        case Name(name):
            return name
        case Power(base, exponent):
            return f"{_held(base)}**({exponent})"
        case Operation("*", Number(Fraction(numerator=-1, denominator=1)), right):
            return f"-{_held(right)}"
        case Operation(operator, left, right):
            return f"{_held(left)}{operator}{_held(right)}"
        case Call(function, arguments):
            return f"{function}({', '.join(text(a) for a in arguments)})"


def _held(node: Node) -> str:
    plain = isinstance(node, Name | Call) or text(node).isdigit()
    return text(node) if plain else f"({text(node)})"
