"""Where the normalisation is: one equation of the residual sublayer a placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    OperatorAlgebra,
    fold,
    parts,
)
from deepnet_theory.definitions.outcome import InputError

PLACEMENT = Grammar(
    purpose="a residual equation",
    symbols=("x", "alpha"),
    functions={"norm": (1, 1), "branch": (1, 1), "learnt": (1, 1)},
)
RESIDUAL_GAIN, STREAM_GAIN = "residual_gain", "stream_gain"  # learnt, on the branch or the stream

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
    """A value to first order: its shares of the stream and of the branch.

    ``norms`` says where those within it stand, in the order of application.
    """

    stream: float
    branch: float
    norms: tuple[str, ...] = ()

    def __add__(self, other: Sum) -> Sum:
        norms = self.norms + other.norms
        return Sum(self.stream + other.stream, self.branch + other.branch, norms)

    def __sub__(self, other: Sum) -> Sum:
        return self + other * -1

    def __mul__(self, by: float) -> Sum:
        if isinstance(by, Sum):
            return NotImplemented
        return Sum(self.stream * by, self.branch * by, self.norms)

    __rmul__ = __mul__

    def __truediv__(self, by: float) -> Sum:
        return self * (1 / by)


class FirstOrder(OperatorAlgebra[Any]):
    """Interprets an equation at a number α, with other ``values`` of learnt numbers by position.

    A norm's division is left out: the laws of sizes say what it divides by.
    """

    def __init__(self, alpha: float, values: Mapping[int, float] | None = None) -> None:
        self.values: dict[str, Sum | float] = {"alpha": alpha, "x": Sum(1.0, 0.0)}
        self.learnt, self.starts = values or {}, list[float]()

    def number(self, value: Fraction) -> float:
        return float(value)

    def name(self, name: str) -> Sum | float:
        return self.values[name]

    def power(self, base: Any, exponent: Fraction) -> float:
        return float(base ** float(exponent))

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        (argument,) = arguments
        if function == "learnt":
            self.starts.append(float(argument))
            return self.learnt.get(len(self.starts) - 1, argument)
        if not isinstance(argument, Sum):
            raise TypeError("a number where a value stands")
        if function == "branch":
            return Sum(0.0, 1.0, ("input",) * len(argument.norms))
        place = "output" if argument.branch else "stream"
        return Sum(argument.stream, argument.branch, (*argument.norms, place))


def calls(node: Node, function: str) -> list[Call]:
    return [p for p in parts(node) if isinstance(p, Call) and p.function == function]


@dataclass(frozen=True)
class Placement:
    r"""The residual equation of one sublayer, such as ``norm(alpha*x + branch(x))``.

    Every law of the placement (branch weight, size of the gradients, which knobs exist) is
    derived from ``equation``; ``final_norm`` says whether the stack ends in one more norm.
    ``learnt(1/alpha)`` is a learnt multiplier that starts at 1/α: one number, or with
    ``per_channel`` one for every channel.
    """

    name: str
    equation: str
    final_norm: bool
    summary: str = ""
    source: str = ""
    per_channel: bool = False

    def __post_init__(self) -> None:
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
    def expression(self) -> Expression:
        """The residual equation as a tree."""
        return PLACEMENT.parse(self.equation)

    @property
    def normalises_sum(self) -> bool:
        """Whether a norm encloses the residual sum: every sublayer normalises the stream."""
        root = self.expression.root
        return isinstance(root, Call) and root.function == "norm"

    @cached_property
    def norms(self) -> frozenset[str]:
        """Where norms stand: on the ``sum``, on the branch's ``input``, on its ``output``."""
        return frozenset(self.places) - {"stream"}

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Where each norm stands, in the order of application.

        On the ``sum``, on the branch's ``input`` or ``output``, or on the ``stream`` alone.
        """
        norms = self._sum(2.0).norms
        return (*norms[:-1], "sum") if self.normalises_sum else norms

    def _sum(self, alpha: float, learnt: Mapping[int, float] | None = None) -> Sum:
        result: Sum = fold(self.expression.root, FirstOrder(float(alpha), learnt))
        return result

    def coefficients(self, alpha: float) -> tuple[float, float]:
        """What x and the branch are multiplied by in the residual sum, norms left out."""
        return _coefficients(self, float(alpha))

    def starts(self, alpha: float = 1.0) -> tuple[float, ...]:
        """What every learnt multiplier starts at, in the order of application."""
        if not self.learnt:
            return ()
        fold(self.expression.root, algebra := FirstOrder(float(alpha)))
        return tuple(algebra.starts)

    @cached_property
    def learnt(self) -> tuple[str, ...]:
        """The learnt multipliers by name, in the order of application.

        ``residual_gain`` multiplies the branch and ``stream_gain`` the stream: each is known by the
        one share that another value of it changes.
        """
        names = []
        for index in range(len(calls(self.expression.root, "learnt"))):
            one, other = (self._sum(2.0, {index: value}) for value in (2.0, 3.0))
            changes = one.stream != other.stream, one.branch != other.branch
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
        return HEAD if self.normalises_sum else ""

    @property
    def scales_inside(self) -> bool:
        """Whether alpha stands within the branch, where it multiplies no term of the sum."""
        inner = (call.arguments[0] for call in calls(self.expression.root, "branch"))
        return any(Name("alpha") in parts(node) for node in inner)


@lru_cache(4096)  # an audit asks the same of every layer
def _coefficients(where: Placement, alpha: float) -> tuple[float, float]:
    total = where._sum(alpha)
    return total.stream, total.branch


def placements() -> dict[str, Placement]:
    return builtin("placements", Placement)


def placement(name: str) -> Placement:
    return choose("placement", name, placements())
