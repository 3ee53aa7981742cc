"""Differences as a stack of the laboratory, whose ‖ΔF‖ is predicted in absolute size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import geometric_mean

from deepnet_theory.models.auditing.differences import EXACT, SIMILAR, Difference, unjudged
from deepnet_theory.numeric.case import NEAR, Case
from deepnet_theory.numeric.one_sublayer import (
    distance_from_identity,
    predict_model_update,
)
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.results.audit import Wanted
from deepnet_theory.spec.results.reading import Reading
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.sublayer import Role, sublayer

SIZES = Settings(seeds=2, draws=1, device="cpu")  # two cases of equal draws: the ratio is near
MOST = 8  # predictions in one audit of one stack: some tenths of a second each, in all below 3 s

Rows = tuple[RuleEntry, ...]


class Predictor:
    r"""‖ΔF‖ of a reading with differences over ‖ΔF‖ of the rule, each predicted.

    Both are stacks of the model's depth, sublayers and placement in the laboratory's width, with
    the same draws; the model's is the rule's with these gains, α and norms as they were found.
    :meth:`ratio` is None where that cannot be said with constants: layers that differ among
    themselves, a stream that is multiplied without a norm or starts far from
    rms 1, matrices that were not judged, a stack far from the identity; and beyond ``MOST``
    predictions (of two stacks, half as many).
    """

    def __init__(self, reading: Reading, rule: Wanted) -> None:
        self._reading, self._rule = reading, rule
        self._seen: dict[tuple[str, Rows], float | None] = {}

    def ratio(self, different: Sequence[Difference]) -> float | None:
        """What these differences multiply ‖ΔF‖ with, or None."""
        if self._usual is None:
            return None
        try:
            found = self._size(*self._expressed(different))
        except (InputError, Refusal):
            return None
        return None if found is None else found / self._usual

    @cached_property
    def distance(self) -> float | None:
        """S·r² under the rule, None where constants do not say it."""
        try:
            where, rows = self._expressed(())
            return max(distance_from_identity(self._case(where, rows)).whole)
        except (InputError, Refusal):
            return None

    @cached_property
    def _usual(self) -> float | None:
        """The rule's own."""
        try:
            return self._size(*self._expressed(()))
        except (InputError, Refusal):
            return None

    def _size(self, where: str, rows: Rows) -> float | None:
        if (where, rows) not in self._seen:
            if len(self._seen) == MOST // len(self._reading.stacks):
                return None
            self._seen[where, rows] = self._predicted(where, rows)
        return self._seen[where, rows]

    def _predicted(self, where: str, rows: Rows) -> float | None:
        case = self._case(where, rows)
        if not max(distance_from_identity(case).whole) <= NEAR:
            return None
        size = predict_model_update(case).mean
        return size if 0 < size < math.inf else None

    def _case(self, where: str, rows: Rows) -> Case:
        assert self._rule.selection is not None
        selection = replace(self._rule.selection, placement=where)
        parts = selection.the_stack.parts
        depth = {
            part.depth: layers
            for part, layers in zip(parts, self._reading.layers.values(), strict=True)
        }
        return Case(selection, Rule(self._rule.name, rows), depth, SIZES)

    def _expressed(self, different: Sequence[Difference]) -> tuple[str, Rows]:
        """The placement and the entries of a rule that is like the model in these differences."""
        reading, rule = self._reading, self._rule
        if rule.selection is None:
            raise Refusal("the rule is of no stack of the laboratory")
        found = {d.index for d in different if d.item == "norms"}
        around = {
            (s.around if index in found else wanted.norms)
            for index, (s, wanted) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True))
        }
        alphas: list[float] = []
        rows = []
        kinds = dict.fromkeys((s.stack, s.kind) for s in reading.sublayers)
        parts = dict(zip(reading.stacks, rule.selection.the_stack.parts, strict=True))
        for stack, kind in kinds:
            at = [i for i, s in enumerate(reading.sublayers) if (s.stack, s.kind) == (stack, kind)]
            own = [d for d in different if d.index in at]
            alpha = self._common("alpha", at, own)
            roles = [m.name for m in sublayer(kind).matrices]
            gains = {role: self._common(role, at, own) for role in roles}
            alphas.append(alpha)
            told = tuple((role, repr(gain)) for role, gain in gains.items())
            rate = repr(self._rate(at))
            rows.append(RuleEntry(parts[stack].name, kind, repr(alpha), "1", rate, gains=told))
        multiplied = any(not math.isclose(a, 1, rel_tol=EXACT) for a in alphas)
        (norms,) = around if len(around) == 1 else (frozenset[str](),)
        if not norms or ("sum" not in norms and self._runs_away()):
            raise Refusal("constants do not say these norms, or the size of this stream")
        return _placement(norms, multiplied), tuple(rows)

    def _common(self, item: str, at: Sequence[int], different: Sequence[Difference]) -> float:
        """α or the gain of one role in the sublayers of one kind, of which all have it alike."""
        found = {d.index: d.found for d in different if d.item == item}
        values = [found.get(i, wanted) for i in at for wanted in self._wanted(item, i)]
        one_each = len(values) == len(at) and all(0 < v < math.inf for v in values)
        if not one_each or max(values) > SIMILAR * min(values):
            raise Refusal(f"layers differ in {item}, or it was not judged in each")
        return geometric_mean(values)

    def _wanted(self, item: str, index: int) -> Iterator[float]:
        wanted = self._rule.sublayers[index]
        if item == "alpha":
            yield wanted.alpha
        else:
            matrices = self._reading.sublayers[index].matrices
            yield from (wanted.gain(m) for m in matrices if m.role == item and not unjudged(m))

    def _rate(self, at: Sequence[int]) -> float:
        """κ, of the scaled matrices."""
        scaled = [
            m.name
            for m in sublayer(self._reading.sublayers[at[0]].kind).matrices
            if m.role is Role.SCALED
        ]
        rates = {self._rule.sublayers[i].rates.get(role, 1.0) for i in at for role in scaled}
        if len(rates) > 1:
            raise Refusal("scaled matrices of several learning rates")
        return max(rates, default=1.0)

    def _runs_away(self) -> bool:
        far = any(not 0.5 < size < 2 for size in self._reading.stream.values())
        return far or any(s.stream != 1 for s in self._reading.sublayers)


def _placement(norms: frozenset[str], multiplied: bool) -> str:
    """The placement with these norms; with a residual multiplier where one is not 1."""
    for name, where in placements().items():
        if where.norms == norms and (not multiplied or "alpha" in where.expression.names):
            return name
    raise Refusal("no placement has these norms")
