"""The balance of a part joined with a closure: conditions that are imposed, and their solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mpmath
import sympy as sp

from deepnet_theory.sizes.rule import Balanced as Sized
from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.expression import FloatAlgebra, fold
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.monomial import (
    S,
    depth_expression,
    eta,
    exponents,
    in_sympy,
    present,
    rational,
    simplified,
    solve,
)
from deepnet_theory.symbolic.expectation import output_change
from deepnet_theory.symbolic.laws.explicit import step_length
from deepnet_theory.symbolic.proof.step import (
    NAMED,
    Check,
    Point,
    Section,
    Step,
    at_points,
    defines,
    number,
)
from deepnet_theory.symbolic.rule.amplification import (
    SECTION,
    Balanced,
    Kind,
    amplification,
    listed,
    rate,
)
from deepnet_theory.symbolic.rule.parallel import parallel_steps
from deepnet_theory.symbolic.rule.shared import shared_steps
from deepnet_theory.symbolic.rule.streams import streams_steps

if TYPE_CHECKING:
    from deepnet_theory.symbolic.rule.problem import Problem

CLOSURE = Section("The closure")
_layer = sp.Symbol("l", integer=True, positive=True)
_ONE = sp.Integer(1)


def balance(problem: Problem, sized: Sized, later: Balanced | None) -> Balanced:
    """Solve the balance of one part, joined with the closures that ``sized`` names.

    ``later`` is the solved part that a change of this one passes through. A system that does
    not determine every knob is an error: the algebra of sizes has refused what has no rule.
    """
    part = sized.part
    amplified = None if later is None else amplification(problem, part, later)
    together = depth_expression(part.uses) ** rational(problem.degrees.p)
    bare = Balanced(part, problem.kinds(part), {}, (), amplified, together)
    placed, optimizer = problem.selection.placed, problem.selection.the_optimizer
    alike = (
        *streams_steps(part, problem.selection.the_placement),
        *parallel_steps(part, problem.selection.the_placement),
        *shared_steps(part, placed, optimizer, problem.degrees),
    )
    before = (
        count_step(bare),
        sum_step(problem, bare, alike),
        *(() if amplified is None else amplified.steps),
    )
    imposed = (*_shares(problem, sized, bare, before), *_closures(problem, sized, bare))
    once = (rate,) if "eta" in problem.sized.closure.knobs else ()
    rates = (kind.rate for kind in bare.kinds if kind.name in sized.rated)
    unknowns = (*bare.knobs, *once, *rates)
    solution = solve([(step.lhs, step.rhs) for step in imposed], unknowns)
    if solution is None or len(solution) < len(unknowns):
        raise TypeError(f"the steps of the {part.name} determine no rule where sizes do")
    found = replace(bare, values=solution)
    solved_by = tuple(_solution(solution, imposed, part))
    values = {step.lhs: simplified(step.rhs) for step in solved_by}
    return replace(found, values=values, steps=(*alike, *before, *imposed, *solved_by))


# ---- the sublayers of a part: how many there are, and what they add up to ----


def count_step(of: Balanced) -> Step:
    """S: the residual sublayers of all layers, counted."""
    part = of.part
    return SECTION.equal(
        f"sublayers-{part.name}",
        sp.Sum(sp.Rational(part.sublayers_per_layer), (_layer, 1, of.depth)),
        of.sublayers,
        f"S, the {'branches' if any(part.parallel) else 'residual sublayers'} of the {part.name}: "
        f"{part.described} in each of {part.depth} layers",
        source="Su, §Increment explosion",
        establishes=(_layer,),
        checks=(listed(part, lambda _: True),),
        left=S,
    )


def sum_step(problem: Problem, of: Balanced, alike: Sequence[Step]) -> Step:
    """What one step makes all listed sublayers of a part add to its output."""
    part = of.part
    listed_once = list(zip(part.layer, part.shares, strict=True))
    several = [
        sp.Rational(sum(f for s, f in listed_once if s.name in kind.members)) for kind in of.kinds
    ]
    one = eta * of.together
    terms = [n * one * kind.increment for n, kind in zip(several, of.kinds, strict=True)]

    def points(_: Step) -> Iterator[Point]:
        at: dict[sp.Expr, sp.Expr] = {
            s: sp.Rational(4 + 2 * place, 7) for place, s in enumerate(of.knobs)
        }
        at[eta] = sp.Rational(2, 5)
        for layers in (part.period, 2 * part.period, 3 * part.period):
            depth = {of.depth: sp.Integer(layers)}
            # a matrix is stepped under the gradients of all its uses
            used = step_length(problem.selection.the_optimizer, number(of.uses, depth), 1)
            yield {**at, **depth}, number(used) * mpmath.fsum(each(at, layers))

    def each(at: dict[sp.Expr, sp.Expr], layers: int) -> Iterator[mpmath.mpf]:
        """The increments per η of an explicit stack, one sublayer after the other."""
        for sublayer in part.listed(layers):
            kind = next(k for k in of.kinds if sublayer.name in k.members)
            own = {eta: at[eta], **{plain: at[knob] for plain, knob in kind.own.items()}}
            yield number(problem.route.increments[sublayer.name].rhs, own)

    return SECTION.equal(
        f"sum-{part.name}",
        sp.Sum(sp.Add(*terms), (_layer, 1, of.depth)),
        sp.Add(*(of.depth * term for term in terms)),
        f"the residual sublayers of the {part.name} add up; their changes are aligned (in "
        "independent directions they would add as a square root)",
        source="Su, §Increment explosion",
        uses=(
            f"sublayers-{part.name}",
            *dict.fromkeys(name for kind in of.kinds for name in kind.rests_on),
            *problem.route.sums,
            *(step.name for step in alike),
        ),
        assumptions=("aligned-updates", "near-identity"),
        establishes=(*of.knobs, eta),
        checks=(at_points("added up sublayer by sublayer", points),),
        left=output_change(),
    )


# ---- what is imposed: every part changes its output by η, each sublayer by its share ----


def _times(sized: Sized, kind: Kind | None = None) -> sp.Expr:
    """What multiplies η: its factor where that is a knob, and κ of a kind that takes one."""
    factor = rate if "eta" in sized.joined[0].knobs else _ONE
    return factor * kind.rate if kind and kind.name in sized.rated else factor


def _shares(
    problem: Problem, sized: Sized, of: Balanced, before: tuple[Step, ...]
) -> Iterator[Step]:
    """The balance of every kind. ``before``: the count, the sum, what passes the later part."""
    count, total, *_ = before
    for kind in of.kinds:
        one = total.rhs / eta if len(of.kinds) == 1 else count.rhs * of.together * kind.increment
        every = of.factor * _times(sized, kind)

        def holds(step: Step, kind: Kind = kind, every: sp.Expr = every) -> bool:
            share = simplified(step.lhs / (every * of.together * kind.increment))
            return step.rhs == 1 and not exponents(share / count.rhs)

        yield SECTION.equal(
            f"balance-{kind.tag(of.part.name)}",
            simplified(every * one),
            _ONE,
            "imposed: the part changes the output by eta whatever the depth"
            + ("" if kind.name == "*" else ", every sublayer by an equal share of it")
            + ("" if of.amplification is None else "; at the output that decides")
            + (", at a learning rate of its own" if kind.name in sized.rated else ""),
            imposed=True,
            source="Su, §Increment explosion; layer cake, §4.3",
            uses=tuple(step.name for step in before),
            establishes=tuple(s for s in (rate, kind.rate) if _times(sized, kind).has(s)),
            checks=(Check("the shares add to one", holds),),
            left=output_change() / eta,
        )


def _closures(problem: Problem, sized: Sized, of: Balanced) -> Iterator[Step]:
    """The closures' conditions on every kind, and α where the placement fixes it."""
    one_alpha, part = problem.selection.has_one_alpha(of.part), of.part
    placed = problem.selection.placed
    for index, kind in enumerate(of.kinds):
        times, first = of.backward * of.together * _times(sized, kind), 1
        for closure in sized.joined:
            # one α for all kinds is picked by the first one's condition; ρ is of each kind
            if index == 0 or not one_alpha or "rate" in closure.knobs:
                yield from _conditions(closure, kind, part, times, first)
                first += len(closure.expressions)
        if not problem.law(kind.sublayer).has_alpha:
            yield CLOSURE.equal(
                f"fixed-alpha-{kind.tag(part.name)}",
                kind.alpha,
                _ONE,
                f"the placement '{placed(kind.sublayer).name}' has no residual multiplier",
                imposed=True,
                establishes=(kind.alpha,),
                checks=(defines("no other value is imposed", lambda: _ONE),),
            )


def _conditions(
    chosen: Closure, kind: Kind, part: Part, times: sp.Expr, first: int
) -> Iterator[Step]:
    """The closure's conditions for one kind of sublayer, imposed; numbered from ``first``.

    ``times`` is what multiplies its relative update: κ, or what comes with the gradient. The check
    takes ρ from the increment, which is in proportion to the branch's weight and to ρ; by what
    factor, at α = β = 1.
    """
    names = {"alpha": kind.alpha, "beta": kind.beta, "m": sp.Integer(kind.matrices)}
    names["rho"] = times * kind.relative
    others = dict.fromkeys(sp.sympify(times).free_symbols, 0.7)  # κ, and depths behind it
    per_weight = kind.increment / kind.weight
    plain = number(per_weight / kind.relative, {kind.alpha: _ONE, kind.beta: _ONE})
    for index, sides in enumerate(chosen.expressions, first):

        def points(_: Step, sides: tuple[Any, Any] = sides) -> Iterator[Point]:
            for a, b in ((0.3, 1.7), (2.5, 0.6)):
                at = {kind.alpha: a, kind.beta: b, **others}
                rho = float(number(times, others) * number(per_weight, at) / plain)
                written = FloatAlgebra(alpha=a, beta=b, m=kind.matrices, rho=rho)
                yield at, tuple(fold(side.root, written) for side in sides)

        left, right = (in_sympy(side, names) for side in sides)
        yield CLOSURE.equal(
            f"closure-{kind.tag(part.name)}-{index}",
            left,
            right,
            f"imposed by the closure '{chosen.name}': {chosen.summary}",
            imposed=True,
            source=chosen.source,
            establishes=(kind.alpha, kind.beta),
            checks=(at_points("as the closure's own text says", points, digits=12),),
            left=in_sympy(sides[0], {**names, "rho": kind.symbol("rho")}),
        )


# ---- the conditions solved ----


def _solution(
    solution: dict[sp.Symbol, sp.Expr], imposed: Sequence[Step], part: Part
) -> Iterator[Step]:
    """Each unknown's value."""
    conditions = [sp.sympify(one.lhs / one.rhs) for one in imposed]
    unknowns = list(solution)

    def satisfied(step: Step) -> bool:
        values = {**solution, step.lhs: step.rhs}
        return bool(step.rhs.is_positive) and all(
            not exponents(simplified(one.xreplace(values))) for one in conditions
        )

    for symbol in unknowns:
        yield CLOSURE.equal(
            f"solution-{part.name}-{'eta' if symbol == rate else symbol}",
            symbol,
            present(solution[symbol]),
            "solved in logarithms, where balance and closure are linear",
            source="derived here",
            uses=tuple(step.name for step in imposed),
            establishes=(symbol,),
            checks=(
                Check("satisfies its conditions", satisfied),
                NAMED,
            ),
        )
