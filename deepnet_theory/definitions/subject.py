r"""Rows per sublayer at the depth of one model, and how a reading differs from them.

A derived rule, a published scheme and constants are a :class:`Wanted`: equation, α, gains and
rates of every sublayer. ``audit`` is the difference between that and a model that was read;
``apply_`` writes it, reads again and finds no difference. Both refuse by what is here.

A gain is :math:`\mathrm{rms}(W)/\sqrt{2/(\text{fan\_in} + \text{fan\_out})}`. Its interval comes
from the fourth moment of the entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle
from statistics import NormalDist
from typing import Any

from deepnet_theory.definitions.constants import Constants, PartConstants
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.reading import (
    EXACT,
    UNKNOWN,
    FoundMatrix,
    FoundSublayer,
    Reading,
    residual_equation,
)
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import sublayer

RATE_OF = "rate of "
INSIDE = "inside"  # a norm that some published schemes have within their branches


@dataclass(frozen=True)
class WantedSublayer:
    """What is asked of one sublayer: norms, the coefficients' ratio α, gains by role.

    ``rates`` are learning-rate multipliers by role, 1 where none is given. ``std`` is that of a
    matrix of gain 1 where it is not Xavier's. ``norm_epsilon`` is what a norm's ε is multiplied by,
    by its place. ``part`` and ``index`` are the sublayer's place in constants.
    """

    norms: frozenset[str]
    alpha: float
    gains: dict[str, float]
    rates: dict[str, float] = field(default_factory=dict)
    std: float | None = None
    norm_epsilon: dict[str, float] = field(default_factory=dict)
    part: str = ""
    index: int = 0

    def gain(self, matrix: FoundMatrix) -> float:
        """The wanted gain against Xavier's standard deviation."""
        gain = self.gains.get(matrix.role, 1.0)
        return gain if self.std is None else gain * self.std / matrix.xavier


@dataclass(frozen=True)
class Wanted:
    """A rule at the depth of one model, sublayer by sublayer of its reading.

    ``degrees`` are (p, q) of the optimizer's first update :math:`|g|^p|\\theta|^q`; ``selection``
    the stack that it is a rule of, None where it is none of the laboratory. ``layers`` are those
    of constants made for another depth than the model's. ``steps`` gives what multiplies a
    parameter's ``lr``, ``eps`` and ``weight_decay``, where a rule has more than the ``rates`` of
    matrices; ``grouped`` ones take them from ``parameter_groups``. ``stream`` is the size of what
    enters each stack, where that is not 1. ``lines`` are those that a base asks of the forward pass
    and that it lacks, each with its number.
    """

    name: str
    detail: str
    placement: str
    sublayers: tuple[WantedSublayer, ...]
    degrees: tuple[float, float] | None = None
    published: bool = False
    selection: Selection | None = None
    layers: dict[str, int] | None = None
    steps: Callable[[Any], dict[str, float]] | None = None  # of a runtime ``Description``
    stream: dict[str, float] = field(default_factory=dict)
    grouped: bool = False
    lines: tuple[tuple[str, float], ...] = ()

    def counts(self, factor: float) -> float:
        """How many times as far a step moves a matrix that the code multiplies by a factor."""
        p, q = self.degrees or (-1.0, 0.0)
        return math.pow(factor, 1 + p - q) if factor else 1.0


# ----------------------------------------------------------------------- constants as rows


def rows_of(reading: Reading, c: Constants) -> Wanted:
    """Constants as rows of a model; :class:`Refusal` where they are for another model.

    A lone encoder or decoder takes its own part of an encoder–decoder's constants. Constants of
    another depth are distinguished by ``layers``; those of another placement differ row by row.
    """
    stacks, parts = reading.stacks, c.parts
    if len(stacks) < len(parts):
        first = reading.layer_texts[0][0]
        parts = tuple(p for p in parts if first == as_read(p.described(",")))[:1]
    if len(stacks) != len(parts):
        raise Refusal(f"the model has {len(stacks)} stack(s), the constants {len(c.parts)}")
    rows: list[WantedSublayer] = []
    for (name, sublayers), part in zip(stacks.items(), parts, strict=True):
        _require_layers(reading, name, part)
        for s in sublayers:
            if any(n.centred is not (c.norm == "layer") for n in s.placed_norms):
                kind = "RMS norm" if c.norm == "layer" else "LayerNorm"
                raise _of_another(
                    reading, f"{at(s)} has {kind}, the constants are for the norm {c.norm!r}"
                )
        asked = [_asked(c, part, index) for index in range(len(part.sublayers))]
        rows += (
            replace(row, norms=row.norms | (norms_of(s) & {INSIDE}))
            for s, row in zip(sublayers, cycle(asked), strict=False)
        )
    made_for = {name: part.layers for name, part in zip(stacks, parts, strict=True)}
    return Wanted(
        c.optimizer, "the constants given", c.placement, tuple(rows),
        layers=None if made_for == reading.layers else made_for,
    )  # fmt: skip


def _asked(c: Constants, part: PartConstants, index: int) -> WantedSublayer:
    """What constants ask of one sublayer of a layer."""
    s, where = part.sublayers[index], c.the_placement
    stream, branch = where.coefficients(s.alpha)
    own = {m.name: c.parameter(part.name, index, m.name, m.role)
           for m in sublayer(s.kind).matrices}  # fmt: skip
    gains = {role: p.gain for role, p in own.items()}
    return WantedSublayer(
        where.norms, stream / branch, gains, {role: p.rate for role, p in own.items()},
        norm_epsilon=s.norm_epsilon, part=part.name, index=index,
    )  # fmt: skip


def as_asked(reading: Reading, c: Constants) -> Reading:
    """A reading whose scores, if not divided by √k alone, are held against those of constants."""

    def asked(s: FoundSublayer, m: FoundMatrix) -> FoundMatrix:
        own = m.role == "query" and not math.isclose(s.scores, 1, rel_tol=EXACT)
        return replace(m, times=m.times / c.scores) if own else m

    rows = (replace(s, matrices=tuple(asked(s, m) for m in s.matrices)) for s in reading.sublayers)
    return reading if c.scores == 1 else replace(reading, sublayers=tuple(rows))


def as_read(layer: str) -> str:
    """A layer of constants as a reading says it, where norms on queries and keys make no kind."""
    return layer.replace("attention-qk-norm", "attention")


def _require_layers(reading: Reading, name: str, part: PartConstants) -> None:
    """Raise :class:`Refusal` where a model's layers are not those of a part."""
    asked, layers = as_read(part.described(",")), [*reading.stacks].index(name)
    if wrong := next((layer for layer in reading.layer_texts[layers] if layer != asked), ""):
        layer, asked = (text.replace(",", ", ") for text in (wrong, asked))
        raise _of_another(
            reading, f"a layer of the {part.name} is {layer}, the constants are for {asked}"
        )


def require_equation(reading: Reading, rule: Wanted) -> None:
    """Raise :class:`Refusal` where a norm does not stand where the rule has it."""
    for s, row in zip(reading.sublayers, rule.sublayers, strict=True):
        if s.around != row.norms - {INSIDE}:
            raise _of_another(
                reading,
                f"{at(s)} is {s.equation}, the constants are for {residual_equation(row.norms)}",
            )


def _of_another(reading: Reading, why: str) -> Refusal:
    """Constants of another model; it says what to derive for this one."""
    if reading.placement is None or not reading.uniform:
        return Refusal(why)
    words = ", ".join(f'{name}="{word}"' for name, word in reading.select.items())
    return Refusal(f"{why}; constants for this model are derived with {words}")


def at(s: FoundSublayer) -> str:
    """A sublayer by the matrix that it ends in."""
    return f"the sublayer of {s.matrices[-1].name if s.matrices else s.kind}"


# ------------------------------------------------------------------ what no rule has a law for


def without_law(reading: Reading, but: Container[str] = ()) -> str:
    """Why no rule speaks of these branches; no word where one does.

    ``but`` are the forms, such as ``INSIDE``, that a scheme itself has.
    """
    for s in reading.sublayers:
        for form, why in _forms(s):
            if form not in but:
                return f"{at(s)} {why}"
    if reading.shared:
        return f"several sublayers share {reading.shared}, and no law here is of shared layers"
    return ""


def _forms(s: FoundSublayer) -> Iterator[tuple[str, str]]:
    if any(n.where == "inside" for n in s.norms):
        yield INSIDE, "has a norm within its branch, which has no law here"
    if s.learnt is not None:
        yield "learnt", f"is multiplied by {s.learnt}, which is learnt: its steps have no law here"
    elif s.branch == 0:
        yield "zero", "is multiplied by 0"


# --------------------------------------------------------------------------------- differences


@dataclass(frozen=True)
class Difference:
    """One α, one placement or one gain of one sublayer that is ``ratio`` times the wanted one."""

    index: int  # of the sublayer
    item: str  # alpha, norms, reads, "rate of" a role, or a matrix's role
    ratio: float
    found: float
    wanted: float
    matrix: FoundMatrix | None = None


def differences(
    reading: Reading, rule: Wanted, exact: float = EXACT, chance: float = 0.05
) -> Iterator[Difference]:
    """Where a reading is not as a rule wants it.

    ``exact`` is the tolerance of what code computes; ``chance`` is that of seeing a difference
    in a model whose matrices are all drawn at the wanted gains.
    """
    count = sum(len(s.matrices) for s in reading.sublayers)
    for index, (s, wanted) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        if norms_of(s) != wanted.norms:
            yield Difference(index, "norms", 1.0, 1.0, 1.0)
        if not math.isclose(s.alpha, wanted.alpha, rel_tol=exact):
            yield Difference(index, "alpha", s.alpha / wanted.alpha, s.alpha, wanted.alpha)
        read = reading_alpha(s, wanted)
        if read:
            yield Difference(index, "reads", s.stream, s.stream, 1.0)
        for m in s.matrices:
            if m.role == UNKNOWN:
                continue
            # what reads αx is judged as if it read x
            size, low, high = gain(m, 1 - chance / count, 1 / s.stream if m.role in read else 1.0)
            aim = wanted.gain(m)
            if not low * (1 - exact) <= aim <= high * (1 + exact):
                ratio = size / aim if aim else math.inf
                yield Difference(index, m.role, ratio, size, aim, m)


def norms_of(s: FoundSublayer) -> frozenset[str]:
    """Where norms stand, as a placement and ``INSIDE`` say it."""
    return s.around | ({INSIDE} if any(n.where in (INSIDE, "within") for n in s.norms) else set())


def gain(
    matrix: FoundMatrix, level: float = 0.95, times: float = 1.0
) -> tuple[float, float, float]:
    """The gain of a matrix and the ends of its interval, all of them ``times`` as large."""
    z, unit = NormalDist().inv_cdf((1 + level) / 2), times / matrix.xavier
    size, margin = matrix.size * unit, z * matrix.error * unit
    return size, size - margin, size + margin


def reading_alpha(s: FoundSublayer, wanted: WantedSublayer) -> set[str]:
    """The roles of the matrices that read αx and are as large as if they read x."""
    if math.isclose(s.stream, 1, rel_tol=2 * EXACT) or "input" in s.around or s.kind == UNKNOWN:
        return set()
    last = sublayer(s.kind).last_map[0]
    reading = [m for m in s.matrices
               if m.role != last and math.isclose(m.times, s.stream, rel_tol=EXACT)]  # fmt: skip

    def is_divided(m: FoundMatrix) -> bool:
        """Whether its size is nearer to the wanted one with the factor than without."""
        ratio = m.size / m.xavier / (wanted.gain(m) or 1.0)
        return ratio > 0 and abs(math.log(ratio)) < abs(math.log(ratio / s.stream))

    return set() if all(map(is_divided, reading)) else {m.role for m in reading}


def factor(s: FoundSublayer, m: FoundMatrix) -> float:
    """What the code multiplies a matrix by; what gates of experts add up to is no number in it."""
    if UNKNOWN in (s.kind, m.role):
        return 1.0
    kind = sublayer(s.kind)
    return 1.0 if kind.experts > 1 and m.role == kind.last_map[0] else m.times


def rates_of_multiples(reading: Reading, rule: Wanted) -> Iterator[Difference]:
    r"""The matrices that the forward pass multiplies by a c, so that their steps count otherwise.

    With entries θ such a matrix is cθ. One update moves it :math:`c^{1 + p - q}` times as
    much as a matrix of its size that nothing multiplies. A scheme's own factor is no fault.
    """
    for index, (s, wanted) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        read = reading_alpha(s, wanted)
        for m in s.matrices:
            own = math.isclose(m.times, wanted.gains.get(m.role, 1.0), rel_tol=EXACT)
            counts = rule.counts(factor(s, m))
            if m.role in read or (own and rule.published):
                continue
            if not math.isclose(counts, 1.0, rel_tol=EXACT):
                yield Difference(index, f"{RATE_OF}{m.role}", counts, m.times, 1.0)
