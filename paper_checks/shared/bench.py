"""The bench: what a part of a claim is judged with.

A claim imports :class:`Claim`, NumPy, SymPy and torch from here; each of its parts is a function
of a :class:`Lab`. The folder's README tells how a claim is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from paper_checks.shared import fitting, judging, stacks
from paper_checks.shared.claim import Claim, Context, Finding
from paper_checks.shared.fitting import Fit
from paper_checks.shared.later import (
    Array,
    Expr,
    Generator,
    Interval,
    Settings,
    Tensor,
    Trial,
    np,
    numeric,
    sp,
    symbolic,
    torch,
)


@dataclass(frozen=True)
class Lab(Context):
    """One run of one claim: quick or full, its seed, and how its parts measure and judge."""

    kept: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    # one helper judges each kind of evidence, whatever the source
    proved = staticmethod(judging.proved)
    seen = staticmethod(judging.seen)
    within = staticmethod(judging.within)
    ratio = staticmethod(judging.ratio)
    exponent = staticmethod(judging.exponent)
    at_most = staticmethod(judging.at_most)
    at_least = staticmethod(judging.at_least)
    undecided = staticmethod(judging.undecided)
    assumed = staticmethod(judging.assumed)
    worst = staticmethod(judging.worst)
    text = staticmethod(judging.text)
    numbers = staticmethod(judging.numbers)

    # what seeds show, as an interval
    mean = staticmethod(fitting.mean)
    power = staticmethod(fitting.power)
    powers = staticmethod(fitting.powers)
    rate = staticmethod(fitting.rate)
    settled = staticmethod(fitting.settled)
    slope = staticmethod(fitting.slope)
    columns = staticmethod(fitting.columns)

    # the sizes that are measured
    settings = stacks.settings
    small = stacks.small
    variations = stacks.variations
    varied = stacks.varied
    depths = stacks.depths
    deep = stacks.deep
    shallow = stacks.shallow
    texts = stacks.texts
    widths = stacks.widths

    def generator(self, purpose: int = 0) -> Generator:
        """A generator of this run's seed, one for each purpose."""
        return torch.Generator().manual_seed(1000 * self.seed + purpose)

    @staticmethod
    def normal(source: Generator, *shape: int) -> Tensor:
        """Normal draws in float64."""
        return torch.randn(shape, generator=source, dtype=torch.float64)


Given = ParamSpec("Given")
Measured = TypeVar("Measured")


def judge(
    judged: Callable[Concatenate[Lab, Given], Finding],
) -> Callable[Given, Callable[[Lab], Finding]]:
    """What several parts are judged by: called with what they differ in it is a part's function."""

    @wraps(judged)
    def part(*given: Given.args, **named: Given.kwargs) -> Callable[[Lab], Finding]:
        return wraps(judged)(lambda lab: judged(lab, *given, **named))

    return part


def once(measure: Callable[[Lab], Measured]) -> Callable[[Lab], Measured]:
    """A measurement that several parts of a claim judge: made once a run, for the first of them."""

    @wraps(measure)
    def kept(lab: Lab) -> Measured:
        if measure not in lab.kept:
            lab.kept[measure] = measure(lab)
        return cast(Measured, lab.kept[measure])

    return kept
