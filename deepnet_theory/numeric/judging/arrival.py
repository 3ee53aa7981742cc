"""Where a predicted power of the depth leads: a sum of powers bends for decades before one does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from deepnet_theory.numeric.judging.statistics import TOLERANCE
from deepnet_theory.numeric.measuring.one_sublayer import (
    Key,
    distance_from_identity,
    predict_shares,
)
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.depths import MOST_LAYERS, Depth
from deepnet_theory.numeric.stacks.sampled import NEAR
from deepnet_theory.spec.errors import InputError

DEEP = (MOST_LAYERS // 16, MOST_LAYERS)  # between which the powers are read off


@dataclass(frozen=True)
class Arrival:
    """Which shares of ΔF have the predicted power deep down, and from which depth they lead.

    No share leads where another power is the largest one, ``power``.
    """

    leading: tuple[Key, ...]
    depth: float | None  # at which they equal all the others; None where no other is left
    power: float = math.nan

    def words(self, variable: str) -> str:
        """What leads, and from where."""
        if not self.leading:
            return f"deeper down they lead to {self.power:+.2f}"
        names = " and ".join(name for _, name in self.leading)
        if self.depth is None or self.depth < 1:
            return "deep down all that counts have the predicted power"
        where = f"{variable} = {self.depth:.2g}"
        return f"{names}, which have the predicted power, lead from about {where}"


def find_arrival(
    case_at: Callable[[Depth], Case], depth: Depth, symbols: Sequence[str], exponent: float
) -> Arrival | None:
    """Whether the prediction has the power ``exponent`` far beyond the measured depths, and why.

    Every kind of parameter is stepped alone at two great depths, where its share of ΔF is one
    power of the depth. The largest power must be the predicted one; the shares that have it
    exceed the others from where the two lines cross. None where the stack there is not near the
    identity, or the rule has no value.
    """
    try:
        cases = [case_at({**depth, **dict.fromkeys(symbols, n)}) for n in DEEP]
        if any(max(distance_from_identity(case).block) > NEAR for case in cases):
            return None
        shallow, deep = ({k: u.mean for k, u in predict_shares(case).items()} for case in cases)
    except InputError:  # the rule has no value there
        return None
    span = math.log(DEEP[1] / DEEP[0])
    moved = [key for key in deep if deep[key] > 0 and shallow[key] > 0]
    powers = {key: math.log(deep[key] / shallow[key]) / span for key in moved}
    leading = [key for key in moved if abs(powers[key] - exponent) <= TOLERANCE]
    others = [key for key in moved if key not in leading]
    most = max(powers.values(), default=-math.inf)
    if not leading or any(powers[key] > exponent for key in others):
        return Arrival((), None, most)
    ends = [(math.hypot(*(x[k] for k in leading)), math.hypot(*(x[k] for k in others), 0.0))
            for x in (shallow, deep)]  # fmt: skip
    if not others:
        return Arrival(tuple(leading), None, most)
    (near, far), *_ = pairwise([math.log(own / rest) for own, rest in ends])
    crossing = math.log(DEEP[1]) - far * span / (far - near)
    return Arrival(tuple(leading), math.exp(crossing), most)
