"""What explicit sublayers show of an answer, leaf by leaf.

The sublayers are at the printed rule (:mod:`~deepnet_theory.proof.stack`). No entry of the table
of sizes enters: the rule alone, the sublayers' own formulas and the optimizer's own expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from deepnet_theory.definitions.expression import DEPTH, Number, evaluate, parts
from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.rule import closure
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role
from deepnet_theory.proof.explicit import SAME, Practised, degrees
from deepnet_theory.proof.facts import Fact, Leaf, Path_, Shown, compared, exactly, leaves
from deepnet_theory.proof.stack import (
    CONSTANT,
    DEPTHS,
    ExplicitSublayer,
    Parameter,
    Places,
    at_depths,
    places,
    power,
)
from deepnet_theory.proof.witness import Array
from deepnet_theory.sizes.monomial import ONE, Monomial, parse


def facts(selection: Selection, printed: Mapping[str, Any]) -> tuple[Fact, ...]:
    """A fact for every leaf of an answer's plain data, and for every leaf that it lacks."""
    try:
        shown = dict(AtRule(selection, printed).all())
    except InputError:  # constants that are not positive, or no formulas: nothing is seen at them
        shown = {}
    except ArithmeticError:
        raise Refusal(
            f"the update {selection.the_optimizer.update!r} is not finite on explicit matrices, "
            "where an entry of a gradient may be 0; no number beside the rule can be measured"
        ) from None
    return compared(leaves(printed), shown)


def convention(place: ExplicitSublayer) -> float:
    """What a route takes of the first-order terms: the probe one, the lemma their norms."""
    if place.selection.method == "probe":
        return 1 / len(place.orders)
    p, q = degrees(place.selection.the_optimizer)
    return float(len(place.sublayer.scaled) ** ((p + q - 1) / 2))


def value(text: str, depth: Mapping[str, int]) -> Shown:
    """The number of a formula at a depth."""
    number = evaluate(DEPTH.parse(text), **depth)
    return Shown(lambda stated: bool(np.isclose(stated, number)), "its formula", f"{number:.6g}")


# ---- an answer, with the explicit sublayers at its rule ----


class AtRule:
    """An answer's plain data with the explicit sublayers at its rule."""

    def __init__(self, selection: Selection, data: Mapping[str, Any]) -> None:
        self.selection, self.data = selection, data
        self.stack = places(selection, data["rule"], data["eta"])
        self.unit = Practised(selection.the_optimizer, *np.ones(2))
        # the witness measures powers of α and β: a placement's own numbers are constants beside
        nodes = parts(selection.the_placement.expression.root)
        self.free = any(isinstance(node, Number) and abs(node.value) != 1 for node in nodes)

    def members(self, part: str, kind: str) -> list[str]:
        """The sublayers of a part that one entry is of."""
        every = [name for of, name in self.stack if of == part]
        if kind == "*":
            return every
        rows = [name for name, of in self.data["consequences"][part].items() if "order-1" in of]
        own = [name for name in every if name == kind]
        return own or [name for name in every if name not in rows]

    def sized(self, values: Array, because: str) -> Shown:
        """A formula that has these values at every depth, up to a constant where that is free."""

        def agrees(stated: Leaf) -> bool:
            said = at_depths(stated)
            if not values.any() or not said.any():
                return not values.any() and not said.any()
            ratios = said / values
            level, tolerance = (ratios[0], CONSTANT) if self.free else (1.0, SAME)
            return bool(level > 0 and np.allclose(ratios, level, rtol=tolerance, atol=0))

        return Shown(agrees, because, ", ".join(f"{value:.6g}" for value in values[:3]))

    def kinds(self) -> Iterator[tuple[str, str, ExplicitSublayer]]:
        """Part, name and first member of every kind of sublayer: of one number of matrices."""
        for part, kinds in self.data["consequences"].items():
            for kind, sizes in kinds.items():
                if "order-1" in sizes:
                    yield part, kind, self.stack[part, self.members(part, kind)[0]]

    def state(self, places: Sequence[ExplicitSublayer]) -> str:
        """Whether an order of some of them grows or falls in a depth."""
        depths = self.selection.the_stack.depths
        powers = [power(size, d) for d in depths for place in places for size in place.orders]
        falls = "lazy" if min(powers) < -CONSTANT else "stable"
        return "unstable" if max(powers) > CONSTANT else falls

    # ---- leaf by leaf ----

    def all(self) -> Iterator[tuple[Path_, Shown]]:
        yield from self.rule("rule", self.stack, self.data["closure"])
        if entries := self.data.get("published"):
            stack = places(self.selection, entries, "1")
            yield from self.rule("published", stack, entries[0]["closure"])
        yield from self.consequences()
        for place in self.stack.values():
            for one in place.parameters:
                yield from self.parameter(one)
        yield ("in_depth",), Shown(
            lambda stated: self.tells_the_state(stated) and self.quotes(stated),
            "the orders at two depths", self.whole,
        )  # fmt: skip
        for index in range(len(self.data["remarks"])):
            yield ("remarks", str(index)), Shown(self.remark, "sizes that are printed", "")
        for part in self.far - {far[1] for far in map(FAR.match, self.data["remarks"]) if far}:
            yield ("remarks", part), Shown(False, "S*r^2 at two depths", "it grows")

    def rule(self, which: str, stack: Places, closed: str) -> Iterator[tuple[Path_, Shown]]:
        """α, β and κ, which meet the balance and the closure; ρ and ε of a norm at them."""
        depth, balanced, picked = self.data.get("depth"), list[bool](), set[str]()
        for entry in self.data[which]:
            part, kind = entry["stack"], entry["sublayer"]
            at, members = (which, f"{part}/{kind}"), self.members(part, kind)
            place = stack[part, members[0]]
            size = place.orders[0] * convention(place)
            met = self.is_level(size)
            if part not in picked or not place.selection.has_one_alpha(place.part):
                met, picked = met and self.is_closed(place, closed), picked | {part}
            balanced.append(met)
            words = f"the part changes the output by {size[0]:.6g} eta at every depth"
            for knob in ("alpha", "beta", "rate"):
                yield (*at, knob), Shown(met, "balance and closure there", words)
                if depth:
                    yield (*at, f"{knob}_value"), value(entry[knob], depth)
            yield (
                (*at, "rho"),
                self.sized(place.rho, "an update of a scaled matrix over the matrix"),
            )
            # the variance that falls in the deepest branch of the entry
            deepest = max((stack[part, name] for name in members), key=lambda p: len(p.orders))
            for where, variance in deepest.sizes.variances.items():
                if power(shown := deepest.at_knobs(variance), place.part.depth) < -CONSTANT:
                    because = "the variance that an explicit norm divides"
                    yield (*at, "norm_epsilon", where), self.sized(shown, because)
            if depth:
                for where, text in entry.get("norm_epsilon", {}).items():
                    yield (*at, "norm_epsilon_value", where), value(text, depth)
        if which == "rule":
            yield ("eta",), Shown(all(balanced), "every balance and closure", "")
            if depth:
                yield ("eta_value",), value(self.data["eta"], depth)

    def consequences(self) -> Iterator[tuple[Path_, Shown]]:
        for part, kind, place in self.kinds():
            rises = power(place.rho, place.part.depth) > CONSTANT
            falls = 1 / len(place.orders) - 1 if rises else 0.0
            found: dict[str, tuple[Array, str]] = {
                "initial-weight": (place.beta, "the rule's own constant"),
                "gradient": (place.scaled.step.gradient, "an explicit response"),
                "update": (place.scaled.update, "the optimizer's own expression"),
                "relative-update": (place.rho, "an update over the matrix"),
                "branch-weight": (place.weight, "one branch in place of another"),
                "aligned-sum": (place.aligned, "S such branches"),
                "self-consistency": (place.aligned * place.weight, "S r at random"),
                # where aligned steps have moved the branch by as much as itself
                "failing-rate": (place.rho**falls, "rho in depth"),
            }
            for k, size in enumerate(place.orders, start=1):
                found[f"order-{k}"] = size, f"{k} of a branch's matrices at once"
            at = ("consequences", part, kind)
            for name, (values, because) in found.items():
                yield (*at, name, "value"), self.sized(values, because)
            state = exactly(self.state([place]), "every order in depth")
            yield (*at, "failing-rate", "remark"), state

    def parameter(self, one: Parameter) -> Iterator[tuple[Path_, Shown]]:
        """A parameter's own numbers, and its share beside the scaled matrices'."""
        place, shares = one.place, one.share
        part, depth = place.part.name, place.part.depth
        at, rates = ("parameters", f"{part}/{place.sublayer.name}/{one.name}"), one.kappa
        growth = power(shares, depth) if one.moves else -1.0
        if growth > CONSTANT:
            rates = rates / shares
        if one.role is not Role.SCALED:
            share = ("consequences", part, place.sublayer.name, f"share-{one.name}")
            yield (*share, "value"), self.sized(shares, "S responses to such an update")
            standing = "equal" if abs(growth) < CONSTANT else "negligible"
            standing = "dominant" if growth > CONSTANT else standing
            yield (*share, "remark"), exactly(standing, "its share in depth")
        yield (*at, "gain"), self.sized(one.starts, "what the branch's own formula starts with")
        yield (*at, "rate"), self.sized(rates, "its share of order one where that grows")
        yield (*at, "epsilon"), self.epsilon(one)
        yield (*at, "weight_decay"), self.decay(one, rates)

    def epsilon(self, one: Parameter) -> Shown:
        """An ε that takes the same share of the update at every depth, as 1 does of sizes 1."""
        if not one.moves or "epsilon" not in self.selection.the_optimizer.practised.names:
            return self.sized(at_depths("1"), "it never moves, or nothing is added to it")

        def agrees(stated: Leaf) -> bool:
            said = at_depths(stated)
            taken = one.step.hidden(1e-6 * said)
            if not taken.any():  # a clamp that does not change a scale-free update
                taken = said / one.step.gradient
            unit = float(self.unit.hidden(1e-6)) or 1.0
            level = taken[0] if self.free else unit
            return bool(min(said) > 0 and np.allclose(taken, level, rtol=CONSTANT, atol=0))

        return Shown(agrees, "the share of the update that a small epsilon takes", "constant")

    def decay(self, one: Parameter, rates: Array) -> Shown:
        """A decay that takes the same share of a matrix at every depth; 0 for a vector."""
        if one.role not in MATRICES:
            return self.sized(at_depths("0"), "vectors do not decay")
        taken = one.place.eta * rates
        if one.moves:
            taken = taken * one.step.shrinks / self.unit.shrinks
        return self.sized(1 / taken, "the share of the matrix that one step's decay takes")

    # ---- balance and closure ----

    def is_level(self, size: Array) -> bool:
        """Whether a size is 1 at every depth, or constant where the constant is free."""
        return bool(np.allclose(size, size[0] if self.free else 1.0, rtol=SAME, atol=0))

    def is_closed(self, place: ExplicitSublayer, closed: str) -> bool:
        """Whether the constants meet the conditions of a closure."""
        at = zip(place.alpha, place.beta, place.rho, strict=True)
        names = [
            {"alpha": a, "beta": b, "rho": rho, "m": len(place.sublayer.scaled)} for a, b, rho in at
        ]
        return all(
            self.is_level(np.array([evaluate(one, **n) / evaluate(other, **n) for n in names]))
            for one, other in closure(closed).expressions
        )

    # ---- sentences: each formula in them is a number that is printed, and has its own fact ----

    @cached_property
    def whole(self) -> str:
        """The state of all kinds together."""
        return self.state([place for _, _, place in self.kinds()])

    def tells_the_state(self, stated: str) -> bool:
        """Its first word, whether to train with the rule, and what training needs besides."""
        stable, refused = self.whole == "stable", self.data.get("refused_for_training") or ""
        needs = self.selection.the_placement.training_condition
        return (
            stated.lower().startswith(f"{self.whole} in depth")
            and ("One learning rate works at every depth" in stated) == stable
            and ("No rule is recommended for training" in stated) == bool(refused)
            and bool(refused) == (not stable and self.selection.closure is None)
            and (not needs or (needs in stated) == stable)
        )

    @cached_property
    def far(self) -> set[str]:
        """The parts that leave the neighbourhood of the identity: their S·r² grows.

        Where no norm reads the sum the stream grows, and r² counts beside the stream:
        the sum of r²/(1 + l·r²) is a logarithm.
        """
        if not self.selection.the_placement.normalises_sum:
            return set()
        places = [(part, place.aligned * place.weight) for part, _, place in self.kinds()]
        depths = self.selection.the_stack.depths
        return {part for part, size in places for d in depths if power(size, d) > CONSTANT}

    @cached_property
    def printed(self) -> set[Monomial]:
        """Every size that is printed by itself."""
        found = {Monomial.of(depth) for depth in DEPTHS}
        for leaf in leaves(self.data).values():
            if isinstance(leaf, str) and " " not in leaf and formulas(leaf):
                found.add(parse(leaf))
        return found

    def quotes(self, stated: str) -> bool:
        """Whether every formula of a sentence is printed; ``N^(1/2)`` is a power alone."""
        powers = {size.without_number for size in self.printed}
        said = formulas(stated.replace(self.data.get("refused_for_training") or "", ""))
        return all(
            parse(f.replace("^", "**")) in (powers if "^" in f else self.printed) for f in said
        )

    def remark(self, stated: str) -> bool:
        """Sizes that are printed, a multiplier beside its inverse; or what the optimizer needs."""
        optimizer, said = self.selection.the_optimizer, formulas(stated)
        if (far := FAR.match(stated)) and far[1] not in self.far:
            return False
        if "the multiplier" in stated and parse(said[0]) * parse(said[1]) != ONE:
            return False
        if said:
            return self.quotes(stated)
        floor = max(optimizer.floors, default=0)
        return stated in (
            f"{optimizer.name}: {optimizer.mind}",
            f"holds where rms(theta) > {floor}",
        )


FAR = re.compile(r"the (\w+)'s S\*r\^2 grows")
FORMULA = re.compile(r"[\w*/^().+-]*\b[NM]\b[\w*/^().+-]*")


def formulas(sentence: str) -> list[str]:
    """The formulas in the depths that a sentence holds."""
    found = (text.rstrip(".") for text in FORMULA.findall(sentence))
    kept = (t[1:] if t.count("(") > t.count(")") else t for t in found)
    return [t[:-1] if t.count(")") > t.count("(") else t for t in kept]
