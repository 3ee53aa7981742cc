"""A selection with the laws and the route that every part's balance shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import sympy as sp

from deepnet_theory.sizes.rule import Rule, solve_rule
from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    alpha,
    beta,
    eta,
    exponent_in,
    exponents,
    part_symbol,
    present,
    simplified,
)
from deepnet_theory.symbolic.laws.placement import PlacementLaw, placement_law, relative_update
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.routes.by_method import route_of
from deepnet_theory.symbolic.routes.route import Route


@dataclass(frozen=True)
class Setting:
    """What is talked about, and the laws that hold of it.

    ``sized`` is the rule by the algebra of sizes: it refuses where there is none, and says which
    closures' conditions pick it. What the rule is, the steps find by themselves.
    """

    selection: Selection

    @cached_property
    def sized(self) -> Rule:
        """The rule by sizes; raises :class:`Refusal` where there is none."""
        return solve_rule(self.selection)

    @cached_property
    def degrees(self) -> Update:
        """p and q of the optimizer."""
        return degrees(self.selection.the_optimizer)

    @cached_property
    def law(self) -> PlacementLaw:
        """The placement's law."""
        return placement_law(self.selection.the_placement)

    @property
    def closure(self) -> Closure:
        """The closure asked for, or the default."""
        return self.sized.closure

    @cached_property
    def route(self) -> Route:
        """The steps of the method, up to the increments of single sublayers."""
        return route_of(self.selection)


# ---- The sublayers of a part: which behave alike, how many there are, and what they add up to ----

if TYPE_CHECKING:
    from deepnet_theory.symbolic.rule.amplification import Amplification


rate = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob
SECTION = Section("The balance")
_layer = sp.Symbol("l", integer=True, positive=True)


@dataclass(frozen=True)
class Kind:
    """Sublayers of a part that share α and β, with what the route proved of one of them.

    ``increment`` (per η), ``weight`` and ``relative``, the update of a scaled matrix over the
    matrix (per η), are in the kind's own α and β; ``rate`` is κ, where the scaled matrices take
    a learning-rate multiplier.
    """

    name: str  # "*" where every sublayer of the part behaves alike
    sublayer: Sublayer
    alpha: sp.Symbol
    beta: sp.Symbol
    increment: sp.Expr
    weight: sp.Expr
    relative: sp.Expr
    rate: sp.Symbol
    rests_on: tuple[str, ...]  # the steps of increments and weights
    members: tuple[str, ...]  # the names of its sublayers

    @property
    def matrices(self) -> int:
        """m_s, the number of scaled matrices of a branch."""
        return len(self.sublayer.scaled)

    @property
    def constant(self) -> sp.Expr:
        """c of the increment c·r·ρ, what the route keeps of the number of matrices."""
        return simplified(self.increment / (self.weight * self.relative))

    @property
    def own(self) -> dict[sp.Symbol, sp.Symbol]:
        """α and β of one sublayer as the symbols of this kind."""
        return {alpha: self.alpha, beta: self.beta}

    def tag(self, part: str) -> str:
        """How steps that speak of this kind are called."""
        return part if self.name == "*" else f"{part}-{self.name}"


def kinds(part: Part, parts: int, route: Route, selection: Selection) -> tuple[Kind, ...]:
    """The kinds of sublayers of a part; one kind ``"*"`` where all behave alike."""
    distinct = list({s.name: s for s in part.layer}.values())
    alike = (
        len({(route.increments[s.name].value, route.weights[s.name].value) for s in distinct}) == 1
        and len({len(s.scaled) for s in distinct}) == 1
    )
    law, of = placement_law(selection.the_placement), degrees(selection.the_optimizer)
    groups = [distinct] if alike else [[s] for s in distinct]
    result = []
    for group in groups:
        name = "*" if alike else group[0].name
        one = "*" if selection.one_alpha else name
        own = {
            alpha: part_symbol("alpha", part.name, parts, one),
            beta: part_symbol("beta", part.name, parts, name),
        }
        increment, weight = route.increments[group[0].name], route.weights[group[0].name]
        result.append(
            Kind(
                name=name,
                sublayer=group[0],
                alpha=own[alpha],
                beta=own[beta],
                increment=increment.per_eta.xreplace(own),
                weight=weight.value.xreplace(own),
                relative=relative_update(group[0], law, of).xreplace(own),
                rate=part_symbol("kappa", part.name, parts, name),
                rests_on=tuple(route.increments[s.name].name for s in group),
                members=tuple(s.name for s in group),
            )
        )
    return tuple(result)


def sublayers(part: Part) -> sp.Expr:
    """S, in the part's depth."""
    return len(part.layer) * DEPTHS[part.depth]


def count_step(part: Part) -> Step:
    """S: the residual sublayers of all layers, counted."""
    depth = DEPTHS[part.depth]

    def listed(step: Step) -> bool:
        for layers in (1, 2, 5):
            stack = [sublayer for _ in range(layers) for sublayer in part.layer]
            at = {depth: sp.Integer(layers)}
            if not step.lhs.xreplace(at).doit() == step.rhs.xreplace(at) == len(stack):
                return False
        return True

    return SECTION.equal(
        f"sublayers-{part.name}",
        sp.Sum(sp.Add(*(1 for _ in part.layer)), (_layer, 1, depth)),
        sublayers(part),
        (
            f"S, the residual sublayers of the {part.name}: {', '.join(s.name for s in part.layer)}"
            f" in each of {part.depth} layers"
        ),
        source="Su, §Increment explosion",
        establishes=(_layer,),
        checks=(Check("the sublayers listed one by one", listed),),
    )


def sum_step(part: Part, of: tuple[Kind, ...], route: Route) -> Step:
    """What one step makes all listed sublayers of a part add to its output."""
    depth = DEPTHS[part.depth]
    per_layer = Counter({kind.name: sum(s.name in kind.members for s in part.layer) for kind in of})
    layer = sp.Add(*(per_layer[k.name] * eta * k.increment for k in of))
    total = sp.Add(*(per_layer[k.name] * depth * eta * k.increment for k in of))
    knobs = tuple(dict.fromkeys(symbol for k in of for symbol in (k.alpha, k.beta)))
    return SECTION.equal(
        f"sum-{part.name}",
        sp.Sum(layer, (_layer, 1, depth)),
        total,
        (
            f"the residual sublayers of the {part.name} add up, their changes being aligned (in "
            "independent directions they would add as a square root)"
        ),
        source="Su, §Increment explosion",
        uses=(
            f"sublayers-{part.name}",
            *dict.fromkeys(name for kind in of for name in kind.rests_on),
            *route.sums,
        ),
        assumptions=("aligned-updates", "near-identity"),
        establishes=(*knobs, eta),
        checks=(Check("added up sublayer by sublayer", _added_up(part, of, route)),),
    )


def added_up(
    part: Part, of: tuple[Kind, ...], route: Route, layers: int, at: dict[sp.Symbol, sp.Expr]
) -> sp.Expr:
    """The increments per η of an explicit stack, one sublayer after the other."""
    return sp.Add(*_each(part, of, route, layers, at))


def _each(
    part: Part, of: tuple[Kind, ...], route: Route, layers: int, at: dict[sp.Symbol, sp.Expr]
) -> Iterator[sp.Expr]:
    for sublayer in [s for _ in range(layers) for s in part.layer]:
        kind = next(k for k in of if sublayer.name in k.members)
        rate = at.get(kind.rate, sp.Integer(1))  # an update is proportional to its learning rate
        knobs = {alpha: at[kind.alpha], beta: at[kind.beta], eta: rate}
        yield route.increments[sublayer.name].value.xreplace(knobs)


def _added_up(part: Part, of: tuple[Kind, ...], route: Route) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        symbols = dict.fromkeys(symbol for k in of for symbol in (k.alpha, k.beta))
        at = {s: sp.Rational(3 + 2 * place, 7) for place, s in enumerate(symbols)}
        for layers in (1, 2, 3):
            expected = sp.N(added_up(part, of, route, layers, at), 40)
            values = {**at, eta: sp.Integer(1), DEPTHS[part.depth]: sp.Integer(layers)}
            for side in (step.lhs, step.rhs):
                value = sp.N(side.xreplace(values).doit(), 40)
                if abs(value - expected) > sp.Float("1e-30") * abs(expected):
                    return False
        return True

    return holds


# ---- one part of a stack at its rule ----


@dataclass(frozen=True)
class Balanced:
    """One part: its steps from the count of its sublayers to the solution."""

    part: Part
    sublayers: sp.Expr  # S, in the depth symbol
    kinds: tuple[Kind, ...]
    closure: Closure
    values: dict[sp.Symbol, sp.Expr]  # α's and β's (and η's factor), in the depth symbols
    steps: tuple[Step, ...] = ()
    amplification: Amplification | None = None

    @property
    def conclusion(self) -> tuple[str, ...]:
        """The steps that state the solution."""
        return tuple(s.name for s in self.steps if s.name.startswith("solution-"))

    @property
    def factor(self) -> sp.Expr:
        """What the later part multiplies this part's increment with."""
        return sp.Integer(1) if self.amplification is None else self.amplification.factor

    @property
    def rate(self) -> sp.Expr:
        """The learning rate's factor."""
        return self.values.get(rate, sp.Integer(1))

    def rate_of(self, kind: Kind) -> sp.Expr:
        """κ, the learning-rate multiplier of a kind's scaled matrices."""
        return self.values.get(kind.rate, sp.Integer(1))

    @property
    def upstream(self) -> sp.Expr:
        """What the later part multiplies the gradients of this one with."""
        passed = self.amplification
        return sp.Integer(1) if passed is None or passed.form == "published" else passed.size

    @property
    def backward(self) -> sp.Expr:
        """What it multiplies the updates of this one with."""
        return sp.Integer(1) if self.amplification is None else self.amplification.backward

    def relative_update(self, kind: Kind) -> sp.Expr:
        """ρ = ‖ΔW‖/(η‖W‖) of a scaled matrix at the solution."""
        times = self.rate * self.rate_of(kind) * self.backward
        return simplified(times * self.at_solution(kind.relative))

    def value(self, symbol: sp.Symbol) -> sp.Expr:
        """The solved value of α or β (or of η's factor)."""
        return self.values[symbol]

    def at_solution(self, expression: sp.Expr) -> sp.Expr:
        """An expression in α's and β's with the solved values put in."""
        return simplified(sp.sympify(expression).xreplace(self.values))

    def self_consistency(self, kind: Kind, power: int = 2) -> sp.Expr:
        """S·r^power of a kind at the solution."""
        return self.sublayers * self.at_solution(kind.weight) ** power


# ---- S·r and S·r² at the solution: whether the rule keeps its premises ----


SELF_CONSISTENCY = Section("Self-consistency", "Su, §Post-hoc analysis")

# what S·r^power says of a product of Jacobians; negative: the residual sum is not normalised
_PRODUCTS = {
    1: "branches that are all aligned with the stream multiply a change by up to exp(S*r)",
    2: "along a typical path of independent branches a change is multiplied by exp(-S*r^2), in "
    "root mean square not at all",
    -1: "branches that are all aligned make the stream grow as 1 + S*r",
    -2: "independent branches make the stream grow as sqrt(1 + S*r^2)",
}


def self_consistency_steps(setting: Setting, balanced: Balanced) -> Iterator[Step]:
    """S·r and S·r² of every kind, judged in every depth that they hold."""
    part = balanced.part
    own = DEPTHS[part.depth]
    for kind in balanced.kinds:
        weights = tuple(setting.route.weights[name].name for name in kind.members)
        for power in (1, 2):
            value = balanced.self_consistency(kind, power)
            others = value.free_symbols - {own}  # an encoder's constants may hold both depths
            behaviour = " and ".join(_behaviour(value, depth) for depth in (own, *others))
            shown = f"S*r^{power}" if power > 1 else "S*r"
            yield SELF_CONSISTENCY.equal(
                f"self-consistency-{power}-{kind.tag(part.name)}",
                balanced.sublayers * kind.weight**power,
                present(value),
                (
                    f"r = {present(balanced.at_solution(kind.weight))}; {shown} {behaviour}; "
                    f"{_PRODUCTS[power if setting.law.normalised else -power]}"
                ),
                uses=(f"sublayers-{part.name}", *weights, *balanced.conclusion),
                checks=(Check("holds once the solution is put in", _put_in(balanced)),),
            )


def _put_in(balanced: Balanced) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        return not exponents(balanced.at_solution(step.lhs / step.rhs))

    return holds


def _behaviour(value: sp.Expr, depth: sp.Symbol) -> str:
    growth = exponent_in(value, depth)
    state = "grows" if growth > 0 else ("vanishes" if growth < 0 else "stays bounded")
    return f"{state} with depth as {depth}^({growth})"
