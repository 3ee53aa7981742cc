r"""The kinds of sublayers of a part, the part at its solution, and how a later part magnifies it.

K cross-attentions of weight c carry a change to the output: :math:`A = Kc` where all are aligned,
:math:`A = \sqrt K c` in independent directions; once forward and, taken consistently, p times
backward through the gradient.

Source: DeepNet, arXiv 2203.00555, Theorem 4.3, counts it once; the rest is derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath
import sympy as sp

from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    alpha,
    beta,
    depth_expression,
    exponent_in,
    present,
    simplified,
)
from deepnet_theory.symbolic.laws.explicit import step_length
from deepnet_theory.symbolic.proof.step import (
    NAMED,
    Check,
    Point,
    Regime,
    Section,
    Step,
    at_points,
    number,
)
from deepnet_theory.symbolic.routes.route import crossings, sublayers

if TYPE_CHECKING:
    from deepnet_theory.symbolic.rule.problem import Problem


rate = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob


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
    amplification: Amplification | None = None
    together: sp.Expr = sp.S.One  # what the uses of one matrix multiply its update with

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

    @property
    def factor(self) -> sp.Expr:
        """What the later part multiplies this part's increment with."""
        return sp.S.One if self.amplification is None else self.amplification.factor

    @property
    def backward(self) -> sp.Expr:
        """What it multiplies the updates of this one with."""
        return sp.S.One if self.amplification is None else self.amplification.backward

    @property
    def rate(self) -> sp.Expr:
        """The learning rate's factor."""
        return self.values.get(rate, sp.S.One)

    def rate_of(self, kind: Kind) -> sp.Expr:
        """κ, the learning-rate multiplier of a kind's scaled matrices."""
        return self.values.get(kind.rate, sp.S.One)

    def relative_update(self, kind: Kind) -> sp.Expr:
        """ρ = ‖ΔW‖/(η‖W‖) of a scaled matrix at the solution."""
        times = self.rate * self.rate_of(kind) * self.backward * self.together
        return simplified(times * self.at_solution(kind.relative))

    def at_solution(self, expression: sp.Expr) -> sp.Expr:
        """An expression in α's and β's with the solved values put in."""
        return simplified(sp.sympify(expression).xreplace(self.values))


# ---- what a later part makes of a change ----


SECTION = Section("The balance")
SOURCE = "DeepNet, arXiv 2203.00555, Theorem 4.3"
A = sp.Symbol("A", positive=True)
_index = sp.Symbol("j", integer=True, positive=True)


@dataclass(frozen=True)
class Amplification:
    """A, what the balance is multiplied with, and the steps that say so.

    ``backward`` is the part of ``factor`` that comes with the gradient, and so with the update.
    """

    size: sp.Expr
    factor: sp.Expr
    backward: sp.Expr
    steps: tuple[Step, ...]


def amplification(problem: Problem, part: Part, later: Balanced) -> Amplification:
    """The amplification of a part's change by the later part, in the form that is selected.

    ``published``: A = K·c once where it grows, else 1 (the part must be balanced at its own
    output too). ``worst-case``: A = K·c, all aligned, and ``independent``: A = √K·c, each
    entering 1 + p times.
    """
    reading = later.part
    count = SECTION.equal(
        f"cross-attentions-{reading.name}",
        sp.Sum(reading.crossings, (_index, 1, later.depth)),
        crossings(reading),
        f"K, the sublayers of the {reading.name} that read the memory",
        source=SOURCE,
        establishes=(_index,),
        checks=(listed(reading, lambda sublayer: "memory" in sublayer.expression.names),),
    )
    size = _size(problem, part, later, count)
    published = problem.selection.amplification == "published"
    passage = _at_both_outputs(part, later, size) if published else _both_ways(problem, part)
    return Amplification(
        size.rhs,
        simplified(passage.rhs.xreplace({A: size.rhs})),
        simplified(size.rhs ** (0 if published else problem.degrees.p)),
        (count, size, passage),
    )


def listed(part: Part, kept: Callable[[Sublayer], bool]) -> Check:
    """A count of a part's sublayers, at explicit numbers of layers."""

    def points(_: Step) -> Iterator[Point]:
        for layers in (part.period, 2 * part.period, 5 * part.period):
            yield {DEPTHS[part.depth]: sp.Integer(layers)}, sum(map(kept, part.listed(layers)))

    return at_points("the sublayers listed one by one", points)


def _size(problem: Problem, part: Part, later: Balanced, count: Step) -> Step:
    aligned = problem.selection.amplification != "independent"
    reading = [s.name for s in later.part.layer if s.reads_memory]
    crossing = next(kind for kind in later.kinds if reading[0] in kind.members)
    weight = later.at_solution(crossing.weight)
    layers = count.rhs if aligned else sp.sqrt(count.rhs)

    def points(_: Step) -> Iterator[Point]:
        for depth in (4 * later.part.period, 9 * later.part.period):
            expected = one_by_one(problem, later, depth, aligned)
            yield {later.depth: sp.Integer(depth), A: expected}, expected

    return SECTION.equal(
        f"amplification-{part.name}",
        A,
        present(simplified(layers * weight)),
        f"a change of the {part.name}'s output reaches the {later.part.name}'s through "
        f"{count.rhs} cross-attentions of weight {present(weight)}, "
        + ("all aligned" if aligned else "in independent directions"),
        source=SOURCE,
        uses=(count.name, problem.route.weights[reading[0]].name, *later.conclusion),
        assumptions=("aligned-updates",) if aligned else (),
        establishes=(A,),
        checks=(at_points("cross-attention by cross-attention", points), NAMED),
    )


def one_by_one(problem: Problem, later: Balanced, layers: int, aligned: bool) -> mpmath.mpf:
    """A at an explicit depth: every cross-attention's weight put in and added."""
    total = mpmath.mpf(0)
    for sublayer in later.part.listed(layers):
        if "memory" not in sublayer.expression.names:
            continue
        kind = next(k for k in later.kinds if sublayer.name in k.members)
        at = {
            plain: number(later.values[own], {later.depth: sp.Integer(layers)})
            for plain, own in kind.own.items()
        }
        total += number(problem.route.weights[sublayer.name].rhs, at) ** (1 if aligned else 2)
    return total if aligned else mpmath.sqrt(total)


def _at_both_outputs(part: Part, later: Balanced, size: Step) -> Step:
    grows = exponent_in(size.rhs, later.depth) > 0

    def order_one(step: Step) -> bool:
        ratio = (step.lhs / step.rhs).xreplace({A: size.rhs})
        sizes = [number(ratio, {later.depth: sp.Integer(10) ** n}) for n in (40, 60, 80)]
        return all(abs(s / sizes[0] - 1) < 1e-6 for s in sizes)

    decides = "A grows and decides" if grows else "A does not grow, so that its own output decides"
    return SECTION.order(
        f"passage-{part.name}",
        sp.Max(1, A),
        A if grows else sp.Integer(1),
        f"the {part.name} is balanced at its own output, and at the stack's, where A enters "
        f"once, as published, the gradient at the memory being taken to be of order one; {decides}",
        regime=Regime(later.depth, sp.oo),
        source=SOURCE,
        uses=(size.name,),
        assumptions=("bounded-upstream-gradient",),
        checks=(Check("ratio at depths of 10^40 and more", order_one),),
    )


def _both_ways(problem: Problem, part: Part) -> Step:
    p, optimizer = problem.degrees.p, problem.selection.the_optimizer

    def points(_: Step) -> Iterator[Point]:
        yield {A: sp.Integer(4)}, 4 * number(step_length(optimizer, 4, 1))

    return SECTION.equal(
        f"passage-{part.name}",
        sp.Mul(A, A**p, evaluate=False),
        A ** (1 + p),
        "A once forward; the gradient passes the same cross-attentions, and the update takes "
        f"its power p = {p}: '{problem.selection.amplification}'",
        source="derived here",
        uses=(f"amplification-{part.name}", "degrees"),
        checks=(at_points("the update of a gradient of A times the size", points),),
    )
