"""What the constants would be with the sharper bound: β² in place of v² + w²."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import present, solve
from deepnet_theory.symbolic.algebra.symbols import N
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.routes.moments.setting import alpha, beta

RULE = "Rule of the sharper bound"
SOURCE = "layer cake, §5.3"


def sharper_rule_steps() -> tuple[Step, ...]:
    """Balance 2N·β²/α² = 1 under SGD with √(v²+w²) = 1/α at v = w = β, solved."""
    conditions = (
        (2 * N * beta**2 / alpha**2, sp.Integer(1)),
        (sp.sqrt(2) * beta, 1 / alpha),
    )
    solution = solve(conditions, (alpha, beta))
    assert solution is not None and solution.unique
    values = solution.values

    def holds(step: Step) -> bool:
        # both conditions with this step's value and the other's, at exact depths
        at = {**values, step.lhs: step.rhs}
        for depth in (1, 8, 1000):
            for left, right in conditions:
                gap = (left.subs(at) - right.subs(at) if right != 1 else left.subs(at) - 1).subs(
                    N, depth
                )
                if abs(sp.N(gap, 40)) > 1e-30:
                    return False
        return True

    def unique(step: Step) -> bool:
        return step.lhs in values and solution.unique and set(values) == {alpha, beta}

    return tuple(
        Step(
            name=f"sharper-rule-{symbol}",
            section=RULE,
            lhs=symbol,
            rhs=present(values[symbol]),
            relation=Relation.EQUAL,
            because=(
                "SGD, 2N sublayers, balance 2Nβ²/α² = 1 and closure √(v²+w²) = 1/α at v = w = β: "
                "the powers of N stay, the constants lose a factor 2 under the root"
            ),
            source=SOURCE,
            uses=("sharper-coefficient",),
            checks=(
                Check("both conditions hold at N = 1, 8, 1000", holds),
                Check("the conditions have this solution only", unique),
            ),
        )
        for symbol in (alpha, beta)
    )
