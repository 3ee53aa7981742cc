"""The sign of an update's terms over the reals: no root or logarithm of what may be negative."""

from __future__ import annotations

from dataclasses import dataclass

from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.expression import (
    Call,
    Expression,
    Name,
    Node,
    Number,
    Operation,
    Power,
    constant,
    parts,
)

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
    number = constant(node)
    if number is not None:
        return Sign((number > 0) - (number < 0))
    alike: set[Sign] = set()
    match node:
        case Name("eta" | "epsilon" | "decay"):
            return Sign(1)
        case Power(base, exponent):
            return Sign(1) if exponent.numerator % 2 == 0 else sign(base)
        case Operation("*" | "/", left, right):
            return sign(left) * sign(right)
        case Operation(symbol, left, right):
            terms = (sign(left), Sign(1 if symbol == "+" else -1) * sign(right))
            alike = {s for s in terms if s.factor} or {Sign(0)}
        case Call(function, _) if function in _NEVER_NEGATIVE:
            return Sign(1)
        case Call("sign", (inner,)):
            return sign(inner)
        case Call("blocks", (inner, _)) if sign(inner).never_negative:
            return sign(inner)
        case Call("max" | "min" as function, arguments):
            side = Sign(1 if function == "max" else -1)
            alike = {sign(a) for a in arguments}
            if any((side * s).never_negative for s in alike):  # it decides, on its side of 0
                return side
        case Call("clip", (value, low, high)):
            return sign(Call("min", (Call("max", (value, low)), high)))
    return alike.pop() if len(alike) == 1 else Sign(1, frozenset({node}))


def refuse_unless_real(expression: Expression) -> None:
    """Raises :class:`InputError` where a fractional power or a logarithm may be of a negative."""
    for node in parts(expression.root):
        match node:
            case Power(base, exponent) if exponent.denominator != 1:
                meant = f"abs({text(base)})**({exponent})"
            case Call("sqrt" | "log" as function, (base,)):
                meant = f"{function}(abs({text(base)}))"
            case _:
                continue
        if sign(base).never_negative:
            continue
        plain, what, write = text(base), "a fractional power", ""
        if meant.startswith("log"):
            what, write = "the logarithm", meant
        raise InputError(
            f"{shown(expression.text)} is not real: it takes {what} of {plain}, which may be "
            "negative; write "
            + (write or f"sign({plain})*{meant}, or {meant} where the sign is not meant")
        )


def text(node: Node) -> str:
    """A term as the grammar writes it."""
    match node:
        case Number(value):
            return str(value)
        case Name(name):
            return name
        case Power(base, exponent):
            return f"{_held(base)}**({exponent})"
        case Operation("*", Number(value), right) if value == -1:
            return f"-{_held(right)}"
        case Operation(operator, left, right):
            return f"{_held(left)}{operator}{_held(right)}"
        case Call(function, arguments):
            return f"{function}({', '.join(text(a) for a in arguments)})"


def _held(node: Node) -> str:
    plain = isinstance(node, Name | Call) or text(node).isdigit()
    return text(node) if plain else f"({text(node)})"
