"""Where the normalisation is: one equation of the residual sublayer a placement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.definitions.discovery import HERE, Folder, choose
from deepnet_theory.definitions.expression import (
    Algebra,
    Call,
    Expression,
    Grammar,
    Name,
    Node,
    Operation,
    fold,
    parts,
)

_FUNCTIONS = dict.fromkeys(("norm", "branch"), (1, 1))
PLACEMENT = Grammar("a residual equation", ("x", "alpha"), _FUNCTIONS)

# measured, not derived: benchmarks/results/practice.md
HEAD = (
    "Start the head's bias at the log-unigram: without it some post-LN runs diverge at learning "
    "rates that work with it."
)


def calls(node: Node, function: str) -> list[Call]:
    return [p for p in parts(node) if isinstance(p, Call) and p.function == function]


def _norms(node: Node, where: str = "") -> Iterator[str]:
    """Where each norm stands, innermost first."""
    match node:
        case Call("branch", (inner,)):
            yield from _norms(inner, "input")
        case Call("norm", (inner,)):
            yield from _norms(inner, where)
            yield where or ("output" if calls(inner, "branch") else "stream")
        case Operation(_, left, right):
            yield from _norms(left, where)
            yield from _norms(right, where)


@dataclass(frozen=True)
class Placement:
    r"""The residual equation of one sublayer, such as ``norm(alpha*x + branch(x))``.

    Every law of the placement (branch weight, size of the gradients, which knobs exist) is
    derived from ``equation``; ``final_norm`` says whether the stack ends in one more norm.
    """

    name: str = ""
    equation: str = ""
    final_norm: bool = True
    summary: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        _ = self.expression  # what is no equation fails here

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
        norms = tuple(_norms(self.expression.root))
        return (*norms[:-1], "sum") if self.normalises_sum else norms

    def coefficients(self, alpha: float) -> tuple[float, float]:
        """What x and the branch are multiplied by in the residual sum, norms left out."""

        def total(x: float, branch: float) -> float:
            functions = {"branch": lambda _: branch, "norm": float}
            names = {"x": x, "alpha": float(alpha)}
            return float(fold(self.expression.root, Algebra(names, functions)))

        return total(1.0, 0.0), total(0.0, 1.0)

    @property
    def training_condition(self) -> str:
        """What training needs beside the recommended rule, in words; "" where nothing is known.

        A norm on the stream lets a common part of all tokens drown what is a token's own.
        """
        return HEAD if self.normalises_sum else ""

    @property
    def scales_inside(self) -> bool:
        """Whether alpha stands within the branch, where it multiplies no term of the sum."""
        inner = (call.arguments[0] for call in calls(self.expression.root, "branch"))
        return any(Name("alpha") in parts(node) for node in inner)


PLACEMENTS: Mapping[str, Placement] = Folder(HERE / "placements", Placement)


def placement(name: str) -> Placement:
    return choose("placement", name, PLACEMENTS)
