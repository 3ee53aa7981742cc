"""Wrong rules that a rule's own table makes: what a test of transfer must be able to refute.

Each has the rule's numbers at the base. A number of the rule over its own at the base is a factor,
and a wrong rule takes another factor in its place. Constants here are of one part, over a base.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from deepnet_theory.definitions.constants import Address, Constants
from deepnet_theory.definitions.rule import ParameterConstants
from deepnet_theory.definitions.sublayer import Matrix, Role, sublayer


class Factors(NamedTuple):
    """A parameter's factors over the base, and what a wrong rule knows of it besides."""

    gain: float
    rate: float
    kappa: float  # of a scaled matrix, else 1
    standard: float  # of a gain with which the standard deviation is the same at every size
    depth: float  # the model's over the base's
    width: float
    scaled: bool  # by β and κ
    hidden: bool  # a matrix of a branch


WRONG: dict[str, Callable[[Factors], tuple[float, float]]] = {  # factors of gain and rate
    "β² for β": lambda p: (p.gain ** (1 + p.scaled), p.rate),
    "κ times N^(1/4)": lambda p: (p.gain, p.rate * p.depth ** (p.scaled / 4)),
    "hidden rates times d^(1/2)": lambda p: (p.gain, p.rate * p.width ** (p.hidden / 2)),
    "no κ": lambda p: (p.gain, p.rate / p.kappa),
    "one rate for all roles": lambda p: (p.gain, 1.0),
    "standard sizes": lambda p: (p.standard, p.rate),
}


def known(c: Constants) -> dict[Address, ParameterConstants]:
    """The rows of constants; a parameter that they do not name has no factors."""
    return defaultdict(ParameterConstants, c.rows)


def over(p: ParameterConstants, base: ParameterConstants) -> tuple[float, float]:
    """The factors of a gain and a rate over a base's; a gain of 0 has the factor 1."""
    return p.gain / (base.gain or 1.0) or 1.0, p.rate / base.rate


def wrong(name: str, c: Constants, base: Constants) -> Constants:
    """What a wrong rule has at the size at which the rule has c."""
    start, factors = known(base), dict[Address, tuple[float, float]]()
    depth = c.parts[0].layers / base.parts[0].layers
    width = c.architecture.width / base.architecture.width
    for at, p in c.rows.items():
        (gain, rate), m = over(p, start[at]), matrix_at(c, at)
        scaled = m is not None and m.role is Role.SCALED
        kappa = c.parts[0].sublayers[at[1] or 0].rate if scaled else 1.0
        beside = standard(c, at) / standard(base, at)
        own = Factors(gain, rate, kappa, beside, depth, width, scaled, m is not None)
        factors[at] = WRONG[name](own)
    return with_factors(c, base, factors)


def of_another(c: Constants, base: Constants, other: Constants, its_base: Constants) -> Constants:
    """The same by the factors of another rule, which has ``other`` and ``its_base`` there."""
    start = known(its_base)
    each = (x.parts[0].sublayers for x in (base, other, its_base))
    alphas = [b.alpha * o.alpha / i.alpha for b, o, i in zip(*each, strict=True)]
    c = c.mapped(
        lambda _, index, s: replace(s, alpha=alphas[index]),
        scores=other.scores,
        head_multiplier=other.head_multiplier,
    )
    return with_factors(c, base, {at: over(p, start[at]) for at, p in other.rows.items()})


def with_factors(
    c: Constants, base: Constants, factors: Mapping[Address, tuple[float, float]]
) -> Constants:
    """The constants with gains and rates that are the base's times factors."""
    start, own = known(base), dict[Address, ParameterConstants]()
    for at, p in c.rows.items():
        gain, rate = start[at].gain * factors[at][0], start[at].rate * factors[at][1]
        # a step takes the same share of a weight away
        own[at] = replace(p, gain=gain, rate=rate, weight_decay=p.weight_decay * p.rate / rate)
    return c.with_rows(own)


def standard(c: Constants, at: Address) -> float:
    """The gain of a matrix of standard deviation 1, over √(2N) where it ends a branch; or 1."""
    a, m = c.architecture, matrix_at(c, at)
    if m is None:
        return math.sqrt((a.width + a.vocab) / 2) if at[-1] == "head" else 1.0
    last = sublayer(c.parts[0].sublayers[at[1] or 0].kind).last_map[0]
    return math.sqrt(sum(a.fans(m)) / 2 / (2 * c.parts[0].layers if m.name == last else 1))


def matrix_at(c: Constants, at: Address) -> Matrix | None:
    """The matrix of a branch at an address, None for all else."""
    _, index, name = at
    known = () if index is None else sublayer(c.parts[0].sublayers[index].kind).matrices
    return next((m for m in known if m.name == name), None)


def alike(one: Constants, other: Constants, vectors: bool = True) -> bool:
    """Whether a model trains alike under both, to what a machine rounds; ``vectors`` train too."""
    matrices = ("embedding", "head")
    still = {at for at in one.rows if not matrix_at(one, at) and at[-1] not in matrices}
    return one.is_alike(other, () if vectors else still)
