r"""Every number that an answer prints, against an explicit sublayer.

The answer comes from the algebra of sizes, and a second formula would make the same error twice. So
each leaf of the printed data has one fact. A fact knows where the leaf is printed and the explicit
sublayers (:mod:`~deepnet_theory.proof.explicit`) at the printed rule, and nothing of the table.
A leaf without a fact is REFUTED, and so is a fact whose leaf is not printed: a row that is missing,
or that should not be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.definitions.rule import COMPLETE
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role
from deepnet_theory.proof.explicit import SAME
from deepnet_theory.proof.remarks import remarked
from deepnet_theory.proof.seen import (
    CONSTANT,
    DEEP,
    DEPTHS,
    SHALLOW,
    AtRule,
    Conditions,
    Leaf,
    Parameter,
    Shown,
    Shows,
    exactly,
    grows,
    power,
    told,
    value,
)
from deepnet_theory.proof.stack import ExplicitStack, explicit_stack
from deepnet_theory.sizes.exponents import rival_rules
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.table import by_closure

# keys that name or describe; what they say of a number, the number's own fact says
LABELS = frozenset({
    "select", "schema", "meaning", "closure", "training_closure", "training_refused", "depth",
    "fixed_epsilon", "lost", "role",
})  # fmt: skip
# what tells one entry of a printed list from the others
KEYS = ("stack", "part", "sublayer", "name", "in", "share", "norm", "closure")
Path_ = tuple[str, ...]


@dataclass(frozen=True)
class Fact:
    """A printed leaf, where it is printed, and what the explicit sublayers show of it.

    ``stated`` is None where the leaf is missing. ``found`` says in words or numbers what was seen.
    """

    of: str
    stated: Leaf
    holds: bool | None
    because: str
    found: str

    @property
    def verdict(self) -> Verdict:
        """MEASURED or REFUTED; UNDECIDED where no sublayer can show it."""
        if self.holds is None:
            return Verdict.UNDECIDED
        return Verdict.MEASURED if self.holds else Verdict.REFUTED

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "of": self.of,
            "says": self.stated,
            "because": self.because,
            "measured": self.found,
            "verdict": self.verdict.value,
        }


def facts(selection: Selection, printed: Mapping[str, Any]) -> tuple[Fact, ...]:
    """A fact for every leaf of an answer's plain data, and for every leaf that it lacks."""
    stated = leaves(printed)
    try:
        shown = dict(_Facts(selection, printed).all())
    except InputError:  # constants that are not positive, or no formulas: nothing is seen at them
        shown = {}
    return tuple(_fact(path, stated, shown) for path in dict.fromkeys((*stated, *shown)))


def fact(of: str, stated: Leaf, seen: Shown) -> Fact:
    """What is shown of a leaf that is printed."""
    holds = None if seen.test is None else seen.agrees(stated)
    return Fact(of, stated, holds, seen.because, seen.found)


def _fact(path: Path_, stated: Mapping[Path_, Leaf], shown: Mapping[Path_, Shown]) -> Fact:
    of, leaf, seen = "/".join(path), stated.get(path), shown.get(path)
    if seen is None:
        return Fact(of, leaf, False, "no explicit sublayer shows it", "nothing")
    if path not in stated:
        return Fact(of, None, False, seen.because, seen.found)
    return fact(of, leaf, seen)


def leaves(data: Any, at: Path_ = ()) -> dict[Path_, Leaf]:
    """Every printed number and word by its path; entries of a list by what names them."""
    found: dict[Path_, Leaf] = {}
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key not in LABELS and not (at and at[0] != "consequences" and key in KEYS):
                found |= leaves(value, (*at, str(key)))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            named = isinstance(value, Mapping)
            name = "/".join(str(value[k]) for k in KEYS if k in value) if named else str(index)
            found |= leaves(value, (*at, name or str(index)))
    elif data is not None:
        found[at] = data
    return found


# ---- what explicit sublayers show, leaf by leaf ----


class _Facts(AtRule):
    """The facts of an answer, by the path of the leaf."""

    def all(self) -> Iterator[tuple[Path_, Shown]]:
        yield from self.rule("rule", self.data["closure"])
        yield from self.training()
        yield from self.consequences()
        yield from self.parameters()
        yield from self.orders()
        yield from self.norms()
        yield from self.predictions()
        yield from remarked(self, dict(self.norms()))

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
        complete = dict(by_closure(self.selection))[COMPLETE.name]
        if not self.data["training"] and not isinstance(complete, Refusal):
            yield ("training",), told(False, "the closure complete has a rule", COMPLETE.name)
        needs = self.selection.the_placement.training_condition
        if needs and self.data["training"]:
            agrees: Shows = lambda stated: stated == needs  # noqa: E731
            yield ("training_condition",), Shown(agrees, "as its placement says", needs)

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
                "self-consistency": ([p.independent for p in places], "S such branches, squared"),
            }
            for order in range(1, places[0].degree + 1):
                sizes = [place.order(order) for place in places]
                found[f"order-{order}"] = sizes, f"{order} of a branch's matrices at once"
            for name, (values, because) in found.items():
                yield (*at, name, "value"), self.sized(values, because)
                yield (*at, name, "remark"), exactly("", "nothing is said")
            yield (*at, "failing-rate", "value"), self.failing(part, members[0])
            state = self.state(part, members[0])
            yield (*at, "failing-rate", "remark"), exactly(state, "every order at two depths")
        for part, sublayer, name, role in self.every_parameter():
            if role is not Role.SCALED:
                row = Parameter(self, part, sublayer, name, role)
                share = ("consequences", part, sublayer, f"share-{name}")
                yield (*share, "value"), self.sized(row.shares, "S responses to such an update")
                yield (*share, "remark"), row.standing

    def orders(self) -> Iterator[tuple[Path_, Shown]]:
        for part, kind, members in self.kinds():
            at, places = ("orders", f"{part}/{kind}"), self.places(part, members[0])
            yield (*at, "state"), exactly(self.state(part, members[0]), "every order at two depths")
            yield (*at, "rho"), self.sized([p.rho for p in places], "an update over the matrix")
            for index in range(places[0].degree):
                sizes = [place.order(index + 1) for place in places]
                because = f"{index + 1} of a branch's matrices at once"
                yield (*at, "orders", str(index)), self.sized(sizes, because)
            yield (*at, "failing_rate"), self.failing(part, members[0])

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
        ends = self.places(part, deepest, [{**DEPTHS[0], stack.part(part).depth: n}
                                           for n in (SHALLOW, DEEP)], stack)  # fmt: skip
        places = self.places(part, deepest, stack=stack)
        for place in places[0].sizes.variances:
            variances = [p.variance(place) for p in ends]
            if variances[1] < variances[0] * (1 - CONSTANT):
                shown = [p.variance(place) for p in places]
                yield place, self.sized(shown, "the variance that an explicit norm divides")

    def norms(self) -> Iterator[tuple[Path_, Shown]]:
        """Every norm whose ε must fall under the rule to train with."""
        stack, entries = self.used()
        for entry in entries:
            part, kind = entry["stack"], entry["sublayer"]
            members = self.members(stack, part, kind)
            for place, shown in self.epsilons(stack, part, members):
                at = ("norm_epsilon", f"{part}/{kind}/{place}")
                yield (*at, "epsilon"), shown

    def used(self) -> tuple[ExplicitStack, Sequence[Mapping[str, Any]]]:
        """The rule that is trained with."""
        if self.selection.closure is not None or not self.data["training"]:
            return self.stack, self.data["rule"]
        entries, closed = self.data["training"], self.data["training_closure"]
        return self.stack_of(entries, "1", closure=closed), entries

    def predictions(self) -> Iterator[tuple[Path_, Shown]]:
        """The exponents of this rule and of others, each that of the matrix with the largest share.

        Each share is a power of the depth, while the slope of a sum of unlike powers is none of
        them at any finite depth. Of two parts cross-attentions amplify as independent ones,
        whatever the rule was balanced with.
        """
        stack, aligned = (
            explicit_stack(self.selection, self.stack.rule, crossings)
            for crossings in ("independent", "aligned")
        )
        rivals = {
            name: explicit_stack(self.selection, rule, "independent")
            for name, rule in rival_rules(self.selection).items()
        }
        parts = [part.name for part in self.selection.the_stack.parts]
        shares = ["all", *(parts if len(parts) > 1 else ())]
        for variable, share in product(self.selection.the_stack.depths, shares):
            at = ("predictions", f"{variable}/{share}")
            yield (*at, "exponent"), self.exponent(stack, variable, share)
            for name, rival in rivals.items():
                yield (*at, "rivals", name), self.exponent(rival, variable, share)
            if share == parts[0]:
                shown = self.exponent(aligned, variable, share)
                yield (*at, "rivals", "aligned cross-attentions"), shown

    def exponent(self, stack: ExplicitStack, variable: str, share: str) -> Shown:
        rows = [
            (part, sublayer, name, role)
            for part, sublayer, name, role in self.every_parameter()
            if role in MATRICES and share in ("all", part)
        ]
        depths = [{**DEPTHS[0], variable: layers} for layers in (SHALLOW, DEEP)]
        sizes = []
        for part, sublayer, name, role in rows:
            moved = [stack.at(part, sublayer, depth).moved_by(name, role) for depth in depths]
            if moved[0] and moved[1] and moved[0].share:
                sizes.append(power([one.share for one in moved if one]))
        far = any(
            grows(*(stack.at(part, sublayer, depth).independent for depth in depths))
            for part, sublayer, *_ in self.every_parameter()
        )
        several = len(self.selection.the_stack.parts) > 1 and self.selection.uses != "1"
        if far or several or not sizes:
            return Shown(None, "beyond the neighbourhood of the identity no sublayer shows it", "")
        largest = max(sizes)
        agrees: Shows = lambda stated: abs(float(Fraction(stated)) - largest) < SAME  # noqa: E731
        return Shown(agrees, "the largest power among the shares of all matrices", f"{largest:.6g}")
