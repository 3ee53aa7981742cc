r"""What differences do to ‖ΔF‖: predicted where constants say them, else by the first order.

The first order holds near the identity; beyond it, and for models that no rule has a law for, no
number is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from statistics import fmean, geometric_mean
from typing import NamedTuple

from deepnet_theory.numeric.case import NEAR, Case
from deepnet_theory.numeric.one_sublayer import (
    distance_from_identity,
    predict_model_update,
)
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.results.reading import Reading, Sublayer
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.subject import EXACT, Difference, Wanted, WantedSublayer, unjudged
from deepnet_theory.spec.sublayer import Role, one_expert, sublayer

SIZES = Settings(seeds=2, draws=1, device="cpu")  # two cases of equal draws: the ratio is near
SIMILAR = 1.25  # layers whose ratios are within this factor differ alike
MOST = 8  # predictions in one audit: some tenths of a second each, in all below 3 s

Rows = tuple[RuleEntry, ...]


class Effect(NamedTuple):
    """What ‖ΔF‖ is multiplied with, and whether that is a ratio of two predictions."""

    times: float | None = None
    predicted: bool = False


class Effects:
    r"""What differences of a reading from a rule do to ‖ΔF‖ of the rule.

    Both are stacks of the model's depth, sublayers and placement in the laboratory's width, with
    the same draws; the model's is the rule's with these gains, α and norms as they were found. For
    experts stands one dense branch that steps as all of them together.
    Constants do not say layers that differ among themselves, a stream that is multiplied without a
    norm or starts far from rms 1, matrices that were not judged, a stack far from the identity:
    then, and beyond ``MOST`` predictions, the first order is asked.
    """

    def __init__(self, reading: Reading, rule: Wanted) -> None:
        self._reading, self._rule = reading, rule
        self._seen: dict[tuple[str, Rows], float | None] = {}

    def of(self, different: Sequence[Difference]) -> Effect:
        """That of these differences together, all else as wanted."""
        usual = self._size(())
        if usual is not None and (found := self._size(different)) is not None:
            return Effect(found / usual, predicted=True)
        if not any(d.item in ("norms", "learnt") for d in different):
            with suppress(ValueError, ZeroDivisionError):  # α is 0, or a law divides by a size of 0
                if self._near(different):
                    return Effect(first_order(self._reading, self._rule, different))
        return Effect()

    def _near(self, different: Sequence[Difference]) -> bool:
        r"""Whether S·r² is small under the rule and with the differences.

        Under the rule it is measured; a branch's r is then as its P/α.
        """
        if (usual := self._distance) is None:
            return False
        squares = []
        for s, _, wanted, found in _sublayers(self._reading, self._rule, different):
            size, now = branch_size(s, *wanted), branch_size(s, *found)
            if not size or not math.isfinite(now / size):
                return False
            squares.append((now / size) ** 2)
        return usual * max(1.0, fmean(squares)) <= NEAR

    @cached_property
    def _distance(self) -> float | None:
        """S·r² under the rule, None where constants do not say it."""
        with suppress(InputError, Refusal):
            return max(distance_from_identity(self._case(*self._expressed(()))).whole)
        return None

    def _size(self, different: Sequence[Difference]) -> float | None:
        """‖ΔF‖ with these differences as predicted, None where it cannot be said."""
        with suppress(InputError, Refusal):
            like = self._expressed(different)
            if like not in self._seen and len(self._seen) < MOST:
                case, size = self._case(*like), None
                if max(distance_from_identity(case).whole) <= NEAR:
                    size = predict_model_update(case).mean
                self._seen[like] = size if size and 0 < size < math.inf else None
            return self._seen.get(like)
        return None

    def _case(self, where: str, rows: Rows) -> Case:
        assert self._rule.selection is not None
        given = self._rule.selection
        selection = replace(given, placement=where, layer=given.layer and one_expert(given.layer))
        layers = zip(selection.the_stack.parts, self._reading.layers.values(), strict=True)
        depth = {part.depth: count for part, count in layers}
        return Case(selection, Rule(self._rule.name, rows), depth, SIZES)

    def _expressed(self, different: Sequence[Difference]) -> tuple[str, Rows]:
        """The placement and the entries of a rule that is like the model in these differences."""
        reading, rule = self._reading, self._rule
        if rule.selection is None:
            raise Refusal("the rule is of no stack of the laboratory")
        found = {d.index for d in different if d.item == "norms"}
        both = enumerate(zip(reading.sublayers, rule.sublayers, strict=True))
        around = {s.around if index in found else wanted.norms for index, (s, wanted) in both}
        alphas: list[float] = []
        rows = []
        parts = dict(zip(reading.stacks, rule.selection.the_stack.parts, strict=True))
        for stack, kind in dict.fromkeys((s.stack, s.kind) for s in reading.sublayers):
            at = [i for i, s in enumerate(reading.sublayers) if (s.stack, s.kind) == (stack, kind)]
            own = [d for d in different if d.index in at]
            alphas.append(alpha := self._common("alpha", at, own))
            gains = tuple(
                (m.name, repr(self._common(m.name, at, own)))
                for m in sublayer(one_expert(kind)).matrices
            )
            rate, part = repr(self._rate(kind, at)), parts[stack].name
            rows.append(RuleEntry(part, one_expert(kind), repr(alpha), "1", rate, gains=gains))
        if len({(row.part, row.sublayer) for row in rows}) < len(rows):
            raise Refusal("a dense branch beside experts of its kind, both of them of one name")
        multiplied = any(not math.isclose(a, 1, rel_tol=EXACT) for a in alphas)
        (norms,) = around if len(around) == 1 else (frozenset[str](),)
        if not norms or ("sum" not in norms and self._runs_away()):
            raise Refusal("constants do not say these norms, or the size of this stream")
        return _placement(norms, multiplied), tuple(rows)

    def _common(self, item: str, at: Sequence[int], different: Sequence[Difference]) -> float:
        """α or the gain of one role in the sublayers of one kind, all alike."""
        values: list[float] = []
        for i in at:
            found = [d.found for d in different if (d.index, d.item) == (i, item)]
            wanted = self._wanted(item, i)
            alone = len(wanted) == 1 or sublayer(self._reading.sublayers[i].kind).experts > 1
            if not wanted or not alone or len(found) not in (0, len(wanted)):
                raise Refusal(f"{item} was not judged in each, or differs in some")
            values += found or wanted
        if not all(0 < v < math.inf for v in values) or max(values) > SIMILAR * min(values):
            raise Refusal(f"layers differ in {item}, or it was not judged in each")
        return geometric_mean(values)

    def _wanted(self, item: str, index: int) -> list[float]:
        wanted = self._rule.sublayers[index]
        if item == "alpha":
            return [wanted.alpha]
        judged = (m for m in self._reading.sublayers[index].matrices if not unjudged(m))
        return [wanted.gain(m) for m in judged if m.role == item]

    def _rate(self, kind: str, at: Sequence[int]) -> float:
        """κ, of the scaled matrices; a dense branch has E times the gradient of one expert."""
        p = self._rule.degrees[0] if self._rule.degrees else 0.0
        scaled = [m.name for m in sublayer(kind).matrices if m.role is Role.SCALED]
        rates = {self._rule.sublayers[i].rates.get(role, 1.0) for i in at for role in scaled}
        if len(rates) > 1:
            raise Refusal("scaled matrices of several learning rates")
        return max(rates, default=1.0) * math.pow(sublayer(kind).experts, -p)

    def _runs_away(self) -> bool:
        far = any(not 0.5 < size < 2 for size in self._reading.stream.values())
        return far or any(s.stream != 1 for s in self._reading.sublayers)


def _placement(norms: frozenset[str], multiplied: bool) -> str:
    """The placement with these norms; with a residual multiplier where one is not 1."""
    for name, where in placements().items():
        if where.norms == norms and (not multiplied or "alpha" in where.expression.names):
            return name
    raise Refusal("no placement has these norms")


SCALED = {"value", "output", "fc1", "fc2", "gate", "up", "down"}
APART = 1.3  # what two ways to add may differ by where a number is given


def branch_size(s: Sublayer, alpha: float, gains: Mapping[str, float]) -> float:
    """P/α, proportional to a branch's size over its stream's; P is 1 before a norm."""
    if "output" in s.around:
        return 1 / alpha
    return math.prod(gains[role] for role in _scaled(s, gains)) / alpha


def _scaled(s: Sublayer, gains: Mapping[str, float]) -> list[str]:
    """The roles of a branch's scaled matrices, each once however many experts there are."""
    return list(dict.fromkeys(m.role for m in s.matrices if m.role in SCALED & gains.keys()))


def shares(
    s: Sublayer, rates: Mapping[str, float], p: float, q: float,
    alpha: float, gains: Mapping[str, float],
) -> list[float]:  # fmt: skip
    r"""What one update of each of a sublayer's matrices moves the output by, in orders.

    .. math:: \kappa_i \Bigl(\frac{P_i}{\alpha}\Bigr)^{1+p} \beta_i^q, \qquad
              P_i = \prod_{j \ne i} \beta_j

    P_i is 1/β_i where a norm follows the branch, which takes its size away but not a gradient's.
    """
    scaled = _scaled(s, gains)
    normed = "output" in s.around

    def without(*roles: str) -> float:
        if normed:
            return math.prod(1 / gains[role] for role in roles)
        return math.prod(gains[role] for role in scaled if role not in roles)

    def moved(role: str, size: float) -> float:
        return rates.get(role, 1.0) * math.pow(size / alpha, 1 + p) * math.pow(gains[role], q)

    found = [moved(role, without(role)) for role in scaled]
    if {"query", "key"} <= gains.keys():  # the scores are their product
        pairs = (("query", "key"), ("key", "query"))
        found += [moved(role, without() * gains[other]) for role, other in pairs]
    return found


def first_order(reading: Reading, rule: Wanted, different: Sequence[Difference]) -> float | None:
    """What differences multiply the stacks' ‖ΔF‖ after one update with, all else as wanted.

    Layers add up. What a sublayer's own matrices do lies between a plain sum, were they to move
    the output alike, and a root of squares, were they independent: None where that leaves more
    than ``APART`` open.
    """
    if rule.degrees is None:
        return None
    alike, independent = [], []
    for s, w, wanted, found in _sublayers(reading, rule, different):
        before = shares(s, w.rates, *rule.degrees, *wanted)
        after = shares(s, w.rates, *rule.degrees, *found)
        alike.append(sum(after) / sum(before))
        independent.append(math.hypot(*after) / math.hypot(*before))
    low, high = sorted((fmean(alike), fmean(independent)))
    return math.sqrt(low * high) if low and high / low <= APART else None


Sizes = tuple[float, dict[str, float]]  # α, and gains by role


def _sublayers(
    reading: Reading, rule: Wanted, different: Sequence[Difference]
) -> Iterator[tuple[Sublayer, WantedSublayer, Sizes, Sizes]]:
    """Every sublayer, what is wanted of it, its sizes as wanted and with the differences."""
    at: dict[int, list[Difference]] = {}
    for d in different:
        at.setdefault(d.index, []).append(d)
    for index, (s, w) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        own = at.get(index, [])
        gains = {m.role: w.gain(m) for m in s.matrices if not unjudged(m)}
        alpha = next((d.found for d in own if d.item == "alpha"), w.alpha)
        yield s, w, (w.alpha, gains), (alpha, gains | {d.item: d.found for d in own if d.matrix})
