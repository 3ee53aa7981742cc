r"""The rule: the increments that a route proves of single sublayers, balanced part by part.

.. code-block:: text

   Route      the increment of a sublayer in one step, and r, the weight of its branch
     → sum    over the sublayers of a part, S of them
     → A      the amplification of this part's change by the later part
     → 1      balance and closure, which are imposed
     → α, β   the table's values, which must satisfy both
     → Θ      the orders of an update beyond the first, at these values

K cross-attentions of weight c carry a change to the output: :math:`A = Kc` where all are aligned.
Source: DeepNet, arXiv 2203.00555, Theorem 4.3, counts it once; the rest is derived here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from importlib import import_module
from typing import Any

import sympy as sp

from deepnet_theory.definitions.rule import Closure
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import letters
from deepnet_theory.proof.algebra import (
    DEPTHS,
    alpha,
    beta,
    eta,
    in_symbols,
    in_sympy,
    l,
    output_change,
    present,
    simplified,
    sized,
)
from deepnet_theory.proof.placement import relative_update
from deepnet_theory.proof.step import NAMED, Check, Point, Section, Step, defines, written_at
from deepnet_theory.sizes.monomial import ONE
from deepnet_theory.sizes.rule import Balanced as SizedPart
from deepnet_theory.sizes.rule import Kind, solve_rule
from deepnet_theory.sizes.update import law as degrees

SECTION, CLOSURE, ORDERS = map(Section, ("The balance", "The closure", "Every order"))
COUNTED = "Su, §Increment explosion"
AMPLIFIED = "DeepNet, arXiv 2203.00555, Theorem 4.3"
A = sp.Symbol("A", positive=True)
rate = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob
_ONE = sp.Integer(1)


def sublayers(part: Part) -> sp.Expr:
    """S, the residual sublayers of all layers of a part."""
    return len(part.layer) * DEPTHS[part.depth]


def crossings(part: Part) -> sp.Expr:
    """K, the cross-attentions of all layers of a part."""
    return part.crossings * DEPTHS[part.depth]


# ---- the steps of a route ----


@dataclass(frozen=True)
class Route:
    """The steps of a route, and those that say what it proves of each distinct sublayer, by name.

    The right-hand sides of ``increments`` (the change of the part's output by one optimizer step
    through the sublayer) and of ``weights`` (r, the branch's weight against the identity path) are
    in the symbols α and β of one sublayer; the parts' own are put in where parts are balanced.
    Balance takes these, and no other formula: a route that derives something else ends in another
    rule. ``sums`` names the steps that say how the sublayers' changes add up.
    """

    steps: tuple[Step, ...]
    increments: Mapping[str, Step]
    weights: Mapping[str, Step]
    sums: tuple[str, ...] = ()


@cache
def route_of(selection: Selection) -> Route:
    """The route that the selection's method names; no route knows a closure.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where the route has no law for it.
    """
    if selection.closure is not None:
        return route_of(replace(selection, closure=None))
    route: Route = import_module(f"deepnet_theory.proof.{selection.method}").route(selection)
    return route


def supporting(steps: Iterable[Step], ends: Iterable[str]) -> tuple[Step, ...]:
    """The steps that the named ones rest on, themselves included, in the order given."""
    needed, ordered = set(ends), tuple(steps)
    for step in reversed(ordered):
        if step.name in needed:
            needed.update(step.uses)
    return tuple(step for step in ordered if step.name in needed)


@cache
def narration(selection: Selection) -> tuple[Step, ...]:
    """The steps that a rule rests on, from a sublayer's to its values, weights and orders.

    Raises :class:`Refusal` where no rule exists or a law is missing.
    """
    parts = [step for part in balances(selection) for step in part.steps]
    steps = (*(route := route_of(selection)).steps, *parts)
    ends = (s.name for s in steps if s.name.startswith(("solution-", "order-")))
    return supporting(steps, (*ends, *(one.name for one in route.weights.values())))


# ---- one part: counted, added up, amplified, balanced, solved ----


def balances(selection: Selection) -> Iterator[Balance]:
    """The balance of every part, the last part first: nothing amplifies it.

    Raises :class:`Refusal` where there is no rule, or where a law is missing.
    """
    later = None
    for part in reversed(solve_rule(selection).parts):
        later = Balance(selection, part, later)
        yield later


@dataclass(frozen=True)
class Balance:
    """A part at the table's rule ``sized``, in steps from the count of its sublayers to its values.

    The conditions are the route's and the closure's; a value that does not satisfy them is REFUTED.
    """

    selection: Selection
    sized: SizedPart
    later: Balance | None

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Sum, passage, balance, closure, solution and the further orders."""
        before = (self.sum, *(self.passage(self.later) if self.later else ()))
        imposed = (*self.shares(before), *self.closures())
        solved = tuple(self.solution(imposed))
        return (*before, *imposed, *solved, *self.orders(imposed, solved))

    @property
    def conclusion(self) -> tuple[str, ...]:
        """The steps that state the solution."""
        return tuple(s.name for s in self.steps if s.name.startswith("solution-"))

    # ---- a kind of sublayer, in its own α and β ----

    @property
    def part(self) -> Part:
        return self.sized.part

    @property
    def depth(self) -> sp.Symbol:
        return DEPTHS[self.part.depth]

    @cached_property
    def route(self) -> Route:
        return route_of(self.selection)

    def symbol(self, name: str, kind: Kind) -> sp.Symbol:
        """A size of a kind of sublayers; below it the part and the kind where others differ."""
        one = kind.name == "*" or (name == "alpha" and self.selection.has_one_alpha(self.part))
        several = len(self.selection.the_stack.parts) > 1
        below = (self.part.name[0] if several else "", "" if one else letters(kind.name))
        return sp.Symbol("_".join((name, *filter(None, below))), positive=True)

    def own(self, kind: Kind) -> dict[sp.Symbol, sp.Symbol]:
        """α and β of one sublayer → those of this kind."""
        return {alpha: self.symbol("alpha", kind), beta: self.symbol("beta", kind)}

    def of(self, steps: Mapping[str, Step], name: str) -> sp.Expr:
        """What a step of the route says of a sublayer, in its kind's α and β."""
        return steps[name].rhs.xreplace(self.own(self.sized.kind_of(name)))

    def increment(self, kind: Kind) -> sp.Expr:
        """The change of the output by one sublayer's step, per η."""
        return sp.powsimp(self.of(self.route.increments, kind.members[0]) / eta)

    def times(self, kind: Kind) -> sp.Expr:
        """The multiplier of η: its factor where that is a knob, and κ of a kind that takes one."""
        factor = rate if "eta" in self.sized.joined[0].knobs else _ONE
        return factor * (self.symbol("kappa", kind) if kind.name in self.sized.rated else _ONE)

    def relative(self, kind: Kind) -> sp.Expr:
        """ρ/κ of a scaled matrix."""
        placement, under = self.selection.the_placement, self.selection.the_optimizer
        return relative_update(kind.law.sublayer, placement, degrees(under)).xreplace(
            self.own(kind)
        )

    def tag(self, kind: Kind) -> str:
        """The name of the kind in the names of steps."""
        return self.part.name if kind.name == "*" else f"{self.part.name}-{kind.name}"

    @cached_property
    def values(self) -> dict[sp.Symbol, sp.Expr]:
        """The table's values of all knobs, in the depth symbols."""
        values = {}
        for kind in self.sized.kinds:
            values[self.symbol("alpha", kind)] = in_symbols(kind.alpha)
            values[self.symbol("beta", kind)] = in_symbols(kind.beta)
            if kind.name in self.sized.rated:
                values[self.symbol("kappa", kind)] = in_symbols(kind.rate)
        if "eta" in self.sized.joined[0].knobs:
            values[rate] = in_symbols(self.sized.eta)
        return values

    # ---- the steps ----

    @cached_property
    def sum(self) -> Step:
        """The change of a part's output by one step of all its sublayers."""
        part, kinds = self.part, self.sized.kinds
        terms = [
            sum(s.name in kind.members for s in part.layer) * eta * self.increment(kind)
            for kind in kinds
        ]

        def listed() -> Iterator[Point]:
            layer = sp.Add(*(self.of(self.route.increments, s.name) for s in part.layer))
            yield from (({self.depth: layers}, layers * layer) for layers in (1, 2, 3))

        rests_on = (self.route.increments[name].name for kind in kinds for name in kind.members)
        return SECTION.equal(
            f"sum-{part.name}",
            sp.Sum(sp.Add(*terms), (l, 1, self.depth)),
            sp.Add(*(self.depth * term for term in terms)),
            f"the changes of the S = {sublayers(part)} sublayers of the {part.name}, "
            f"{part.described} in each of {part.depth} layers, are aligned and add up (in "
            "independent directions the sum would grow as the square root of S)",
            source=COUNTED, uses=(*rests_on, *self.route.sums),
            assumptions=("aligned-updates", "near-identity"),
            checks=(written_at("added up sublayer by sublayer", listed),),
            left=output_change(),
        )  # fmt: skip

    def passage(self, later: Balance) -> Iterator[Step]:
        """A change of a part passes the later one: K cross-attentions, A = K·c, and what counts.

        A counts once where it grows, else not: the part must be balanced at its own output too.
        """
        reader = later.part
        names = [sublayer.name for sublayer in reader.layer if sublayer.reads_memory]
        weights = [later.of(later.route.weights, name).xreplace(later.values) for name in names]
        weight = simplified(weights[0])
        listed = sp.Add(*(later.depth * one for one in weights))

        size = SECTION.equal(
            f"amplification-{self.part.name}", A, present(simplified(crossings(reader) * weight)),
            f"a change of the {self.part.name}'s output reaches the {reader.name}'s through K = "
            f"{crossings(reader)} cross-attentions of weight {present(weight)}, all aligned",
            source=AMPLIFIED, uses=(later.route.weights[names[0]].name, *later.conclusion),
            assumptions=("aligned-updates",),
            checks=(Check("cross-attention by cross-attention",
                          lambda step: sized(simplified(step.rhs / listed)) == ONE), NAMED),
        )  # fmt: skip
        grows = sized(size.rhs).exponent(later.depth.name) > 0

        def order_one(step: Step) -> bool:
            ratio = (step.lhs / step.rhs).xreplace({A: size.rhs})
            far, farther = (ratio.subs(later.depth, sp.Float(10) ** n) for n in (40, 80))
            return bool(abs(far / farther - 1) < 1e-6)

        yield size
        yield SECTION.order(
            f"passage-{self.part.name}", sp.Max(1, A), A if grows else _ONE,
            f"the {self.part.name} is balanced at its own output, and at the stack's, where A "
            "enters once, as published, the gradient at the memory being taken to be of order one; "
            + ("A grows and decides" if grows
               else "A does not grow, so that its own output decides"),
            source=AMPLIFIED, uses=(size.name,),
            assumptions=("bounded-upstream-gradient",),
            checks=(Check("ratio at depths of 10^40 and more", order_one),),
        )  # fmt: skip

    @cached_property
    def amplified(self) -> sp.Expr:
        """What a change of this part is multiplied by on its way: A where that grows."""
        if self.later is None:
            return _ONE
        size, passage = self.passage(self.later)
        return passage.rhs.xreplace({A: size.rhs})

    # Nothing proves that an update should be constant in depth: it is asked for, and another
    # closure asks for something else. So the steps that follow are IMPOSED where their checks hold.

    def shares(self, before: Sequence[Step]) -> Iterator[Step]:
        """The balance of every kind. ``before``: the sum, and the passage of the later part."""
        passage, kinds, amplified = before[1:], self.sized.kinds, self.amplified
        for kind in kinds:
            times = self.times(kind)
            single = amplified * times * self.increment(kind)
            whole = amplified * times * self.sum.rhs / eta

            def holds(step: Step, single: sp.Expr = single) -> bool:
                share = simplified(step.lhs / single)
                return step.rhs == 1 and sized(share / sublayers(self.part)) == ONE

            yield SECTION.equal(
                f"balance-{self.tag(kind)}",
                simplified(whole if len(kinds) == 1 else sublayers(self.part) * single), _ONE,
                f"imposed: one update of the {self.part.name} changes the output by eta, at every "
                "depth"
                + ("" if kind.name == "*" else "; every sublayer has an equal share")
                + ("; at the output that decides" if passage else "")
                + ("; kappa multiplies the learning rate" * (kind.name in self.sized.rated)),
                imposed=True, source="Su, §Increment explosion; layer cake, §4.3",
                uses=tuple(step.name for step in before),
                checks=(Check("the shares add to one", holds),), left=output_change() / eta,
            )  # fmt: skip

    def closures(self) -> Iterator[Step]:
        """The closures' conditions on every kind, and α where the placement fixes it."""
        one_alpha = self.selection.has_one_alpha(self.part)
        for index, kind in enumerate(self.sized.kinds):
            # one α for all kinds is picked by the first one's condition; ρ is of each kind
            picks = [
                (closure, sides)
                for closure in self.sized.joined
                if index == 0 or not one_alpha or "rate" in closure.knobs
                for sides in closure.expressions
            ]
            for place, (closure, sides) in enumerate(picks, start=1):
                yield self.condition(kind, closure, sides, place)
            if "alpha" not in self.selection.the_placement.expression.names:
                yield CLOSURE.equal(
                    f"fixed-alpha-{self.tag(kind)}", self.symbol("alpha", kind), _ONE,
                    f"the placement '{self.selection.placement}' has no residual multiplier",
                    imposed=True,
                    checks=(defines("no other value is imposed", lambda: _ONE),),
                )  # fmt: skip

    def condition(self, kind: Kind, closure: Closure, sides: tuple[Any, Any], place: int) -> Step:
        """One condition of a closure on a kind of sublayers, imposed.

        The check takes ρ from the increment, which is in proportion to the branch's weight and to
        ρ; by what factor, at α = β = 1.
        """
        own, sublayer = self.own(kind), kind.law.sublayer
        relative, times = self.relative(kind), self.times(kind)
        per_weight = self.increment(kind) / self.of(self.route.weights, sublayer.name)
        names = {"alpha": own[alpha], "beta": own[beta], "m": sp.Integer(kind.matrices)}
        names["rho"] = times * relative

        def holds(step: Step) -> bool:
            factor = (relative / per_weight).xreplace(dict.fromkeys(own.values(), _ONE))
            again = {**names, "rho": times * per_weight * factor}
            pairs = zip((step.lhs, step.rhs), sides, strict=True)
            return all(sized(one / in_sympy(side, again)) == ONE for one, side in pairs)

        left, right = (in_sympy(side, names) for side in sides)
        return CLOSURE.equal(
            f"closure-{self.tag(kind)}-{place}", left, right,
            f"imposed by the closure '{closure.name}': {closure.summary}",
            imposed=True, source=closure.source,
            checks=(Check("as the closure says of the increment", holds),),
            left=in_sympy(sides[0], {**names, "rho": self.symbol("rho", kind)}),
        )  # fmt: skip

    def solution(self, imposed: Sequence[Step]) -> Iterator[Step]:
        """Each knob's value, which satisfies every condition that is imposed."""
        conditions = [sp.sympify(condition.lhs / condition.rhs) for condition in imposed]

        def satisfied(step: Step) -> bool:
            known = {**self.values, step.lhs: step.rhs}
            return bool(step.rhs.is_positive) and all(
                sized(simplified(condition.xreplace(known))) == ONE for condition in conditions
            )

        for symbol, value in self.values.items():
            name = f"solution-{self.part.name}-{'eta' if symbol == rate else symbol}"
            yield CLOSURE.equal(
                name, symbol, present(value),
                "the solution of balance and closure, which are linear in logarithms",
                uses=tuple(step.name for step in imposed),
                checks=(Check("satisfies its conditions", satisfied), NAMED),
            )  # fmt: skip

    def orders(self, imposed: Sequence[Step], solved: Sequence[Step]) -> Iterator[Step]:
        r"""Each order of an update beyond the first, as a power of the depths.

        One update multiplies each of a branch's m scaled matrices by :math:`1 + \eta\rho`, so that
        order k is the first one times :math:`\rho^{k-1}`. By another road it is the coefficient
        of :math:`\eta^k` in :math:`A S r (1 + \eta\rho)^m`.
        """
        weights, count = self.route.weights, self.amplified * sublayers(self.part)
        for kind, balance in zip(self.sized.kinds, imposed, strict=False):
            rho, first = self.times(kind) * self.relative(kind), kind.members[0]
            product = sp.Poly((1 + eta * (x := sp.Dummy())) ** kind.degree, eta)
            for k in range(2, kind.degree + 1):
                size = simplified(balance.lhs * rho ** (k - 1))
                other = product.coeff_monomial(eta**k).xreplace({x: rho}) * self.of(weights, first)
                both = Check("the branch's product, expanded", partial(self._alike, count * other))
                yield ORDERS.order(
                    f"order-{k}-{self.tag(kind)}", size, self.in_depth(size),
                    f"an update multiplies each of a branch's {kind.degree} scaled matrices by "
                    f"1 + eta*rho; {k} of them at once change the output by the first order times "
                    f"{sp.Symbol('rho') ** (k - 1)}",
                    uses=(balance.name, weights[first].name, *(step.name for step in solved)),
                    checks=(both,), left=output_change(str(k)) / eta**k,
                )  # fmt: skip

    def _alike(self, other: sp.Expr, step: Step) -> bool:
        return bool(self.in_depth(step.lhs / step.rhs) == self.in_depth(other / step.rhs) == 1)

    def in_depth(self, size: sp.Expr) -> sp.Expr:
        """The powers of the depths in a size at the table's values."""
        return in_symbols(sized(simplified(size.xreplace(self.values))).without_number)
