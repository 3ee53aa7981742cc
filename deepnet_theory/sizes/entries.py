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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.update import law
from deepnet_theory.spec.errors import Refusal, shown
from deepnet_theory.spec.expression import Call, Name, Node, Number, Operation, Power
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.selection import ALIGNMENTS
from deepnet_theory.spec.sign import sign as sign_of
from deepnet_theory.spec.sign import text

FULL, NONE = ALIGNMENTS
GRADIENT, PARAMETER, INPUTS, OUTPUTS = "g", "theta", "in", "out"
HALF = Fraction(1, 2)
BASES = ("d", "k", "N", "M")  # in the order in which they decide which of two sizes is the larger

Parity = tuple[bool, bool]  # odd in g, odd in theta
EVEN: Parity = (False, False)
ALIGNED: Parity = (True, False)


@dataclass(frozen=True)
class Sized:
    """A value: the size of its entries by parity; no parts where it is 0.

    ``powers`` are those of the entries of g and θ in it, 0 where a scalar stands for them; ``rank``
    is "low" for multiples of g, "full" for those of θ, and unknown else; ``number`` an exact value.
    """

    parts: Mapping[Parity, Monomial]
    powers: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    rank: str = ""
    number: Fraction | None = None
    scalar: bool = False

    def times(self, by: Monomial) -> Sized:
        """The same, each entry multiplied."""
        return replace(self, parts={p: size * by for p, size in self.parts.items()}, number=None)


ZERO = Sized({}, number=Fraction(0), scalar=True)


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
                return Sized({ALIGNED: Monomial.of(GRADIENT)}, (Fraction(1), Fraction(0)), "low")
            case Name("theta"):
                if PARAMETER not in self.values:
                    return ZERO
                own: Parity = (False, True)
                return Sized({own: Monomial.of(PARAMETER)}, (Fraction(0), Fraction(1)), "full")
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
            case Operation(operator, left, right):
                return self._sum(self.at(left), self.at(right), 1 if operator == "+" else -1)
            case Call("clip", (value, low, high)):
                return self._clip(value, low, high)
            case Call("max" | "min" as which, (first, *others)):
                result = self.at(first)
                never_negative = sign_of(first).never_negative
                for other in others:
                    both = never_negative and sign_of(other).never_negative
                    result = self._extreme(result, self.at(other), both, largest=which == "max")
                return result
            case Call("sqrt", (inner,)):
                return self._power(self.at(inner), HALF)
            case Call(function, (inner,)):
                return self._call(function, self.at(inner))
        raise MissingLaw(f"{text(node)} has no law")

    # ---- which of two sizes is the larger ----

    def size(self, of: Monomial) -> Monomial:
        """A size in the width, the depth and numbers."""
        return of.put(self.values)

    def order(self, of: Monomial) -> tuple[Fraction, ...]:
        value = self.size(of)
        return tuple(value.exponent(base) for base in BASES)

    def leading(self, of: Sized) -> dict[Parity, Monomial]:
        """The parts of the greatest size."""
        if not of.parts:
            return {}
        top = max(map(self.order, of.parts.values()))
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
        powers = (left.powers[0] + right.powers[0], left.powers[1] + right.powers[1])
        return Sized(parts, powers, rank, number, left.scalar and right.scalar)

    def _unite(self, parts: dict[Parity, Monomial], parity: Parity, size: Monomial) -> None:
        """Put a term into a sum: of two of one parity the larger stays."""
        if parity not in parts or self.order(size) > self.order(parts[parity]):
            parts[parity] = size

    def _sum(self, left: Sized, right: Sized, way: int) -> Sized:
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
        powers = (
            min(left.powers[0], right.powers[0]),
            min(left.powers[1], right.powers[1]),
        )
        rank = left.rank if left.rank == right.rank else ""
        return Sized(parts, powers, rank, scalar=left.scalar and right.scalar)

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
        parts: dict[Parity, Monomial] = {}
        for parity, size in self.leading(base).items():
            odd = exponent.numerator % 2 == 1 and exponent.denominator == 1
            self._unite(parts, parity if odd else EVEN, size**exponent)
        powers = (base.powers[0] * exponent, base.powers[1] * exponent)
        rank = base.rank if exponent == 1 else ""
        return Sized(parts, powers, rank, scalar=base.scalar)

    def _clip(self, value: Node, low: Node, high: Node) -> Sized:
        """A value kept between two bounds; an odd function of it where they are opposite."""
        if self._opposite(low, high):
            of, bound = self.at(value), self.at(high)
            if not of.parts or not bound.parts:
                return ZERO
            (size, *_), (limit, *_) = (self.leading(v).values() for v in (of, bound))
            if self.order(size) <= self.order(limit):
                return of
            return self._product(self._call("sign", of), bound)
        return self.at(Call("min", (Call("max", (value, low)), high)))

    @staticmethod
    def _opposite(low: Node, high: Node) -> bool:
        match low, high:
            case Number(a), Number(b):
                return a == -b
            case Operation("*", Number(Fraction(numerator=-1, denominator=1)), inner), _:
                return inner == high
        return False

    def _extreme(self, left: Sized, right: Sized, never_negative: bool, *, largest: bool) -> Sized:
        known = self._beside_epsilon(left, right)
        if known is not None:
            return known
        if left.number is not None and right.number is not None:
            return max((left, right), key=lambda one: (one.number or 0) * (1 if largest else -1))
        if not left.parts or not right.parts:
            return (left if left.parts else right) if largest else ZERO
        a, b = (max(map(self.order, one.parts.values())) for one in (left, right))
        if never_negative:
            if a == b:
                return self._sum(left, right, 1)
            return left if (a > b) is largest else right
        # of a value of either sign its positive or its negative half: odd and even at once
        larger = left if a >= b else right
        return self._sum(larger, self._call("abs", larger), 1)

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
                return Sized(dict.fromkeys(leading, ONE))
            case "abs":
                number = None if of.number is None else abs(of.number)
                return Sized({EVEN: size}, of.powers, "", number, of.scalar)
            case "rms":
                return _scalar(size)
            case "norm":
                return _scalar(size * counts["numel"] ** HALF)
            case "log":
                if any(self.order(size)):
                    raise MissingLaw("a logarithm of something that scales")
                return Sized({EVEN: ONE}, scalar=of.scalar)
            case _:
                return self._polar(of, leading, counts["numel"])

    def _polar(self, of: Sized, leading: Mapping[Parity, Monomial], numel: Monomial) -> Sized:
        r"""Entries of size :math:`\sqrt{r/(n_{in} n_{out})}` at rank r."""
        if not of.rank:
            raise MissingLaw("the rank of what polar takes is not known: it takes g or theta")
        rank = ONE
        if of.rank == "full":
            rank = min((Monomial.of(INPUTS), Monomial.of(OUTPUTS)), key=self.order)
        return Sized(dict.fromkeys(leading, (rank / numel) ** HALF), rank=of.rank)


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
    entry, action, aligned = max(ways, key=lambda way: fold.order(way[1]))
    if any(way.exponent("eta") != 1 for way in of.parts.values()):
        raise _refusal(optimizer, "it is not proportional to eta")
    eta = Monomial.of("eta")
    return Step(entry / eta, action / eta, aligned)


def _actions(of: Sized, fold: Entries, alignment: str) -> Iterator[tuple[Monomial, Monomial, bool]]:
    """Entry, action and alignment of every part of an update."""
    if of.parts and not any(odd for odd, _ in of.parts):
        raise MissingLaw("no part of it is odd in g, so that it does not follow the gradient")
    if min(of.powers) <= -HALF:
        raise MissingLaw("entries to the power of -1/2 or less have no second moment")
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
