"""Closures: one more condition that picks a point of the balanced curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp

from deepnet_theory.spec.closure import Closure
from deepnet_theory.spec.expression import Expression, FloatAlgebra, fold
from deepnet_theory.symbolic.algebra.depth import in_sympy
from deepnet_theory.symbolic.proof.checks import defines
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.rule.kinds import Kind

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
