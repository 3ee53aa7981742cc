"""Whether the rule keeps the premises that it was derived from: S·r and S·r² at the solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import exponent_in, exponents, present
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.setting import Setting

SECTION = Section("Self-consistency", "Su, §Post-hoc analysis")

# what S·r^power says of a product of Jacobians; negative: the residual sum is not normalised
_PRODUCTS = {
    1: "branches that are all aligned with the stream multiply a change by up to exp(S*r)",
    2: "along a typical path of independent branches a change is multiplied by exp(-S*r^2), in "
    "root mean square not at all",
    -1: "branches that are all aligned make the stream grow as 1 + S*r",
    -2: "independent branches make the stream grow as sqrt(1 + S*r^2)",
}


def self_consistency_steps(setting: Setting, balanced: Balanced) -> Iterator[Step]:
    """S·r and S·r² of every kind, judged in every depth that they hold."""
    part = balanced.part
    own = DEPTHS[part.depth]
    for kind in balanced.kinds:
        weights = tuple(setting.route.weights[name].name for name in kind.members)
        for power in (1, 2):
            value = balanced.self_consistency(kind, power)
            others = value.free_symbols - {own}  # an encoder's constants may hold both depths
            behaviour = " and ".join(_behaviour(value, depth) for depth in (own, *others))
            shown = f"S*r^{power}" if power > 1 else "S*r"
            yield SECTION.equal(
                f"self-consistency-{power}-{kind.tag(part.name)}",
                balanced.sublayers * kind.weight**power,
                present(value),
                (
                    f"r = {present(balanced.at_solution(kind.weight))}; {shown} {behaviour}; "
                    f"{_PRODUCTS[power if setting.law.normalised else -power]}"
                ),
                uses=(f"sublayers-{part.name}", *weights, *balanced.conclusion),
                checks=(Check("holds once the solution is put in", _put_in(balanced)),),
            )


def _put_in(balanced: Balanced) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        return not exponents(balanced.at_solution(step.lhs / step.rhs))

    return holds


def _behaviour(value: sp.Expr, depth: sp.Symbol) -> str:
    growth = exponent_in(value, depth)
    state = "grows" if growth > 0 else ("vanishes" if growth < 0 else "stays bounded")
    return f"{state} with depth as {depth}^({growth})"
