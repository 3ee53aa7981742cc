"""What explicit sublayers show of an answer, leaf by leaf.

The sublayers stand at the printed rule (:mod:`~deepnet_theory.proof.stack`). No entry of the table
of sizes enters: the rule alone, the sublayers' own formulas and the optimizer's own expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from deepnet_theory.definitions.expression import evaluate
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.rule import COMPLETE, Rule, RuleEntry, closure
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.proof.explicit import degrees, practised
from deepnet_theory.proof.facts import (
    CONSTANT,
    DEEP,
    DEPTHS,
    SHALLOW,
    Fact,
    Leaf,
    Path_,
    Shown,
    Shows,
    compared,
    exactly,
    grows,
    leaves,
    near,
    numbers,
    power,
    told,
    value,
    value_at,
)
from deepnet_theory.proof.stack import Depth, ExplicitStack, Moved, Place
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.table import table


def facts(selection: Selection, printed: Mapping[str, Any]) -> tuple[Fact, ...]:
    """A fact for every leaf of an answer's plain data, and for every leaf that it lacks."""
    try:
        shown = dict(AtRule(selection, printed).all())
    except InputError:  # constants that are not positive, or no formulas: nothing is seen at them
        shown = {}
    return compared(leaves(printed), shown)


def two_depths(symbol: str) -> list[Depth]:
    """A small and a large depth, the other part's held."""
    return [{**DEPTHS[0], symbol: layers} for layers in (SHALLOW, DEEP)]


# ---- an answer, with the explicit sublayers at its rule ----


class AtRule:
    """An answer's plain data with the explicit sublayers at its rule."""

    def __init__(self, selection: Selection, data: Mapping[str, Any]) -> None:
        self.selection, self.data = selection, data
        self.stack = self.stack_of(data["rule"], data["eta"])
        self.sizes: list[Sequence[float]] = []  # those that a sentence may speak of

    def stack_of(
        self, entries: Iterable[Mapping[str, Any]], eta: str, **more: Any
    ) -> ExplicitStack:
        """The explicit sublayers at printed constants."""
        rows = (
            RuleEntry(e["stack"], e["sublayer"], e["alpha"], e["beta"], e["rate"]) for e in entries
        )
        return ExplicitStack(replace(self.selection, **more), Rule("", tuple(rows), eta))

    def members(self, stack: ExplicitStack, part: str, kind: str) -> list[str]:
        """The sublayers of a part that one entry is of."""
        every = dict.fromkeys(s.name for s in stack.part(part).layer)
        if kind == "*":
            return list(every)
        rows = [name for name, of in self.data["consequences"][part].items() if "order-1" in of]
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

    def ends(
        self, part: str, name: str, depth: str = "", stack: ExplicitStack | None = None
    ) -> list[Place]:
        """A sublayer at two depths, the other part's held."""
        return self.places(part, name, two_depths(depth or self.stack.part(part).depth), stack)

    def kinds(self) -> Iterator[tuple[str, str, list[str]]]:
        """Part, name and members of every kind of sublayer: those of one number of matrices."""
        for part, kinds in self.data["consequences"].items():
            for kind, sizes in kinds.items():
                if "order-1" in sizes:
                    yield part, kind, self.members(self.stack, part, kind)

    def failing(self, part: str, name: str) -> list[float]:
        """The rate where aligned steps have moved the branch by as much as itself."""
        places, rises = self.places(part, name), grows(*(p.rho for p in self.ends(part, name)))
        inverse = 1 / places[0].degree - 1 if rises else 0
        return [p.rho**inverse for p in places]

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

    # ---- leaf by leaf ----

    def all(self) -> Iterator[tuple[Path_, Shown]]:
        yield from self.rule("rule", self.data["closure"])
        yield from self.training()
        yield from self.consequences()
        yield from self.parameters()
        yield from self.sentences()

    def rule(self, which: str, closed: str) -> Iterator[tuple[Path_, Shown]]:
        """α, β and κ, which meet the balance and the closure; ρ and ε of a norm at them."""
        entries, eta = self.data[which], self.data["eta"]
        stack = self.stack
        if which != "rule":
            eta = self.data["eta"] if closed == self.data["closure"] else "1"
            stack = self.stack_of(entries, eta, closure=closed)
        conditions, balanced = Conditions(stack, closed), list[bool]()
        for entry in entries:
            part, kind = entry["stack"], entry["sublayer"]
            at, members = (which, f"{part}/{kind}"), self.members(stack, part, kind)
            met, words = conditions.of(part, members)
            balanced.append(met)
            for knob in ("alpha", "beta", "rate"):
                yield (*at, knob), told(met, "balance and closure there", words)
            rhos = [at.rho for at in self.places(part, members[0], stack=stack)]
            self.sizes.append(rhos)
            yield (*at, "rho"), self.sized(rhos, "an update of a scaled matrix over the matrix")
            for place, shown in self.epsilons(stack, part, members):
                yield (*at, "norm_epsilon", place), shown
            if depth := self.data.get("depth"):
                for knob in ("alpha", "beta", "rate"):
                    yield (*at, f"{knob}_value"), value(entry[knob], depth)
                for place, text in entry.get("norm_epsilon", {}).items():
                    yield (*at, "norm_epsilon_value", place), value(text, depth)
        if which == "rule":
            yield ("eta",), told(all(balanced), "every balance and closure", "")
            if depth := self.data.get("depth"):
                yield ("eta_value",), value(eta, depth)

    def training(self) -> Iterator[tuple[Path_, Shown]]:
        if self.data["training"]:
            yield from self.rule("training", self.data["training_closure"])
        if not self.data["training"] and self.has_complete():
            yield ("training",), told(False, "the closure complete has a rule", COMPLETE.name)
        needs = self.selection.the_placement.training_condition
        if needs and self.data["training"]:
            agrees: Shows = lambda stated: stated == needs  # noqa: E731
            yield ("training_condition",), Shown(agrees, "as its placement says", needs)

    def has_complete(self) -> bool:
        try:
            return bool(table(replace(self.selection, closure=COMPLETE.name)))
        except Refusal:
            return False

    def consequences(self) -> Iterator[tuple[Path_, Shown]]:
        for part, kind, members in self.kinds():
            at, places = ("consequences", part, kind), self.places(part, members[0])
            scaled = places[0].sublayer.scaled[0].name
            moved = [place.moved_by(scaled, Role.SCALED) for place in places]
            found: dict[str, tuple[Sequence[float], str]] = {
                "initial-weight": ([p.knobs[1] for p in places], "the rule's own constant"),
                "gradient": ([m.gradient for m in moved if m], "an explicit response"),
                "update": ([m.update for m in moved if m], "the optimizer's own expression"),
                "relative-update": ([p.rho for p in places], "an update over the matrix"),
                "branch-weight": ([p.weight for p in places], "one branch in place of another"),
                "aligned-sum": ([p.aligned for p in places], "S such branches"),
                "self-consistency": ([p.aligned * p.weight for p in places], "S r at random"),
            }
            for order in range(1, places[0].degree + 1):
                sizes = [place.order(order) for place in places]
                found[f"order-{order}"] = sizes, f"{order} of a branch's matrices at once"
            for name, (values, because) in found.items():
                yield (*at, name, "value"), self.sized(values, because)
                yield (*at, name, "remark"), exactly("", "nothing is said")
            fails = self.failing(part, members[0])
            self.sizes += [fails, found["self-consistency"][0]]
            yield (*at, "failing-rate", "value"), self.sized(fails, "rho at two depths")
            state = self.state(part, members[0])
            yield (*at, "failing-rate", "remark"), exactly(state, "every order at two depths")
        for part, sublayer, name, role in self.every_parameter():
            if role is not Role.SCALED:
                row = Parameter(self, part, sublayer, name, role)
                share = ("consequences", part, sublayer, f"share-{name}")
                if row.dominant:
                    self.sizes += [row.shares, [1 / size for size in row.shares]]
                yield (*share, "value"), self.sized(row.shares, "S responses to such an update")
                yield (*share, "remark"), row.standing

    def parameters(self) -> Iterator[tuple[Path_, Shown]]:
        for part, sublayer, name, role in self.every_parameter():
            row, at = (
                Parameter(self, part, sublayer, name, role),
                ("parameters", f"{part}/{sublayer}/{name}"),
            )
            yield (*at, "gain"), self.sized(row.starts, "what the branch's own formula starts with")
            yield (*at, "rate"), self.sized(row.rates, "its share of order one where that grows")
            yield (*at, "epsilon"), row.epsilon
            yield (*at, "weight_decay"), row.decay

    def epsilons(
        self, stack: ExplicitStack, part: str, members: list[str]
    ) -> Iterator[tuple[str, Shown]]:
        """The ε of every norm on what falls: the variance in the deepest branch of the entry."""
        branches = {s.name: s for s in stack.part(part).layer if s.name in members}
        deepest = max(branches.values(), key=lambda s: len(factors(s))).name
        ends, places = (at(part, deepest, stack=stack) for at in (self.ends, self.places))
        for place in places[0].sizes.variances:
            shown, variances = ([p.variance(place) for p in at] for at in (places, ends))
            self.sizes.append(shown)
            if variances[1] < variances[0] * (1 - CONSTANT):
                yield place, self.sized(shown, "the variance that an explicit norm divides")

    # ---- sentences: each formula in them is a size that explicit sublayers have ----

    def sentences(self) -> Iterator[tuple[Path_, Shown]]:
        """The state in depth, and every remark."""
        words = [*self.words()]
        yield ("in_depth",), Shown(
            lambda stated: self.tells_the_state(stated) and self.tells(stated),
            "the orders at two depths", self.whole,
        )  # fmt: skip
        for index in range(len(self.data["remarks"])):
            yield ("remarks", str(index)), Shown(
                lambda stated: stated in words or (bool(formulas(stated)) and self.tells(stated)),
                "found again", "; ".join(words),
            )  # fmt: skip

    def tells_the_state(self, stated: str) -> bool:
        """Its first word, and the rule that it recommends."""
        trained, closed = self.data["training"], self.data["training_closure"]
        same = trained == self.data["rule"]
        return (
            stated.lower().startswith(f"{self.whole} in depth")
            and ("One learning rate serves every depth" in stated) == bool(trained and same)
            and (f"take the closure {closed}." in stated) == bool(trained and not same)
            and (self.data.get("training_condition") or "") in stated
        )

    def tells(self, stated: str) -> bool:
        """Whether every formula of a sentence is one of the sizes; a depth may be named alone."""
        said = formulas(stated.replace(self.data.get("training_refused") or "", ""))
        return all(
            f in DEPTHS[0] or any(self.is_size(f, size) for size in self.sizes) for f in said
        )

    def is_size(self, formula: str, size: Sequence[float]) -> bool:
        """Whether a formula is a size; one that is written ``N^(1/2)`` is a power alone."""
        power = "^" in formula or self.stack.numbered
        seen = numbers(size, "", up_to_constant=power)
        return seen.agrees(formula.replace("^", "**"))

    def words(self) -> Iterator[str]:
        """Remarks without a formula of the depth: the floors, and the optimizer's own remark."""
        optimizer = self.selection.the_optimizer
        if optimizer.floors:
            yield f"holds where rms(theta) > {max(optimizer.floors)}"
        if optimizer.mind:
            yield f"{optimizer.name}: {optimizer.mind}"


FORMULA = re.compile(r"[\w*/^().+-]*\b[NM]\b[\w*/^().+-]*")


def formulas(sentence: str) -> list[str]:
    """The formulas in the depths that a sentence holds."""
    found = (text.rstrip(".") for text in FORMULA.findall(sentence))
    kept = (t[1:] if t.count("(") > t.count(")") else t for t in found)
    kept = (t[:-1] if t.count(")") > t.count("(") else t for t in kept)
    return list(kept)


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

        inverse = [1 / share for share in self.shares if share]

        def agrees(stated: Leaf) -> bool:
            said = formulas(stated)
            right = [f for f in said if inverse and self.seen.sized(inverse, "").agrees(f)]
            told = stated.startswith(word) and said == right
            return bool(told and (len(said) == (word != "equal") or not self.ends))

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
