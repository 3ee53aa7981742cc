r"""What every kind of parameter starts with and steps with, as formulas in depth.

A constant of an optimizer stands in a sum, beside a term of degree a in g and b in θ. An epsilon
keeps its weight there where it goes as :math:`\gamma^a|\theta|^b`, γ the parameter's gradient. A
decay that stands there times θ changes the parameter by :math:`\eta\rho\,\lambda/(\gamma^a
|\theta|^b)` of itself in one step, its own degrees counted (a, b), and takes the same share at
every depth where

.. math:: \lambda \propto \frac{\gamma^a|\theta|^b}{\rho}, \qquad
          \rho = \kappa\,\gamma^p|\theta|^{q-1}.

Decoupled, (a, b) = (p, q − 1) and λ goes as 1/κ; in the gradient, (a, b) = (1, −1).

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from deepnet_theory.spec.parameter import ParameterRule
from deepnet_theory.spec.sublayer import MATRICES, Role
from deepnet_theory.symbolic.algebra.depth import rational
from deepnet_theory.symbolic.algebra.monomial import simplified, text
from deepnet_theory.symbolic.implications.shares import Share
from deepnet_theory.symbolic.laws.optimizer import Degree, practised
from deepnet_theory.symbolic.rule.problem import Problem


def parameter_rules(problem: Problem, found: tuple[Share, ...]) -> Iterator[ParameterRule]:
    """The formulas of every kind of parameter of every part, at the problem's rule."""
    degrees, own = problem.degrees, practised(problem.selection.the_optimizer).constants
    for share in found:
        balanced = next(b for b in problem.balanced if b.part.name == share.part)
        kind = next(k for k in balanced.kinds if share.sublayer in k.members)
        scaled, matrix = share.role is Role.SCALED, share.role in MATRICES
        rate = share.multiplier * (balanced.rate_of(kind) if scaled else 1)
        epsilon = _size(share, own["epsilon"]) if "epsilon" in own else sp.Integer(1)
        decay = "0"
        if matrix:
            update = share.gradient**degrees.p * share.size ** (degrees.q - 1)
            decay = text(simplified(_size(share, own["decay"]) / (balanced.rate * rate * update)))
        gain = text(share.size) if matrix or share.role is Role.NORM_GAIN else "0"
        yield ParameterRule(
            part=share.part,
            sublayer=share.sublayer,
            name=share.parameter,
            role=share.role,
            gain=gain,
            rate=text(simplified(rate)),
            epsilon=text(simplified(epsilon)),
            weight_decay=decay,
        )


def _size(share: Share, of: Degree) -> sp.Expr:
    """The size of a term of these degrees in a parameter's gradient and in itself."""
    if share.gradient == 0:  # it never moves: whatever its epsilon
        return sp.Integer(1)
    return share.gradient ** rational(of.g) * share.size ** rational(of.theta)
