r"""Where a stated regime on the size of the parameters ends: the depth at which it is crossed.

A scaled matrix has :math:`\mathrm{rms}(\theta) = \beta\sqrt{2/(f_{in}+f_{out})}` at Xavier
initialisation, and β falls with depth, so that a floor such as Adafactor's is reached at some
depth, which depends on the width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.expression import UPDATE, FloatAlgebra, fold
from deepnet_theory.symbolic.algebra.depth import depth_expression
from deepnet_theory.symbolic.algebra.monomial import solve
from deepnet_theory.symbolic.algebra.symbols import DEPTHS
from deepnet_theory.symbolic.rule.premises import is_floor
from deepnet_theory.symbolic.rule.problem import Problem
from deepnet_theory.symbolic.rule.solved_rule import rule_of

width = sp.Symbol("d", positive=True)
hidden = sp.Symbol("m", positive=True)


@dataclass(frozen=True)
class Crossing:
    """The depth (in d and m) at which a kind of matrix falls below a floor."""

    part: str
    matrix: str
    depth: sp.Expr

    def at(self, d: int, m: int) -> float:
        """The crossing depth at a width and a hidden width."""
        return float(self.depth.subs({width: d, hidden: m}))


def crossings(problem: Problem) -> Iterator[Crossing]:
    """The crossings of every regime of the form ``rms(theta) > constant``; none for others."""
    rule = rule_of(problem)
    for larger, smaller in problem.selection.the_optimizer.regime:
        if not is_floor(larger, smaller):
            continue
        floor = sp.Rational(str(fold(UPDATE.parse(smaller).root, FloatAlgebra())))
        for part in problem.selection.the_stack.parts:
            depth = DEPTHS[part.depth]
            for sublayer in dict.fromkeys(part.layer):
                gain = depth_expression(rule.entry(part.name, sublayer.name).beta)
                for matrix in sublayer.scaled:
                    fans = sp.Add(
                        *(width if f == "d" else hidden for f in (matrix.fan_in, matrix.fan_out))
                    )
                    total = sp.Symbol("f", positive=True)
                    found = solve([(gain * sp.sqrt(2 / total), floor)], [depth])
                    if found is not None and found.unique:
                        yield Crossing(
                            part.name,
                            matrix.name,
                            found.values[depth].subs(total, fans),
                        )
