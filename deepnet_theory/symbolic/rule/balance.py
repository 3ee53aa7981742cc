"""Balance: every part changes its output by η whatever the depth, each sublayer by its share.

The conditions are the two sides of imposed steps, and those are made of the values of the steps
before them: the route's increments, their sum over the listed sublayers, the amplification.
Nothing here knows an optimizer or a placement by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import sympy as sp

from deepnet_theory.spec.closure import Closure, closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import Solution, exponents, simplified, solve
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, eta
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.rule.amplification import (
    Amplification,
    Later,
    amplification,
    one_by_one,
)
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.closures import closure_steps, default_closure, fixed_alpha_step
from deepnet_theory.symbolic.rule.kinds import SECTION, Kind, added_up, count_step, sum_step
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
    conditions = _Conditions(setting, part, of, before, amplified)
    imposed, solution = conditions.solved(setting.closure)
    if solution is None:
        raise _no_solution(setting, part, of, conditions.alternatives)
    if not solution.unique:
        free = ", ".join(str(u) for u in solution.unknowns if u not in solution.values)
        raise Refusal(
            f"the closure {setting.closure.name!r} leaves {free} undetermined in the {part.name}: "
            f"the balance under {setting.selection.the_placement.name} does not depend on it",
            conditions.alternatives,
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
        raise Refusal(broken, conditions.alternatives)
    return result


@dataclass(frozen=True)
class _Conditions:
    """The balance of a part, to which any closure can be joined."""

    setting: Setting
    part: Part
    kinds: tuple[Kind, ...]
    before: tuple[Step, ...]  # the count, the sum, and what passes through the later part
    amplified: Amplification | None

    def solved(self, chosen: Closure) -> tuple[tuple[Step, ...], Solution | None]:
        """The first attempt that has one solution and keeps the premises; else the first of all."""
        first = None
        for joined, rates in self._attempts(chosen):
            imposed = self._imposed(joined, rates)
            unknowns = self._unknowns(chosen, rates)
            solution = solve([(step.lhs, step.rhs) for step in imposed], unknowns)
            if self._holds(chosen, solution):
                return imposed, solution
            first = first or (imposed, solution)
        assert first is not None
        return first

    def _attempts(self, chosen: Closure) -> Iterator[tuple[tuple[Closure, ...], tuple[Kind, ...]]]:
        """Closures to be joined, and the kinds whose κ is a knob.

        Without a κ before one; where every point of a curve does, the default closure's point.
        One matrix a branch has no order beyond the first, so that any closure does without κ.
        """
        yield (chosen,), ()
        if "rate" not in chosen.knobs:
            return
        # the point of a curve is the same by any route
        default = default_closure("probe", self.setting.degrees, self.setting.law)
        yield (chosen, default), ()
        if all(kind.matrices == 1 for kind in self.kinds):
            yield (default,), ()
        for several in range(1, len(self.kinds) + 1):
            for rates in combinations(reversed(self.kinds), several):
                yield (chosen,), rates
                yield (chosen, default), rates

    def _unknowns(self, chosen: Closure, rates: tuple[Kind, ...]) -> tuple[sp.Symbol, ...]:
        knobs = dict.fromkeys(symbol for kind in self.kinds for symbol in (kind.alpha, kind.beta))
        once = (rate,) if "eta" in chosen.knobs else ()
        return (*knobs, *once, *(kind.rate for kind in rates))

    def _imposed(self, joined: tuple[Closure, ...], rates: tuple[Kind, ...]) -> tuple[Step, ...]:
        """Balance and closure of every kind: the conditions that determine the rule."""
        count, total, *passage = self.before
        setting, part, of, amplified = self.setting, self.part, self.kinds, self.amplified
        steps = []
        times = rate if "eta" in joined[0].knobs else sp.Integer(1)
        factor = sp.Integer(1) if amplified is None else amplified.factor
        own_rates = {kind.name: kind.rate if kind in rates else sp.Integer(1) for kind in of}
        for kind in of:
            one = total.rhs / eta if len(of) == 1 else count.rhs * kind.increment
            every = times * factor * own_rates[kind.name]
            steps.append(
                SECTION.equal(
                    f"balance-{kind.tag(part.name)}",
                    simplified(every * one),
                    sp.Integer(1),
                    (
                        "imposed: the part changes the output by eta whatever the depth"
                        + ("" if kind.name == "*" else ", every sublayer by an equal share of it")
                        + ("" if amplified is None else ", at the output that decides")
                        + (", at a learning rate of its own" if kind in rates else "")
                    ),
                    imposed=True,
                    source="Su, §Increment explosion; layer cake, §4.3",
                    uses=(count.name, total.name, *(step.name for step in passage)),
                    establishes=tuple(
                        symbol for symbol in (times, own_rates[kind.name]) if symbol.is_Symbol
                    ),
                    checks=(Check("the shares add to one", _share(count, kind, every)),),
                )
            )
        backward = sp.Integer(1) if amplified is None else amplified.backward
        for index, kind in enumerate(of):
            number = 1
            for closure in joined:
                # one α for all kinds is picked by the first one's condition; ρ is of each kind
                if index == 0 or not setting.selection.one_alpha or "rate" in closure.knobs:
                    relative = backward * times * own_rates[kind.name]
                    found = tuple(closure_steps(closure, kind, part.name, relative, number))
                    steps.extend(found)
                    number += len(found)
            if not setting.law.has_alpha:
                steps.append(fixed_alpha_step(kind, part.name, setting.selection.placement))
        return tuple(steps)

    def _holds(self, chosen: Closure, solution: Solution | None) -> bool:
        if solution is None or not solution.unique:
            return False
        count = self.before[0].rhs
        found = Balanced(self.part, count, self.kinds, chosen, solution.values, (), self.amplified)
        return broken_premise(self.setting, found) is None

    def alternatives(self) -> str:
        """The closures that do balance, found by solving with each; in words."""
        works = [
            other.name
            for other in closures().values()
            if other.name != self.setting.closure.name and self._holds(other, self.solved(other)[1])
        ]
        return f"use the closure {' or '.join(works)}" if works else "no closure balances"


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


def _no_solution(
    setting: Setting, part: Part, of: tuple[Kind, ...], others: Callable[[], str]
) -> Refusal:
    felt = [
        name
        for name, allowed in (("alpha", setting.law.has_alpha), ("beta", True))
        if allowed and any(getattr(kind, name) in exponents(kind.increment) for kind in of)
    ]
    update, placement = setting.selection.the_optimizer.update, setting.selection.placement
    if not felt:
        return Refusal(
            f"under the update {update!r} (degree p = {setting.degrees.p}, q = "
            f"{setting.degrees.q}) one step changes the output by an amount that neither alpha nor "
            f"beta can change with placement {placement!r}; the learning rate "
            "can: use the closure learning-rate"
        )
    return Refusal(
        f"the closure {setting.closure.name!r} leaves no knob that balances the {part.name} under "
        f"the update {update!r} with placement {placement!r}: the increment depends on "
        f"{' and '.join(felt)} alone, or on a product that the closure fixes",
        others,
    )
