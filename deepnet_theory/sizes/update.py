r"""The fold of an update: the size of its entries, their parity, its degrees, and how it acts.

Every node of an update's tree has the root mean square of its entries as a monomial in γ (``g``),
σ (``theta``) and the counts ``rows`` and ``columns`` of the parameter as torch stores it. There is
one interpreter of the nodes, :class:`Fold`: a sum of terms of different sizes has no law. What it
is asked for differs in how two sizes compare:

* *in depth* (:class:`Degrees`) g and θ are free. The exponents are the degrees of the update,

  .. math:: u(\eta, t\,g, s\,\theta) = t^p s^q\,u(\eta, g, \theta), \qquad t, s > 0 ;

* *in width* the sizes of a role decide, in d first. For :math:`y = cWx` the *action*, the root mean
  square of :math:`(\Delta W x)_i` for x of size 1, is

  .. math:: n_{in}\,u \text{ where it is odd in } g \text{ and even in } \theta, \qquad
            \sqrt{n_{in}}\,u \text{ otherwise:}

  a sum of aligned terms, for g is :math:`\sum_t \delta_t x_t^\top`, or a random walk. Degrees do
  not suffice: ``theta*sign(g)`` and ``abs(theta)*sign(g)`` have the same. The polar factor of a
  gradient of rank r has entries of size :math:`\sqrt{r/(n_{in} n_{out})}`, but moves a token that
  the gradient is made of by :math:`\sqrt{n_{in}/n_{out}}` at every r: :math:`n_{in}\,u/\sqrt r`.

Nothing is typed in: a new update has its law as it is written.

Source: derived here; for g, sign(g) and polar(g) in width as in Yang and Hu, arXiv 2011.14522, Yang
et al., arXiv 2203.03466 and 2310.17813.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from deepnet_theory.definitions.expression import (
    MAX_EXPONENT,
    Call,
    Name,
    Node,
    Number,
    Operation,
    Power,
)
from deepnet_theory.definitions.optimizer import Optimizer, above_floors, sign, text
from deepnet_theory.definitions.outcome import Refusal, shown
from deepnet_theory.definitions.selection import ALIGNMENTS, RANKS, SHAPES
from deepnet_theory.sizes.monomial import ONE, Monomial

FULL, NONE = ALIGNMENTS
LOW_RANK, FULL_RANK = RANKS
GRADIENT, PARAMETER = "g", "theta"
INPUTS, ROWS, COLUMNS, RANK = "in", "rows", "columns", "rank"
MANY = Monomial.of("many")  # a fixed count that is larger than any width
CONSTANTS = ("epsilon", "decay")
HALF = Fraction(1, 2)

Parity = frozenset[str]  # the names that a term is odd in
Powers = tuple[Fraction, ...]
EVEN: Parity = frozenset()
ALIGNED: Parity = frozenset({GRADIENT})


@dataclass(frozen=True)
class Sized:
    """A value: the size of its entries, numbers left out, and the parities of its terms.

    It is 0 where it has no parity. ``vanishes`` are the powers of what may be 0 in an entry: of g,
    of θ, and of sums that change sign. ``polar`` takes multiples of g and of θ, whose name is
    ``of``. ``number`` is an exact value, ``spread`` the rank of a polar factor of g.
    """

    size: Monomial
    parities: frozenset[Parity]
    vanishes: Powers = (Fraction(0), Fraction(0), Fraction(0))
    of: str = ""
    number: Fraction | None = None
    scalar: bool = False
    spread: Monomial = ONE


ZERO = Sized(ONE, frozenset(), number=Fraction(0), scalar=True)
COUNTS = {
    "rows": Monomial.of(ROWS),
    "columns": Monomial.of(COLUMNS),
    "numel": Monomial.of(ROWS, COLUMNS),
}
_G, _THETA, _SUM = ((Fraction(i == 0), Fraction(i == 1), Fraction(i == 2)) for i in range(3))


def counts(
    shape: tuple[Monomial, Monomial],
    rank: str = LOW_RANK,
    *,
    is_table: bool = False,
    tokens: Monomial = ONE,
) -> dict[str, Monomial]:
    """The counts of a map of ``shape`` (n_in, n_out), and the rank of its gradient.

    A linear layer is stored as (n_out, n_in), a table of embeddings as (n_in, n_out). Both have a
    row a token where there are ``tokens``.
    """
    n_in, n_out = shape
    rows, columns = (n_in, n_out) if is_table else (n_out, n_in)
    rows = rows * tokens
    smaller = min(rows, columns, key=lambda count: [count.exponent(base) for base in Fold.bases])
    of_gradient = ONE if rank == LOW_RANK else smaller
    return {INPUTS: n_in, ROWS: rows, COLUMNS: columns, RANK: of_gradient}


def _scalar(size: Monomial, number: Fraction | None = None) -> Sized:
    return Sized(size, frozenset({EVEN}), number=number, scalar=True)


class MissingLaw(Exception):  # noqa: N818  it says which law
    """The law that is missing, in words."""


class Fold:
    """Folds an update at the sizes of one role; ``sizes`` has those of γ, σ and :func:`counts`.

    A parameter that starts at 0 has no ``theta`` among them. Decay is left out. ``constants``
    becomes the sizes that ``epsilon`` and ``decay`` need: those of what they stand beside.
    """

    # the first that differs decides which of two sizes is the larger
    bases: tuple[str, ...] = ("many", "d", "k", "N", "M", *SHAPES.values())
    in_width = True

    def __init__(self, sizes: Mapping[str, Monomial]) -> None:
        self.sizes = dict(sizes)
        self.zeros = {"decay"} if PARAMETER in sizes else {"decay", PARAMETER}
        self.constants: dict[str, Monomial] = {}

    def value(self, node: Node) -> Sized:
        """The value of a node; raises ``MissingLaw`` with the law that is missing."""
        match node:
            case Number(number):
                return _scalar(ONE, number) if number else ZERO
            case Name(name) if name in self.zeros:
                return ZERO
            case Name("g"):
                return Sized(Monomial.of(GRADIENT), frozenset({ALIGNED}), _G, GRADIENT)
            case Name("theta"):
                odd = frozenset({PARAMETER})
                return Sized(Monomial.of(PARAMETER), frozenset({odd}), _THETA, PARAMETER)
            case Name(name):
                return _scalar(Monomial.of(name))
            case Power(base, exponent):
                return self._power(self.value(base), exponent)
            case Operation("*", left, right):
                return self._product(self.value(left), self.value(right))
            case Operation("/", left, right):
                return self._product(self.value(left), self._power(self.value(right), Fraction(-1)))
            case Operation():
                return self._sum(node)
            case Call("clip", (inner, low, high)) | Call(
                "min", (Call("max", (inner, low)), high)
            ) if self.in_width and self._opposite(low, high):
                kept = Call("min", (Call("abs", (inner,)), high))  # an odd function of it
                return self.value(Operation("*", Call("sign", (inner,)), kept))
            case Call("clip", (inner, low, high)):
                return self.value(Call("min", (Call("max", (inner, low)), high)))
            case Call("max" | "min" as which, (one, other)):
                return self._extreme(one, other, 1 if which == "max" else -1)
            case Call("max" | "min" as which, (first, *others)):
                return self.value(Call(which, (first, Call(which, tuple(others)))))
            case Call("sqrt", (inner,)):
                return self._power(self.value(inner), HALF)
            case Call(function, (inner,)):
                return self._call(function, self.value(inner))
        raise MissingLaw(f"{text(node)} has no law")

    # ---- which of two sizes is the larger ----

    def size(self, monomial: Monomial) -> Monomial:
        return monomial.put(self.sizes)

    def order(self, monomial: Monomial) -> tuple[Fraction, ...]:
        value = self.size(monomial)
        return tuple(value.exponent(base) for base in self.bases)

    def compare(self, left: Sized, right: Sized) -> int:
        """1 where the left one of two values is the larger, -1 where the right one is, else 0."""
        a, b = self.order(left.size), self.order(right.size)
        return (a > b) - (a < b)

    def lacks(self, law: str) -> None:
        """A law that these sizes need is missing."""
        raise MissingLaw(law)

    def require_second_moment(self, value: Sized) -> None:
        if min(value.vanishes) <= -HALF:
            self.lacks("entries to the power of -1/2 or less have no second moment")

    # ---- sums and extremes ----

    def _sum(self, node: Operation) -> Sized:
        left, right = self.value(node.left), self.value(node.right)
        way = 1 if node.operator == "+" else -1
        if left.number is not None and right.number is not None:
            total = left.number + way * right.number
            return _scalar(ONE, total) if total else ZERO
        if not left.parities or not right.parities:
            return left if left.parities else right
        if term := self._beside_a_constant(left, right):
            return term
        if self.compare(left, right):
            sizes = " and ".join(str(self.size(term.size)) for term in (left, right))
            raise MissingLaw(f"it adds terms of the sizes {sizes}")
        union = self._union(left, right)
        return replace(union, vanishes=_SUM) if self.in_width and sign(node).of else union

    def _union(self, left: Sized, right: Sized) -> Sized:
        """Both of two terms of one size."""
        aligned = [v.spread for v in (left, right) if ALIGNED in v.parities]
        if len({self.size(spread) for spread in aligned}) > 1:
            self.lacks("it adds a polar factor of full rank to a term of low rank")
        return Sized(
            left.size,
            left.parities | right.parities,
            tuple(map(min, left.vanishes, right.vanishes)),  # where both do
            left.of if left.of == right.of else "",
            scalar=left.scalar and right.scalar,
            spread=aligned[0] if aligned else ONE,
        )

    def _beside_a_constant(self, left: Sized, right: Sized) -> Sized | None:
        """The term beside a constant that is new: the constant is to make the two alike."""
        apart = self.size(left.size / right.size)
        new = [name for name in CONSTANTS if apart.exponent(name)]
        if len(new) != 1:
            return None
        (name,) = new
        power = apart.exponent(name)
        self.constants[name] = (apart / Monomial.of(name) ** power) ** (-1 / power)
        self.sizes[name] = self.constants[name]
        return right if left.size.exponent(name) else left

    def _extreme(self, one: Node, other: Node, way: int) -> Sized:
        """The larger of two values, or with ``way`` -1 the smaller one."""
        left, right = self.value(one), self.value(other)
        signs = [sign(term) for term in (one, other)]
        either = any(s.of for term, s in zip((left, right), signs, strict=True) if term.parities)
        if left.parities and right.parities:
            if term := self._beside_a_constant(left, right):
                return term
            if either:
                self.lacks("it compares values that may have either sign")
        elif either:
            kept = left if left.parities else right  # its half on one side of 0
            mean = self._call("abs", kept)
            if self.size(kept.spread) != self.size(mean.spread):
                self.lacks("it takes one side of a polar factor of full rank")
            half = self._union(kept, mean)
            return replace(half, vanishes=tuple(power * MAX_EXPONENT for power in _SUM))
        if left.number is not None and right.number is not None:
            return max((left, right), key=lambda value: way * (value.number or 0))
        first, second = (
            (1 if either else s.factor) if term.parities else 0
            for term, s in zip((left, right), signs, strict=True)
        )
        larger = first - second or first * self.compare(left, right)
        if not larger:
            where = min if way > 0 else max  # the smaller one vanishes where either does
            vanishes = tuple(map(where, left.vanishes, right.vanishes))
            return replace(self._union(left, right), vanishes=vanishes)
        return left if larger * way > 0 else right

    def _opposite(self, low: Node, high: Node) -> bool:
        """Whether a bound is minus the other one."""
        below, above = sign(low), sign(high)
        if below.factor != -1 or below.of or not above.never_negative:
            return False
        from deepnet_theory.sizes.descent import is_zero

        alike = self.value(low).size == self.value(high).size
        return alike and is_zero(Operation("+", low, high))  # of one size, and of one number

    # ---- products, powers and functions ----

    def _product(self, left: Sized, right: Sized) -> Sized:
        if not left.parities or not right.parities:
            return ZERO
        number = None
        if left.number is not None and right.number is not None:
            number = left.number * right.number
        return Sized(
            left.size * right.size,
            frozenset(one ^ other for one in left.parities for other in right.parities),
            tuple(map(operator.add, left.vanishes, right.vanishes)),
            left.of if right.scalar else (right.of if left.scalar else ""),
            number,
            left.scalar and right.scalar,
            max(left.spread, right.spread, key=self.order),
        )

    def _power(self, base: Sized, exponent: Fraction) -> Sized:
        if not base.parities:
            if exponent > 0:
                return ZERO
            raise MissingLaw("it divides by zero")
        whole = exponent.denominator == 1
        if base.number is not None and whole:
            return _scalar(ONE, base.number ** int(exponent))
        if exponent == 1:
            return base
        vanishes = tuple(power * exponent for power in base.vanishes)
        odd = whole and exponent.numerator % 2 == 1
        parities, spread = _bent(base.parities, odd=odd), base.spread if odd else _of_mean(base)
        return Sized(base.size**exponent, parities, vanishes, scalar=base.scalar, spread=spread)

    def _call(self, function: str, value: Sized) -> Sized:
        if function in COUNTS:
            return _scalar(COUNTS[function])
        if not value.parities:
            if function == "log":
                raise MissingLaw("it takes the logarithm of zero")
            return ZERO
        match function:
            case "sign":
                return Sized(ONE, _bent(value.parities, odd=True), spread=value.spread)
            case "abs":
                number = None if value.number is None else abs(value.number)
                even, spread = _bent(value.parities, odd=False), _of_mean(value)
                return replace(value, parities=even, of="", number=number, spread=spread)
            case "rms" | "norm":
                self.require_second_moment(value)
                count = COUNTS["numel"] if function == "norm" else ONE
                return _scalar(value.size * count**HALF)
            case "log":
                if any(self.order(value.size)):
                    raise MissingLaw("a logarithm of something that scales")
                if value.number == 1:
                    self.lacks("a logarithm of something that may be near 1")
                vanishes = ZERO.vanishes if value.scalar else _SUM
                return Sized(ONE, frozenset({EVEN}), vanishes, scalar=value.scalar)
            case _:
                return self._polar(value)

    def _polar(self, value: Sized) -> Sized:
        r"""Entries of size :math:`\sqrt{r/(n_{in} n_{out})}` at rank r, which is full for θ."""
        if not value.of:
            self.lacks("the rank of what polar takes is not known: it takes g or theta")
        rank = Monomial.of(RANK)
        if value.of == PARAMETER:
            rank = min((COUNTS["columns"], COUNTS["rows"]), key=self.order)
        size = (rank / COUNTS["numel"]) ** HALF
        return Sized(size, value.parities, value.vanishes, value.of, spread=rank)


def _of_mean(value: Sized) -> Monomial:
    """The rank of an even function: the mean of a single term's adds up in every direction."""
    return ONE if len(value.parities) == 1 else value.spread


def _bent(parities: frozenset[Parity], *, odd: bool) -> frozenset[Parity]:
    r"""The parities of an odd or an even function of a sum: :math:`f(L)(s/L)^n` over its terms."""
    first, *others = parities  # any of them gives the same set
    found = {first if odd else EVEN}
    for other in others:
        found |= {one ^ first ^ other for one in found}
    return frozenset(found)


# ---- in depth: degrees ----


class Degrees(Fold):
    """The same with g and θ free; counts are constants.

    Laws that only an action needs are none that a degree lacks.
    """

    bases = ("eta", GRADIENT, PARAMETER, *CONSTANTS)
    in_width = False

    def __init__(self) -> None:
        super().__init__(dict.fromkeys((INPUTS, ROWS, COLUMNS, RANK), ONE))
        self.zeros = set()

    def lacks(self, law: str) -> None:
        pass

    def compare(self, left: Sized, right: Sized) -> int:
        a, b = (self.size(value.size) for value in (left, right))
        if a != b:
            raise MissingLaw(f"it joins terms of different degrees ({_words(a)} and {_words(b)})")
        return 0


def _words(degree: Monomial) -> str:
    return " ".join(f"{name}^{degree.exponent(name)}" for name in ("eta", "g", "theta"))


@dataclass(frozen=True)
class Update:
    """p and q of an update.

    ``descent`` has the signs of the mean increment ⟨g, u⟩ over the signs of g and θ: {-1} where
    the loss falls at every size.
    """

    p: Fraction
    q: Fraction
    descent: frozenset[int]

    def stepped(self, gradient: Monomial, size: Monomial | None, rate: Monomial) -> Monomial:
        r"""What one update does to a parameter, :math:`\gamma^p\,|\theta|^q\,\kappa`.

        A ``size`` of None is a parameter at 0, which libraries step by degree 0 in it.
        """
        moved = rate * gradient**self.p
        return moved if size is None else moved * size**self.q


def _no_degree(optimizer: Optimizer, why: str) -> Refusal:
    return Refusal(
        f"no degree law for the update {shown(optimizer.update)}: {why}; a rule in "
        "powers of the depth needs an update that is homogeneous in g and in theta"
    )


@cache
def degree_of(optimizer: Optimizer) -> Monomial:
    """The degree of an optimizer's first update in η, g and θ."""
    degrees = Degrees()
    try:
        value = degrees.value(above_floors(optimizer.expression.root))
    except MissingLaw as missing:
        raise _no_degree(optimizer, str(missing)) from None
    if not value.parities:
        raise _no_degree(optimizer, "it is identically zero")
    degree = degrees.size(value.size)
    if degree.exponent("eta") != 1:
        why = f"it is of degree {degree.exponent('eta')} in eta, not 1"
        raise _no_degree(optimizer, why)
    return degree


@cache
def law(optimizer: Optimizer) -> Update:
    """The law of an optimizer's first update.

    Raises :class:`Refusal` where the update is not homogeneous, not proportional to η, or
    vanishes identically.
    """
    from deepnet_theory.sizes.descent import descent  # NumPy, which apply_ does without

    degree = degree_of(optimizer)
    try:
        signs = descent(above_floors(optimizer.expression.root))
    except (ArithmeticError, ValueError):
        why = "it is not finite and real at every sign of g and theta"
        raise _no_degree(optimizer, why) from None
    if signs is None:
        raise _no_degree(optimizer, "it is identically zero")
    return Update(degree.exponent(GRADIENT), degree.exponent(PARAMETER), signs)


def descending(optimizer: Optimizer) -> Update:
    """The law of an update that goes down the gradient.

    Raises :class:`Refusal` where the loss rises, or does not depend on the update in the mean.
    """
    update = law(optimizer)
    if update.descent == {0}:
        raise Refusal(
            f"the update {shown(optimizer.update)} does not follow the gradient: <g, update> is 0 "
            "in the mean over the signs of g and theta, as for directions that are independent of "
            "the loss; the changes of S sublayers then add as sqrt(S), while a rule balances "
            "changes that are aligned and add as S"
        )
    if update.descent != {-1}:
        rises = update.descent == {1}
        says = "rises" if rises else "rises or falls with the sizes of g and theta"
        raise Refusal(
            f"under the update {shown(optimizer.update)} the loss {says}: <g, update> is not "
            "negative; write it with a minus sign"
        )
    return update


@cache
def practised(optimizer: Optimizer) -> Mapping[str, Monomial]:
    """The degrees in g and θ that ``epsilon`` and ``decay`` need in the update as it is practised.

    Each is in a sum, and a sum is homogeneous where its terms are alike: beside |g| an
    epsilon is of degree 1 in g; a decay times θ beside g is of degree 1 in g and −1 in θ. One that
    does not occur is absent. Raises :class:`Refusal` where one would need two degrees.
    """
    degrees = Degrees()
    try:
        degrees.value(above_floors(optimizer.practised.root))
    except MissingLaw as missing:
        raise _no_degree(optimizer, str(missing)) from None
    return degrees.constants


def is_coupled(optimizer: Optimizer) -> bool:
    """Whether weight decay is a term beside g in the update as it is practised."""
    decay = practised(optimizer).get("decay", ONE)
    return decay == Monomial.of(GRADIENT) / Monomial.of(PARAMETER)


# ---- in width: entry and action ----


@dataclass(frozen=True)
class UpdateSize:
    """One update per unit of learning rate, as monomials in γ, σ, n_in and n_out.

    ``entry`` is the root mean square of its entries, ``action`` that of what it adds to an output.
    """

    entry: Monomial
    action: Monomial


def step(optimizer: Optimizer, sizes: Mapping[str, Monomial], alignment: str = FULL) -> UpdateSize:
    """The size of an optimizer's first update of one role; ``sizes`` as :class:`Fold` has them.

    Raises :class:`Refusal` where a law is missing, where a parameter that is 0 stays 0, and where
    no part of the update is odd in g.
    """
    return _step(optimizer, tuple(sizes.items()), alignment)


@cache
def _step(
    optimizer: Optimizer, given: tuple[tuple[str, Monomial], ...], alignment: str
) -> UpdateSize:
    fold = Fold(dict(given))
    try:
        value, _ = moving(optimizer, fold)
        fold.require_second_moment(value)
    except MissingLaw as missing:
        raise _no_width(optimizer, str(missing)) from None
    if not any(GRADIENT in odd for odd in value.parities):
        why = "no part is odd in g, so that it does not follow the gradient"
        raise _no_width(optimizer, why)
    entry = value.size / Monomial.of("eta")
    if entry.exponent("eta"):
        raise _no_width(optimizer, "it is not proportional to eta")
    n_in = Monomial.of(INPUTS)
    if alignment == FULL and ALIGNED in value.parities:
        return UpdateSize(entry, entry * n_in / value.spread**HALF)
    return UpdateSize(entry, entry * n_in**HALF)


def _no_width(optimizer: Optimizer, why: str) -> Refusal:
    return Refusal(f"no law in width for the update {shown(optimizer.update)}: {why}")


def moving(optimizer: Optimizer, fold: Fold) -> tuple[Sized, Node]:
    """The first update that moves a parameter and its tree; one at 0 may have a library's own.

    Raises :class:`Refusal` where a parameter that is 0 stays 0.
    """
    trees = [above_floors(optimizer.expression.root)]
    if PARAMETER in fold.zeros:
        trees = [optimizer.expression.root, optimizer.from_zero.root]
    for tree in trees:
        if (value := fold.value(tree)).parities:
            return value, tree
    raise Refusal(
        f"the update {shown(optimizer.update)} is 0 where theta is 0: a parameter that starts at 0 "
        "never leaves it; start it elsewhere"
    )


def epsilon(optimizer: Optimizer, fold: Fold) -> Monomial | None:
    """The size of the term that ε is added to in the practised update; None without an ε."""
    try:
        fold.value(optimizer.practised.root)
    except MissingLaw:
        return None
    return fold.constants.get("epsilon")


def powers(optimizer: Optimizer, starts_at_zero: bool = False) -> dict[str, Fraction]:
    """What W = cW' multiplies each argument of an update by, as powers of c.

    A parameter that starts at 0 steps, at first, by an update of degree 0 in it.
    """
    degree = degree_of(optimizer)
    q = Fraction(0) if starts_at_zero else degree.exponent(PARAMETER)
    return {
        "eta": q - degree.exponent(GRADIENT) - 1,
        "g": Fraction(1),
        "theta": Fraction(-1),
        "m": Fraction(1),
        "v": Fraction(2),
        **{
            name: degree.exponent("g") - degree.exponent("theta")
            for name, degree in practised(optimizer).items()
        },
    }
