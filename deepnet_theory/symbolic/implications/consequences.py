"""What a rule implies, as powers of the depth: the quantities that Su argues with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.monomial import present
from deepnet_theory.symbolic.algebra.symbols import beta
from deepnet_theory.symbolic.implications.orders import of_kind
from deepnet_theory.symbolic.implications.shares import Share
from deepnet_theory.symbolic.laws.parameters import terms
from deepnet_theory.symbolic.rule.balanced import Balanced
from deepnet_theory.symbolic.rule.kinds import Kind
from deepnet_theory.symbolic.rule.problem import Problem


@dataclass(frozen=True)
class Consequence:
    """A quantity that follows from the rule, as a power of the depth."""

    name: str
    meaning: str
    value: sp.Expr  # SymPy expression in the depth symbols
    part: str
    sublayer: str = "*"
    remark: str = ""


def consequences(problem: Problem) -> Iterator[Consequence]:
    """Weight, gradient, update, ρ, branch weight, S·r, S·r² and the orders of every kind."""
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            yield from kind_consequences(problem, balanced, kind)


def kind_consequences(problem: Problem, balanced: Balanced, kind: Kind) -> Iterator[Consequence]:
    """The consequences of one kind of sublayer; sizes in units of the plain network's, η = 1."""
    term = next(t for t in terms(kind.sublayer, problem.law) if t.role is Role.SCALED)
    update = balanced.rate * balanced.rate_of(kind) * term.update(problem.degrees)
    found = of_kind(balanced, kind)

    def tell(name: str, meaning: str, value: sp.Expr, remark: str = "") -> Consequence:
        return Consequence(name, meaning, value, balanced.part.name, kind.name, remark)

    def at_rule(name: str, meaning: str, size: sp.Expr) -> Consequence:
        return tell(name, meaning, present(balanced.at_solution(size.xreplace(kind.own))))

    yield at_rule("initial-weight", "size of a scaled matrix at initialisation", beta)
    yield at_rule("gradient", "size of a scaled matrix's gradient", term.gradient)
    yield at_rule("update", "size of a scaled matrix's first update, in units of eta", update)
    yield tell("relative-update", "rho, update over weight, in units of eta", found.rho)
    yield at_rule("branch-weight", "r, the branch against the identity path", kind.weight)
    sums = (
        ("aligned-sum", "S*r, S sublayers: branches aligned with the stream amplify by exp(S*r)"),
        ("self-consistency", "S*r^2: bounded where independent branches stay near the identity"),
    )
    for power, (name, meaning) in enumerate(sums, start=1):
        yield tell(name, meaning, present(balanced.self_consistency(kind, power)))
    for order, size in enumerate(found.sizes, start=1):
        meaning = f"what order {order} of an update moves the output by, in units of eta^{order}"
        yield tell(f"order-{order}", meaning, size)
    meaning = "how the learning rate falls at which aligned steps fail"
    yield tell("failing-rate", meaning, found.failing, found.state)


def share_consequences(found: tuple[Share, ...]) -> Iterator[Consequence]:
    """The shares as consequences, one for each kind of parameter besides the scaled matrices."""
    for share in found:
        if share.role is Role.SCALED:
            continue
        shown = sp.Integer(0) if share.total == 0 else present(share.total)
        remark = share.standing
        if share.standing == "dominant":
            remark += f"; the learning-rate multiplier {share.balancing} balances it"
        elif share.total == 0:
            remark += ": its gradient is exactly zero, and no learning rate makes it learn"
        elif share.standing == "negligible":
            remark += f"; the learning-rate multiplier {share.balancing} would balance it"
        yield Consequence(
            name=f"share-{share.parameter}",
            meaning=f"what all {share.parameter} move the output by, the scaled matrices by 1",
            value=shown,
            part=share.part,
            sublayer=share.sublayer,
            remark=remark,
        )
