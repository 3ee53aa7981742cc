r"""A model that was read as a stack of the laboratory, and what differences do to ‖ΔF‖.

It is predicted where constants say the differences, else by the first order.
The first order holds near the identity; beyond it, and for models that no rule has a law for, no
number is given.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from statistics import fmean, geometric_mean
from typing import NamedTuple

from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.placement import placements
from deepnet_theory.definitions.reading import Reading, Sublayer, described
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.subject import (
    EXACT,
    INSIDE,
    Difference,
    Wanted,
    WantedSublayer,
    at,
    gain,
    norms_of,
    unjudged,
)
from deepnet_theory.definitions.sublayer import Role, one_expert, sublayer
from deepnet_theory.laboratory.case import NEAR, Case
from deepnet_theory.laboratory.one_sublayer import (
    distance_from_identity,
    predict_model_update,
)
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.models.factory import Factory
from deepnet_theory.models.reading import read
from deepnet_theory.sizes import laws
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.wanted import selection_of

SIZES = Settings(seeds=2, draws=1, device="cpu")  # two cases of equal draws: the ratio is near
SIMILAR = 1.25  # layers whose ratios are within this factor differ alike
MOST = 8  # predictions in one audit: some tenths of a second each, in all below 3 s

Entries = tuple[RuleEntry, ...]


class Effect(NamedTuple):
    """What ‖ΔF‖ is multiplied with, and whether that is a ratio of two predictions."""

    times: float | None = None
    predicted: bool = False


class Sizes(NamedTuple):
    """One sublayer as a rule wants it, or with differences: norms, α, the gains of each role."""

    norms: frozenset[str]
    alpha: float
    gains: dict[str, list[float]]  # of the matrices that are judged, those that differ last

    @property
    def by_role(self) -> dict[str, float]:
        """One gain of each role, one that differs where any does."""
        return {role: gains[-1] for role, gains in self.gains.items()}


def sizes_of(
    reading: Reading, rule: Wanted, different: Collection[Difference] = ()
) -> Iterator[Sizes]:
    """Every sublayer with these differences, all else as wanted."""
    for index, (s, w) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        here = [d for d in different if d.index == index]
        changed = {id(d.matrix): d.found for d in here if d.matrix}
        judged = [m for m in s.matrices if not unjudged(m)]
        gains: dict[str, list[float]] = {m.role: [] for m in judged}
        for m in sorted(judged, key=lambda m: id(m) in changed):
            gains[m.role].append(changed.get(id(m), w.gain(m)))
        moved = any(d.item == "norms" for d in here)
        alpha = next((d.found for d in here if d.item == "alpha"), w.alpha)
        yield Sizes(s.around if moved else w.norms - {INSIDE}, alpha, gains)


def stack_like(factory: Factory, depth: int, stepped: Selection, settings: Settings) -> Case:
    """The stack of the laboratory that is like the factory's model, ``stepped`` as a selection.

    Raises :class:`Refusal` where there is none.
    """
    reading = read(factory.seeded(settings.seed, depth))
    chosen = selection_of(reading, "sgd")
    chosen = replace(chosen, optimizer=stepped.optimizer, update=stepped.update)
    return Effects(reading, _as_read(reading, chosen)).stack(settings)


def _as_read(reading: Reading, selection: Selection) -> Wanted:
    """A model's own norms, α and gains as a rule, of the stack that it was read as."""
    rows = []
    for s in reading.sublayers:
        if s.learnt:
            raise Refusal(f"{at(s)} is multiplied by {s.learnt}, which is learnt")
        gains: dict[str, list[float]] = {}
        for m in s.matrices:
            if not unjudged(m):
                gains.setdefault(m.role, []).append(gain(m)[0])
        means = {role: math.sqrt(fmean(g * g for g in each)) for role, each in gains.items()}
        rows.append(WantedSublayer(norms_of(s), s.alpha, means))
    return Wanted("the model", "as it was read", "", tuple(rows), selection=selection)


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
        self._usual = [*sizes_of(reading, rule)]
        self._known: dict[tuple[str, str, str, Entries], float | None] = {}

    def stack(self, settings: Settings) -> Case:
        """The stack of the laboratory that is like the model under the rule, in these settings.

        The activation is the model's where it is known. Raises :class:`Refusal` where constants do
        not say the stack.
        """
        inside, *others = self._ranges
        if others:
            raise Refusal(f"its layers differ: {self._reading.said_ranges()}")
        return self._case(inside, self._usual, settings)

    def of(self, different: Collection[Difference]) -> Effect:
        """That of these differences together, all else as wanted."""
        now = [*sizes_of(self._reading, self._rule, different)]
        usual = self._size(self._usual)
        if usual is not None and (size := self._size(now)) is not None:
            return Effect(size / usual, predicted=True)
        # a multiplier at 0 lets no matrix move the output, and moves it itself
        zero = any(self._reading.sublayers[d.index].branch == 0 for d in different)
        if not zero and not any(d.item in ("norms", "learnt") for d in different):
            with suppress(ValueError, ZeroDivisionError):  # α is 0, or a law divides by a size of 0
                if self._near(now):
                    return Effect(first_order(self._reading, self._rule, self._usual, now))
        return Effect()

    def _near(self, now: Sequence[Sizes]) -> bool:
        r"""Whether S·r² is small under the rule and with the differences.

        Under the rule it is measured; a branch's r is then as its P/α.
        """
        if self._distance is None:
            return False
        squares = []
        for s, wanted, other in zip(self._reading.sublayers, self._usual, now, strict=True):
            size, changed = branch_size(s, wanted), branch_size(s, other)
            if not size or not math.isfinite(changed / size):
                return False
            squares.append((changed / size) ** 2)
        return self._distance * max(1.0, fmean(squares)) <= NEAR

    @cached_property
    def _distance(self) -> float | None:
        """S·r² under the rule, None where constants do not say it."""
        with suppress(InputError, Refusal):
            cases = (self._case(inside, self._usual) for inside in self._ranges)
            return max(max(distance_from_identity(case).whole) for case in cases)
        return None

    @cached_property
    def _ranges(self) -> list[list[int]]:
        """The sublayers that stand in one placement, in layers of the same kinds."""
        rows = self._reading.sublayers
        ranges: dict[tuple[str, str, frozenset[str]], list[int]] = {}
        for (stack, _), group in groupby(
            range(len(rows)), lambda i: (rows[i].stack, rows[i].layer)
        ):
            layer = list(group)
            for norms in dict.fromkeys(self._rule.sublayers[i].norms for i in layer):
                alike = [i for i in layer if self._rule.sublayers[i].norms == norms]
                kinds = {rows[i].kind for i in alike}
                # for experts stands a dense branch, which may not be another's namesake
                twins = [i for i in alike if one_expert(kind := rows[i].kind) in kinds - {kind}]
                for each in ([i for i in alike if i not in twins], twins):
                    if each:
                        key = (stack, self._described(each), norms)
                        ranges.setdefault(key, []).extend(each)
        stacks = len(self._reading.stacks)
        if stacks > 1 and len(ranges) > stacks:
            raise Refusal("constants do not say what layers that differ do to an encoder")
        return list(ranges.values()) if stacks == 1 else [[*range(len(rows))]]

    def _described(self, inside: Sequence[int]) -> str:
        return described((self._reading.sublayers[i] for i in inside), ",")

    def _size(self, rows: Sequence[Sizes]) -> float | None:
        """‖ΔF‖ at these sizes as predicted, None where it cannot be said."""
        with suppress(Refusal):
            predicted = [(self._predicted(inside, rows), len(inside)) for inside in self._ranges]
            sizes = [size * count for size, count in predicted if size is not None]
            if len(sizes) == len(predicted):
                return sum(sizes) / len(rows)
        return None

    def _predicted(self, inside: list[int], rows: Sequence[Sizes]) -> float | None:
        """That of a stack of one range's layers alone."""
        with suppress(InputError, Refusal):
            case = self._case(inside, rows)
            where, activation = str(case.selection.placement), case.settings.activation
            like = (str(case.selection.layer), where, activation, case.rule.entries)
            if like not in self._known and len(self._known) < MOST:
                size = None
                distance = distance_from_identity(case)
                if max(distance.whole) <= NEAR:
                    size = predict_model_update(case, distance.growth).mean
                self._known[like] = size if size and 0 < size < math.inf else None
            return self._known.get(like)
        return None

    def _case(self, inside: list[int], rows: Sequence[Sizes], settings: Settings = SIZES) -> Case:
        """The stack of the laboratory that is like the sublayers of one range at these sizes."""
        reading, given = self._reading, self._rule.selection
        if given is None:
            raise Refusal("the rule is of no stack of the laboratory")
        parts = dict(zip(reading.stacks, given.the_stack.parts, strict=True))
        groups: dict[tuple[str, str], list[int]] = {}
        for i in inside:
            s = reading.sublayers[i]
            groups.setdefault((s.stack, s.kind), []).append(i)
        entries = []
        for (stack, kind), alike in groups.items():
            alpha = self._common("alpha", ([rows[i].alpha] for i in alike))
            gains = tuple(
                (m.name, repr(self._gain(kind, m.name, [rows[i] for i in alike])))
                for m in sublayer(one_expert(kind)).matrices
            )
            rate = repr(self._rate(kind, alike))
            entry = RuleEntry(parts[stack].name, one_expert(kind), repr(alpha), "1", rate)
            entries.append(replace(entry, gains=gains))
        norms, *others = {rows[i].norms for i in inside}
        if others:
            raise Refusal("constants do not say norms that stand in several ways")
        if "sum" not in norms and self._runs_away(inside):
            sizes = ", ".join(f"{size:.3g}" for size in reading.stream.values())
            raise Refusal(
                f"no norm stands on its stream, which starts at rms {sizes} or is multiplied: the "
                "stacks of the laboratory start at 1"
            )
        multiplied = any(not math.isclose(float(e.alpha), 1, rel_tol=EXACT) for e in entries)
        selection = replace(given, placement=_placement(norms, multiplied, given.placement),
                            layer=given.layer and one_expert(given.layer))  # fmt: skip
        layers = list(reading.layers.values())
        if len(layers) == 1:
            first = reading.sublayers[inside[0]].layer
            layer = [i for i in inside if reading.sublayers[i].layer == first]
            selection = replace(selection, layer=one_expert(self._described(layer)))
            layers = [round(len(reading.sublayers) / len(layer))]
        depths = zip(selection.the_stack.depths, layers, strict=True)
        between = {reading.sublayers[i].activation for i in inside} - {""}
        if len(between) > 1:
            raise Refusal("layers of several activations")
        if between:
            settings = replace(settings, activation=between.pop())
        return Case(selection, Rule(self._rule.name, tuple(entries)), dict(depths), settings)

    def _gain(self, kind: str, role: str, rows: Sequence[Sizes]) -> float:
        """The gain of one role in all of these rows; of one matrix, unless it may have several."""
        s = sublayer(kind)
        several = s.experts > 1 or role in {m.name for m in s.unscaled}
        if not several and any(len(row.gains.get(role, ())) > 1 for row in rows):
            raise Refusal(f"{role} was not judged in each")
        return self._common(role, (row.gains.get(role, []) for row in rows))

    def _common(self, item: str, rows: Iterable[list[float]]) -> float:
        """α or a gain in the sublayers of one kind, all alike."""
        each = list(rows)
        values = [v for row in each for v in row]
        if not all(each) or not all(0 < v < math.inf for v in values):
            raise Refusal(f"{item} was not judged in each, or has no size")
        if max(values) > SIMILAR * min(values):
            raise Refusal(f"layers differ in {item}")
        return geometric_mean(values)

    def _rate(self, kind: str, inside: Sequence[int]) -> float:
        """κ, of the scaled matrices; of experts, as one dense branch in their place steps.

        It has E times the gradient of one expert. Where tokens push an expert each its own way, as
        they do at the start, each is stepped E/k times as far.
        """
        p = self._rule.degrees[0] if self._rule.degrees else 0.0
        scaled = [m.name for m in sublayer(kind).matrices if m.role is Role.SCALED]
        rates = {self._rule.sublayers[i].rates.get(role, 1.0) for i in inside for role in scaled}
        if len(rates) > 1:
            raise Refusal("scaled matrices of several learning rates")
        return max(rates, default=1.0) * math.pow(sublayer(kind).chosen, -p)

    def _runs_away(self, inside: Sequence[int]) -> bool:
        far = any(not 0.5 < size < 2 for size in self._reading.stream.values())
        return far or any(self._reading.sublayers[i].stream != 1 for i in inside)


def _placement(norms: frozenset[str], multiplied: bool, usual: str) -> str:
    """The placement with these norms; with a residual multiplier where one is not 1."""
    for name, where in sorted(placements().items(), key=lambda item: item[0] != usual):
        has_alpha = not multiplied or "alpha" in where.expression.names
        if where.norms == norms and not where.learnt and has_alpha:
            return name
    raise Refusal("no placement has these norms")


# ---- the first order ----

APART = 1.3  # what two ways to add may differ by where a number is given


def branch_size(s: Sublayer, at: Sizes) -> float:
    """P/α, proportional to a branch's size over its stream's; P is 1 before a norm."""
    return (1.0 if "output" in s.around else _size(s, at.by_role)) / at.alpha


def _size(s: Sublayer, gains: Mapping[str, float]) -> float:
    """P, the gains that the branch feels."""
    size = laws.branch(sublayer(s.kind)).size
    assert size is not None
    return _at(size, gains)


def _at(size: Monomial, gains: Mapping[str, float]) -> float:
    """A size at these gains, which may be 0; a matrix that was not judged has 1."""
    return math.prod(math.pow(gain, size.exponent(role)) for role, gain in gains.items())


def shares(
    s: Sublayer, rates: Mapping[str, float], p: float, q: float, sizes: Sizes
) -> list[float]:
    r"""What one update of each of a sublayer's matrices moves the output by, in orders.

    .. math:: \kappa_i \Bigl(\frac{P_i}{\alpha}\Bigr)^{1+p} \beta_i^q, \qquad
              P_i = \prod_{j \ne i} \beta_j

    where no norm stands behind the matrix: one takes the branch's size away, or its own, but not a
    gradient's.
    """
    moved, gains = laws.branch(sublayer(s.kind)).moved, sizes.by_role
    divided = sizes.alpha * (_size(s, gains) if "output" in s.around else 1.0)
    return [
        rates.get(role, 1.0)
        * math.pow(_at(moved[role].size, gains) / divided, 1 + p)
        * math.pow(gain, q)
        for role, gain in gains.items()
    ]


def first_order(
    reading: Reading, rule: Wanted, usual: Sequence[Sizes], now: Sequence[Sizes]
) -> float | None:
    """What other sizes multiply the stacks' ‖ΔF‖ after one update with.

    Layers add up. What a sublayer's own matrices do lies between a plain sum, were they to move
    the output alike, and a root of squares, were they independent: None where that leaves more
    than ``APART`` open.
    """
    if rule.degrees is None:
        return None
    alike, independent = [], []
    for s, w, wanted, other in zip(reading.sublayers, rule.sublayers, usual, now, strict=True):
        before = shares(s, w.rates, *rule.degrees, wanted)
        after = shares(s, w.rates, *rule.degrees, other)
        alike.append(sum(after) / sum(before))
        independent.append(math.hypot(*after) / math.hypot(*before))
    low, high = sorted((fmean(alike), fmean(independent)))
    return math.sqrt(low * high) if low and high / low <= APART else None
