r"""Telescoping: the change of the output as a sum over the sublayers.

.. math:: \|\Delta F\| \le \sum_{i=1}^S \Bigl(\prod_{l=i+1}^S J_l\Bigr) D_i\,\|\Delta\theta_i\|

is exact to first order in Δθ (triangle inequality). The published form has every J = 1: exact
in mean square for independent directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import S, i, l
from deepnet_theory.symbolic.proof.checks import Point, equal_at_sizes, written_at
from deepnet_theory.symbolic.proof.step import Check, Section, Step

SOURCE = "DeepNet, arXiv 2203.00555, Theorem 4.2; layer cake, §4.2"
SECTION = Section("Telescoping bound", SOURCE)

X = sp.Function("X", nonnegative=True)  # ‖Δx_l‖
J = sp.Function("J", positive=True)  # ‖∂f_l/∂x_l‖
D = sp.Function("D", positive=True)  # ‖∂f_l/∂θ_l‖
T = sp.Function("T", positive=True)  # ‖Δθ_l‖

total = sp.Sum(D(i) * T(i), (i, 1, S))


def telescoped(factor: sp.Expr) -> sp.Expr:
    """Σ_i (Π_{l>i} factor) D_i T_i for a Jacobian ``factor`` in l."""
    return sp.Sum(sp.Product(factor, (l, i + 1, S)) * D(i) * T(i), (i, 1, S))


def telescoping_steps(jacobian: sp.Expr | None) -> tuple[Step, ...]:
    """One sublayer, all of them, and all of them without the Jacobians in between.

    ``jacobian``: what one amounts to in mean square where every sublayer normalises the stream,
    as the published form has it.
    """
    exact = SECTION.at_most(
        "telescoping",
        X(S + 1),
        telescoped(J(l)),
        "the recursion of one sublayer, unrolled from Δx = 0 at the input",
        uses=("one-sublayer",),
        assumptions=("linear-step",),
        checks=(written_at("the recursion unrolled at S = 1 … 4", _unrolled),),
        establishes=(S,),
    )
    return (_one_sublayer(), exact, *(() if jacobian is None else (_unit_jacobians(jacobian),)))


def _unit_jacobians(jacobian: sp.Expr) -> Step:
    return SECTION.equal(
        "telescoping-unit-jacobians",
        telescoped(jacobian),
        total,
        "in mean square over independent signs every product of Jacobians is exactly 1: "
        "the published form; a typical path has it up to a constant where S·r² is bounded",
        uses=("telescoping", "jacobian-root-mean-square"),
        assumptions=("independent-signs", "near-identity"),
        checks=(equal_at_sizes(S), written_at("the sublayers' own terms, listed", _listed)),
    )


def _listed() -> Iterator[Point]:
    yield {S: 3}, sp.Add(*(D(n) * T(n) for n in (1, 2, 3)))


def _one_sublayer() -> Step:
    jacobian_, change, gradient, update = sp.symbols("J_l X_l D_l T_l", real=True)
    return SECTION.at_most(
        "one-sublayer",
        sp.Abs(jacobian_ * change + gradient * update),
        sp.Abs(jacobian_) * sp.Abs(change) + sp.Abs(gradient) * sp.Abs(update),
        "first order in the changes of input and parameters, and the triangle inequality",
        assumptions=("linear-step",),
        checks=(Check("squares compared for every choice of signs", _triangle),),
        establishes=(jacobian_, change, gradient, update),
    )


def _triangle(step: Step) -> bool:
    """rhs² − lhs² ≥ 0 with each symbol made positive or negative."""
    symbols = sorted(step.free_symbols, key=str)
    sizes = [sp.Symbol(f"p_{index}", positive=True) for index in range(len(symbols))]
    for signs in product((1, -1), repeat=len(symbols)):
        at = dict(zip(symbols, (s * p for s, p in zip(signs, sizes, strict=True)), strict=True))
        difference = sp.expand((step.rhs**2 - step.lhs**2).xreplace(at))
        if not difference.is_nonnegative or not step.rhs.xreplace(at).is_nonnegative:
            return False
    return True


def _unrolled() -> Iterator[Point]:
    change: sp.Expr = sp.S.Zero
    for layer in (1, 2, 3, 4):
        change = J(layer) * change + D(layer) * T(layer)
        yield {S: layer}, (X(layer + 1), change)
