r"""Where the normalisation stands: one equation a placement, or one a residual stream.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from deepnet_theory.definitions.discovery import builtin, choose
from deepnet_theory.definitions.expression import (
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
from deepnet_theory.definitions.outcome import InputError, Refusal

PLACEMENT = Grammar(
    purpose="a residual equation",
    symbols=("x", "alpha"),
    functions={"norm": (1, 1), "branch": (1, 1), "learnt": (1, 1)},
)
RESIDUAL_GAIN, STREAM_GAIN = "residual_gain", "stream_gain"  # learnt, on the branch or the stream
NAMES = ("x", "y", "z", "w")
ALPHAS = tuple(map(Fraction, (1, 2, 3, 5)))  # enough to see that something is no power of alpha
Scalar = Fraction | float

# measured, not derived: benchmarks/practice.py
HEAD = (
    "Start the head's bias at the log-unigram: with it no post-LN seed died below eight times the "
    "best rate, whatever the head, and the loss was level with pre-LN's or up to 0.02 nats below "
    "(widths 64 and 128, to 48 layers). Without it a head of 0.02 or an embedding of 1/8 lost 1 "
    "seed of 4, a head at zero all (16 layers, width 64; AdamW with warm-up, 150 steps)."
)


# ------------------------------------------------------------------- an equation to first order


@dataclass(frozen=True)
class Sum:
    """A value to first order: its share of each stream and, at the end, of the branch.

    ``norms`` says where those within it stand, in the order of application.
    """

    shares: tuple[Scalar, ...]
    norms: tuple[str, ...] = ()

    def __add__(self, other: Sum) -> Sum:
        both = zip(self.shares, other.shares, strict=True)
        return Sum(tuple(a + b for a, b in both), self.norms + other.norms)

    def __sub__(self, other: Sum) -> Sum:
        return self + other * -1

    def __mul__(self, by: Scalar) -> Sum:
        if isinstance(by, Sum):
            return NotImplemented
        return Sum(tuple(share * by for share in self.shares), self.norms)

    __rmul__ = __mul__

    def __truediv__(self, by: Scalar) -> Sum:
        return self * (1 / by)


class FirstOrder(OperatorAlgebra[Any]):
    """Interprets an equation at a number α, with other ``values`` of learnt numbers by position.

    Where the streams are several, a norm divides by the size of what it takes; of one stream it is
    left out, for its size is what the laws of sizes say of it.
    """

    def __init__(
        self, names: Sequence[str], alpha: Scalar, values: Mapping[int, float] | None = None
    ) -> None:
        size, self.sized = len(names) + 1, len(names) > 1
        self.scalar = type(alpha)  # exact where streams mix, floats in a model of many layers
        units = [Sum(tuple(self.scalar(i == k) for i in range(size))) for k in range(size)]
        self.values: dict[str, Sum | Scalar] = {"alpha": alpha, **dict(zip(names, units))}  # noqa: B905
        self.branch, self.learnt, self.starts = units[-1], values or {}, list[float]()

    def number(self, value: Fraction) -> Scalar:
        return self.scalar(value)

    def name(self, name: str) -> Sum | Scalar:
        return self.values[name]

    def power(self, base: Any, exponent: Fraction) -> Scalar:
        result: Scalar = base ** (int(exponent) if exponent.denominator == 1 else float(exponent))
        return result

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        (argument,) = arguments
        if function == "learnt":
            self.starts.append(float(argument))
            return self.learnt.get(len(self.starts) - 1, argument)
        if not isinstance(argument, Sum):
            raise TypeError("a number where a value stands")
        if function == "branch":
            return Sum(self.branch.shares, ("input",) * len(argument.norms))
        place = "output" if argument.shares[-1] else "stream"
        # the size is that of streams alone: a branch by itself raises ZeroDivisionError
        kept = argument / sum(argument.shares[:-1]) if self.sized else argument
        return Sum(kept.shares, (*argument.norms, place))


def calls(node: Node, function: str) -> list[Call]:
    return [p for p in parts(node) if isinstance(p, Call) and p.function == function]


# ------------------------------------------------------------------------------------ one stream


def output_grammar(names: tuple[str, ...]) -> Grammar:
    """What a stack may make of its streams at the end."""
    return Grammar("the output of a stack's streams", names, {"norm": (1, 1)})


@dataclass(frozen=True)
class Placement:
    r"""The residual equation of one sublayer, such as ``norm(alpha*x + branch(x))``.

    Every law of the placement (branch weight, size of the gradients, which knobs exist) is
    derived from ``equation``; ``final_norm`` says whether the stack ends in one more norm.
    ``learnt(1/alpha)`` is a learnt multiplier that starts at 1/α: one number, or with
    ``per_channel`` one for every channel. Several streams are as many equations between
    semicolons, in x, y, z and w, and the ``output`` that the stack makes of them.
    """

    name: str
    equation: str
    final_norm: bool
    summary: str = ""
    source: str = ""
    per_channel: bool = False
    output: str = ""

    def __post_init__(self) -> None:
        if self.streams is not None:
            return
        for call in calls(self.expression.root, "learnt"):
            if any(isinstance(p, Call) or p == Name("x") for p in parts(call.arguments[0])):
                raise InputError(
                    f"placement {self.name!r}: a learnt multiplier starts at a number, which may "
                    f"hold alpha, and one in {self.equation!r} does not"
                )
        if len(set(self.learnt)) < len(self.learnt):
            raise InputError(
                f"placement {self.name!r}: {self.equation!r} has two learnt numbers on one term"
            )

    @cached_property
    def streams(self) -> Streams | None:
        """Several streams; None where there is one."""
        several = ";" in self.equation
        return Streams.parse(self.name, self.equation, self.output) if several else None

    @cached_property
    def of_one_stream(self) -> Placement:
        """The placement of one stream that several come to, their growth left out; itself of one.

        Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where several come to none.
        """
        if self.streams is None:
            return self
        size = sum(self.streams.mixing(Fraction(1)).combined)  # a norm at the end takes it out
        output = "" if self.final_norm else f"{size}*x"
        return replace(self, equation=self.streams.equivalent, output=output)

    @cached_property
    def ending(self) -> Expression | None:
        """What the stack makes of its streams at the end; None where it is the one stream."""
        if self.streams is not None:
            return self.streams.output
        return output_grammar(("x",)).parse(self.output) if self.output else None

    @cached_property
    def expression(self) -> Expression:
        """The residual equation of one stream."""
        return PLACEMENT.parse(self.of_one_stream.equation)

    @property
    def normalises_sum(self) -> bool:
        """Whether a norm encloses the residual sum: every sublayer normalises the stream."""
        root = self.expression.root
        return isinstance(root, Call) and root.function == "norm"

    @cached_property
    def norms(self) -> frozenset[str]:
        """Where norms stand: on the ``sum``, on the branch's ``input``, on its ``output``.

        Several streams are marked, too: a model of one stream has none of their placements.
        """
        several = {"streams"} if self.streams is not None else set()
        return frozenset(self.places) - {"stream"} | several

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Where each norm stands, in the order of application.

        On the ``sum``, on the branch's ``input`` or ``output``, or on the ``stream`` alone.
        """
        norms = self._sum(2.0).norms
        return (*norms[:-1], "sum") if self.normalises_sum else norms

    def _sum(self, alpha: float, learnt: Mapping[int, float] | None = None) -> Sum:
        result: Sum = fold(self.expression.root, FirstOrder(("x",), float(alpha), learnt))
        return result

    def coefficients(self, alpha: float) -> tuple[float, float]:
        """What x and the branch are multiplied by in the residual sum, norms left out."""
        return _coefficients(self, float(alpha))

    def starts(self, alpha: float = 1.0) -> tuple[float, ...]:
        """What every learnt multiplier starts at, in the order of application."""
        if not self.learnt:
            return ()
        fold(self.expression.root, algebra := FirstOrder(("x",), float(alpha)))
        return tuple(algebra.starts)

    @cached_property
    def learnt(self) -> tuple[str, ...]:
        """The learnt multipliers by name, in the order of application.

        ``residual_gain`` multiplies the branch and ``stream_gain`` the stream: each is known by the
        one share that another value of it changes.
        """
        names = []
        for index in range(len(calls(self.expression.root, "learnt"))):
            both = (self._sum(2.0, {index: value}).shares for value in (2.0, 3.0))
            changes = [one != other for one, other in zip(*both, strict=True)]
            if sum(changes) != 1:
                raise InputError(
                    f"placement {self.name!r}: a learnt number multiplies the stream or the branch "
                    f"in the residual sum, and one in {self.equation!r} does not"
                )
            names.append(STREAM_GAIN if changes[0] else RESIDUAL_GAIN)
        return tuple(names)

    @property
    def training_condition(self) -> str:
        """What training needs beside the rule to train with, in words; "" where nothing is known.

        A norm on the stream lets a common part of all tokens drown what is a token's own.
        """
        return HEAD if self.streams is None and self.normalises_sum else ""

    @property
    def scales_inside(self) -> bool:
        """Whether alpha stands within the branch, where it multiplies no term of the sum."""
        inner = (call.arguments[0] for call in calls(self.expression.root, "branch"))
        return any(Name("alpha") in parts(node) for node in inner)


# ------------------------------------------------------------------------------- several streams


@dataclass(frozen=True)
class Mixing:
    """M by rows, w and o of the equations at one α."""

    rows: tuple[tuple[Fraction, ...], ...]
    written: tuple[Fraction, ...]
    combined: tuple[Fraction, ...]

    def reached(self, start: Sequence[Fraction]) -> Iterator[Fraction]:
        """o·(M − 1)^k·start for k = 0, 1, …, n."""
        state = tuple(start)
        for _ in range(len(state) + 1):
            yield _dot(self.combined, state)
            state = tuple(_dot(row, state) - x for row, x in zip(self.rows, state, strict=True))


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
        names = NAMES[: len(texts)]
        functions = {"norm": (1, 1), "branch": (1, 1)}
        grammar = Grammar("an equation of several streams", (*names, "alpha"), functions)
        return cls(name, tuple(map(grammar.parse, texts)), output_grammar(names).parse(output))

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: len(self.equations)]

    def mixing(self, alpha: Fraction) -> Mixing:
        """M, w and o at a number α; raises :class:`Refusal` where an equation has none."""
        algebra = FirstOrder(self.names, alpha)
        try:
            *after, end = (fold(e.root, algebra).shares for e in (*self.equations, self.output))
        except (TypeError, AttributeError, ZeroDivisionError):
            raise self._refusal("an equation of them is no sum of streams and branches") from None
        return Mixing(tuple(row[:-1] for row in after), tuple(row[-1] for row in after), end[:-1])

    @cached_property
    def _mixings(self) -> tuple[Mixing, ...]:
        return tuple(map(self.mixing, ALPHAS))

    @cached_property
    def written(self) -> tuple[Fraction, Fraction]:
        """o·w beside o·1, as a number and the power of α that it is times.

        Raises :class:`Refusal` where it depends on how many sublayers follow.
        """
        values = []
        for mixing in self._mixings:
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
        polynomials = set()
        for mixing in self._mixings:
            first, *later = mixing.reached([Fraction(1)] * len(self.names))
            kept = (Fraction(1), *(c / first for c in later))
            polynomials.add(kept[: max(k for k, c in enumerate(kept) if c) + 1])
        coefficients = polynomials.pop()
        if polynomials or len(coefficients) > len(self.names) or min(coefficients) < 0:
            raise self._refusal("the output's share of x_0 is no polynomial in the depth")
        outside = self.norms + len(calls(self.output.root, "norm"))
        if outside and any(sum(row) != 1 for mixing in self._mixings for row in mixing.rows):
            raise self._refusal("streams that a norm puts together grow unlike each other")
        return coefficients

    @cached_property
    def read(self) -> Node:
        """What the branch is applied to; raises :class:`Refusal` where they have several."""
        reads = {call.arguments for e in self.equations for call in calls(e.root, "branch")}
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
        return sum(len(calls(node, "norm")) for node in self.after)

    def _refusal(self, why: str) -> Refusal:
        return Refusal(
            f"no law for the placement {self.name!r}: the law of several streams is missing "
            f"where {why}"
        )


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


@lru_cache(4096)  # an audit asks the same of every layer
def _coefficients(where: Placement, alpha: float) -> tuple[float, float]:
    stream, branch = where._sum(alpha).shares
    return float(stream), float(branch)


def placements() -> dict[str, Placement]:
    return builtin("placements", Placement)


def placement(name: str) -> Placement:
    return choose("placement", name, placements())
