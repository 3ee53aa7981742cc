"""From increments to a rule: the sum, the balance, the closure, the solution, the self-check.

Shared by every route; a route only says what one sublayer's increment is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import (
    exponent_in,
    exponents,
    present,
    simplified,
    solve,
)
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, eta
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.rule.balance import (
    Balanced,
    Kind,
    Problem,
    closure_equations,
    eta_factor,
)

_BALANCE, _CLOSURE, _AFTER = "The balance", "The closure", "Self-consistency"


# what S·r^power says of a product of Jacobians; negative: the residual sum is not normalised
_PRODUCTS = {
    1: "branches that are all aligned with the stream multiply a change by up to exp(S*r)",
    2: "along a typical path of independent branches a change is multiplied by exp(-S*r^2), in "
    "root mean square not at all",
    -1: "branches that are all aligned make the stream grow as 1 + S*r",
    -2: "independent branches make the stream grow as sqrt(1 + S*r^2)",
}


def conclusion_steps(
    problem: Problem, increments: dict[tuple[str, str], tuple[str, ...]]
) -> tuple[list[Step], tuple[str, ...]]:
    """The steps from the increments (names of steps by part and kind) to the rule.

    The last part is solved first: the amplification of the others rests on it.
    """
    steps: list[Step] = []
    conclusion: list[str] = []
    for balanced in reversed(problem.balanced):
        later = list(conclusion)
        conditions = list(_condition_steps(problem, balanced, increments, later))
        steps.extend(conditions)
        for step in _solution_steps(balanced, tuple(s.name for s in conditions)):
            steps.append(step)
            conclusion.append(step.name)
        steps.extend(_after_steps(problem, balanced))
    return steps, tuple(conclusion)


def _holds_at_solution(balanced: Balanced) -> Check:
    def holds(step: Step) -> bool:
        ratio = balanced.at_solution(step.lhs / step.rhs)
        return not exponents(ratio)

    return Check("holds once the solution is put in", holds)


def _condition_steps(
    problem: Problem,
    balanced: Balanced,
    increments: dict[tuple[str, str], tuple[str, ...]],
    later: list[str],
) -> Iterator[Step]:
    part = balanced.part.name
    index = sp.Symbol("l", integer=True, positive=True)
    amplification = balanced.amplification
    factor: Any = sp.Integer(1)
    uses: tuple[str, ...] = ()
    if amplification is not None:
        factor = amplification.factor
        yield Step(
            name=f"amplification-{part}",
            section=_BALANCE,
            lhs=sp.Symbol("A", positive=True),
            rhs=present(amplification.size),
            relation=Relation.EQUAL,
            because=(
                f"a change of the encoder's output reaches the decoder's through "
                f"{amplification.layers} cross-attentions of weight {present(amplification.weight)}"
                + (
                    ", all aligned"
                    if amplification.form != "independent"
                    else ", in independent directions"
                )
            ),
            source="DeepNet, arXiv 2203.00555, Theorem 4.3",
            uses=tuple(later),
            establishes=(sp.Symbol("A", positive=True),),
            checks=(Check("the sum over the cross-attentions", _amplification_sum(balanced)),),
        )
        uses = (f"amplification-{part}",)
    for kind in balanced.kinds:
        tag = part if kind.name == "*" else f"{part}-{kind.name}"
        term = eta * kind.increment
        yield Step(
            name=f"sum-{tag}",
            section=_BALANCE,
            lhs=sp.Sum(term, (index, 1, balanced.sublayers)),
            rhs=balanced.sublayers * term,
            relation=Relation.EQUAL,
            because=(
                f"the {balanced.sublayers} residual sublayers of the {part} add up, their changes "
                "being aligned (in independent directions they would add as a square root)"
                if kind.name == "*"
                else f"each of the {balanced.sublayers} residual sublayers of the {part} gets an "
                f"equal share; this is the sum as if all were {kind.name}"
            ),
            source="Su, §Increment explosion",
            uses=increments[(part, kind.name)],
            assumptions=("aligned-updates", "near-identity"),
            establishes=(index, kind.alpha, kind.beta, eta),
            checks=(Check("the sum carried out", _sum_carried_out),),
        )
        rate = eta_factor if "eta" in balanced.closure.knobs else sp.Integer(1)
        entry = "" if amplification is None or factor == 1 else ", amplified by the decoder"
        if amplification is not None and factor == 1:
            entry = (
                "; A does not grow with the decoder's depth, so that the encoder is balanced "
                "at its own output"
            )
        yield Step(
            name=f"balance-{tag}",
            section=_BALANCE,
            lhs=rate * factor * balanced.sublayers * kind.increment,
            rhs=sp.Integer(1),
            relation=Relation.EQUAL,
            because="imposed: the part changes the output by eta whatever the depth" + entry,
            source="Su, §Increment explosion; layer cake, §4.3",
            uses=(f"sum-{tag}", *uses),
            establishes=(eta_factor,) if rate != 1 else (),
            checks=(_holds_at_solution(balanced),),
        )
    chosen = balanced.closure
    for position, kind in enumerate(balanced.kinds):
        tag = part if kind.name == "*" else f"{part}-{kind.name}"
        if position > 0 and problem.selection.one_alpha:
            continue
        for number, (left, right) in enumerate(closure_equations(chosen, kind)):
            yield Step(
                name=f"closure-{tag}-{number + 1}",
                section=_CLOSURE,
                lhs=left,
                rhs=right,
                relation=Relation.EQUAL,
                because=f"imposed by the closure '{chosen.name}': {chosen.summary}",
                source=chosen.source,
                checks=(_holds_at_solution(balanced),),
            )


def _sum_carried_out(step: Step) -> bool:
    return bool(sp.simplify(step.lhs.doit() - step.rhs) == 0)


def _amplification_sum(balanced: Balanced) -> Any:
    amplification = balanced.amplification
    assert amplification is not None

    def holds(step: Step) -> bool:
        # add the cross-attentions one by one at explicit depths, not by the closed form
        (depth,) = amplification.layers.free_symbols
        for count in (4, 9):
            layers = int(amplification.layers.subs(depth, count))
            one = float(amplification.weight.subs(depth, count))
            total = sum([one] * layers)
            if amplification.form == "independent":
                total = sum([one**2] * layers) ** 0.5
            if abs(float(step.rhs.subs(depth, count)) - total) > 1e-12 * total:
                return False
        return True

    return holds


def _solution_steps(balanced: Balanced, uses: tuple[str, ...]) -> Iterator[Step]:
    part = balanced.part.name
    for symbol in dict.fromkeys(balanced.unknowns):
        others = {s: v for s, v in balanced.solution.values.items() if s != symbol}

        def holds(step: Step, symbol: Any = symbol, others: Any = others) -> bool:
            values = {**others, symbol: step.rhs}
            return bool(step.rhs.is_positive) and all(
                not exponents(simplified(sp.sympify(a / b).xreplace(values)))
                for a, b in balanced.conditions
            )

        def unique(step: Step) -> bool:
            again = solve(balanced.conditions, balanced.unknowns)
            return again is not None and again.unique

        name = "eta" if symbol == eta_factor else str(symbol)
        yield Step(
            name=f"solution-{part}-{name}",
            section=_CLOSURE,
            lhs=symbol,
            rhs=present(balanced.value(symbol)),
            relation=Relation.EQUAL,
            because="solved in logarithms, where balance and closure are linear",
            source="derived here",
            uses=uses,
            establishes=(symbol,),
            checks=(
                Check("satisfies its conditions", holds),
                Check("is the only solution", unique),
            ),
        )


def _after_steps(problem: Problem, balanced: Balanced) -> Iterator[Step]:
    part = balanced.part.name
    own = DEPTHS[balanced.part.depth]
    for kind in balanced.kinds:
        tag = part if kind.name == "*" else f"{part}-{kind.name}"
        for power in (1, 2):
            value = balanced.self_consistency(kind, power)
            others = value.free_symbols - {own}  # an encoder's constants may hold both depths
            behaviour = " and ".join(_behaviour(value, depth) for depth in (own, *others))
            weight = balanced.at_solution(kind.weight)
            shown = f"S*r^{power}" if power > 1 else "S*r"
            meaning = _PRODUCTS[power if problem.law.normalised else -power]
            yield Step(
                name=f"self-consistency-{power}-{tag}",
                section=_AFTER,
                lhs=balanced.sublayers * kind.weight**power,
                rhs=present(value),
                relation=Relation.EQUAL,
                because=(f"r = {present(weight)}; {shown} {behaviour}; {meaning}"),
                source="Su, §Post-hoc analysis",
                uses=_solution_names(balanced, kind),
                checks=(_holds_at_solution(balanced),),
            )


def _behaviour(value: Any, depth: sp.Symbol) -> str:
    growth = exponent_in(value, depth)
    state = "grows" if growth > 0 else ("vanishes" if growth < 0 else "stays bounded")
    return f"{state} with depth as {depth}^({growth})"


def _solution_names(balanced: Balanced, kind: Kind) -> tuple[str, ...]:
    part = balanced.part.name
    return tuple(f"solution-{part}-{s}" for s in (kind.alpha, kind.beta))
