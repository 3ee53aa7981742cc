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
from itertools import groupby
from statistics import fmean, geometric_mean
from typing import NamedTuple

from deepnet_theory.numeric.case import NEAR, Case
from deepnet_theory.numeric.one_sublayer import (
    distance_from_identity,
    predict_model_update,
)
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.results.reading import Reading, Sublayer, described
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.subject import EXACT, INSIDE, Difference, Wanted, WantedSublayer, unjudged
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
    the same draws and the model's activation, on the laboratory's text; the model's is the rule's
    with these gains, α and norms as they were found. Where layers differ in kind, each range of
    layers is such a stack, of as many sublayers as the model has, and counts by its share of them:
    under the rule every sublayer moves the output by its share, and what they do adds up. For
    experts stands one dense branch that steps as all of them together. Constants do not say sizes
    that vary by the layer, a stream that is multiplied without a norm or starts far from rms 1,
    matrices that were not judged, a stack far from the identity: then, and beyond ``MOST``
    predictions, the first order is asked.
    """

    def __init__(self, reading: Reading, rule: Wanted) -> None:
        self._reading, self._rule = reading, rule
        self._seen: dict[tuple[str, str, str, Rows], float | None] = {}

    def of(self, different: Sequence[Difference]) -> Effect:
        """That of these differences together, all else as wanted."""
        usual = self._size(())
        if usual is not None and (found := self._size(different)) is not None:
            return Effect(found / usual, predicted=True)
        # a multiplier at 0 lets no matrix move the output, and moves it itself
        zero = any(self._reading.sublayers[d.index].branch == 0 for d in different)
        if not zero and not any(d.item in ("norms", "learnt") for d in different):
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
            cases = (self._case(own, *self._expressed((), own)) for own in self._ranges)
            return max(max(distance_from_identity(case).whole) for case in cases)
        return None

    @cached_property
    def _ranges(self) -> list[list[int]]:
        """The sublayers that stand in one placement, in layers of the same kinds."""
        rows = list(zip(self._reading.sublayers, self._rule.sublayers, strict=True))
        found: dict[tuple[str, str, frozenset[str]], list[int]] = {}
        for (stack, _), layer in groupby(
            range(len(rows)), lambda i: (rows[i][0].stack, rows[i][0].layer)
        ):
            own = list(layer)
            for norms in dict.fromkeys(rows[i][1].norms for i in own):
                at = [i for i in own if rows[i][1].norms == norms]
                kinds = {rows[i][0].kind for i in at}
                # for experts stands a dense branch, which may not be another's namesake
                twins = [i for i in at if one_expert(kind := rows[i][0].kind) in kinds - {kind}]
                for each in ([i for i in at if i not in twins], twins):
                    if each:
                        found.setdefault((stack, self._described(each), norms), []).extend(each)
        stacks = len(self._reading.stacks)
        if stacks > 1 and len(found) > stacks:
            raise Refusal("constants do not say what layers that differ do to an encoder")
        return list(found.values()) if stacks == 1 else [[*range(len(rows))]]

    def _described(self, at: Sequence[int]) -> str:
        return described((self._reading.sublayers[i] for i in at), ",")

    def _size(self, different: Sequence[Difference]) -> float | None:
        """‖ΔF‖ with these differences as predicted, None where it cannot be said."""
        with suppress(InputError, Refusal):
            found = [(self._size_of(own, different), len(own)) for own in self._ranges]
            sizes = [size * count for size, count in found if size is not None]
            if len(sizes) == len(found):
                return sum(sizes) / len(self._reading.sublayers)
        return None

    def _size_of(self, own: list[int], different: Sequence[Difference]) -> float | None:
        """That of a stack of one range's layers alone."""
        with suppress(InputError, Refusal):
            where, rows = self._expressed(different, own)
            case = self._case(own, where, rows)
            like = (str(case.selection.layer), where, case.settings.activation, rows)
            if like not in self._seen and len(self._seen) < MOST:
                size = None
                if max(distance_from_identity(case).whole) <= NEAR:
                    size = predict_model_update(case).mean
                self._seen[like] = size if size and 0 < size < math.inf else None
            return self._seen.get(like)
        return None

    def _case(self, own: list[int], where: str, rows: Rows) -> Case:
        assert self._rule.selection is not None
        given = self._rule.selection
        selection = replace(given, placement=where, layer=given.layer and one_expert(given.layer))
        layers = list(self._reading.layers.values())
        if len(layers) == 1:
            first = self._reading.sublayers[own[0]].layer
            layer = [i for i in own if self._reading.sublayers[i].layer == first]
            selection = replace(selection, layer=one_expert(self._described(layer)))
            layers = [round(len(self._reading.sublayers) / len(layer))]
        depths = zip(selection.the_stack.depths, layers, strict=True)
        between = {self._reading.sublayers[i].activation for i in own} - {""}
        if len(between) > 1:
            raise Refusal("layers of several activations")
        settings = replace(SIZES, activation=between.pop()) if between else SIZES
        return Case(selection, Rule(self._rule.name, rows), dict(depths), settings)

    def _expressed(
        self, different: Sequence[Difference], inside: Sequence[int]
    ) -> tuple[str, Rows]:
        """The placement and the entries of a rule that is like the model in these differences.

        It speaks of the sublayers ``inside`` one range.
        """
        reading, rule = self._reading, self._rule
        if rule.selection is None:
            raise Refusal("the rule is of no stack of the laboratory")
        found = {d.index for d in different if d.item == "norms"}
        around = {
            reading.sublayers[i].around if i in found else rule.sublayers[i].norms - {INSIDE}
            for i in inside
        }
        alphas: list[float] = []
        rows = []
        parts = dict(zip(reading.stacks, rule.selection.the_stack.parts, strict=True))
        of = {i: (reading.sublayers[i].stack, reading.sublayers[i].kind) for i in inside}
        for stack, kind in dict.fromkeys(of.values()):
            at = [i for i in inside if of[i] == (stack, kind)]
            own = [d for d in different if d.index in at]
            alphas.append(alpha := self._common("alpha", at, own))
            gains = tuple(
                (m.name, repr(self._common(m.name, at, own)))
                for m in sublayer(one_expert(kind)).matrices
            )
            rate, part = repr(self._rate(kind, at)), parts[stack].name
            rows.append(RuleEntry(part, one_expert(kind), repr(alpha), "1", rate, gains=gains))
        multiplied = any(not math.isclose(a, 1, rel_tol=EXACT) for a in alphas)
        norms, *others = around
        if others or ("sum" not in norms and self._runs_away(inside)):
            raise Refusal("constants do not say these norms, or the size of this stream")
        return _placement(norms, multiplied), tuple(rows)

    def _common(self, item: str, at: Sequence[int], different: Sequence[Difference]) -> float:
        """α or the gain of one role in the sublayers of one kind, all alike."""
        values: list[float] = []
        for i in at:
            found = [d.found for d in different if (d.index, d.item) == (i, item)]
            wanted = self._wanted(item, i)
            own = sublayer(self._reading.sublayers[i].kind)
            several = own.experts > 1 or item in {m.name for m in own.unscaled}
            alone = len(wanted) == 1 or several
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
        """κ, of the scaled matrices; of experts, as one dense branch in their place steps.

        It has E times the gradient of one expert. Where tokens push an expert each its own way, as
        they do at the start, each is stepped E/k times as far.
        """
        p = self._rule.degrees[0] if self._rule.degrees else 0.0
        scaled = [m.name for m in sublayer(kind).matrices if m.role is Role.SCALED]
        rates = {self._rule.sublayers[i].rates.get(role, 1.0) for i in at for role in scaled}
        if len(rates) > 1:
            raise Refusal("scaled matrices of several learning rates")
        return max(rates, default=1.0) * math.pow(sublayer(kind).chosen, -p)

    def _runs_away(self, inside: Sequence[int]) -> bool:
        far = any(not 0.5 < size < 2 for size in self._reading.stream.values())
        return far or any(self._reading.sublayers[i].stream != 1 for i in inside)


def _placement(norms: frozenset[str], multiplied: bool) -> str:
    """The placement with these norms; with a residual multiplier where one is not 1."""
    for name, where in placements().items():
        if (
            where.norms == norms
            and not where.learnt
            and (not multiplied or "alpha" in where.expression.names)
        ):
            return name
    raise Refusal("no placement has these norms")


APART = 1.3  # what two ways to add may differ by where a number is given


def branch_size(s: Sublayer, alpha: float, gains: Mapping[str, float]) -> float:
    """P/α, proportional to a branch's size over its stream's; P is 1 before a norm."""
    return (1.0 if "output" in s.around else _size(s, gains)) / alpha


def _size(s: Sublayer, gains: Mapping[str, float]) -> float:
    """P, the gains that the branch feels."""
    size = laws.branch(sublayer(s.kind)).size
    assert size is not None
    return _at(size, gains)


def _at(size: Monomial, gains: Mapping[str, float]) -> float:
    """A size at these gains, which may be 0; a matrix that was not judged has 1."""
    return math.prod(math.pow(gain, size.exponent(role)) for role, gain in gains.items())


def shares(
    s: Sublayer, rates: Mapping[str, float], p: float, q: float,
    alpha: float, gains: Mapping[str, float],
) -> list[float]:  # fmt: skip
    r"""What one update of each of a sublayer's matrices moves the output by, in orders.

    .. math:: \kappa_i \Bigl(\frac{P_i}{\alpha}\Bigr)^{1+p} \beta_i^q, \qquad
              P_i = \prod_{j \ne i} \beta_j

    where no norm stands behind the matrix: one takes the branch's size away, or its own, but not a
    gradient's.
    """
    moved = laws.branch(sublayer(s.kind)).moved
    divided = alpha * (_size(s, gains) if "output" in s.around else 1.0)
    return [
        rates.get(role, 1.0)
        * math.pow(_at(moved[role].size, gains) / divided, 1 + p)
        * math.pow(gains[role], q)
        for role in gains
    ]


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
