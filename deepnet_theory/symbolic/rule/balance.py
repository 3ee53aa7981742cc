"""Balance: every part changes its output by η whatever the depth, each sublayer by its share.

The conditions are the two sides of imposed steps, and those are made of the values of the steps
before them: the route's increments, their sum over the listed sublayers, the amplification.
Nothing here knows an optimizer or a placement by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy as sp

from deepnet_theory.spec.closure import Closure, closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import (
    exponents,
    simplified,
    solve,
)
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, eta
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.rule.amplification import (
    Amplification,
    Later,
    amplification,
    one_by_one,
)
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.closures import closure_steps, fixed_alpha_step
from deepnet_theory.symbolic.rule.kinds import (
    SECTION,
    Kind,
    added_up,
    count_step,
    sum_step,
)
from deepnet_theory.symbolic.rule.premises import broken_premise
from deepnet_theory.symbolic.rule.setting import Setting
from deepnet_theory.symbolic.rule.solution import rate, solution_steps


def balance(
    setting: Setting, part: Part, of: tuple[Kind, ...], solved: Balanced | None
) -> Balanced:
    """Solve the balance of one part under the setting's closure.

    ``solved`` is the later part, through which a change of this one passes. Raises
    :class:`Refusal` where no knob balances, where a knob stays undetermined, or where the
    solution leaves the premises that the orders of magnitude rest on.
    """
    later = None
    if solved is not None:
        later = Later(solved.part, solved.kinds, solved.values, solved.conclusion)
    amplified = None if later is None else amplification(setting, part, later)
    count, total = count_step(part), sum_step(part, of, setting.route)
    before = (count, total, *(() if amplified is None else amplified.steps))
    imposed = _imposed(setting, setting.closure, part, of, before, amplified)
    unknowns = _unknowns(setting.closure, of)
    solution = solve([(s.lhs, s.rhs) for s in imposed], unknowns)
    others = _Alternatives(setting, part, of, before, amplified)
    if solution is None:
        raise Refusal(_no_solution(setting, part, of, others))
    if not solution.unique:
        free = ", ".join(str(u) for u in unknowns if u not in solution.values)
        raise Refusal(
            f"the closure {setting.closure.name!r} leaves {free} undetermined in the {part.name}: "
            f"the balance under {setting.selection.the_placement.name} does not depend on it; "
            f"{others}"
        )
    result = Balanced(part, count.rhs, of, setting.closure, solution.values, (), amplified)
    whole = Check("the whole stack added up", _whole_stack(setting, result, later))
    solved_by = tuple(solution_steps(solution, imposed, part.name, whole))
    result = replace(
        result,
        values={step.lhs: simplified(step.rhs) for step in solved_by},
        steps=(*before, *imposed, *solved_by),
    )
    broken = broken_premise(setting, result)
    if broken is not None:
        raise Refusal(f"{broken}; {others}")
    return result


def _unknowns(chosen: Closure, of: tuple[Kind, ...]) -> tuple[sp.Symbol, ...]:
    knobs = dict.fromkeys(symbol for kind in of for symbol in (kind.alpha, kind.beta))
    return (*knobs, *((rate,) if "eta" in chosen.knobs else ()))


def _imposed(
    setting: Setting,
    chosen: Closure,
    part: Part,
    of: tuple[Kind, ...],
    before: tuple[Step, ...],
    amplified: Amplification | None,
) -> tuple[Step, ...]:
    """Balance and closure of every kind: the conditions that determine the rule."""
    count, total, *passage = before
    steps = []
    times = rate if "eta" in chosen.knobs else sp.Integer(1)
    factor = sp.Integer(1) if amplified is None else amplified.factor
    for kind in of:
        one = total.rhs / eta if len(of) == 1 else count.rhs * kind.increment
        steps.append(
            Step(
                name=f"balance-{kind.tag(part.name)}",
                section=SECTION,
                lhs=simplified(times * factor * one),
                rhs=sp.Integer(1),
                relation=Relation.EQUAL,
                imposed=True,
                because="imposed: the part changes the output by eta whatever the depth"
                + ("" if kind.name == "*" else ", every sublayer by an equal share of it")
                + ("" if amplified is None else ", at the output that decides"),
                source="Su, §Increment explosion; layer cake, §4.3",
                uses=(count.name, total.name, *(step.name for step in passage)),
                establishes=(rate,) if times == rate else (),
                checks=(Check("the shares add to one", _share(count, kind, times * factor)),),
            )
        )
    for index, kind in enumerate(of):
        if index == 0 or not setting.selection.one_alpha:
            steps.extend(closure_steps(chosen, kind, part.name))
        if not setting.law.has_alpha:
            steps.append(fixed_alpha_step(kind, part.name, setting.selection.placement))
    return tuple(steps)


def _share(count: Step, kind: Kind, times: sp.Expr) -> Callable[[Step], bool]:
    """The increment at which a condition holds is one sublayer's share of all S."""

    def holds(step: Step) -> bool:
        share = simplified(step.lhs / (times * kind.increment))
        return bool(step.rhs == 1 and sp.simplify(share / count.rhs) == 1)

    return holds


def _whole_stack(setting: Setting, found: Balanced, later: Later | None) -> Callable[[Step], bool]:
    """At the rule, the increments of an explicit stack, one by one, times A, make one η."""

    def holds(step: Step) -> bool:
        values = {**found.values, step.lhs: step.rhs}
        for layers, beyond in ((2, 3), (7, 5)):
            at = {DEPTHS[found.part.depth]: sp.Integer(layers)}
            times: sp.Expr = sp.Integer(1)
            if later is not None:
                at[later.depth] = sp.Integer(beyond)
                times = _times(setting, later, beyond)
            knobs = {s: value.xreplace(at) for s, value in values.items()}
            total = added_up(found.part, found.kinds, setting.route, layers, knobs)
            moved = sp.N(times * total * knobs.get(rate, 1), 40)
            if abs(moved - 1) > sp.Float("1e-30"):
                return False
        return True

    return holds


def _times(setting: Setting, later: Later, layers: int) -> sp.Expr:
    """A^k at an explicit depth of the later part, from its cross-attentions one by one."""
    form = setting.selection.amplification
    size = one_by_one(setting, later, form != "independent", layers)
    if form != "published":
        return size ** (1 + setting.degrees.p)
    more = [one_by_one(setting, later, True, n) for n in (16, 64)]
    return size if more[1] > more[0] * sp.Float("1.000001") else sp.Integer(1)


# ---- refusals ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Alternatives:
    """The closures that do balance, found by solving with each; in words."""

    setting: Setting
    part: Part
    kinds: tuple[Kind, ...]
    before: tuple[Step, ...]
    amplified: Amplification | None

    def __str__(self) -> str:
        works = [
            other.name
            for other in closures().values()
            if other.name != self.setting.closure.name and self._balances(other)
        ]
        return f"use the closure {' or '.join(works)}" if works else "no closure balances"

    def _balances(self, other: Closure) -> bool:
        imposed = _imposed(self.setting, other, self.part, self.kinds, self.before, self.amplified)
        solution = solve([(s.lhs, s.rhs) for s in imposed], _unknowns(other, self.kinds))
        if solution is None or not solution.unique:
            return False
        found = Balanced(self.part, self.before[0].rhs, self.kinds, other, solution.values)
        return broken_premise(self.setting, found) is None


def _no_solution(setting: Setting, part: Part, of: tuple[Kind, ...], others: _Alternatives) -> str:
    felt = [
        name
        for name, allowed in (("alpha", setting.law.has_alpha), ("beta", True))
        if allowed and any(getattr(kind, name) in exponents(kind.increment) for kind in of)
    ]
    update, placement = setting.selection.the_optimizer.update, setting.selection.placement
    if not felt:
        return (
            f"under the update {update!r} (degree p = {setting.degrees.p}, q = "
            f"{setting.degrees.q}) one step changes the output by an amount that neither alpha nor "
            f"beta can change with placement {placement!r}; the learning rate "
            "can: use the closure learning-rate"
        )
    return (
        f"the closure {setting.closure.name!r} leaves no knob that balances the {part.name} under "
        f"the update {update!r} with placement {placement!r}: the increment depends on "
        f"{' and '.join(felt)} alone, or on a product that the closure fixes; {others}"
    )
