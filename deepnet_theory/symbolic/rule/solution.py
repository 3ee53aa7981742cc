"""The imposed conditions solved, by two methods.

In logarithms balance and closure are linear: Gauss elimination finds the solution, the normal
equations find it again, and put in it satisfies every condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import (
    Solution,
    exponents,
    monomial,
    present,
    simplified,
)
from deepnet_theory.symbolic.proof.checks import NAMED
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.rule.closures import SECTION

rate = sp.Symbol("eta_0", positive=True)  # the learning rate's factor where it is a knob


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
