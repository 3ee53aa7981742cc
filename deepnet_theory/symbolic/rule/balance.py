"""The balance of a part joined with a closure: conditions that are imposed, and their solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import mpmath
import sympy as sp

from deepnet_theory.sizes.rule import Balanced as Sized
from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.expression import Expression, FloatAlgebra, fold
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import (
    Exponents,
    S,
    Solution,
    eta,
    exponents,
    in_sympy,
    monomial,
    present,
    simplified,
    solve,
)
from deepnet_theory.symbolic.expectation import output_change
from deepnet_theory.symbolic.proof.checks import (
    DIGITS,
    NAMED,
    Point,
    at_points,
    defines,
    near,
    number,
)
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.rule.amplification import SECTION, amplification, listed, one_by_one
from deepnet_theory.symbolic.rule.kinds import Balanced, Kind, Setting, rate
from deepnet_theory.symbolic.rule.parallel import parallel_steps

CLOSURE = Section("The closure")
_layer = sp.Symbol("l", integer=True, positive=True)
_ONE = sp.Integer(1)


def balance(setting: Setting, sized: Sized, later: Balanced | None) -> Balanced:
    """Solve the balance of one part, joined with the closures that ``sized`` names.

    ``later`` is the solved part that a change of this one passes through. A system that does
    not determine every knob is an error: the algebra of sizes has refused what has no rule.
    """
    part = sized.part
    of = setting.kinds(part)
    amplified = None if later is None else amplification(setting, part, later)
    bare = Balanced(part, of, {}, (), amplified)
    before = (
        count_step(bare),
        sum_step(setting, bare),
        *(() if amplified is None else amplified.steps),
    )
    alike = tuple(parallel_steps(part, setting.selection.the_placement))
    imposed = _imposed(setting, sized, bare, before)
    knobs = dict.fromkeys(symbol for kind in of for symbol in kind.own.values())
    once = (rate,) if "eta" in setting.closure.knobs else ()
    rates = (kind.rate for kind in of if kind.name in sized.rated)
    solution = solve([(step.lhs, step.rhs) for step in imposed], (*knobs, *once, *rates))
    if solution is None or not solution.unique:
        raise TypeError(f"the steps of the {part.name} determine no rule where sizes do")
    found = replace(bare, values=solution.values)
    solved_by = tuple(_solution(solution, imposed, part, _whole_stack(setting, found, later)))
    values = {step.lhs: simplified(step.rhs) for step in solved_by}
    return replace(found, values=values, steps=(*alike, *before, *imposed, *solved_by))


# ---- the sublayers of a part: how many there are, and what they add up to ----


def count_step(of: Balanced) -> Step:
    """S: the residual sublayers of all layers, counted."""
    part = of.part
    return SECTION.equal(
        f"sublayers-{part.name}",
        sp.Sum(sp.Integer(len(part.layer)), (_layer, 1, of.depth)),
        of.sublayers,
        f"S, the {'branches' if any(part.parallel) else 'residual sublayers'} of the {part.name}: "
        f"{part.described} in each of {part.depth} layers",
        source="Su, §Increment explosion",
        establishes=(_layer,),
        checks=(listed(part, lambda _: True),),
        left=S,
    )


def sum_step(setting: Setting, of: Balanced) -> Step:
    """What one step makes all listed sublayers of a part add to its output."""
    part = of.part
    several = {k.name: sum(s.name in k.members for s in part.layer) for k in of.kinds}
    knobs = tuple(dict.fromkeys(symbol for kind in of.kinds for symbol in kind.own.values()))

    def points(_: Step) -> Iterator[Point]:
        at = {s: sp.Rational(3 + 2 * place, 7) for place, s in enumerate(knobs)}
        for layers in (1, 2, 3):
            values = {**at, eta: _ONE, of.depth: sp.Integer(layers)}
            yield values, mpmath.fsum(_each(setting, of, layers, values))

    return SECTION.equal(
        f"sum-{part.name}",
        sp.Sum(
            sp.Add(*(several[k.name] * eta * k.increment for k in of.kinds)), (_layer, 1, of.depth)
        ),
        sp.Add(*(several[k.name] * of.depth * eta * k.increment for k in of.kinds)),
        f"the residual sublayers of the {part.name} add up; their changes are aligned (in "
        "independent directions they would add as a square root)",
        source="Su, §Increment explosion",
        uses=(
            f"sublayers-{part.name}",
            *dict.fromkeys(name for kind in of.kinds for name in kind.rests_on),
            *setting.route.sums,
            *(step.name for step in parallel_steps(part, setting.selection.the_placement)),
        ),
        assumptions=("aligned-updates", "near-identity"),
        establishes=(*knobs, eta),
        checks=(at_points("added up sublayer by sublayer", points),),
        left=output_change(),
    )


def _each(
    setting: Setting, of: Balanced, layers: int, at: dict[sp.Symbol, sp.Expr]
) -> Iterator[mpmath.mpf]:
    """The increments per η of an explicit stack, one sublayer after the other."""
    for sublayer in [s for _ in range(layers) for s in of.part.layer]:
        kind = next(k for k in of.kinds if sublayer.name in k.members)
        knobs = {plain: at[own] for plain, own in kind.own.items()}
        knobs[eta] = at.get(kind.rate, _ONE)  # an update is proportional to its learning rate
        yield number(setting.route.increments[sublayer.name].value, knobs)


# ---- what is imposed: every part changes its output by η, each sublayer by its share ----


def _imposed(
    setting: Setting, sized: Sized, of: Balanced, before: tuple[Step, ...]
) -> tuple[Step, ...]:
    """Balance and closure of every kind: the conditions that determine the rule.

    ``before`` are the count, the sum, and what passes through the later part.
    """
    count, total, *_ = before
    steps, joined = [], sized.joined
    times = rate if "eta" in joined[0].knobs else _ONE
    own_rates = {k.name: k.rate if k.name in sized.rated else _ONE for k in of.kinds}
    for kind in of.kinds:
        own = own_rates[kind.name]
        one = total.rhs / eta if len(of.kinds) == 1 else count.rhs * kind.increment
        every = times * of.factor * own
        steps.append(
            SECTION.equal(
                f"balance-{kind.tag(of.part.name)}",
                simplified(every * one),
                _ONE,
                (
                    "imposed: the part changes the output by eta whatever the depth"
                    + ("" if kind.name == "*" else ", every sublayer by an equal share of it")
                    + ("" if of.amplification is None else "; at the output that decides")
                    + (", at a learning rate of its own" if kind.name in sized.rated else "")
                ),
                imposed=True,
                source="Su, §Increment explosion; layer cake, §4.3",
                uses=tuple(step.name for step in before),
                establishes=tuple(symbol for symbol in (times, own) if symbol.is_Symbol),
                checks=(Check("the shares add to one", _share(count, kind, every)),),
                left=output_change() / eta,
            )
        )
    one_alpha = setting.selection.has_one_alpha(of.part)
    for index, kind in enumerate(of.kinds):
        relative, first = of.backward * times * own_rates[kind.name], 1
        for closure in joined:
            # one α for all kinds is picked by the first one's condition; ρ is of each kind
            if index == 0 or not one_alpha or "rate" in closure.knobs:
                found = tuple(_conditions(closure, kind, of.part, relative, first))
                steps.extend(found)
                first += len(found)
        if not setting.law.has_alpha:
            steps.append(_fixed_alpha(kind, of.part, setting.selection.placement))
    return tuple(steps)


def _share(count: Step, kind: Kind, times: sp.Expr) -> Callable[[Step], bool]:
    """A condition holds where the increment is one sublayer's share of all S."""

    def holds(step: Step) -> bool:
        share = simplified(step.lhs / (times * kind.increment))
        return step.rhs == 1 and not exponents(share / count.rhs)

    return holds


def _conditions(
    chosen: Closure, kind: Kind, part: Part, times: sp.Expr, first: int
) -> Iterator[Step]:
    """The closure's conditions for one kind of sublayer, imposed; numbered from ``first``.

    ``times`` is what multiplies its relative update: κ, or what comes with the gradient.
    """
    names = {"alpha": kind.alpha, "beta": kind.beta, "m": sp.Integer(kind.matrices)}
    names["rho"] = times * kind.relative
    for index, sides in enumerate(chosen.expressions, first):
        left, right = (in_sympy(side, names) for side in sides)
        yield CLOSURE.equal(
            f"closure-{kind.tag(part.name)}-{index}",
            left,
            right,
            f"imposed by the closure '{chosen.name}': {chosen.summary}",
            imposed=True,
            source=chosen.source,
            establishes=(kind.alpha, kind.beta),
            checks=(_as_written(sides, kind, times),),
            left=in_sympy(sides[0], {**names, "rho": kind.symbol("rho")}),
        )


def _as_written(sides: tuple[Expression, Expression], kind: Kind, times: sp.Expr) -> Check:
    """ρ is taken from the increment, which is in proportion to the branch's weight and to ρ."""
    others = dict.fromkeys(sp.sympify(times).free_symbols, 0.7)  # κ, and depths behind it
    per_weight = kind.increment / kind.weight
    plain = number(per_weight, {kind.alpha: _ONE, kind.beta: _ONE})

    def points(_: Step) -> Iterator[Point]:
        for a, b in ((0.3, 1.7), (2.5, 0.6)):
            at = {kind.alpha: a, kind.beta: b, **others}
            rho = float(number(times, others) * number(per_weight, at) / plain)
            written = FloatAlgebra(alpha=a, beta=b, m=len(kind.sublayer.scaled), rho=rho)
            yield at, tuple(fold(side.root, written) for side in sides)

    return at_points("as the closure's own text says", points, digits=12)


def _fixed_alpha(kind: Kind, part: Part, placement: str) -> Step:
    """α = 1 where the placement has no residual multiplier."""
    return CLOSURE.equal(
        f"fixed-alpha-{kind.tag(part.name)}",
        kind.alpha,
        _ONE,
        f"the placement '{placement}' has no residual multiplier",
        imposed=True,
        establishes=(kind.alpha,),
        checks=(defines("no other value is imposed", lambda: _ONE),),
    )


# ---- the conditions solved, by two methods ----


def _solution(
    solution: Solution, imposed: Sequence[Step], part: Part, whole: Check
) -> Iterator[Step]:
    """Each unknown's value; ``whole`` checks it on an explicit stack."""
    powers = [exponents(sp.sympify(one.lhs / one.rhs)) for one in imposed]
    for symbol in solution.unknowns:
        yield CLOSURE.equal(
            f"solution-{part.name}-{'eta' if symbol == rate else symbol}",
            symbol,
            present(solution.values[symbol]),
            "solved in logarithms, where balance and closure are linear",
            source="derived here",
            uses=tuple(step.name for step in imposed),
            establishes=(symbol,),
            checks=(
                Check("satisfies its conditions", _satisfies(symbol, solution, imposed)),
                Check("the normal equations' only solution", _again(symbol, solution, powers)),
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
    symbol: sp.Symbol, solution: Solution, powers: Sequence[Exponents]
) -> Callable[[Step], bool]:
    """Aᵀ A x = Aᵀ b by its inverse, base by base; an inconsistent system leaves a residual."""

    def holds(step: Step) -> bool:
        unknowns = list(solution.unknowns)
        system = sp.Matrix([[row.get(u, 0) for u in unknowns] for row in powers])
        inverse = (system.T * system).inv() * system.T
        found = {}
        for base in {b for row in powers for b in row} - set(unknowns):
            side = sp.Matrix([-row.get(base, 0) for row in powers])
            values = inverse * side
            if system * values != side:
                return False
            found[base] = values[unknowns.index(symbol)]
        return not exponents(simplified(step.rhs / monomial(found)))

    return holds


def _whole_stack(setting: Setting, found: Balanced, later: Balanced | None) -> Check:
    """At the rule, the increments of an explicit stack, one by one, times A, make one η."""

    def holds(step: Step) -> bool:
        values = {**found.values, step.lhs: step.rhs}
        for layers, beyond in ((2, 3), (7, 5)):
            at = {found.depth: sp.Integer(layers)}
            if later is not None:
                at[later.depth] = sp.Integer(beyond)
            knobs = {s: number(value, at) for s, value in values.items()}
            moved = mpmath.fsum(_each(setting, found, layers, knobs)) * knobs.get(rate, 1)
            times = 1 if later is None else _times(setting, later, beyond)
            if not near(times * moved, 1):
                return False
        return True

    def exactly(step: Step) -> bool:
        with mpmath.workdps(DIGITS):
            return holds(step)

    return Check("the whole stack added up", exactly)


def _times(setting: Setting, later: Balanced, layers: int) -> mpmath.mpf:
    """A^k at an explicit depth of the later part, from its cross-attentions one by one."""
    form = setting.selection.amplification
    if form != "published":
        size = one_by_one(setting, later, layers, form != "independent")
        return size ** number(1 + setting.degrees.p)
    size, shallow, deep = (one_by_one(setting, later, n, True) for n in (layers, 16, 64))
    return size if deep > shallow * mpmath.mpf("1.000001") else mpmath.mpf(1)
