"""Closures: one more condition that picks a point of the balanced curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import sympy as sp

from deepnet_theory.sizes.rule import Balanced as Sized
from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.expression import Expression, FloatAlgebra, fold
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    Solution,
    eta,
    exponents,
    in_sympy,
    monomial,
    present,
    simplified,
    solve,
)
from deepnet_theory.symbolic.proof.checks import NAMED, defines
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.rule.amplification import (
    Amplification,
    Later,
    amplification,
    one_by_one,
)
from deepnet_theory.symbolic.rule.kinds import (
    SECTION as BALANCE,
)
from deepnet_theory.symbolic.rule.kinds import (
    Balanced,
    Kind,
    Setting,
    added_up,
    count_step,
    rate,
    sum_step,
)

SECTION = Section("The closure")


def closure_steps(
    chosen: Closure, kind: Kind, part: str, times: sp.Expr, first: int = 1
) -> Iterator[Step]:
    """The closure's conditions for one kind of sublayer, imposed; numbered from ``first``.

    ``times`` is what multiplies its relative update: κ, or what comes with the gradient.
    """
    matrices = sp.Integer(kind.matrices)
    names = {"alpha": kind.alpha, "beta": kind.beta, "m": matrices, "rho": times * kind.relative}
    for number, sides in enumerate(chosen.expressions, first):
        left, right = (in_sympy(side, names) for side in sides)
        yield SECTION.equal(
            f"closure-{kind.tag(part)}-{number}",
            left,
            right,
            f"imposed by the closure '{chosen.name}': {chosen.summary}",
            imposed=True,
            source=chosen.source,
            establishes=(kind.alpha, kind.beta),
            checks=(Check("as the closure's own text says", _as_written(sides, kind, times)),),
        )


def _as_written(
    sides: tuple[Expression, Expression], kind: Kind, times: sp.Expr
) -> Callable[[Step], bool]:
    others = dict.fromkeys(sp.sympify(times).free_symbols, 0.7)  # κ, and depths behind it

    def relative(a: float, b: float) -> float:
        """ρ from the increment, which is in proportion to the branch's weight and to ρ."""
        per_weight = kind.increment / kind.weight
        at, plain = ({kind.alpha: x, kind.beta: y} for x, y in ((a, b), (1.0, 1.0)))
        return float(times.subs(others) * per_weight.subs(at) / per_weight.subs(plain))

    def holds(step: Step) -> bool:
        for a, b in ((0.3, 1.7), (2.5, 0.6)):
            names = {"alpha": a, "beta": b, "m": float(len(kind.sublayer.scaled))}
            names["rho"] = relative(a, b)
            for side, written in zip((step.lhs, step.rhs), sides, strict=True):
                value = float(side.subs({kind.alpha: a, kind.beta: b, **others}))
                if abs(value - float(fold(written.root, FloatAlgebra(**names)))) > 1e-12 * value:
                    return False
        return True

    return holds


def fixed_alpha_step(kind: Kind, part: str, placement: str) -> Step:
    """α = 1 where the placement has no residual multiplier."""
    return SECTION.equal(
        f"fixed-alpha-{kind.tag(part)}",
        kind.alpha,
        sp.Integer(1),
        f"the placement '{placement}' has no residual multiplier",
        imposed=True,
        establishes=(kind.alpha,),
        checks=(defines("no other value is imposed", lambda: sp.Integer(1)),),
    )


# ---- The imposed conditions solved, by two methods ----


def solution_steps(
    solution: Solution, imposed: Sequence[Step], part: str, whole: Check
) -> Iterator[Step]:
    """Each unknown's value; ``whole`` checks it on an explicit stack."""
    for symbol in solution.unknowns:
        yield SECTION.equal(
            f"solution-{part}-{'eta' if symbol == rate else symbol}",
            symbol,
            present(solution.values[symbol]),
            "solved in logarithms, where balance and closure are linear",
            source="derived here",
            uses=tuple(step.name for step in imposed),
            establishes=(symbol,),
            checks=(
                Check("satisfies its conditions", _satisfies(symbol, solution, imposed)),
                Check("the normal equations' only solution", _again(symbol, solution, imposed)),
                whole,
                NAMED,
            ),
        )


def _satisfies(
    symbol: sp.Symbol, solution: Solution, imposed: Sequence[Step]
) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        values = {**solution.values, symbol: step.rhs}
        return bool(step.rhs.is_positive) and all(
            not exponents(simplified(sp.sympify(one.lhs / one.rhs).xreplace(values)))
            for one in imposed
        )

    return holds


def _again(
    symbol: sp.Symbol, solution: Solution, imposed: Sequence[Step]
) -> Callable[[Step], bool]:
    """Aᵀ A x = Aᵀ b by its inverse, base by base; an inconsistent system leaves a residual."""

    def holds(step: Step) -> bool:
        unknowns = list(solution.unknowns)
        powers = [exponents(sp.sympify(one.lhs / one.rhs)) for one in imposed]
        system = sp.Matrix([[row.get(u, 0) for u in unknowns] for row in powers])
        normal = system.T * system
        if normal.det() == 0:
            return False
        found = {}
        for base in {b for row in powers for b in row} - set(unknowns):
            side = sp.Matrix([-row.get(base, 0) for row in powers])
            values = normal.inv() * system.T * side
            if system * values != side:
                return False
            found[base] = values[unknowns.index(symbol)]
        return not exponents(simplified(step.rhs / monomial(found)))

    return holds


# ---- the balance: every part changes its output by η, each sublayer by its share ----


def balance(
    setting: Setting, sized: Sized, of: tuple[Kind, ...], solved: Balanced | None
) -> Balanced:
    """Solve the balance of one part, joined with the closures that ``sized`` names.

    ``solved`` is the later part, through which a change of this one passes. A system that does
    not determine every knob is an error: the algebra of sizes has refused what has no rule.
    """
    part, later = sized.part, None
    if solved is not None:
        later = Later(solved.part, solved.kinds, solved.values, solved.conclusion)
    amplified = None if later is None else amplification(setting, part, later)
    count, total = count_step(part), sum_step(part, of, setting.route)
    before = (count, total, *(() if amplified is None else amplified.steps))
    imposed = _imposed(setting, sized, of, before, amplified)
    knobs = dict.fromkeys(symbol for kind in of for symbol in (kind.alpha, kind.beta))
    once = (rate,) if "eta" in setting.closure.knobs else ()
    rates = (kind.rate for kind in of if kind.name in sized.rated)
    solution = solve([(step.lhs, step.rhs) for step in imposed], (*knobs, *once, *rates))
    if solution is None or not solution.unique:
        raise TypeError(f"the steps of the {part.name} determine no rule where sizes do")
    result = Balanced(part, count.rhs, of, setting.closure, solution.values, (), amplified)
    whole = Check("the whole stack added up", _whole_stack(setting, result, later))
    solved_by = tuple(solution_steps(solution, imposed, part.name, whole))
    return replace(
        result,
        values={step.lhs: simplified(step.rhs) for step in solved_by},
        steps=(*before, *imposed, *solved_by),
    )


def _imposed(
    setting: Setting,
    sized: Sized,
    of: tuple[Kind, ...],
    before: tuple[Step, ...],
    amplified: Amplification | None,
) -> tuple[Step, ...]:
    """Balance and closure of every kind: the conditions that determine the rule.

    ``before`` are the count, the sum, and what passes through the later part.
    """
    count, total, *passage = before
    part, joined = sized.part, sized.joined
    steps = []
    times = rate if "eta" in joined[0].knobs else sp.Integer(1)
    factor = sp.Integer(1) if amplified is None else amplified.factor
    own_rates = {kind.name: kind.rate if kind.name in sized.rated else sp.Integer(1) for kind in of}
    for kind in of:
        one = total.rhs / eta if len(of) == 1 else count.rhs * kind.increment
        every = times * factor * own_rates[kind.name]
        steps.append(
            BALANCE.equal(
                f"balance-{kind.tag(part.name)}",
                simplified(every * one),
                sp.Integer(1),
                (
                    "imposed: the part changes the output by eta whatever the depth"
                    + ("" if kind.name == "*" else ", every sublayer by an equal share of it")
                    + ("" if amplified is None else ", at the output that decides")
                    + (", at a learning rate of its own" if kind.name in sized.rated else "")
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
