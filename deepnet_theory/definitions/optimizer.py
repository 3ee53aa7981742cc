"""An optimizer is the expression of its first update; many steps are its library's.

An update is real: no root or logarithm of what may be negative, which its terms' signs tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from deepnet_theory.definitions.discovery import HERE, Folder, choose
from deepnet_theory.definitions.expression import (
    KEPT,
    PRACTICE,
    UPDATE,
    Call,
    Expression,
    Name,
    Node,
    Number,
    Operation,
    Power,
    constant,
    mapped,
    parts,
)
from deepnet_theory.definitions.outcome import InputError, shown


@dataclass(frozen=True)
class Reference:
    """A library's own optimizer, against whose first step the expression is checked.

    ``target`` is ``"module:Class"``, ``options`` its keyword arguments without ``lr``,
    ``requires`` the extra that installs it where torch alone does not.
    """

    target: str
    options: tuple[tuple[str, object], ...] = ()
    requires: str | None = None


@dataclass(frozen=True)
class Optimizer:
    r"""A first-step update rule :math:`\Delta\theta = u(\eta, g, \theta)`, weight decay 0.

    ``update`` is written in the grammar of :data:`~deepnet_theory.definitions.expression.UPDATE`.
    Many steps are those of its ``reference``; without one they are the expression's, where g is the
    sum of all gradients, each times ``momentum`` for every step since. With neither the first step
    alone is known.

    ``practice`` is the first step as its library takes it, in ``epsilon`` and ``decay`` (the
    weight decay) too; ``epsilon`` is the library's default, None where there is none that one
    number could set. Without them there is no epsilon, and the weight decay is decoupled.
    ``at_zero`` is the first update that a library takes for a parameter of zeros, where the
    expression would leave it there. ``kept`` is the step of many that have an average: g is that of
    the gradients, v that of their squares, and ``memory`` 1 - beta, where g is a sum of them.
    """

    name: str = ""
    update: str = ""
    summary: str = ""
    mind: str = ""
    source: str = ""
    reference: Reference | None = None
    momentum: float | None = None
    practice: str = ""
    epsilon: float | None = None
    at_zero: str = ""
    kept: str = ""

    def __post_init__(self) -> None:
        missing = {"eta"} - self.expression.names
        if missing:
            raise InputError(
                f"the update {shown(self.update)} does not contain eta, the learning rate"
            )
        refuse_unless_real(self.expression)
        _ = self.practised, self.from_zero, self.averaged

    @cached_property
    def expression(self) -> Expression:
        return UPDATE.parse(self.update)

    @cached_property
    def floors(self) -> tuple[Fraction, ...]:
        """The numbers that rms(θ) is never taken below, as in ``max(1/1000, rms(theta))``."""
        found = (_floor(node) for node in parts(self.expression.root))
        return tuple(floor for floor in found if floor is not None)

    @cached_property
    def from_zero(self) -> Expression:
        """The first update of a parameter that is 0."""
        return UPDATE.parse(self.at_zero) if self.at_zero else self.expression

    @cached_property
    def averaged(self) -> Expression | None:
        """The step of many in averages; None where nothing is kept that a beta forgets."""
        summed = re.sub(r"\bg\b", "(g/memory)", self.update) if self.momentum else ""
        return KEPT.parse(self.kept or summed) if self.kept or summed else None

    @property
    def has_momentum(self) -> bool:
        """Whether libraries give it one ``momentum``, and no betas."""
        options = dict(self.reference.options) if self.reference else {}
        return bool(self.momentum or options.get("momentum"))

    @cached_property
    def practised(self) -> Expression:
        """The first update with epsilon and weight decay."""
        if self.practice:
            return PRACTICE.parse(self.practice)
        shrink = Operation("*", Operation("*", Name("eta"), Name("decay")), Name("theta"))
        update = Operation("-", self.expression.root, shrink)
        return Expression(f"{self.update} - eta*decay*theta", update, PRACTICE)


OPTIMIZERS: Mapping[str, Optimizer] = Folder(HERE / "optimizers", Optimizer)


def optimizer(name: str) -> Optimizer:
    return choose("optimizer", name, OPTIMIZERS)


def custom_optimizer(update: str) -> Optimizer:
    """A user's own update rule, on the same path as the built-in ones; it keeps no memory."""
    return Optimizer("custom", update, summary="the user's own update", momentum=0.0)


# ---- the floor under a parameter's size ----

_SIZE = Call("rms", (Name("theta"),))


def _floor(node: Node) -> Fraction | None:
    """The positive number in ``max(number, rms(theta))``; None for any other node."""
    match node:
        case Call("max", (one, other)) if _SIZE in (one, other):
            number = constant(other if one == _SIZE else one)
            return number if number and number > 0 else None
    return None


def above_floors(node: Node) -> Node:
    """A term where rms(θ) is larger than every floor under it."""
    return mapped(node, above_floors) if _floor(node) is None else _SIZE


# ---- the sign of a term over the reals ----

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
                what = "a fractional power"
            case Call("sqrt" | "log" as what, (base,)):
                pass
            case _:
                continue
        if not sign(base).never_negative:
            plain = text(base)
            raise InputError(
                f"{shown(expression.text)} is not real: it takes {what} of {plain}, which may be "
                f"negative; take that of abs({plain}), times sign({plain}) where the sign is meant"
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
