"""A small grammar for user expressions: parsed into a frozen tree, never evaluated as code.

Python's ``ast`` module does the tokenising; everything that is not arithmetic on known
names, numbers and known functions is refused with one sentence. The tree is interpreted by
:func:`fold` with an *algebra*, so that SymPy, torch and plain floats each give it a meaning
without this module importing any of them.

A rule, an update and a placement are texts because they travel: into JSON, to other processes, into
a model that knows torch alone. A SymPy object would bring SymPy to all of them. The readers of one
tree are held against each other.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from deepnet_theory.definitions.outcome import InputError, shown

MAX_LENGTH = 1000  # characters; longer input is refused before it is tokenised
MAX_DEPTH = 60  # nesting of the tree
MAX_EXPONENT = 256  # numerator and denominator of any exponent
MAX_DIGITS = 300.0  # of any value that a tree could form from names of one digit: a float's

_NAMES = "alpha beta kappa eta rho theta tau lambda sigma delta epsilon phi gamma mu omega xi"
GREEK = dict(zip(_NAMES.split(), "αβκηρθτλσδεφγμωξ", strict=True))
RAISED = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")  # a whole exponent
_LOWERED = {raised: digit for digit, raised in RAISED.items()}
_TYPED = {"·": "*", "−": "-", "√": "sqrt", "^": "**"} | {s: name for name, s in GREEK.items()}


@dataclass(frozen=True)
class Number:
    """An exact rational literal."""

    value: Fraction


@dataclass(frozen=True)
class Name:
    """One of the grammar's symbols."""

    name: str


@dataclass(frozen=True)
class Operation:
    """A binary operation, one of ``+ - * /``."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Power:
    """A base to an exact rational exponent."""

    base: Node
    exponent: Fraction


@dataclass(frozen=True)
class Call:
    """A known function of one or more arguments."""

    function: str
    arguments: tuple[Node, ...]


Node = Number | Name | Operation | Power | Call


@dataclass(frozen=True)
class Grammar:
    """The names and functions (with least and greatest number of arguments) that may occur."""

    purpose: str
    symbols: tuple[str, ...]
    functions: dict[str, tuple[int, int]] = field(hash=False)

    @lru_cache(4096)  # noqa: B019  grammars are few; a rule's texts are read anew at every depth
    def parse(self, text: str) -> Expression:
        """Parse ``text``; raises :class:`InputError` with one sentence for anything else."""
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{self.purpose} must not be empty; use {self.valid}")
        if len(text) > MAX_LENGTH:
            raise InputError(
                f"{self.purpose} of {len(text)} characters is too long; "
                f"at most {MAX_LENGTH} are read"
            )
        stripped = typed(text.strip())

        def refuse(why: str) -> InputError:
            return InputError(f"{shown(stripped)} is not {self.purpose}: {why}; use {self.valid}")

        # Other identifiers are normalised by Python (a full-width "eta" would become "eta"), so
        # only printable ASCII is read at all.
        if any(not (32 <= ord(c) < 127) for c in stripped):
            raise refuse("only plain ASCII characters may occur")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(stripped, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise refuse("it cannot be read") from None
        try:
            root = _convert(tree.body, self, refuse, MAX_DEPTH)
            digits = _digits(root)
        except RecursionError:
            raise refuse("it is nested too deeply") from None
        if digits > MAX_DIGITS:
            raise refuse(f"it forms values of more than {MAX_DIGITS:.0f} digits")
        return Expression(stripped, root, self)

    @property
    def valid(self) -> str:
        """What the grammar admits, in words."""
        functions = f" and {', '.join(self.functions)}" if self.functions else ""
        return f"{', '.join(self.symbols)}, numbers, + - * / ** and parentheses{functions}"


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its text as the user wrote it, and its tree."""

    text: str
    root: Node
    grammar: Grammar

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(part.name for part in parts(self.root) if isinstance(part, Name))

    @cached_property
    def functions(self) -> frozenset[str]:
        return frozenset(part.function for part in parts(self.root) if isinstance(part, Call))

    def __str__(self) -> str:
        return self.text


Function = Callable[..., Any]
Functions = dict[str, Function]
OPERATORS: Functions = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
FUNCTIONS: Functions = {"sqrt": math.sqrt, "log": math.log, "abs": abs, "max": max, "min": min}


def to_power(base: Any, exponent: Fraction) -> Any:
    """A power of a number or an array, by a float."""
    return base ** float(exponent)


@dataclass(frozen=True)
class Algebra:
    """The meaning of each kind of node; by default Python's operators on floats.

    ``names`` and ``functions`` have those of the grammar, ``operators`` its four signs.
    """

    names: Mapping[str, Any]
    functions: Mapping[str, Function] = field(default_factory=dict)
    operators: Mapping[str, Function] = field(default_factory=OPERATORS.copy)
    number: Function = float
    power: Function = to_power

    def call(self, function: str, *arguments: Any) -> Any:
        return self.functions[function](*arguments)


def fold(node: Node, algebra: Algebra) -> Any:
    """Interpret a tree bottom-up with ``algebra``; ``KeyError`` for what it does not have."""
    match node:  # the most frequent first: a step is checked by some thousand of these
        case Operation(symbol, left, right):
            return algebra.operators[symbol](fold(left, algebra), fold(right, algebra))
        case Name(name):
            return algebra.names[name]
        case Number(value):
            return algebra.number(value)
        case Call(function, arguments):
            return algebra.call(function, *(fold(a, algebra) for a in arguments))
        case Power(base, exponent):
            return algebra.power(fold(base, algebra), exponent)


def evaluate(expression: Expression, **values: float) -> float:
    """The value of a depth expression, for instance ``evaluate(alpha, N=8)``.

    Raises :class:`InputError` where it is undefined, complex or infinite there.
    """

    def refuse(why: str) -> InputError:
        where = ", ".join(f"{k} = {v:g}" for k, v in values.items())
        return InputError(f"{expression.text!r} {why} at {where}")

    try:
        names = {name: float(values[name]) for name in expression.names & values.keys()}
        value = float(fold(expression.root, Algebra(names, FUNCTIONS, power=math.pow)))
    except KeyError as missing:
        raise InputError(f"{expression.text!r} needs a value for {missing.args[0]}") from None
    except (ArithmeticError, ValueError, TypeError):
        raise refuse("has no real value") from None
    if not math.isfinite(value):
        raise refuse("is not finite")
    return value


# rows are a matrix's outputs and columns its inputs, as torch stores it; a vector is one column.
_OF_UPDATES = {
    **dict.fromkeys(("sign", "abs", "sqrt", "log", "norm", "rms"), (1, 1)),
    **dict.fromkeys(("numel", "rows", "columns", "polar"), (1, 1)),
    **dict.fromkeys(("max", "min"), (2, 8)),
    "clip": (3, 3),
}
_OF_DEPTHS = {**dict.fromkeys(("sqrt", "log", "abs"), (1, 1)), "max": (2, 8), "min": (2, 8)}
_PRACTISED = ("eta", "g", "theta", "epsilon", "decay")
UPDATE = Grammar("an update", ("eta", "g", "theta"), _OF_UPDATES)
PRACTICE = Grammar("an update with epsilon and weight decay", _PRACTISED, _OF_UPDATES)
KEPT = Grammar("an update of averages", ("eta", "g", "theta", "v", "memory"), _OF_UPDATES)
DEPTH = Grammar("an expression in the depth", ("N", "M"), _OF_DEPTHS)
# l is the layer's index, from 1 to the number of layers of its part
_INDEXED = "an expression in the depth and the layer's index"
INDEXED = Grammar(_INDEXED, ("N", "M", "l"), _OF_DEPTHS)


def typed(formula: str) -> str:
    """A printed formula as it is typed: ``2·N²`` is ``2*N**2``."""
    exponent = f"[{''.join(map(chr, _LOWERED))}]+"
    flat = re.sub(exponent, lambda m: f"**({m[0].translate(_LOWERED)})", formula)
    return "".join(_TYPED.get(sign, sign) for sign in flat)


def _convert(
    node: ast.expr, grammar: Grammar, refuse: Callable[[str], InputError], depth: int
) -> Node:
    if depth == 0:
        raise refuse("it is nested too deeply")

    def inner(child: ast.expr) -> Node:
        return _convert(child, grammar, refuse, depth - 1)

    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if isinstance(value, float) and not math.isfinite(value):
                raise refuse("a number is not finite")
            # repr is the shortest decimal that reads back: 0.1 is one tenth and not a binary float
            return Number(Fraction(repr(value)))
        case ast.Name(id=name):
            if name not in grammar.symbols:
                raise refuse(f"{name!r} is not known")
            return Name(name)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return inner(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            term = inner(operand)
            if isinstance(term, Number):
                return Number(-term.value)
            return Operation("*", Number(Fraction(-1)), term)
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            return Power(inner(left), _exponent(inner(right), refuse))
        case ast.BinOp(op=op, left=left, right=right):
            symbol = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(op))
            if symbol is None:
                raise refuse("an operator is not known")
            return Operation(symbol, inner(left), inner(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            if name not in grammar.functions:
                raise refuse(f"the function {name!r} is not known")
            least, most = grammar.functions[name]
            if not least <= len(args) <= most:
                raise refuse(
                    f"{name} takes {least if least == most else f'{least} to {most}'}"
                    f" argument{'s' if most > 1 else ''}, not {len(args)}"
                )
            return Call(name, tuple(inner(a) for a in args))
        case _:
            raise refuse("only arithmetic may occur")


def constant(node: Node) -> Fraction | None:
    """The value of a tree of numbers alone; None where it has another or none, or is too long."""
    if _digits(node) > MAX_DIGITS:
        return None
    try:  # a root of a number is a float, and so is all that is made of one
        value = fold(node, Algebra({}, number=Fraction, power=pow))
    except (KeyError, ArithmeticError):
        return None
    return value if isinstance(value, Fraction) else None


def _exponent(node: Node, refuse: Callable[[str], InputError]) -> Fraction:
    value = constant(node)
    if value is None:
        raise refuse("an exponent is no rational number, or too long a one")
    if abs(value.numerator) > MAX_EXPONENT or value.denominator > MAX_EXPONENT:
        raise refuse(f"an exponent is beyond {MAX_EXPONENT}")
    return value


def _digits(node: Node) -> float:
    """The one measure of size: digits of what the tree forms with names of one digit.

    It bounds constants, degrees and coefficients of an expanded tree alike.
    """
    match node:
        case Number(value):
            return math.log10(max(abs(value.numerator), value.denominator))
        case Name():
            return 1.0
        case Power(base, exponent):
            return _digits(base) * max(1.0, abs(float(exponent)))
        case Call(function, arguments):
            squared = 2 if function in ("norm", "rms", "polar") else 1  # sums of squares
            return squared * sum(_digits(a) for a in arguments)
        case Operation(symbol, left, right):
            return _digits(left) + _digits(right) + (0.31 if symbol in "+-" else 0.0)


def mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    """A node with its own parts changed."""
    match node:
        case Operation(symbol, left, right):
            return Operation(symbol, change(left), change(right))
        case Power(base, exponent):
            return Power(change(base), exponent)
        case Call(function, arguments):
            return Call(function, tuple(map(change, arguments)))
    return node


def children(node: Node) -> tuple[Node, ...]:
    """A node's own parts."""
    match node:
        case Operation(_, left, right):
            return left, right
        case Power(base, _):
            return (base,)
        case Call(_, arguments):
            return arguments
    return ()


def parts(node: Node) -> Iterator[Node]:
    """All that a tree is made of, innermost first."""
    for child in children(node):
        yield from parts(child)
    yield node
