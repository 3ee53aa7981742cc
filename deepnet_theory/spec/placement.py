"""Where the normalisation stands: one equation a placement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.spec.discovery import builtin, choose
from deepnet_theory.spec.expression import Call, Expression, Grammar

PLACEMENT = Grammar(
    purpose="a residual equation",
    symbols=("x", "alpha"),
    functions={"norm": (1, 1), "branch": (1, 1)},
)


@dataclass(frozen=True)
class Placement:
    r"""The residual equation of one sublayer, such as ``norm(alpha*x + branch(x))``.

    Every law of the placement (branch weight, size of the gradients, which knobs exist) is
    derived from ``equation``; ``final_norm`` says whether the stack ends in one more norm.
    """

    name: str
    equation: str
    final_norm: bool
    summary: str = ""
    source: str = ""

    @cached_property
    def expression(self) -> Expression:
        """The parsed residual equation."""
        return PLACEMENT.parse(self.equation)

    @property
    def normalises_sum(self) -> bool:
        """Whether a norm encloses the residual sum: every sublayer normalises the stream."""
        root = self.expression.root
        return isinstance(root, Call) and root.function == "norm"

    def __post_init__(self) -> None:
        _ = self.expression


def placements() -> dict[str, Placement]:
    """Every placement of the folder ``spec/placements``, by name."""
    return builtin("placements", Placement)


def placement(name: str) -> Placement:
    """The placement called ``name``."""
    return choose("placement", name, placements())
