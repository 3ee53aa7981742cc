r"""The fold of an update in width: the size of its entries, their parity, and how it acts.

For :math:`y = cWx`, W of ``out`` rows and ``in`` columns, every node of the update's tree has the
root mean square of its entries as a monomial in γ (``g``), σ (``theta``), ``in`` and ``out``. Its
*action* is the root mean square of :math:`(\Delta W x)_i` for x of size 1:

.. math:: n_{in}\,u \text{ where it is odd in } g \text{ and even in } \theta, \qquad
          \sqrt{n_{in}}\,u \text{ otherwise.}

The first is a sum of aligned terms, for g is :math:`\sum_t \delta_t x_t^\top`; the second a random
walk. Degrees do not suffice: ``theta*sign(g)`` and ``abs(theta)*sign(g)`` have the same.

Source: derived here; for g, sign(g) and polar(g) as in Yang and Hu, arXiv 2011.14522, Yang et al.,
arXiv 2203.03466 and 2310.17813.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.update import law
from deepnet_theory.spec.errors import Refusal, shown
from deepnet_theory.spec.expression import (
    MAX_EXPONENT,
    Call,
    FloatAlgebra,
    Name,
    Node,
    Number,
    Operation,
    Power,
    fold,
)
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.selection import ALIGNMENTS
from deepnet_theory.spec.sign import sign as sign_of
from deepnet_theory.spec.sign import text

FULL, NONE = ALIGNMENTS
GRADIENT, PARAMETER, INPUTS, OUTPUTS = "g", "theta", "in", "out"
HALF = Fraction(1, 2)
BASES = ("d", "k", "N", "M")  # the first that differs decides which of two sizes is the larger

Parity = tuple[bool, bool]  # odd in g, odd in theta
Powers = tuple[Fraction, Fraction, Fraction]
EVEN: Parity = (False, False)
ALIGNED: Parity = (True, False)


@dataclass(frozen=True)
class Sized:
    """A value: the size of its entries by parity; no parts where it is 0.

    ``vanishes`` are the powers of what may be 0 in an entry: of g, of θ, and of sums that change
    sign. ``unlike`` says that smaller terms were left out. ``rank`` is "low" for multiples of g,
    "full" for those of θ, and unknown else; ``number`` an exact value.
    """

    parts: Mapping[Parity, Monomial]
    vanishes: Powers = (Fraction(0), Fraction(0), Fraction(0))
    unlike: bool = False
    rank: str = ""
    number: Fraction | None = None
    scalar: bool = False


ZERO = Sized({}, number=Fraction(0), scalar=True)
_G, _THETA, _SUM = ((Fraction(i == 0), Fraction(i == 1), Fraction(i == 2)) for i in range(3))


def _scalar(size: Monomial, number: Fraction | None = None) -> Sized:
    return Sized({EVEN: size}, number=number, scalar=True)


class MissingLaw(Exception):  # noqa: N818  it says which law
    """The law that is missing, in words."""


class Entries:
    """Folds an update at the sizes of one role; ``values`` has those of γ, σ, n_in and n_out.

    A parameter that starts at 0 has no ``theta`` among them. Which of two terms is the larger is
    decided by the sizes there, in d first. ``epsilon`` becomes what stands beside it.
    """

    def __init__(self, values: Mapping[str, Monomial]) -> None:
        self.values = values
        self.epsilon: Monomial | None = None

    def at(self, node: Node) -> Sized:
        """The value of a node; raises ``MissingLaw`` with the law that is missing."""
        match node:
            case Number(value):
                size = abs(value)
                return _scalar(Monomial.number(size), value) if value else ZERO
            case Name("g"):
                return Sized({ALIGNED: Monomial.of(GRADIENT)}, _G, rank="low")
            case Name("theta"):
                if PARAMETER not in self.values:
                    return ZERO
                own: Parity = (False, True)
                return Sized({own: Monomial.of(PARAMETER)}, _THETA, rank="full")
            case Name("decay"):
                return ZERO
            case Name(name):
                return _scalar(Monomial.of(name))
            case Power(base, exponent):
                return self._power(self.at(base), exponent)
            case Operation("*", left, right):
                return self._product(self.at(left), self.at(right))
            case Operation("/", left, right):
                return self._product(self.at(left), self._power(self.at(right), Fraction(-1)))
            case Operation(symbol, left, right):
                way = 1 if symbol == "+" else -1
                changes_sign = bool(sign_of(node).of)
                return self._sum(self.at(left), self.at(right), way, changes_sign=changes_sign)
            case Call("clip", (value, low, high)) | Call(
                "min", (Call("max", (value, low)), high)
            ) if self._opposite(low, high):
                return self._clip(self.at(value), self.at(high))
            case Call("clip", (value, low, high)):
                return self.at(Call("min", (Call("max", (value, low)), high)))
            case Call("max" | "min" as which, (one, other)):
                return self._extreme(one, other, 1 if which == "max" else -1)
            case Call("max" | "min" as which, (*others, last)):
                return self.at(Call(which, (Call(which, tuple(others)), last)))
            case Call("sqrt", (inner,)):
                return self._power(self.at(inner), HALF)
            case Call("blocks", (inner, Number(rows))):
                return self._blocks(inner, Monomial.number(rows))
            case Call(function, (inner,)):
                return self._call(function, self.at(inner))
        raise MissingLaw(f"{text(node)} has no law")

    # ---- which of two sizes is the larger ----

    def size(self, of: Monomial) -> Monomial:
        return of.put(self.values)

    def order(self, of: Monomial) -> tuple[Fraction, ...]:
        value = self.size(of)
        return tuple(value.exponent(base) for base in BASES)

    def top(self, of: Sized) -> tuple[Fraction, ...]:
        return max(map(self.order, of.parts.values()))

    def leading(self, of: Sized) -> dict[Parity, Monomial]:
        if len(of.parts) == 1:
            return dict(of.parts)
        top = self.top(of)
        return {p: size for p, size in of.parts.items() if self.order(size) == top}

    # ---- nodes ----

    def _product(self, left: Sized, right: Sized) -> Sized:
        if not left.parts or not right.parts:
            return ZERO
        parts: dict[Parity, Monomial] = {}
        for (a, b), x in left.parts.items():
            for (c, d), y in right.parts.items():
                self._unite(parts, (a != c, b != d), x * y)
        number = None
        if left.number is not None and right.number is not None:
            number = left.number * right.number
        rank = left.rank if right.scalar else (right.rank if left.scalar else "")
        vanishes = _each(operator.add, left.vanishes, right.vanishes)
        unlike = left.unlike or right.unlike
        return Sized(parts, vanishes, unlike, rank, number, left.scalar and right.scalar)

    def _unite(self, parts: dict[Parity, Monomial], parity: Parity, size: Monomial) -> None:
        """Put a term into a sum: of two of one parity the larger stays."""
        if parity not in parts or self.order(size) > self.order(parts[parity]):
            parts[parity] = size

    def _sum(self, left: Sized, right: Sized, way: int = 1, *, changes_sign: bool = False) -> Sized:
        if left.number is not None and right.number is not None:
            total = left.number + way * right.number
            return _scalar(Monomial.number(abs(total)), total) if total else ZERO
        known = self._beside_epsilon(left, right)
        if known is not None:
            return known
        if not left.parts or not right.parts:
            return left if left.parts else right
        parts = dict(left.parts)
        for parity, size in right.parts.items():
            self._unite(parts, parity, size)
        scalar, unlike = left.scalar and right.scalar, left.unlike or right.unlike
        vanishes = _each(min, left.vanishes, right.vanishes)  # where both do
        if self.top(left) != self.top(right):
            larger = max(left, right, key=self.top)
            vanishes, unlike = larger.vanishes, True
            changes_sign = changes_sign and not larger.scalar
        if changes_sign:
            vanishes = _SUM
        rank = left.rank if left.rank == right.rank else ""
        return Sized(parts, vanishes, unlike, rank, scalar=scalar)

    def _beside_epsilon(self, left: Sized, right: Sized) -> Sized | None:
        """The other term of a sum with ε, which is to be as large: ε is solved for."""
        for one, other in ((left, right), (right, left)):
            for size in one.parts.values():
                power = size.exponent("epsilon")
                if power and self.epsilon is None and other.parts:
                    rest = size / Monomial.of("epsilon") ** power
                    (largest, *_) = self.leading(other).values()
                    self.epsilon = self.size(largest / rest) ** (1 / power)
                if power:
                    return other
        return None

    def _power(self, base: Sized, exponent: Fraction) -> Sized:
        if not base.parts:
            if exponent > 0:
                return ZERO
            raise MissingLaw("it divides by zero")
        if base.number is not None and exponent.denominator == 1:
            value = base.number ** int(exponent)
            return _scalar(Monomial.number(abs(value)), value)
        if exponent == 1:
            return base
        odd = exponent.numerator % 2 == 1 and exponent.denominator == 1
        vanishes = _each(operator.mul, base.vanishes, (exponent,) * 3)
        parts = self._bent(base, exponent, odd=odd)
        return Sized(parts, vanishes, base.unlike, scalar=base.scalar)

    def _bent(self, of: Sized, power: Fraction, *, odd: bool) -> dict[Parity, Monomial]:
        r"""The parts of a function of a sum, odd or even, that is a power of its size.

        With L the largest term and s another one they are :math:`f(L)(s/L)^n`. The smaller ones
        count where they are aligned: :math:`(\theta + g)^3` has :math:`3\theta^2 g`.
        """
        first, largest = max(self.leading(of).items())
        parts = {first if odd else EVEN: largest**power}
        for _ in range(3 if len(of.parts) > 1 else 0):  # more factors give no other parity
            for (a, b), size in list(parts.items()):
                for (c, d), other in of.parts.items():
                    parity = (a ^ c ^ first[0], b ^ d ^ first[1])
                    self._unite(parts, parity, size * other / largest)
        return parts

    def _clip(self, of: Sized, bound: Sized) -> Sized:
        """A value kept between two opposite bounds, an odd function of it."""
        if not of.parts or not bound.parts:
            return ZERO
        if self.top(of) < self.top(bound):
            return of
        if self.top(of) == self.top(bound):
            return replace(of, rank="")
        return self._product(self._call("sign", of), bound)

    def _opposite(self, low: Node, high: Node) -> bool:
        """Whether a bound is minus the other one."""
        below, above = sign_of(low), sign_of(high)
        definite = below.factor == -1 and not below.of and above.never_negative
        return definite and self.at(low).parts == self.at(high).parts

    def _extreme(self, one: Node, other: Node, way: int) -> Sized:
        """The larger of two values, or with ``way`` -1 the smaller one."""
        values = left, right = self.at(one), self.at(other)
        known = self._beside_epsilon(left, right)
        if known is not None:
            return known
        signs = [sign_of(node) for node in (one, other)]
        if any(sign.of for value, sign in zip(values, signs, strict=True) if value.parts):
            if left.parts and right.parts:
                raise MissingLaw("it compares values that may have either sign")
            kept = left if left.parts else right  # its half on one side of 0
            half = self._sum(kept, self._call("abs", kept))
            return replace(half, vanishes=_each(operator.mul, _SUM, (Fraction(MAX_EXPONENT),) * 3))
        if left.number is not None and right.number is not None:
            return max(values, key=lambda value: way * (value.number or 0))
        first, second = (
            (sign.factor, *(sign.factor * power for power in self.top(value)))
            if value.parts
            else (0,)
            for value, sign in zip(values, signs, strict=True)
        )
        if first == second:
            return self._sum(left, right)
        return left if (first > second) is (way > 0) else right

    def _call(self, function: str, of: Sized) -> Sized:
        counts = {
            "rows": Monomial.of(OUTPUTS),
            "columns": Monomial.of(INPUTS),
            "numel": Monomial.of(INPUTS, OUTPUTS),
        }
        if function in counts:
            return _scalar(counts[function])
        if not of.parts:
            if function == "log":
                raise MissingLaw("it takes the logarithm of zero")
            return ZERO
        leading = self.leading(of)
        (size, *_) = leading.values()
        match function:
            case "sign":
                if not any(of.vanishes):
                    return Sized(dict.fromkeys(leading, ONE))
                return Sized(self._bent(of, Fraction(0), odd=True))
            case "abs":
                number = None if of.number is None else abs(of.number)
                parts = self._bent(of, Fraction(1), odd=False)
                return Sized(parts, of.vanishes, of.unlike, "", number, of.scalar)
            case "rms" | "norm":
                _require_second_moment(of)
                return _scalar(size if function == "rms" else size * counts["numel"] ** HALF)
            case "log":
                if any(self.order(size)):
                    raise MissingLaw("a logarithm of something that scales")
                if of.unlike or of.number == 1:
                    raise MissingLaw("a logarithm of something that may be near 1")
                return Sized({EVEN: ONE}, ZERO.vanishes if of.scalar else _SUM, scalar=of.scalar)
            case _:
                return self._polar(of, leading, counts["numel"])

    def _blocks(self, inner: Node, rows: Monomial) -> Sized:
        """A term of blocks of rows: of counts of its own, and of the sizes and signs of entries.

        Blocks of rows share their inputs, so that the rank and what is aligned stay as they are.
        """
        if not any(self.order(self.size(Monomial.of(OUTPUTS)))):
            rows = Monomial.of(OUTPUTS)  # it does not grow: one block
        block = Entries({**self.values, OUTPUTS: self.size(rows)})
        of = block.at(inner)
        self.epsilon = self.epsilon or block.epsilon
        parts = {parity: size.put({OUTPUTS: rows}) for parity, size in of.parts.items()}
        return replace(of, parts=parts, scalar=of.scalar and of.number is not None)

    def _polar(self, of: Sized, leading: Mapping[Parity, Monomial], numel: Monomial) -> Sized:
        r"""Entries of size :math:`\sqrt{r/(n_{in} n_{out})}` at rank r."""
        if not of.rank:
            raise MissingLaw("the rank of what polar takes is not known: it takes g or theta")
        rank = ONE
        if of.rank == "full":
            rank = min((Monomial.of(INPUTS), Monomial.of(OUTPUTS)), key=self.order)
        return Sized(dict.fromkeys(leading, (rank / numel) ** HALF), of.vanishes, rank=of.rank)


def _each(of: Callable[[Fraction, Fraction], Fraction], left: Powers, right: Powers) -> Powers:
    first, second, third = map(of, left, right)
    return first, second, third


def _require_second_moment(of: Sized) -> None:
    if min(of.vanishes) <= -HALF:
        raise MissingLaw("entries to the power of -1/2 or less have no second moment")


@dataclass(frozen=True)
class Step:
    """One update per unit of learning rate, as monomials in γ, σ, n_in and n_out.

    ``entry`` is the root mean square of its entries, ``action`` that of what it adds to an output;
    ``aligned`` whether the terms of the sum in the action add up.
    """

    entry: Monomial
    action: Monomial
    aligned: bool


def step(optimizer: Optimizer, values: Mapping[str, Monomial], alignment: str = FULL) -> Step:
    """The size of an optimizer's first update of one role; ``values`` as :class:`Entries` has them.

    Raises :class:`Refusal` where a law is missing, where a parameter that is 0 stays 0, and where
    no part of the update is odd in g.
    """
    starts_at_zero = PARAMETER not in values
    fold, ways = Entries(values), []
    try:
        if starts_at_zero:
            of = fold.at(optimizer.expression.root)
            if not of.parts:
                of = fold.at(optimizer.from_zero.root)
        else:
            of = fold.at(_reduced(optimizer))
        ways = list(_actions(of, fold, alignment))
    except MissingLaw as missing:
        raise _refusal(optimizer, str(missing)) from None
    if not of.parts:
        raise Refusal(
            f"the update {shown(optimizer.update)} is 0 where theta is 0: a parameter that starts "
            "at 0 never leaves it; start it elsewhere"
        )
    entry = max((way[0] for way in ways), key=fold.order)
    _, action, aligned = max(ways, key=lambda way: fold.order(way[1]))
    if any(way.exponent("eta") != 1 for way in of.parts.values()):
        raise _refusal(optimizer, "it is not proportional to eta")
    eta = Monomial.of("eta")
    return Step(entry / eta, action / eta, aligned)


def _actions(of: Sized, fold: Entries, alignment: str) -> Iterator[tuple[Monomial, Monomial, bool]]:
    if of.parts and not any(odd for odd, _ in of.parts):
        raise MissingLaw("no part of it is odd in g, so that it does not follow the gradient")
    _require_second_moment(of)
    for parity, size in of.parts.items():
        aligned = parity == ALIGNED and alignment == FULL
        yield size, size * Monomial.of(INPUTS) ** (1 if aligned else HALF), aligned


def _reduced(optimizer: Optimizer) -> Node:
    """The update's tree, what a stated regime decides put in; as it is where none decides."""
    try:
        return law(optimizer).reduced
    except Refusal:
        return optimizer.expression.root


def _refusal(optimizer: Optimizer, why: str) -> Refusal:
    return Refusal(f"no law in width for the update {shown(optimizer.update)}: {why}")


def epsilon(optimizer: Optimizer, values: Mapping[str, Monomial]) -> Monomial | None:
    """The size of what ε stands beside in the update as it is practised; None without an ε."""
    fold = Entries(values)
    try:
        fold.at(optimizer.practised.root)
    except MissingLaw:
        return None
    return fold.epsilon


# ---- updates of explicit sizes: several matrices packed into one, and columns that differ ----


class _Packed(FloatAlgebra):
    """An update of a matrix of blocks: values are numbers, or a size of entries for each block."""

    def __init__(self, rows: Sequence[int], columns: int, values: Mapping[str, Any]) -> None:
        self.rows, self.columns, self.values = rows, columns, dict(values)

    def _each(self, of: Callable[..., float], *arguments: Any) -> Any:
        if not any(isinstance(a, tuple) for a in arguments):
            return of(*arguments)
        spread = (a if isinstance(a, tuple) else (a,) * len(self.rows) for a in arguments)
        return tuple(of(*each) for each in zip(*spread, strict=True))

    def name(self, name: str) -> Any:
        return self.values[name]

    def add(self, left: Any, right: Any) -> Any:
        return self._each(operator.add, left, right)

    def subtract(self, left: Any, right: Any) -> Any:
        return self._each(operator.sub, left, right)

    def multiply(self, left: Any, right: Any) -> Any:
        return self._each(operator.mul, left, right)

    def divide(self, left: Any, right: Any) -> Any:
        return self._each(operator.truediv, left, right)

    def power(self, base: Any, exponent: Fraction) -> Any:
        return self._each(lambda one: float(one ** float(exponent)), base)

    def blocks(self, inner: Node, rows: int) -> Any:
        ends = list(accumulate(self.rows))
        squares = [0.0] * len(ends)
        for start in range(0, ends[-1], rows):  # one may hold rows of two matrices
            held = {
                i: shared
                for i, end in enumerate(ends)
                if (shared := min(end, start + rows) - max(end - self.rows[i], start)) > 0
            }
            values = {
                name: tuple(value[i] for i in held) if isinstance(value, tuple) else value
                for name, value in self.values.items()
            }
            found = fold(inner, _Packed(tuple(held.values()), self.columns, values))
            for i, size in zip(
                held, found if isinstance(found, tuple) else (found,) * len(held), strict=True
            ):
                squares[i] += held[i] * size**2 / self.rows[i]
        return tuple(map(math.sqrt, squares))

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        numel = sum(self.rows) * self.columns
        match function:
            case "rows" | "columns" | "numel":
                return {"rows": sum(self.rows), "columns": self.columns, "numel": numel}[function]
            case "norm" | "rms" | "polar":
                (sizes,) = arguments
                squares = self._each(lambda one, n: n * self.columns * one**2, sizes, self.rows)
                norm = math.sqrt(sum(squares))
                if function == "polar":  # of any rank that the blocks share
                    return self.divide(sizes, norm)
                return norm if function == "norm" else norm / math.sqrt(numel)
            case "sign":
                return self._each(lambda one: math.copysign(1.0, one), *arguments)
            case "clip":
                return self._each(lambda one, low, high: min(max(one, low), high), *arguments)
            case _:
                return self._each(self.functions[function], *arguments)


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
        return fold(optimizer.expression.root, _Packed(tuple(rows), columns, values))

    whole = stepped(rows, gradients, sizes)
    alone = (stepped([n], [g], [t]) for n, g, t in zip(rows, gradients, sizes, strict=True))
    return tuple(abs(one / own) for one, (own,) in zip(whole, alone, strict=True))


class _InColumns(_Packed):
    """An update of a matrix whose columns differ in size: the blocks are its columns."""

    def blocks(self, inner: Node, rows: int) -> Any:
        return fold(inner, _InColumns(self.rows, min(rows, self.columns), self.values))

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        of = {"rows": "columns", "columns": "rows"}.get(function, function)
        return super().call(of, arguments)


def moved_by_a_condition(
    optimizer: Optimizer, condition: Sequence[float], rows: int, bias: float
) -> float:
    r"""How far one step of W = 0 moves :math:`Wc + b`, over how far the step of b does.

    W has ``rows`` rows, c the entries ``condition`` and b entries of size ``bias``. With δ the
    gradient of the output, that of b is δ and that of W is :math:`\delta c^\top`: under sign(g)
    the ratio is :math:`\|c\|_1`, under g :math:`\|c\|_2^2`, under polar(g) with b a matrix of one
    column :math:`\|c\|_2/\sqrt{n_{in}}` where W has more rows than columns. That is so where all
    samples share c; where it differs between them, what they add partly cancels. 0 where an update
    leaves zeros at 0.
    """

    def stepped(sizes: Sequence[float], theta: float) -> tuple[float, ...]:
        of = optimizer.expression if theta else optimizer.from_zero
        values = {"eta": 1.0, "g": tuple(sizes), "theta": (theta,) * len(sizes)}
        found = fold(of.root, _InColumns((1,) * len(sizes), rows, values))
        return found if isinstance(found, tuple) else (found,) * len(sizes)

    (own,) = stepped([1.0], bias)
    moved = sum(u * c for u, c in zip(stepped(condition, 0.0), condition, strict=True))
    return moved / own if own else 0.0
