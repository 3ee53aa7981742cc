"""How sizes of explicit matrices grow with α and β: what orders are held against."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.symbols import alpha, beta
from deepnet_theory.symbolic.laws.branch import gain, x
from deepnet_theory.symbolic.laws.explicit_matrices import TOLERANCE, Matrix, Witness


def outside_norms(z: sp.Expr) -> bool:
    """Whether the identity path is a term of z: what is added to it then scales exactly."""
    return x in sp.Add.make_args(z)


# (α, β) at which sizes of explicit matrices are compared: every power of either shows
KNOBS = ((1.3, 0.7), (2.6, 0.7), (1.3, 1.4))


def sizes(sublayer: Sublayer, placement: Placement, of: Callable[[Witness], Matrix]) -> list[float]:
    """The Frobenius norm of something at the knobs, with explicit matrices."""
    found = []
    for residual, size in KNOBS:
        witness = Witness(sublayer, placement)
        witness.alpha = residual
        gains = {gain(m.name): size for m in sublayer.scaled}
        gains |= {gain(m.name): 1.0 for m in sublayer.unscaled}
        witness.values.update(gains)
        found.append(of(witness).norm)
    return found


def in_proportion(measured: list[float], stated: sp.Expr) -> bool:
    """Whether sizes at the knobs are in the ratios that an expression in α and β states."""
    values = [float(stated.subs({alpha: a, beta: b})) for a, b in KNOBS]
    ratios = [m / v for m, v in zip(measured, values, strict=True)]
    return all(abs(ratio / ratios[0] - 1) < TOLERANCE for ratio in ratios)
