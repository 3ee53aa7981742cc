"""Wrong rules that a rule's own table makes: what a test of transfer must be able to refute.

Each has the rule's numbers at the base. A number of the rule over its own at the base is a factor,
and a wrong rule takes another factor in its place. Constants here are of one part, over a base.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.rule import ParameterConstants
from deepnet_theory.definitions.sublayer import Sublayer, sublayer


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
Address = tuple[int | None, str]  # the sublayer's index in a layer, None outside; the parameter


def rows(c: Constants) -> Iterator[tuple[Address, ParameterConstants]]:
    """Every parameter."""
    yield from (((None, name), p) for name, p in c.outer.items())
    for index, s in enumerate(c.parts[0].sublayers):
        yield from (((index, name), p) for name, p in s.parameters.items())


def known(c: Constants) -> dict[Address, ParameterConstants]:
    """The same by address; a parameter that the constants do not name has no factors."""
    return defaultdict(ParameterConstants, rows(c))


def over(p: ParameterConstants, base: ParameterConstants) -> tuple[float, float]:
    """The factors of a gain and a rate over a base's; a gain of 0 has the factor 1."""
    return p.gain / (base.gain or 1.0) or 1.0, p.rate / base.rate


def wrong(name: str, c: Constants, base: Constants) -> Constants:
    """What a wrong rule has at the size at which the rule has c."""
    start = known(base)
    depth = c.parts[0].layers / base.parts[0].layers
    width, factors = c.architecture.width / base.architecture.width, {}
    for row, p in rows(c):
        kind, (gain, rate) = _kind(c, row), over(p, start[row])
        scaled = kind is not None and row[1] in {m.name for m in kind.scaled}
        factors[row] = WRONG[name](
            Factors(
                gain,
                rate,
                c.parts[0].sublayers[row[0] or 0].rate if scaled else 1.0,
                standard(c, row) / standard(base, row),
                *(depth, width, scaled),
                kind is not None and row[1] in {m.name for m in kind.matrices},
            )
        )
    return with_factors(c, base, factors)


def of_another(c: Constants, base: Constants, other: Constants, its_base: Constants) -> Constants:
    """The same by the factors of another rule, which has ``other`` and ``its_base`` there."""
    start = known(its_base)
    factors = {row: over(p, start[row]) for row, p in rows(other)}
    each = (x.parts[0].sublayers for x in (c, base, other, its_base))
    sublayers = tuple(
        replace(s, alpha=b.alpha * o.alpha / i.alpha) for s, b, o, i in zip(*each, strict=True)
    )
    c = replace(c, parts=(replace(c.parts[0], sublayers=sublayers),))
    c = replace(c, scores=other.scores, head_multiplier=other.head_multiplier)
    return with_factors(c, base, factors)


def with_factors(
    c: Constants, base: Constants, factors: Mapping[Address, tuple[float, float]]
) -> Constants:
    """The constants with gains and rates that are the base's times factors."""
    (part,), start, own, sublayers = c.parts, known(base), {}, []
    for row, p in rows(c):
        gain, rate = start[row].gain * factors[row][0], start[row].rate * factors[row][1]
        # a step takes the same share of a weight away
        own[row] = replace(p, gain=gain, rate=rate, weight_decay=p.weight_decay * p.rate / rate)
    for index, s in enumerate(part.sublayers):
        gains = {m.name: own[index, m.name].gain for m in sublayer(s.kind).matrices}
        parameters = {name: own[index, name] for name in s.parameters}
        sublayers.append(replace(s, gains=gains, parameters=parameters))
    outer = {name: own[None, name] for name in c.outer}
    return replace(c, parts=(replace(part, sublayers=tuple(sublayers)),), outer=outer)


def standard(c: Constants, row: Address) -> float:
    """The gain of a matrix of standard deviation 1, over √(2N) where it ends a branch; or 1."""
    a, kind, name = c.architecture, _kind(c, row), row[1]
    if kind is None:
        return math.sqrt((a.width + a.vocab) / 2) if name == "head" else 1.0
    shorter = 2 * c.parts[0].layers if name == kind.last_map[0] else 1
    fans = (sum(a.fans(m)) for m in kind.matrices if m.name == name)
    return next((math.sqrt(fan / 2 / shorter) for fan in fans), 1.0)


def _kind(c: Constants, row: Address) -> Sublayer | None:
    return None if row[0] is None else sublayer(c.parts[0].sublayers[row[0]].kind)


def alike(one: Constants, other: Constants, vectors: bool = True) -> bool:
    """Whether a model trains alike under both, to what a machine rounds; ``vectors`` train too."""

    def numbers(c: Constants) -> Iterator[float]:
        yield from (c.scores, c.head_multiplier, *(s.alpha for s in c.parts[0].sublayers))
        for row, p in rows(c):
            kind = _kind(c, row)
            matrices = [m.name for m in kind.matrices] if kind else ("embedding", "head")
            if vectors or row[1] in matrices:
                yield from (p.gain, p.rate)

    pairs = zip(numbers(one), numbers(other), strict=True)
    return all(math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)
