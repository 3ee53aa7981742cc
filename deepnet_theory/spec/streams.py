r"""Several residual streams: an equation each, and the one stream that they come to.

n streams that start alike are mixed by M, written to by w and put together by o,

.. math::
    X_{l+1} = M X_l + w\,G_l(c \cdot X_l), \qquad
    F = o M^S \mathbf 1\, x_0 + \sum_l o M^{S-1-l} w\, G_l,

to first order in the branches. Where :math:`o(M - 1)^k w = 0` for k ≥ 1, every branch reaches the
output alike, by o·w, and where :math:`M - 1` is nilpotent on the rest, what is left of x₀ is a
polynomial :math:`u(S) = \sum_k \binom S k\, o(M - 1)^k \mathbf 1`. The output then moves as that of
one stream whose branch is multiplied by o·w/u(S). A norm on a sum divides it by its size, the sum
of its shares. Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.expression import (
    Call,
    Expression,
    Grammar,
    Name,
    Node,
    Operation,
    OperatorAlgebra,
    Power,
    fold,
    parts,
)

NAMES = ("x", "y", "z", "w")
ALPHAS = tuple(map(Fraction, (1, 2, 3, 5)))  # enough to see that something is no power of alpha
LAW = "the law of several streams"


def output_grammar(names: tuple[str, ...]) -> Grammar:
    """What a stack may make of its streams at the end."""
    return Grammar("the output of a stack's streams", names, {"norm": (1, 1)})


@dataclass(frozen=True)
class Shares:
    """A value to first order: how much of each stream is in it, and at the end of the branch."""

    of: tuple[Fraction, ...]

    def __add__(self, other: Shares) -> Shares:
        return Shares(tuple(a + b for a, b in zip(self.of, other.of, strict=True)))

    def __sub__(self, other: Shares) -> Shares:
        return self + other * Fraction(-1)

    def __mul__(self, by: Fraction) -> Shares:
        if not isinstance(by, Fraction):
            return NotImplemented
        return Shares(tuple(a * by for a in self.of))

    __rmul__ = __mul__

    def __truediv__(self, by: Fraction) -> Shares:
        return self * (1 / by)


class _FirstOrder(OperatorAlgebra["Shares | Fraction"]):
    def __init__(self, names: Sequence[str], alpha: Fraction) -> None:
        ends = range(len(names) + 1)
        one, none = Fraction(1), Fraction(0)
        units = [Shares(tuple(one if i == at else none for i in ends)) for at in ends]
        self.values: dict[str, Shares | Fraction] = {"alpha": alpha}
        self.values |= dict(zip(names, units, strict=False))
        self.branch = units[-1]

    def number(self, value: Fraction) -> Fraction:
        return value

    def name(self, name: str) -> Shares | Fraction:
        return self.values[name]

    def power(self, base: Shares | Fraction, exponent: Fraction) -> Fraction:
        if not isinstance(base, Fraction) or exponent.denominator != 1:
            raise TypeError("no whole power of a number")
        return Fraction(base ** int(exponent))

    def call(self, function: str, arguments: tuple[Shares | Fraction, ...]) -> Shares:
        (of,) = arguments
        if not isinstance(of, Shares):
            raise TypeError("a number where a value stands")
        if function == "branch":
            return self.branch
        return of / sum(of.of[:-1], Fraction(0))  # raises ZeroDivisionError on a branch alone


@dataclass(frozen=True)
class Mixing:
    """M by rows, w and o of the equations at one α."""

    rows: tuple[tuple[Fraction, ...], ...]
    written: tuple[Fraction, ...]
    combined: tuple[Fraction, ...]

    def reached(self, start: Sequence[Fraction]) -> Iterator[Fraction]:
        """o·(M − 1)^k·start for k = 0, 1, …, n."""
        at = tuple(start)
        for _ in range(len(at) + 1):
            yield _dot(self.combined, at)
            at = tuple(_dot(row, at) - own for row, own in zip(self.rows, at, strict=True))


def _dot(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


@dataclass(frozen=True)
class Streams:
    """The equations of all streams, in ``x``, ``y``, ``z``, ``w``, and what the stack puts out."""

    name: str
    equations: tuple[Expression, ...]
    output: Expression

    @classmethod
    def parse(cls, name: str, equation: str, output: str) -> Streams:
        """Equations between semicolons.

        Raises :class:`InputError` for more streams than have a name, or for what is no equation.
        """
        texts = equation.split(";")
        if len(texts) > len(NAMES) or not output:
            raise InputError(
                f"placement {name!r}: {len(texts)} streams need an output, and are at most "
                f"{len(NAMES)}, {', '.join(NAMES)}"
            )
        names, norm = NAMES[: len(texts)], {"norm": (1, 1)}
        several = "an equation of several streams"
        own = Grammar(several, (*names, "alpha"), {**norm, "branch": (1, 1)})
        return cls(name, tuple(map(own.parse, texts)), output_grammar(names).parse(output))

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: len(self.equations)]

    def mixing(self, alpha: Fraction) -> Mixing:
        """M, w and o at a number α; raises :class:`Refusal` where an equation has none."""
        algebra = _FirstOrder(self.names, alpha)
        try:
            *after, end = (fold(e.root, algebra) for e in (*self.equations, self.output))
            rows = [s.of if isinstance(s, Shares) else () for s in (*after, end)]
            if not all(rows):
                raise TypeError("a number where a value stands")
        except (TypeError, ZeroDivisionError):
            raise self._refusal("an equation of them is no sum of streams and branches") from None
        return Mixing(
            tuple(row[:-1] for row in rows[:-1]), tuple(r[-1] for r in rows[:-1]), rows[-1][:-1]
        )

    @cached_property
    def _at(self) -> tuple[Mixing, ...]:
        return tuple(map(self.mixing, ALPHAS))

    @cached_property
    def written(self) -> tuple[Fraction, Fraction]:
        """o·w beside o·1, as a number and the power of α that it is times.

        Raises :class:`Refusal` where it depends on how many sublayers follow.
        """
        values = []
        for mixing in self._at:
            first, *later = mixing.reached(mixing.written)
            if any(later):
                raise self._refusal(
                    "how much of a branch reaches the output depends on how many sublayers follow"
                )
            values.append(first / sum(mixing.combined))
        one, two, *_ = values
        power = round(math.log2(two / one)) if one > 0 and two > 0 else 0
        if one <= 0 or any(v != one * a**power for v, a in zip(values, ALPHAS, strict=True)):
            raise self._refusal("what they write to the output is no positive power of alpha")
        return one, Fraction(power)

    @cached_property
    def grown(self) -> tuple[Fraction, ...]:
        r"""u(S)/u(0) by its coefficients of :math:`\binom S k`: (1,) where streams keep their size.

        Raises :class:`Refusal` where streams grow or vanish beyond a polynomial.
        """
        found = set()
        for mixing in self._at:
            first, *later = mixing.reached([Fraction(1)] * len(self.names))
            kept = (Fraction(1), *(c / first for c in later))
            found.add(kept[: max(k for k, c in enumerate(kept) if c) + 1])
        coefficients = found.pop()
        if found or len(coefficients) > len(self.names) or min(coefficients) < 0:
            raise self._refusal("the output's share of x_0 is no polynomial in the depth")
        outside = self.norms + len(_calls(self.output))
        if outside and any(sum(row) != 1 for mixing in self._at for row in mixing.rows):
            raise self._refusal("streams that a norm puts together grow unlike each other")
        return coefficients

    @cached_property
    def read(self) -> Node:
        """What the branch is applied to; raises :class:`Refusal` where they have several."""
        reads = {call.arguments for e in self.equations for call in _calls(e, "branch")}
        if len(reads) != 1:
            raise self._refusal("their equations have several branches, or none")
        ((read,),) = reads
        return read

    @cached_property
    def after(self) -> tuple[Node, ...]:
        """The equations, with ``branch`` a name for what the branch gives."""
        return tuple(_named(e.root) for e in self.equations)

    @cached_property
    def equivalent(self) -> str:
        """The residual equation of one stream whose output moves alike, u(S)/u(0) left out."""
        (factor, power), grown, read = self.written, self.grown, self.read
        normed = isinstance(read, Call) and read.function == "norm"
        ends = {n: e.root for n, e in zip(self.names, self.equations, strict=True)}
        kept = (ends[p.name] for p in parts(read) if isinstance(p, Name) and p.name in ends)
        on_sum = all(isinstance(end, Call) and end.function == "norm" for end in kept)
        if not normed and (not on_sum or len(grown) > 1):
            raise self._refusal("a branch reads a stream that no norm keeps")
        term = "branch(norm(x))" if normed else "branch(x)"
        term = term if factor == 1 else f"{factor}*{term}"
        term += {0: "", -1: "/alpha"}.get(int(power), f"*alpha**({power})")
        return f"x + {term}" if normed else f"norm(x + {term})"

    @property
    def norms(self) -> int:
        """How many norms stand on streams, the branch's own and the output's left out."""
        return sum(isinstance(p, Call) for node in self.after for p in parts(node))

    def _refusal(self, why: str) -> Refusal:
        return Refusal(f"no law for the placement {self.name!r}: {LAW} is missing where {why}")


def _named(node: Node) -> Node:
    match node:
        case Call("branch", _):
            return Name("branch")
        case Call(function, arguments):
            return Call(function, tuple(map(_named, arguments)))
        case Operation(operator, left, right):
            return Operation(operator, _named(left), _named(right))
        case Power(base, exponent):
            return Power(_named(base), exponent)
    return node


def _calls(of: Expression, function: str = "norm") -> list[Call]:
    return [p for p in parts(of.root) if isinstance(p, Call) and p.function == function]
