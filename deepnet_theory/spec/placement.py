"""Where the normalisation stands: one equation a placement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from deepnet_theory.spec.discovery import builtin, choose
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import (
    Call,
    Expression,
    FloatAlgebra,
    Grammar,
    Name,
    Node,
    Operation,
    Power,
    fold,
    parts,
)
from deepnet_theory.spec.streams import Streams, output_grammar

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

    @cached_property
    def streams(self) -> Streams | None:
        """Several streams; None where there is one."""
        several = ";" in self.equation
        return Streams.parse(self.name, self.equation, self.output) if several else None

    @cached_property
    def of_one_stream(self) -> Placement:
        """The placement of one stream that several come to, their growth left out; itself of one.

        Raises :class:`~deepnet_theory.spec.errors.Refusal` where several come to none.
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
        return tuple(_places(self.expression.root, "sum" if self.normalises_sum else ""))

    def coefficients(self, alpha: float) -> tuple[float, float]:
        """What x and the branch are multiplied by in the residual sum, norms left out."""
        root = self.expression.root
        return fold(root, _Sum(alpha, 1.0, 0.0)), fold(root, _Sum(alpha, 0.0, 1.0))

    def starts(self, alpha: float = 1.0) -> tuple[float, ...]:
        """What every learnt multiplier starts at, in the order of application."""
        fold(self.expression.root, found := _Sum(alpha, 1.0, 1.0))
        return tuple(found.starts)

    @cached_property
    def learnt(self) -> tuple[str, ...]:
        """The learnt multipliers by name, in the order of application.

        ``residual_gain`` multiplies the branch and ``stream_gain`` the stream.
        """
        count = sum(call.function == "learnt" for call in _calls(self.expression.root))
        return tuple(self._multiplied_by(index) for index in range(count))

    def _multiplied_by(self, index: int) -> str:
        """The name of a learnt multiplier, by the one coefficient that it changes."""
        root, changes = self.expression.root, []
        for x, branch, name in ((1.0, 0.0, STREAM_GAIN), (0.0, 1.0, RESIDUAL_GAIN)):
            at = (fold(root, _Sum(2.0, x, branch, {index: start})) for start in (2.0, 3.0))
            changes += [name] if len(set(at)) > 1 else []
        if len(changes) != 1:
            raise InputError(
                f"placement {self.name!r}: a learnt number multiplies the stream or the branch in "
                f"the residual sum, and one in {self.equation!r} does not"
            )
        return changes[0]

    @property
    def training_condition(self) -> str:
        """What training needs beside the rule to train with, in words; "" where nothing is known.

        A norm on the stream lets a common part of all tokens drown what is a token's own.
        """
        return HEAD if self.streams is None and self.normalises_sum else ""

    @property
    def scales_inside(self) -> bool:
        """Whether alpha stands within the branch, where it multiplies no term of the sum."""
        calls = _calls(self.expression.root)
        return any(c.function == "branch" and "alpha" in repr(c.arguments) for c in calls)

    def __post_init__(self) -> None:
        if self.streams is not None:
            return
        for call in _calls(self.expression.root):
            inside = [*parts(call.arguments[0])] if call.function == "learnt" else []
            if any(isinstance(p, Call) or p == Name("x") for p in inside):
                raise InputError(
                    f"placement {self.name!r}: a learnt multiplier starts at a number, which may "
                    f"hold alpha, and one in {self.equation!r} does not"
                )
        if len(set(self.learnt)) < len(self.learnt):
            raise InputError(
                f"placement {self.name!r}: {self.equation!r} has two learnt numbers on one term"
            )


def _calls(node: Node) -> list[Call]:
    match node:
        case Call(_, arguments):
            return [node, *(c for a in arguments for c in _calls(a))]
        case Operation(_, left, right):
            return _calls(left) + _calls(right)
        case Power(base, _):
            return _calls(base)
    return []


def _places(node: Node, place: str = "") -> Iterator[str]:
    """The place of every norm of an equation, inner ones first; ``place`` is that of the node."""
    match node:
        case Call("learnt", _):
            pass
        case Call("branch", (inner,)):
            yield from _places(inner, "input")
        case Call(_, (inner,)):
            behind = any(call.function == "branch" for call in _calls(inner))
            yield from _places(inner, "input" if place == "input" else "")
            yield place or ("output" if behind else "stream")
        case Operation(_, left, right):
            inside = place if place == "input" else ""
            yield from _places(left, inside)
            yield from _places(right, inside)
        case Power(base, _):
            yield from _places(base, place)


class _Sum(FloatAlgebra):
    """The residual sum at numbers, norms left out; ``learnt`` are other values, by position."""

    def __init__(
        self, alpha: float, x: float, branch: float, learnt: Mapping[int, float] | None = None
    ) -> None:
        super().__init__(alpha=alpha, x=x)
        self.branch, self.learnt = branch, learnt or {}
        self.starts: list[float] = []

    def call(self, function: str, arguments: tuple[float, ...]) -> float:
        if function == "learnt":
            self.starts.append(arguments[0])
            return self.learnt.get(len(self.starts) - 1, arguments[0])
        return self.branch if function == "branch" else arguments[0]


def placements() -> dict[str, Placement]:
    return builtin("placements", Placement)


def placement(name: str) -> Placement:
    return choose("placement", name, placements())
