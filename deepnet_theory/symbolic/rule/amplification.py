r"""How the later part of a stack magnifies a change of an earlier part's output.

K cross-attentions of weight c carry it to the output: :math:`A = Kc` where all are aligned,
:math:`A = \sqrt K c` in independent directions; once forward and, taken consistently, p times
backward through the gradient.

Source: DeepNet, arXiv 2203.00555, Theorem 4.3, counts it once; the rest is derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    alpha,
    beta,
    exponent_in,
    present,
    simplified,
)
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.proof.checks import NAMED
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.rule.kinds import SECTION, Kind, Setting

SOURCE = "DeepNet, arXiv 2203.00555, Theorem 4.3"
_index = sp.Symbol("j", integer=True, positive=True)
A = sp.Symbol("A", positive=True)


@dataclass(frozen=True)
class Later:
    """The part that a change passes through: solved already."""

    part: Part
    kinds: tuple[Kind, ...]
    values: dict[sp.Symbol, sp.Expr]  # α and β at the rule
    solved_by: tuple[str, ...]  # the steps that say so

    @property
    def crossing(self) -> Kind:
        """The kind of its cross-attentions; raises :class:`Refusal` where it has none."""
        reading = {s.name for s in self.part.layer if s.reads_memory}
        for kind in self.kinds:
            if reading & set(kind.members):
                return kind
        raise Refusal(
            f"the {self.part.name} has no cross-attention, so nothing passes from the encoder to "
            "it; its layer must hold 'cross'"
        )

    @property
    def depth(self) -> sp.Symbol:
        """The symbol of its number of layers."""
        return DEPTHS[self.part.depth]


@dataclass(frozen=True)
class Amplification:
    """A, what the balance is multiplied with, and the steps that say so.

    ``backward`` is the part of ``factor`` that comes with the gradient, and so with the update.
    """

    form: str
    size: sp.Expr
    factor: sp.Expr
    steps: tuple[Step, ...]
    backward: sp.Expr


def amplification(setting: Setting, part: Part, later: Later) -> Amplification:
    """The amplification of a part's change by the later part, in the form that is selected.

    ``published``: A = K·c once where it grows, else 1 (the part must be balanced at its own
    output too). ``worst-case``: A = K·c, all aligned, and ``independent``: A = √K·c, each
    entering 1 + p times.
    """
    chosen = setting.selection.amplification
    steps = _in_form(setting, part, later, chosen)
    times = sp.Integer(0) if chosen == "published" else setting.degrees.p
    return Amplification(
        form=chosen,
        size=steps[1].rhs,
        factor=_factor(steps),
        steps=steps,
        backward=simplified(steps[1].rhs ** times),
    )


def _factor(steps: tuple[Step, Step, Step]) -> sp.Expr:
    _, size, passage = steps
    return simplified(passage.rhs.xreplace({A: size.rhs}))


def _in_form(setting: Setting, part: Part, later: Later, form: str) -> tuple[Step, Step, Step]:
    count = _crossings(later)
    size = _size(setting, part, later, count, aligned=form != "independent")
    if form == "published":
        return count, size, _at_both_outputs(part, later, size)
    return count, size, _both_ways(setting, part, form)


def _crossings(later: Later) -> Step:
    def listed(step: Step) -> bool:
        for layers in (1, 2, 5):
            stack = [s for _ in range(layers) for s in later.part.layer]
            reading = sum("memory" in s.expression.names for s in stack)
            at = {later.depth: sp.Integer(layers)}
            if not step.lhs.xreplace(at).doit() == step.rhs.xreplace(at) == reading:
                return False
        return True

    return SECTION.equal(
        f"cross-attentions-{later.part.name}",
        sp.Sum(later.part.crossings, (_index, 1, later.depth)),
        later.part.crossings * later.depth,
        f"K, the sublayers of the {later.part.name} that read the memory",
        source=SOURCE,
        establishes=(_index,),
        checks=(Check("the sublayers listed one by one", listed),),
    )


def _size(setting: Setting, part: Part, later: Later, count: Step, aligned: bool) -> Step:
    crossing = later.crossing
    weight = simplified(crossing.weight.xreplace(later.values))
    layers = count.rhs if aligned else sp.sqrt(count.rhs)
    names = [s.name for s in later.part.layer if s.reads_memory]
    return SECTION.equal(
        f"amplification-{part.name}",
        A,
        present(simplified(layers * weight)),
        (
            f"a change of the {part.name}'s output reaches the {later.part.name}'s through "
            f"{count.rhs} cross-attentions of weight {present(weight)}, "
            + ("all aligned" if aligned else "in independent directions")
        ),
        source=SOURCE,
        uses=(count.name, setting.route.weights[names[0]].name, *later.solved_by),
        assumptions=("aligned-updates",) if aligned else (),
        establishes=(A,),
        checks=(
            Check("cross-attention by cross-attention", _one_by_one(setting, later, aligned)),
            NAMED,
        ),
    )


def one_by_one(setting: Setting, later: Later, aligned: bool, layers: int) -> sp.Expr:
    """A at an explicit depth: every cross-attention's weight put in and added."""
    at = {later.depth: sp.Integer(layers)}
    total = sp.Integer(0)
    for sublayer in [s for _ in range(layers) for s in later.part.layer]:
        if "memory" not in sublayer.expression.names:
            continue
        kind = next(k for k in later.kinds if sublayer.name in k.members)
        knobs = {alpha: later.values[kind.alpha], beta: later.values[kind.beta]}
        one = setting.route.weights[sublayer.name].value.xreplace(knobs).xreplace(at)
        total += one if aligned else one**2
    return sp.N(total if aligned else sp.sqrt(total), 40)


def _one_by_one(setting: Setting, later: Later, aligned: bool) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        for layers in (4, 9):
            stated = sp.N(step.rhs.subs(later.depth, layers), 40)
            expected = one_by_one(setting, later, aligned, layers)
            if abs(stated - expected) > sp.Float("1e-30") * expected:
                return False
        return True

    return holds


def _at_both_outputs(part: Part, later: Later, size: Step) -> Step:
    grows = exponent_in(size.rhs, later.depth) > 0

    def order_one(step: Step) -> bool:
        value = step.lhs / step.rhs
        sizes = [
            sp.N(value.xreplace({A: size.rhs}).subs(later.depth, sp.Integer(10) ** n), 30)
            for n in (40, 60, 80)
        ]
        return bool(all(abs(s / sizes[0] - 1) < sp.Float("1e-6") for s in sizes))

    return SECTION.order(
        f"passage-{part.name}",
        sp.Max(1, A),
        A if grows else sp.Integer(1),
        (
            f"the {part.name} is balanced at its own output, and at the stack's, where A enters "
            "once, as published, the gradient at the memory being taken to be of order one; "
            + (
                "A grows and decides"
                if grows
                else "A does not grow, so that its own output decides"
            )
        ),
        regime=Regime(later.depth, sp.oo),
        source=SOURCE,
        uses=(f"amplification-{part.name}",),
        assumptions=("bounded-upstream-gradient",),
        checks=(Check("ratio at depths of 10^40 and more", order_one),),
    )


def _both_ways(setting: Setting, part: Part, form: str) -> Step:
    p = setting.degrees.p
    optimizer = setting.selection.the_optimizer

    def through_the_update(step: Step) -> bool:
        ratio = 4 * sp.Float(str(step_length(optimizer, 4, 1)), 60)
        return all(
            abs(sp.N(side.subs(A, 4) - ratio, 30)) < sp.Float("1e-20")
            for side in (step.lhs, step.rhs)
        )

    return SECTION.equal(
        f"passage-{part.name}",
        sp.Mul(A, A**p, evaluate=False),
        A ** (1 + p),
        (
            "A once forward; the gradient passes the same cross-attentions, and the update takes "
            f"its power p = {p}: '{form}'"
        ),
        source="derived here",
        uses=(f"amplification-{part.name}", "degrees"),
        checks=(Check("the update of a gradient of A times the size", through_the_update),),
    )
