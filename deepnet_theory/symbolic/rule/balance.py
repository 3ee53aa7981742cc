"""Balance and closure: the conditions of a rule, solved linearly in logarithms.

Every sublayer contributes η/S to the change of the part's output, S being the number of
residual sublayers of the part; a closure picks one point of the balanced curve. Nothing here
knows an optimizer or a placement by name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp

from deepnet_theory.spec.closure import Closure, closure
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.expression import Expression, OperatorAlgebra, fold
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.depth import rational
from deepnet_theory.symbolic.algebra.monomial import (
    Solution,
    exponent_in,
    exponents,
    simplified,
    solve,
)
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, alpha, beta, part_symbol
from deepnet_theory.symbolic.laws.descent import refuse_unless_descent
from deepnet_theory.symbolic.laws.optimizer import Degrees, degrees
from deepnet_theory.symbolic.laws.parameters import branch_weight, scaled_increment
from deepnet_theory.symbolic.laws.placement import PlacementLaw, placement_law
from deepnet_theory.symbolic.rule.premises import broken_premise

eta_factor = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob


@dataclass(frozen=True)
class Kind:
    """One kind of sublayer of a part: its order of increment in its own α and β."""

    name: str  # "*" where every sublayer of the part behaves alike
    sublayer: Sublayer
    alpha: sp.Symbol
    beta: sp.Symbol
    increment: Any  # in alpha and beta, units of η
    weight: Any  # r, in alpha and beta
    matrices: int  # m_s


@dataclass(frozen=True)
class Amplification:
    """How the later part magnifies a change of this part's output.

    ``size`` is A as a function of the later part's depth, ``grows`` whether it grows with it,
    ``power`` how often A enters, ``factor`` what the balance is multiplied with.
    """

    form: str
    weight: Any  # c, the branch weight of one cross-attention
    layers: Any  # how many cross-attentions
    size: Any
    grows: bool
    power: Any
    factor: Any
    alternatives: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Balanced:
    """The conditions of one part, and their solution."""

    part: Part
    sublayers: Any  # S, in the depth symbol
    kinds: tuple[Kind, ...]
    closure: Closure
    conditions: tuple[tuple[Any, Any], ...]
    unknowns: tuple[sp.Symbol, ...]
    solution: Solution
    amplification: Amplification | None = None

    def value(self, symbol: sp.Symbol) -> Any:
        """The solved value of α or β (or of η's factor) in the depth symbols."""
        return self.solution.values[symbol]

    @property
    def rate(self) -> Any:
        """The learning rate's factor at the solution."""
        return self.solution.values.get(eta_factor, sp.Integer(1))

    def at_solution(self, expression: Any) -> Any:
        """An expression in α's and β's with the solved values put in."""
        return simplified(expression.xreplace(self.solution.values))

    def self_consistency(self, kind: Kind, power: int = 2) -> Any:
        """S·r^power of a kind at the solution."""
        return self.sublayers * self.at_solution(kind.weight) ** power


class _Side(OperatorAlgebra[Any]):
    """One side of a closure, in a kind's own symbols."""

    def __init__(self, kind: Kind) -> None:
        self.names = {
            "alpha": kind.alpha,
            "beta": kind.beta,
            "m": sp.Integer(kind.matrices),
        }

    def number(self, value: Any) -> Any:
        return rational(value)

    def name(self, name: str) -> Any:
        return self.names[name]

    def power(self, base: Any, exponent: Any) -> Any:
        return base ** rational(exponent)

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return sp.sqrt(arguments[0])


def closure_equations(chosen: Closure, kind: Kind) -> tuple[tuple[Any, Any], ...]:
    """The closure's conditions for one kind of sublayer."""

    def side(expression: Expression) -> Any:
        return fold(expression.root, _Side(kind))

    return tuple((side(a), side(b)) for a, b in chosen.expressions)


@dataclass(frozen=True)
class Problem:
    """A selection with its laws: what every route and every part shares."""

    selection: Selection

    @cached_property
    def degrees(self) -> Degrees:
        """p and q of the optimizer; refused where the update does not go down the gradient."""
        found = degrees(self.selection.the_optimizer)
        refuse_unless_descent(self.selection, found)
        return found

    @cached_property
    def law(self) -> PlacementLaw:
        """The placement's law."""
        return placement_law(self.selection.the_placement)

    @property
    def placed(self) -> str:
        """The placement and its equation, in words."""
        placement = self.selection.the_placement
        return f"of the placement {placement.name!r}, {placement.equation}"

    @cached_property
    def closure(self) -> Closure:
        """The closure asked for, or the default."""
        return self.selection.the_closure or default_closure(
            self.selection.method, self.degrees, self.law
        )

    @cached_property
    def balanced(self) -> tuple[Balanced, ...]:
        """Every part, solved; the last part first needs no amplification."""
        parts = self.selection.the_stack.parts
        if len(parts) > 1 and "eta" in self.closure.knobs:
            raise Refusal(
                "one learning rate cannot balance the encoder and the decoder at once; "
                "use another closure, or balance each part of the stack by itself"
            )
        solved: list[Balanced] = []
        for part in reversed(parts):
            later = solved[-1] if solved else None
            solved.append(self._balance(part, len(parts), later))
        return tuple(reversed(solved))

    def _balance(self, part: Part, parts: int, later: Balanced | None) -> Balanced:
        kinds = self.kinds(part, parts)
        sublayers = len(part.layer) * DEPTHS[part.depth]
        amplification = None
        if later is not None:
            amplification = amplify(self.selection, later, self.degrees)
        factor = sp.Integer(1) if amplification is None else amplification.factor
        return balance(self, part, sublayers, kinds, factor, amplification)

    def kinds(self, part: Part, parts: int) -> tuple[Kind, ...]:
        """The kinds of sublayers of a part; one kind ``"*"`` where all behave alike."""
        counted = Counter(s.name for s in part.layer)
        distinct = [next(s for s in part.layer if s.name == name) for name in counted]
        increments = [self.increment(s) for s in distinct]
        alike = (
            len(
                {
                    (i, branch_weight(s, self.law), len(s.scaled))
                    for i, s in zip(increments, distinct, strict=True)
                }
            )
            == 1
        )
        shared = self.selection.one_alpha and not alike
        result = []
        for sublayer, increment in zip(distinct, increments, strict=True):
            name = "*" if alike else sublayer.name
            a = part_symbol("alpha", part.name, parts, "*" if shared else name)
            b = part_symbol("beta", part.name, parts, name)
            own = {alpha: a, beta: b}
            result.append(
                Kind(
                    name=name,
                    sublayer=sublayer,
                    alpha=a,
                    beta=b,
                    increment=increment.xreplace(own),
                    weight=branch_weight(sublayer, self.law).xreplace(own),
                    matrices=len(sublayer.scaled),
                )
            )
            if alike:
                break
        return tuple(result)

    def increment(self, sublayer: Sublayer) -> Any:
        """The order of one sublayer's increment in α and β, by the selection's method.

        The probe route speaks of one scaled matrix; the other routes take the norm over the
        branch's scaled matrices, gradients and parameters alike.
        """
        one = scaled_increment(sublayer, self.law, self.degrees)
        if self.selection.method == "probe":
            return one
        root = sp.sqrt(len(sublayer.scaled))
        return one * root ** (1 + self.degrees.p + self.degrees.q)


def default_closure(method: str, d: Degrees, law: PlacementLaw) -> Closure:
    """The closure that is taken where none is asked for, from (p, q) and the placement's law."""
    if not law.has_alpha:
        name = "unit-residual"
    elif not law.feeds_beta:
        # before the next case: with α = 1 a branch that does not feel β has no knob left
        name = "unit-init"
    elif method != "probe":
        name = "parameter-norm"
    elif (d.p, d.q) == (0, 1):
        name = "unit-residual"
    else:
        name = "symmetric"
    return closure(name)


def _conditions(
    problem: Problem, chosen: Closure, repeated: Any, kinds: tuple[Kind, ...]
) -> tuple[tuple[tuple[Any, Any], ...], tuple[sp.Symbol, ...]]:
    """Balance and closure of every kind, and the unknowns they are to determine.

    ``repeated`` is S times the amplification, what one sublayer's increment is multiplied with.
    """
    rate = eta_factor if "eta" in chosen.knobs else sp.Integer(1)
    conditions: list[tuple[Any, Any]] = []
    unknowns: dict[sp.Symbol, None] = {}
    for index, kind in enumerate(kinds):
        unknowns.update(dict.fromkeys((kind.alpha, kind.beta)))
        conditions.append((rate * repeated * kind.increment, sp.Integer(1)))
        if index == 0 or not problem.selection.one_alpha:
            conditions.extend(closure_equations(chosen, kind))
        if not problem.law.has_alpha:
            conditions.append((kind.alpha, sp.Integer(1)))
    if rate == eta_factor:
        unknowns[eta_factor] = None
    return tuple(conditions), tuple(unknowns)


def balance(
    problem: Problem,
    part: Part,
    sublayers: Any,
    kinds: tuple[Kind, ...],
    factor: Any,
    amplification: Amplification | None = None,
) -> Balanced:
    """Solve the balance of one part under the closure.

    Raises :class:`Refusal` where no knob balances, where a knob stays undetermined, or where
    the solution leaves the premises that the orders of magnitude rest on.
    """
    chosen = problem.closure
    conditions, names = _conditions(problem, chosen, sublayers * factor, kinds)
    solution = solve(conditions, names)
    if solution is None:
        raise Refusal(_no_solution(problem, part, kinds, factor))
    if not solution.unique:
        free = ", ".join(str(u) for u in names if u not in solution.values)
        raise Refusal(
            f"the closure {chosen.name!r} leaves {free} undetermined in the {part.name}: the "
            f"balance under {problem.selection.the_placement.name} does not depend on it; "
            f"{_advice(problem, part, kinds, factor)}"
        )
    result = Balanced(part, sublayers, kinds, chosen, conditions, names, solution, amplification)
    broken = broken_premise(problem, result)
    if broken is not None:
        raise Refusal(f"{broken}; {_advice(problem, part, kinds, factor)}")
    return result


def _no_solution(problem: Problem, part: Part, kinds: tuple[Kind, ...], factor: Any) -> str:
    chosen, law = problem.closure, problem.law
    felt = [
        name
        for name, symbol in (("alpha", "alpha"), ("beta", "beta"))
        if any(
            getattr(kind, symbol) in exponents(kind.increment) and (name == "beta" or law.has_alpha)
            for kind in kinds
        )
    ]
    update = problem.selection.the_optimizer.update
    if not felt:
        return (
            f"under the update {update!r} (degree p = {problem.degrees.p}, q = "
            f"{problem.degrees.q}) one step changes the output by an amount that neither alpha nor "
            f"beta can change with placement {problem.selection.placement!r}; the learning rate "
            "can: use the closure learning-rate"
        )
    return (
        f"the closure {chosen.name!r} leaves no knob that balances the {part.name} under the "
        f"update {update!r} with placement {problem.selection.placement!r}: "
        f"the increment depends on {' and '.join(felt)} alone, or on a product that the closure "
        f"fixes; {_advice(problem, part, kinds, factor)}"
    )


def _advice(problem: Problem, part: Part, kinds: tuple[Kind, ...], factor: Any) -> str:
    """Which closures do balance, found by solving with each."""
    from deepnet_theory.spec.closure import closures

    sublayers, works = len(part.layer) * DEPTHS[part.depth], []
    for other in closures().values():
        if other.name == problem.closure.name:
            continue
        conditions, names = _conditions(problem, other, sublayers * factor, kinds)
        solution = solve(conditions, names)
        if solution is not None and solution.unique:
            found = Balanced(part, sublayers, kinds, other, conditions, names, solution)
            if broken_premise(problem, found) is None:
                works.append(other.name)
    return f"use the closure {' or '.join(works)}" if works else "no closure balances"


def amplify(selection: Selection, later: Balanced, d: Degrees) -> Amplification:
    """How the decoder's cross-attentions magnify a change of the encoder's output.

    ``published``: A = M·c once where it grows with M, else 1 (the encoder must be balanced at
    its own output too). ``worst-case``: A = M·c, all aligned, and ``independent``:
    A = √M·c, each entering 1 + p times: once forward, p times through the gradient.
    """
    crossing = [k for k in later.kinds if _crosses(k, later)]
    if not crossing:
        raise Refusal(
            f"the {later.part.name} has no cross-attention, so nothing passes from the encoder to "
            "it; its layer must hold 'cross'"
        )
    kind = next((k for k in crossing if k.name == "cross"), crossing[0])
    depth = DEPTHS[later.part.depth]
    layers = later.part.crossings * depth
    weight = later.at_solution(kind.weight)
    aligned, independent = layers * weight, sp.sqrt(layers) * weight
    grows = exponent_in(aligned, depth) > 0
    forms = {
        "published": (aligned, sp.Integer(1), aligned if grows else sp.Integer(1)),
        "worst-case": (aligned, 1 + d.p, aligned ** (1 + d.p)),
        "independent": (independent, 1 + d.p, independent ** (1 + d.p)),
    }
    size, power, factor = forms[selection.amplification]
    return Amplification(
        form=selection.amplification,
        weight=weight,
        layers=layers,
        size=size,
        grows=exponent_in(size, depth) > 0,
        power=power,
        factor=simplified(factor),
        alternatives=tuple((name, simplified(f[2])) for name, f in forms.items()),
    )


def _crosses(kind: Kind, later: Balanced) -> bool:
    if kind.name == "*":
        return later.part.crossings > 0
    return kind.sublayer.reads_memory
