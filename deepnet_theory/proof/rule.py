r"""The rule: what a route proves of single sublayers, balanced part by part, and solved.

.. code-block:: text

   Route      the increment that one step makes of a sublayer, and r, its branch's weight
     → sum    over the sublayers of a part, as many as S
     → A      what the later part makes of a change of this one
     → 1      balance and closure, which are imposed
     → α, β   the table's values, which must satisfy both

K cross-attentions of weight c carry a change to the output: :math:`A = Kc` where all are aligned,
:math:`A = \sqrt K c` in independent directions; once forward and, taken consistently, p times
backward through the gradient. Source: DeepNet, arXiv 2203.00555, Theorem 4.3, counts it once; the
rest is derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.definitions.expression import FloatAlgebra, fold
from deepnet_theory.definitions.rule import Closure, Rule
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import Sublayer
from deepnet_theory.proof.algebra import (
    DEPTHS,
    S,
    alpha,
    beta,
    depth_expression,
    eta,
    exponents,
    from_plain,
    in_sympy,
    j,
    l,
    part_symbol,
    present,
    rational,
    simplified,
)
from deepnet_theory.proof.explicit import step_length
from deepnet_theory.proof.notation import output_change
from deepnet_theory.proof.placement import PlacementLaw, placement_law, relative_update
from deepnet_theory.proof.step import (
    NAMED,
    Check,
    Point,
    Regime,
    Section,
    Step,
    at_points,
    defines,
    number,
)
from deepnet_theory.sizes.rule import Balanced as SizedPart
from deepnet_theory.sizes.rule import Rule as Sized
from deepnet_theory.sizes.rule import solve_rule as sized_rule
from deepnet_theory.sizes.table import texts
from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees

SECTION, CLOSURE = Section("The balance"), Section("The closure")
COUNTED = "Su, §Increment explosion"
AMPLIFIED = "DeepNet, arXiv 2203.00555, Theorem 4.3"
A = sp.Symbol("A", positive=True)
rate = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob
_ONE = sp.Integer(1)


# ---- counts ----


def sublayers(part: Part) -> sp.Expr:
    """S, the residual sublayers of all layers of a part."""
    return len(part.layer) * DEPTHS[part.depth]


def crossings(part: Part) -> sp.Expr:
    """K, the cross-attentions of all layers of a part."""
    return part.crossings * DEPTHS[part.depth]


# ---- what a route hands over ----


@dataclass(frozen=True)
class Route:
    """The steps of a route, and those that say what it proves of each distinct sublayer, by name.

    The right-hand sides of ``increments`` (what one optimizer step makes a sublayer add to the
    output of its part) and of ``weights`` (r, the branch's weight against the identity path) are in
    the symbols α and β of one sublayer; the parts' own are put in where parts are balanced.
    Balance takes these, and no other formula: a route that derives something else ends in another
    rule. ``sums`` names the steps that say how the sublayers' changes add up.
    """

    steps: tuple[Step, ...]
    given: tuple[sp.Symbol, ...]
    increments: Mapping[str, Step]
    weights: Mapping[str, Step]
    sums: tuple[str, ...] = ()


_ROUTES = {
    "probe": ("deepnet_theory.proof.probe", "probe_route"),
    "lemma": ("deepnet_theory.proof.lemma", "lemma_route"),
}


def route_of(selection: Selection) -> Route:
    """The route that the selection's method names; no route knows a closure.

    Raises :class:`~deepnet_theory.definitions.outcome.Refusal` where the route has no law for it.
    """
    unclosed = replace(selection, closure=None)
    return _route(unclosed, unclosed.named)


@cache
def _route(selection: Selection, _named: tuple[object, ...]) -> Route:
    module, name = _ROUTES[selection.method]
    route: Callable[[Selection], Route] = getattr(import_module(module), name)
    return route(selection)


def supporting(steps: Iterable[Step], ends: Iterable[str]) -> tuple[Step, ...]:
    """The steps that the named ones rest on, themselves included, in the order given."""
    needed, ordered = set(ends), tuple(steps)
    for step in reversed(ordered):
        if step.name in needed:
            needed.update(step.uses)
    return tuple(step for step in ordered if step.name in needed)


# ---- the kinds of sublayers of a part, and the part at its solution ----


@dataclass(frozen=True)
class Kind:
    """Sublayers of a part that share α and β, with what the route proved of one of them.

    ``increment`` (per η), ``weight`` and ``relative``, the update of a scaled matrix over the
    matrix (per η), are in the kind's ``own`` α and β; ``rate`` is κ, where the scaled matrices take
    a learning-rate multiplier.
    """

    name: str  # "*" where every sublayer of the part behaves alike
    sublayer: Sublayer
    own: dict[sp.Symbol, sp.Symbol]  # α and β of one sublayer → those of this kind
    increment: sp.Expr
    weight: sp.Expr
    relative: sp.Expr
    rate: sp.Symbol
    rests_on: tuple[str, ...]  # the steps of the increments
    members: tuple[str, ...]  # the names of its sublayers

    @property
    def alpha(self) -> sp.Symbol:
        return self.own[alpha]

    @property
    def beta(self) -> sp.Symbol:
        return self.own[beta]

    @property
    def matrices(self) -> int:
        """m_s, the number of scaled matrices of a branch."""
        return len(self.sublayer.scaled)

    def symbol(self, name: str) -> sp.Symbol:
        """Another size of the kind, ``rho`` or ``r``, with the indices of its κ."""
        return sp.Symbol(self.rate.name.replace("kappa", name), positive=True)

    def tag(self, part: str) -> str:
        """How steps that speak of this kind are called."""
        return part if self.name == "*" else f"{part}-{self.name}"


@dataclass(frozen=True)
class Balanced:
    """One part at its rule: its steps from the count of its sublayers to the solution.

    ``values`` are α's, β's, κ's and the learning rate's factor, in the depth symbols.
    """

    part: Part
    kinds: tuple[Kind, ...]
    values: dict[sp.Symbol, sp.Expr]
    steps: tuple[Step, ...] = ()
    amplification: sp.Expr = _ONE  # what the later part multiplies this part's increment with
    together: sp.Expr = _ONE  # what the uses of one matrix multiply its update with

    @property
    def uses(self) -> sp.Expr:
        """How many sublayers use one matrix."""
        return depth_expression(self.part.uses)

    @property
    def depth(self) -> sp.Symbol:
        return DEPTHS[self.part.depth]

    @property
    def sublayers(self) -> sp.Expr:
        return sublayers(self.part)

    @property
    def knobs(self) -> tuple[sp.Symbol, ...]:
        return tuple(dict.fromkeys(symbol for kind in self.kinds for symbol in kind.own.values()))

    @property
    def conclusion(self) -> tuple[str, ...]:
        """The steps that state the solution."""
        return tuple(s.name for s in self.steps if s.name.startswith("solution-"))

    def at_solution(self, expression: sp.Expr) -> sp.Expr:
        """An expression in α's and β's with the solved values put in."""
        return simplified(sp.sympify(expression).xreplace(self.values))

    def kind_of(self, sublayer: str) -> Kind:
        return next(kind for kind in self.kinds if sublayer in kind.members)


# ---- a selection, every part of its stack balanced ----


@dataclass(frozen=True)
class Problem:
    """A selection with its laws, its route, and its parts balanced by what the route proves.

    ``sized`` is the rule by the algebra of sizes. It refuses where there is none, says which
    closures' conditions pick it, and has the values. The conditions are the route's: a value that
    does not satisfy them is REFUTED.
    """

    selection: Selection

    @cached_property
    def sized(self) -> Sized:
        """The rule by sizes; raises :class:`Refusal` where there is none."""
        # two roads: a second engine for the same rule cannot make the same error
        return sized_rule(self.selection)

    @cached_property
    def degrees(self) -> Update:
        return degrees(self.selection.the_optimizer)

    @cached_property
    def law(self) -> PlacementLaw:
        return placement_law(self.selection.the_placement)

    @cached_property
    def route(self) -> Route:
        return route_of(self.selection)

    @cached_property
    def balanced(self) -> tuple[Balanced, ...]:
        """Every part with its steps, solved from the last on: nothing amplifies the last.

        Raises :class:`Refusal` where there is no rule, or where a law is missing.
        """
        solved: list[Balanced] = []
        for part in reversed(self.sized.parts):
            solved.insert(0, balance(self, part, solved[0] if solved else None))
        return tuple(solved)

    def kind(self, part: Part, name: str, members: tuple[str, ...]) -> Kind:
        """Sublayers of a part that share α and β, as the route proves them."""
        parts, of_members = self.selection.the_stack.parts, {s.name: s for s in part.layer}
        first, one = of_members[members[0]], "*" if self.selection.has_one_alpha(part) else name
        own = {
            alpha: part_symbol("alpha", part.name, len(parts), one),
            beta: part_symbol("beta", part.name, len(parts), name),
        }
        increments = [self.route.increments[member] for member in members]
        return Kind(
            name=name,
            sublayer=first,
            own=own,
            increment=sp.powsimp(increments[0].rhs / eta).xreplace(own),
            weight=self.route.weights[first.name].rhs.xreplace(own),
            relative=relative_update(first, self.law, self.degrees).xreplace(own),
            rate=part_symbol("kappa", part.name, len(parts), name),
            rests_on=tuple(increment.name for increment in increments),
            members=members,
        )


@dataclass(frozen=True)
class SolvedRule(Rule):
    """A rule whose ``alpha`` and ``beta`` are SymPy expressions in N and M.

    Where parts or kinds of sublayers differ they are mappings, as :meth:`keyed` says. The symbols
    are SymPy's positive ones, ``Symbol("N", positive=True)``, which ``subs("N", 100)`` does not
    reach: :meth:`alpha_at` and :meth:`beta_at` give the numbers.
    """

    @cached_property
    def alpha(self) -> sp.Expr | dict[str, sp.Expr]:
        return self.keyed([present(depth_expression(entry.alpha)) for entry in self.entries])

    @cached_property
    def beta(self) -> sp.Expr | dict[str, sp.Expr]:
        return self.keyed([present(depth_expression(entry.beta)) for entry in self.entries])


def rule_of(selection: Selection) -> SolvedRule:
    """The rule of a selection; raises :class:`Refusal` where there is none."""
    rule = texts(sized_rule(selection))
    return SolvedRule(rule.name, rule.entries, rule.eta, rule.meaning)


# ---- one part: counted, added up, amplified, balanced, solved ----


def balance(problem: Problem, sized: SizedPart, later: Balanced | None) -> Balanced:
    """The balance of one part, joined with the closures that ``sized`` names, and its values.

    ``later`` is the part at its rule that a change of this one passes through.
    """
    part = sized.part
    passage = () if later is None else tuple(passage_steps(problem, part, later))
    # sizes say which sublayers are alike; the sum's check adds up each by its own increment
    kinds = tuple(problem.kind(part, kind.name, kind.members) for kind in sized.kinds)
    amplified = simplified(passage[-1].rhs.xreplace({A: passage[-2].rhs})) if passage else _ONE
    bare = Balanced(part, kinds, {}, (), amplified)
    bare = replace(bare, together=bare.uses ** rational(problem.degrees.p))
    before = (count_step(bare), sum_step(problem, bare), *passage)
    imposed = (*_shares(sized, bare, before), *_closures(problem, sized, bare))
    once = (rate,) if "eta" in problem.sized.closure.knobs else ()
    rates = (kind.rate for kind in bare.kinds if kind.name in sized.rated)
    unknowns = (*bare.knobs, *once, *rates)
    values = {symbol: value for symbol, value in _values(sized, bare).items() if symbol in unknowns}
    solved_by = tuple(_solution(values, imposed, part))
    return replace(bare, values=values, steps=(*before, *imposed, *solved_by))


def listed(part: Part, kept: Callable[[Sublayer], bool]) -> Check:
    """A count of a part's sublayers, at explicit numbers of layers."""

    def points(_: Step) -> Iterator[Point]:
        for layers in (1, 2, 5):
            yield {DEPTHS[part.depth]: sp.Integer(layers)}, sum(map(kept, part.layer * layers))

    return at_points("the sublayers listed one by one", points)


def count_step(bare: Balanced) -> Step:
    """S: the residual sublayers of all layers, counted."""
    part = bare.part
    return SECTION.equal(
        f"sublayers-{part.name}",
        sp.Sum(len(part.layer), (l, 1, bare.depth)), bare.sublayers,
        f"S, the {'branches' if any(part.parallel) else 'residual sublayers'} of the {part.name}: "
        f"{part.described} in each of {part.depth} layers",
        source=COUNTED, establishes=(l,), checks=(listed(part, lambda _: True),), left=S,
    )  # fmt: skip


def sum_step(problem: Problem, bare: Balanced) -> Step:
    """What one step makes all listed sublayers of a part add to its output."""
    part = bare.part
    terms = [
        sum(s.name in kind.members for s in part.layer)
        * eta * bare.together * kind.increment
        for kind in bare.kinds
    ]  # fmt: skip

    def points(_: Step) -> Iterator[Point]:
        point = {s: sp.Rational(4 + 2 * place, 7) for place, s in enumerate(bare.knobs)}
        point[eta] = sp.Rational(2, 5)
        for layers in (1, 2, 3):
            depth = {bare.depth: sp.Integer(layers)}
            # a matrix is stepped under the gradients of all its uses
            used = step_length(
                problem.selection.the_optimizer, float(number(bare.uses, depth)), 1.0
            )
            yield {**point, **depth}, number(used) * mpmath.fsum(each(point, layers))

    def each(point: dict[sp.Expr, sp.Expr], layers: int) -> Iterator[Any]:
        """The increments per η of an explicit stack, one sublayer after the other."""
        for sublayer in part.layer * layers:
            knobs = {one: point[knob] for one, knob in bare.kind_of(sublayer.name).own.items()}
            yield number(problem.route.increments[sublayer.name].rhs, {eta: point[eta], **knobs})

    return SECTION.equal(
        f"sum-{part.name}",
        sp.Sum(sp.Add(*terms), (l, 1, bare.depth)),
        sp.Add(*(bare.depth * term for term in terms)),
        f"the residual sublayers of the {part.name} add up; their changes are aligned (in "
        "independent directions they would add as a square root)",
        source=COUNTED,
        uses=(
            f"sublayers-{part.name}",
            *dict.fromkeys(name for kind in bare.kinds for name in kind.rests_on),
            *problem.route.sums,
        ),
        assumptions=("aligned-updates", "near-identity"), establishes=(*bare.knobs, eta),
        checks=(at_points("added up sublayer by sublayer", points, digits=12),),
        left=output_change(),
    )  # fmt: skip


# ---- what a later part makes of a change ----


def passage_steps(problem: Problem, part: Part, later: Balanced) -> Iterator[Step]:
    """How a change of a part passes the later one: K cross-attentions, A = K·c, and what counts.

    A counts once where it grows, else not: the part must be balanced at its own output too.
    """
    reader = later.part
    crossing = next(s.name for s in reader.layer if s.reads_memory)
    weight = later.at_solution(later.kind_of(crossing).weight)
    count = SECTION.equal(
        f"cross-attentions-{reader.name}",
        sp.Sum(reader.crossings, (j, 1, later.depth)), crossings(reader),
        f"K, the sublayers of the {reader.name} that read the memory",
        source=AMPLIFIED, establishes=(j,), checks=(listed(reader, attrgetter("reads_memory")),),
    )  # fmt: skip

    def points(_: Step) -> Iterator[Point]:
        for depth in (4, 9):
            expected = one_by_one(problem, later, depth)
            yield {later.depth: sp.Integer(depth), A: expected}, expected

    size = SECTION.equal(
        f"amplification-{part.name}", A, present(simplified(count.rhs * weight)),
        f"a change of the {part.name}'s output reaches the {reader.name}'s through "
        f"{count.rhs} cross-attentions of weight {present(weight)}, all aligned",
        source=AMPLIFIED,
        uses=(count.name, problem.route.weights[crossing].name, *later.conclusion),
        assumptions=("aligned-updates",), establishes=(A,),
        checks=(at_points("cross-attention by cross-attention", points), NAMED),
    )  # fmt: skip
    grows = exponents(size.rhs).get(later.depth, 0) > 0

    def order_one(step: Step) -> bool:
        ratio = (step.lhs / step.rhs).xreplace({A: size.rhs})
        sizes = [number(ratio, {later.depth: sp.Integer(10) ** n}) for n in (40, 60, 80)]
        return all(abs(s / sizes[0] - 1) < 1e-6 for s in sizes)

    yield count
    yield size
    yield SECTION.order(
        f"passage-{part.name}", sp.Max(1, A), A if grows else _ONE,
        f"the {part.name} is balanced at its own output, and at the stack's, where A enters "
        "once, as published, the gradient at the memory being taken to be of order one; "
        + ("A grows and decides" if grows
           else "A does not grow, so that its own output decides"),
        regime=Regime(later.depth, sp.oo), source=AMPLIFIED, uses=(size.name,),
        assumptions=("bounded-upstream-gradient",),
        checks=(Check("ratio at depths of 10^40 and more", order_one),),
    )  # fmt: skip


def one_by_one(problem: Problem, later: Balanced, layers: int) -> Any:
    """A at an explicit depth: every cross-attention's weight put in and added."""
    depth, total = {later.depth: sp.Integer(layers)}, mpmath.mpf(0)
    for sublayer in filter(attrgetter("reads_memory"), later.part.layer * layers):
        knobs = later.kind_of(sublayer.name).own.items()
        point = {one: number(later.values[knob], depth) for one, knob in knobs}
        total += number(problem.route.weights[sublayer.name].rhs, point)
    return total


# ---- what is imposed: every part changes its output by η, each sublayer by its share ----

# Nothing proves that an update should be constant in depth: it is asked for, and another closure
# asks for something else. So these steps are IMPOSED where their checks hold, and never PROVED.


def _times(sized: SizedPart, kind: Kind) -> sp.Expr:
    """What multiplies η: its factor where that is a knob, and κ of a kind that takes one."""
    factor = rate if "eta" in sized.joined[0].knobs else _ONE
    return factor * kind.rate if kind.name in sized.rated else factor


def _shares(sized: SizedPart, bare: Balanced, before: tuple[Step, ...]) -> Iterator[Step]:
    """The balance of every kind. ``before``: the count, the sum, what passes the later part."""
    count, total, *passage = before
    for kind in bare.kinds:
        times = _times(sized, kind)
        single = bare.amplification * times * bare.together * kind.increment
        whole = bare.amplification * times * total.rhs / eta

        def holds(step: Step, single: sp.Expr = single) -> bool:
            share = simplified(step.lhs / single)
            return step.rhs == 1 and not exponents(share / count.rhs)

        yield SECTION.equal(
            f"balance-{kind.tag(bare.part.name)}",
            simplified(whole if len(bare.kinds) == 1 else count.rhs * single), _ONE,
            "imposed: the part changes the output by eta whatever the depth"
            + ("" if kind.name == "*" else ", every sublayer by an equal share of it")
            + ("; at the output that decides" if passage else "")
            + (", at a learning rate of its own" if kind.name in sized.rated else ""),
            imposed=True, source="Su, §Increment explosion; layer cake, §4.3",
            uses=tuple(step.name for step in before),
            establishes=tuple(s for s in (rate, kind.rate) if times.has(s)),
            checks=(Check("the shares add to one", holds),), left=output_change() / eta,
        )  # fmt: skip


def _closures(problem: Problem, sized: SizedPart, bare: Balanced) -> Iterator[Step]:
    """The closures' conditions on every kind, and α where the placement fixes it."""
    part = bare.part
    one_alpha = problem.selection.has_one_alpha(part)
    for index, kind in enumerate(bare.kinds):
        times, first = bare.together * _times(sized, kind), 1
        for closure in sized.joined:
            # one α for all kinds is picked by the first one's condition; ρ is of each kind
            if index == 0 or not one_alpha or "rate" in closure.knobs:
                yield from _conditions(closure, kind, part, times, first)
                first += len(closure.expressions)
        if not problem.law.has_alpha:
            yield CLOSURE.equal(
                f"fixed-alpha-{kind.tag(part.name)}", kind.alpha, _ONE,
                f"the placement '{problem.selection.placement}' has no residual multiplier",
                imposed=True, establishes=(kind.alpha,),
                checks=(defines("no other value is imposed", lambda: _ONE),),
            )  # fmt: skip


def _conditions(
    closure: Closure, kind: Kind, part: Part, times: sp.Expr, first: int
) -> Iterator[Step]:
    """The closure's conditions for one kind of sublayer, imposed; numbered from ``first``.

    ``times`` is what multiplies its relative update: κ and the uses of one matrix. The check
    takes ρ from the increment, which is in proportion to the branch's weight and to ρ; by what
    factor, at α = β = 1.
    """
    names = {"alpha": kind.alpha, "beta": kind.beta, "m": sp.Integer(kind.matrices)}
    names["rho"] = times * kind.relative
    others = dict.fromkeys(sp.sympify(times).free_symbols, 0.7)  # κ, and depths behind it
    per_weight = kind.increment / kind.weight
    at_one = number(per_weight / kind.relative, {kind.alpha: _ONE, kind.beta: _ONE})
    for index, sides in enumerate(closure.expressions, first):

        def points(_: Step, sides: tuple[Any, Any] = sides) -> Iterator[Point]:
            for a, b in ((0.3, 1.7), (2.5, 0.6)):
                point = {kind.alpha: a, kind.beta: b, **others}
                rho = float(number(times, others) * number(per_weight, point) / at_one)
                algebra = FloatAlgebra(alpha=a, beta=b, m=kind.matrices, rho=rho)
                yield point, tuple(fold(side.root, algebra) for side in sides)

        left, right = (in_sympy(side, names) for side in sides)
        yield CLOSURE.equal(
            f"closure-{kind.tag(part.name)}-{index}", left, right,
            f"imposed by the closure '{closure.name}': {closure.summary}",
            imposed=True, source=closure.source, establishes=(kind.alpha, kind.beta),
            checks=(at_points("as the closure's own text says", points, digits=12),),
            left=in_sympy(sides[0], {**names, "rho": kind.symbol("rho")}),
        )  # fmt: skip


def _values(sized: SizedPart, bare: Balanced) -> dict[sp.Symbol, sp.Expr]:
    """The table's values of all knobs; the conditions are the route's, which they must satisfy."""
    values = {rate: from_plain(sized.eta, DEPTHS)}
    for kind, at_rule in zip(bare.kinds, sized.kinds, strict=True):
        values[kind.alpha] = from_plain(at_rule.alpha, DEPTHS)
        values[kind.beta] = from_plain(at_rule.beta, DEPTHS)
        values[kind.rate] = from_plain(at_rule.rate, DEPTHS)
    return values


def _solution(
    values: dict[sp.Symbol, sp.Expr], imposed: Sequence[Step], part: Part
) -> Iterator[Step]:
    """Each knob's value, which satisfies every condition that is imposed."""
    conditions = [sp.sympify(condition.lhs / condition.rhs) for condition in imposed]

    def satisfied(step: Step) -> bool:
        known = {**values, step.lhs: step.rhs}
        return bool(step.rhs.is_positive) and all(
            not exponents(simplified(condition.xreplace(known))) for condition in conditions
        )

    for symbol, value in values.items():
        yield CLOSURE.equal(
            f"solution-{part.name}-{'eta' if symbol == rate else symbol}", symbol, present(value),
            "in logarithms balance and closure are linear, and this is their solution",
            uses=tuple(step.name for step in imposed), establishes=(symbol,),
            checks=(Check("satisfies its conditions", satisfied), NAMED),
        )  # fmt: skip
