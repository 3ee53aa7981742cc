r"""The explicit sublayers at the constants that an answer prints, and what they show of sizes.

No entry of the table of sizes enters: the printed rule alone, the sublayers' own formulas and the
optimizer's own expression.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from deepnet_theory.definitions.expression import DEPTH, evaluate
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import Rule, RuleEntry, closure
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.proof.explicit import SAME, degrees, practised
from deepnet_theory.proof.stack import Depth, ExplicitStack, Moved, Place, explicit_stack

DEPTHS: tuple[Depth, ...] = (
    {"N": 6, "M": 4}, {"N": 10**4, "M": 700}, {"N": 10**8, "M": 10**6},
)  # fmt: skip
SHALLOW, DEEP = 10**3, 10**12  # a power of the depth is what lies between
CONSTANT = 1e-3  # a size that must not change with the depth, by a difference quotient
Leaf = Any
Shows = Callable[[Leaf], bool]


# ---- what is shown of one printed leaf ----


@dataclass(frozen=True)
class Shown:
    """What the explicit sublayers show of one leaf."""

    test: Shows | None  # None: no sublayer can show it
    because: str
    found: str

    def agrees(self, stated: Leaf) -> bool:
        """Whether a printed leaf is what is shown; False where it cannot be read."""
        try:
            return self.test is not None and self.test(stated)
        except (InputError, ArithmeticError, ValueError, TypeError):
            return False


def near(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def numbers(values: Sequence[float], because: str, *, up_to_constant: bool = False) -> Shown:
    """A formula that has these values at :data:`DEPTHS`."""

    def agrees(stated: Leaf) -> bool:
        said = [value_at(stated, depth) for depth in DEPTHS]
        if not any(values) or not any(said):
            return not any(values) and not any(said)
        ratios = [a / b for a, b in zip(said, values, strict=True)]
        level = ratios[0] if up_to_constant else 1.0
        if level <= 0:
            return False
        tolerance = CONSTANT if up_to_constant else SAME
        return all(abs(ratio / level - 1) <= tolerance for ratio in ratios)

    return Shown(agrees, because, ", ".join(f"{value:.6g}" for value in values))


def exactly(value: Leaf, because: str) -> Shown:
    return Shown(lambda stated: bool(stated == value), because, str(value))


def told(holds: bool, because: str, found: str) -> Shown:
    """What is decided before the leaf is read."""
    return Shown(lambda _: holds, because, found)


def grows(shallow: float, deep: float) -> bool:
    return deep > shallow * (1 + CONSTANT)


def power(sizes: Sequence[float]) -> float:
    """The exponent of a size between the two depths."""
    shallow, deep = sizes
    return math.log(deep / shallow) / math.log(DEEP / SHALLOW)


def value_at(text: str, depth: Depth) -> float:
    """A printed formula at a depth."""
    return float(evaluate(DEPTH.parse(text), **depth))


def value(text: str, depth: Depth) -> Shown:
    """The number of a formula at a depth."""
    number = value_at(text, depth)
    return Shown(lambda stated: near(stated, number), "the formula there", f"{number:.6g}")


# ---- sublayers at the printed rule ----


class AtRule:
    """An answer's plain data with the explicit sublayers at its rule."""

    def __init__(self, selection: Selection, data: Mapping[str, Any]) -> None:
        self.selection, self.data = selection, data
        self.stack = self.stack_of(data["rule"], data["eta"])

    def stack_of(
        self, entries: Iterable[Mapping[str, Any]], eta: str, **more: Any
    ) -> ExplicitStack:
        """The explicit sublayers at printed constants."""
        rows = (
            RuleEntry(e["stack"], e["sublayer"], e["alpha"], e["beta"], e["rate"]) for e in entries
        )
        return explicit_stack(replace(self.selection, **more), Rule("", tuple(rows), eta))

    def members(self, stack: ExplicitStack, part: str, kind: str) -> list[str]:
        """The sublayers of a part that one entry is of."""
        every = dict.fromkeys(s.name for s in stack.part(part).layer)
        if kind == "*":
            return list(every)
        rows = [e["sublayer"] for e in self.data["orders"] if e["stack"] == part]
        own = [name for name in every if name == kind]
        return own or [name for name in every if name not in rows]

    def places(
        self,
        part: str,
        name: str,
        depths: Sequence[Depth] = DEPTHS,
        stack: ExplicitStack | None = None,
    ) -> list[Place]:
        return [(stack or self.stack).at(part, name, depth) for depth in depths]

    def sized(self, values: Sequence[float], because: str) -> Shown:
        return numbers(values, because, up_to_constant=self.stack.numbered)

    def deep(
        self, stack: ExplicitStack, part: str, name: str, depth: Depth, layers: float
    ) -> Place:
        """A sublayer at a number of layers that solves an equation, and need not be whole."""
        there: dict[str, Any] = {**depth, stack.part(part).depth: layers}
        return stack.at(part, name, there)

    def ends(self, part: str, name: str, depth: str = "") -> list[Place]:
        """A sublayer at two depths, the other part's held."""
        symbol = depth or self.stack.part(part).depth
        return self.places(part, name, [{**DEPTHS[0], symbol: n} for n in (SHALLOW, DEEP)])

    def kinds(self) -> Iterator[tuple[str, str, list[str]]]:
        """Part, name and members of every kind of sublayer: those of one number of matrices."""
        for entry in self.data["orders"]:
            part, kind = entry["stack"], entry["sublayer"]
            yield part, kind, self.members(self.stack, part, kind)

    def failing(self, part: str, name: str) -> Shown:
        """The rate where aligned steps have moved the branch by as much as itself."""
        places, rises = self.places(part, name), grows(*(p.rho for p in self.ends(part, name)))
        inverse = 1 / places[0].degree - 1 if rises else 0
        return self.sized([p.rho**inverse for p in places], "rho at two depths")

    def powers(self, part: str, name: str) -> list[float]:
        """The exponents of every order, in every depth."""
        degree = self.places(part, name)[0].degree
        return [
            power([place.order(k) for place in self.ends(part, name, depth)])
            for depth in self.selection.the_stack.depths
            for k in range(1, degree + 1)
        ]

    def state(self, part: str, name: str) -> str:
        powers = self.powers(part, name)
        falls = "lazy" if min(powers) < -CONSTANT else "stable"
        return "unstable" if max(powers) > CONSTANT else falls

    def power_of(self, part: str, name: str, size: Callable[[Place], float]) -> str:
        """The powers of a size in the depths, as sentences write them."""
        powers = {
            depth: Fraction(
                power([size(p) for p in self.ends(part, name, depth)])
            ).limit_denominator(10**4)
            for depth in sorted(self.selection.the_stack.depths)
        }
        return "*".join(f"{depth}^({p})" for depth, p in powers.items() if p) or "1"

    @cached_property
    def whole(self) -> str:
        """The state of all kinds together."""
        states = {self.state(part, members[0]) for part, _, members in self.kinds()}
        return next((one for one in ("unstable", "lazy", "stable") if one in states), "")

    def every_parameter(self) -> Iterator[tuple[str, str, str, Role]]:
        """What a sublayer and its placement hold, as the witness has them."""
        bias = self.selection.the_norm.bias
        for part in self.selection.the_stack.parts:
            for sublayer in {s.name: s for s in part.layer}.values():
                for name, role in parameters_of(self.selection, sublayer):
                    if role is not Role.NORM_BIAS or bias:
                        yield part.name, sublayer.name, name, role


# ---- one parameter ----


def parameters_of(selection: Selection, sublayer: Sublayer) -> Iterator[tuple[str, Role]]:
    """The parameters of a branch, of its placement's norms, and its learnt multipliers."""
    placement = selection.the_placement
    yield from ((parameter.name, parameter.role) for parameter in sublayer.parameters)
    if "norm" in placement.expression.functions:
        yield from (("norm_gain", Role.NORM_GAIN), ("norm_bias", Role.NORM_BIAS))
    yield from ((name, Role.RESIDUAL_GAIN) for name in placement.learnt)


class Parameter:
    """What one update through a parameter does at the printed rule."""

    def __init__(self, seen: AtRule, part: str, sublayer: str, name: str, role: Role) -> None:
        self.seen, self.part, self.sublayer, self.name, self.role = seen, part, sublayer, name, role
        self.places = seen.places(part, sublayer)
        self.moved = self.moved_at(self.places)

    def moved_at(self, places: Iterable[Place]) -> list[Moved]:
        return [one for p in places if (one := p.moved_by(self.name, self.role)) is not None]

    @cached_property
    def ends(self) -> list[float]:
        """Its share at two depths; none where it does not move."""
        return [one.share for one in self.moved_at(self.seen.ends(self.part, self.sublayer))]

    @property
    def dominant(self) -> bool:
        return bool(self.ends) and grows(*self.ends)

    @property
    def shares(self) -> list[float]:
        return [one.share for one in self.moved] or [0.0] * len(DEPTHS)

    @property
    def starts(self) -> list[float]:
        return [place.starts_at(self.name, self.role) for place in self.places]

    @property
    def rates(self) -> list[float]:
        kappas = [place.kappa(self.role) for place in self.places]
        return (
            [k / s for k, s in zip(kappas, self.shares, strict=True)] if self.dominant else kappas
        )

    @property
    def standing(self) -> Shown:
        """Its share beside the scaled matrices' in words, with the multiplier that balances it."""
        falls = bool(self.ends) and self.ends[1] < self.ends[0] * (1 - CONSTANT)
        word = "dominant" if self.dominant else "negligible" if falls or not self.ends else "equal"

        def agrees(stated: Leaf) -> bool:
            found = re.fullmatch(
                r"(\w+)(?:; the learning-rate multiplier (.+?) (would balance|balances) it)?",
                stated,
            )
            if not self.ends:
                return bool(stated.startswith(f"{word}: its gradient is exactly zero"))
            if not found or found[1] != word or (found[2] is None) != (word == "equal"):
                return False
            inverse = self.seen.sized([1 / share for share in self.shares], "")
            return word == "equal" or (
                inverse.agrees(found[2])
                and found[3] == ("balances" if self.dominant else "would balance")
            )

        return Shown(agrees, "its share at two depths", word)

    @property
    def epsilon(self) -> Shown:
        """An ε that takes the same share of the update at every depth, as 1 does of sizes 1."""
        optimizer = self.seen.selection.the_optimizer
        if not self.moved or "epsilon" not in optimizer.practised.names:
            return numbers([1.0] * len(DEPTHS), "it never moves, or nothing is added to it")
        at_start = [practised(optimizer, m.gradient, m.size) for m in self.moved]
        unit = practised(optimizer, 1.0, 1.0).hidden(1e-6)

        def agrees(stated: Leaf) -> bool:
            said = [value_at(stated, depth) for depth in DEPTHS]
            if min(said) <= 0:
                return False
            taken = [p.hidden(1e-6 * e) for p, e in zip(at_start, said, strict=True)]
            if not any(taken):  # a clamp that a scale-free update does not feel
                taken = [e / m.gradient for e, m in zip(said, self.moved, strict=True)]
            level = taken[0] if self.seen.stack.numbered else unit or 1.0
            return all(abs(share / level - 1) < CONSTANT for share in taken)

        return Shown(agrees, "the share of the update that a small epsilon takes", "constant")

    @property
    def decay(self) -> Shown:
        """A decay that takes the same share of a matrix at every depth; 0 for a vector."""
        optimizer, shrinks = self.seen.selection.the_optimizer, [1.0] * len(DEPTHS)
        if self.role not in MATRICES:
            return numbers([0.0] * len(DEPTHS), "vectors do not decay")
        if self.moved:
            unit = practised(optimizer, 1.0, 1.0).shrinks
            shrinks = [practised(optimizer, m.gradient, m.size).shrinks / unit for m in self.moved]
        taken = zip(self.places, self.rates, shrinks, strict=True)
        values = [1 / (place.eta * rate * shrunk) for place, rate, shrunk in taken]
        because = "the share of the matrix that one step's decay takes"
        return self.seen.sized(values, because)


# ---- balance and closure ----


class Conditions:
    """Whether printed constants meet the balance and the conditions of their closure."""

    def __init__(self, stack: ExplicitStack, closed: str) -> None:
        self.stack, self.closure = stack, closure(closed)
        self.picked: set[str] = set()

    def of(self, part: str, members: Sequence[str]) -> tuple[bool, str]:
        places = [self.stack.at(part, members[0], depth) for depth in DEPTHS]
        balances = [place.order(1) * self.convention(place) for place in places]
        level = balances[0] if self.stack.numbered else 1.0
        met = all(near(balance, level) for balance in balances)
        one_alpha = self.stack.selection.has_one_alpha(self.stack.part(part))
        if part not in self.picked or not one_alpha:
            self.picked.add(part)
            met = met and all(self.is_met(places, sides) for sides in self.closure.expressions)
        return met, f"the part changes the output by {balances[0]:.6g} eta at every depth"

    def convention(self, place: Place) -> float:
        """What a route takes of the first-order terms: the probe one, the lemma their norms."""
        selection, matrices = self.stack.selection, len(place.sublayer.scaled)
        if selection.method == "probe":
            return 1 / place.degree
        p, q = degrees(selection.the_optimizer)
        return float(matrices ** ((p + q - 1) / 2))

    def is_met(self, places: Sequence[Place], sides: tuple[Any, Any]) -> bool:
        ratios = []
        for place in places:
            (alpha, beta), matrices = place.knobs, len(place.sublayer.scaled)
            known = {"alpha": alpha, "beta": beta, "m": matrices, "rho": place.rho}
            ratios.append(float(evaluate(sides[0], **known) / evaluate(sides[1], **known)))
        level = ratios[0] if self.stack.numbered else 1.0
        return all(near(ratio, level) for ratio in ratios)
