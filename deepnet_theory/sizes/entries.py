"""An update on numbers: entries of every sign, and matrices whose entries are alike in blocks.

The degrees of an update are counted in :mod:`deepnet_theory.sizes.update`. Whether it descends, and
whether it is zero or no real number, is asked of the numbers themselves: the same tree on a 1 × 2
matrix, at entries of every sign and of several sizes.

``laboratory.stepping`` evaluates the same tree on tensors. It stands twice because whoever wants a
formula should not wait for torch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, product
from typing import Any, TypeAlias

from deepnet_theory.definitions.expression import FloatAlgebra, Node, OperatorAlgebra, fold
from deepnet_theory.definitions.optimizer import Optimizer

Entries: TypeAlias = tuple[Decimal, Decimal]
Value: TypeAlias = Decimal | Entries
Point = tuple[Fraction, ...]  # two entries of g, two of θ

SIZES = (  # of g's and θ's entries, incommensurable and in each order
    ("3/7", "5/11", "17/5", "23/9"),
    ("29/8", "13/3", "2/17", "7/31"),
    ("1/5", "19", "6", "2/9"),
)
_ZERO = Decimal(0)
DIGITS = 40  # below this share of its terms a value is 0
_DECIMALS: dict[str, Callable[..., Decimal]] = {
    "sign": lambda a: Decimal((a > 0) - (a < 0)),
    "abs": abs,
    "sqrt": lambda a: a.sqrt(),
    "log": lambda a: a.ln(),
    "max": max,
    "min": min,
}
_FLOATS = {**FloatAlgebra.functions, "sign": lambda a: math.copysign(1.0, a)}


@dataclass(frozen=True)
class OnEntries(OperatorAlgebra[Any]):
    """Values are scalars, or one size of entries a block of lines; by default a 1 × 2 matrix.

    Block i has ``lines[i]`` lines, columns unless they ``are_rows``, and ``across`` is how long a
    line is. A scalar stands for a parameter of such entries. The scalars are of any arithmetic:
    ``number_of`` makes one, ``functions`` act on them.
    """

    values: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]
    number_of: Callable[[Fraction], Any]
    lines: tuple[int, ...] = (1, 1)
    across: int = 1
    are_rows: bool = False

    def number(self, value: Fraction) -> Any:
        return self.number_of(value)

    def name(self, name: str) -> Any:
        return self.values[name]

    def operate(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if any(isinstance(a, tuple) for a in arguments):
            return tuple(function(*a) for a in zip(*map(self.spread, arguments), strict=True))
        return function(*arguments)

    def power(self, base: Any, exponent: Fraction) -> Any:
        return self.operate(operator.pow, base, self.number_of(exponent))

    def spread(self, value: Any) -> tuple[Any, ...]:
        """A value in every block."""
        return value if isinstance(value, tuple) else (value,) * len(self.lines)

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        counts = (sum(self.lines), self.across)
        rows, columns = counts if self.are_rows else counts[::-1]
        match function:
            case "rows":
                return self.number_of(Fraction(rows))
            case "columns":
                return self.number_of(Fraction(columns))
            case "numel":
                return self.number_of(Fraction(rows * columns))
            case "norm" | "rms":
                squares = (
                    self.number_of(Fraction(lines * self.across)) * size**2
                    for lines, size in zip(self.lines, self.spread(*arguments), strict=True)
                )
                norm = self.functions["sqrt"](sum(squares))
                root = self.functions["sqrt"](self.number_of(Fraction(rows * columns)))
                return norm if function == "norm" else norm / root
            case "polar":  # of any rank that the blocks share, as one row: its direction
                return self.divide(self.spread(*arguments), self.call("norm", arguments))
            case "clip":
                value, low, high = arguments
                return self.call("min", (self.call("max", (value, low)), high))
        return self.operate(self.functions[function], *arguments)

    def blocks(self, inner: Node, rows: int) -> Any:
        if not self.are_rows:
            return fold(inner, replace(self, across=min(rows, self.across)))
        ends = list(accumulate(self.lines))
        squares = [0.0] * len(ends)
        for start in range(0, ends[-1], rows):  # one may hold rows of two matrices
            held = {
                i: shared
                for i, end in enumerate(ends)
                if (shared := min(end, start + rows) - max(end - self.lines[i], start)) > 0
            }
            values = {
                name: tuple(value[i] for i in held) if isinstance(value, tuple) else value
                for name, value in self.values.items()
            }
            block = replace(self, values=values, lines=tuple(held.values()))
            for i, size in zip(held, block.spread(fold(inner, block)), strict=True):
                squares[i] += held[i] * size**2 / self.lines[i]
        return tuple(map(math.sqrt, squares))


def pair(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, value)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def entries(update: Node, values: Mapping[str, Value]) -> Entries:
    """The two entries of an update at numbers, in the precision that is set.

    Raises ``ArithmeticError`` where one is not finite or not real.
    """
    first, second = pair(fold(update, OnEntries(values, _DECIMALS, _decimal)))
    if not (first.is_finite() and second.is_finite()):
        raise ArithmeticError("not finite")
    return first, second


def points(size: tuple[str, ...], scale_g: int = 1, scale_theta: int = 1) -> Iterator[Point]:
    """Entries of g and θ at one size, of every sign."""
    scales = (scale_g, scale_g, scale_theta, scale_theta)
    for signs in product((1, -1), repeat=4):
        yield tuple(c * s * Fraction(m) for c, s, m in zip(scales, signs, size, strict=True))


@lru_cache(maxsize=256)
def exactly(update: Node, point: Point) -> Entries:
    """The update at η = 1/3, to ``DIGITS`` digits: what is below those of its terms is 0.

    Raises ``ArithmeticError`` where it is not finite or not real.
    """
    twice = []
    # rounding differs between two precisions, a value does not
    for digits in (DIGITS + 20, 2 * DIGITS + 40):
        with localcontext(prec=digits):
            a, b, c, d = map(_decimal, point)
            values: dict[str, Value] = {"g": (a, b), "theta": (c, d)}
            values |= dict.fromkeys(("eta", "epsilon", "decay"), _decimal(Fraction(1, 3)))
            twice.append(entries(update, values))
    with localcontext(prec=2 * DIGITS):
        first, second = (
            fine if abs(coarse - fine) <= abs(fine) * Decimal(10) ** -DIGITS else _ZERO
            for coarse, fine in zip(*twice, strict=True)
        )
    return first, second


def is_zero(term: Node) -> bool:
    """Whether a term is 0 at positive entries; one that has no value there is not."""
    try:
        return not any(exactly(term, next(points(SIZES[0]))))
    except ArithmeticError:
        return False


def descent(update: Node) -> frozenset[int] | None:
    """The sign of the mean of ⟨g, u⟩ over the signs of g and θ at each size; None where u is 0."""
    signs, moves = set(), False
    for size in SIZES:
        sampled = [(point, exactly(update, point)) for point in points(size)]
        moves = moves or any(any(kept) for _, kept in sampled)
        with localcontext(prec=2 * DIGITS):
            terms = [_decimal(g) * u for p, kept in sampled for g, u in zip(p, kept, strict=False)]
            mean, whole = sum(terms, _ZERO), sum(map(abs, terms), _ZERO)
            null = abs(mean) <= whole * Decimal(10) ** (5 - DIGITS)
            signs.add(0 if null else (1 if mean > 0 else -1))
    return frozenset(signs) if moves else None


# ---- several matrices packed into one, and columns that differ ----


def of_its_own(
    optimizer: Optimizer,
    rows: Sequence[int],
    columns: int,
    gradients: Sequence[float],
    sizes: Sequence[float],
) -> tuple[float, ...]:
    r"""How far each block of one packed matrix is stepped, as a part of its step by itself.

    The blocks' gradients are alike up to their sizes, :math:`g_b = s_b Q_b A` with Q of
    orthonormal columns. The polar factor then has the blocks :math:`s_b Q_b\,\mathrm{polar}(A) /
    \sqrt{\sum s^2}`. The squares of its blocks add up to its rank whatever the gradients are.
    """

    def stepped(rows: Sequence[int], g: Sequence[float], theta: Sequence[float]) -> Any:
        values = {"eta": 1.0, "g": tuple(g), "theta": tuple(theta)}
        packed = OnEntries(values, _FLOATS, float, tuple(rows), columns, are_rows=True)
        return fold(optimizer.expression.root, packed)

    whole = stepped(rows, gradients, sizes)
    alone = (stepped([n], [g], [t]) for n, g, t in zip(rows, gradients, sizes, strict=True))
    return tuple(abs(shared / single) for shared, (single,) in zip(whole, alone, strict=True))
