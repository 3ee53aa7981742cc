r"""How the later part of a stack magnifies a change of an earlier part's output.

K cross-attentions of weight c carry it to the output: :math:`A = Kc` where all are aligned,
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
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, exponent_in, present, simplified
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.proof.checks import NAMED, Point, at_points, number
from deepnet_theory.symbolic.proof.step import Check, Regime, Section, Step
from deepnet_theory.symbolic.routes.route import crossings
from deepnet_theory.symbolic.rule.kinds import Balanced

if TYPE_CHECKING:
    from deepnet_theory.symbolic.rule.problem import Problem

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
