r"""Several streams: to first order their output moves as that of one stream.

With mixing M, write w and output o, branch l reaches the output by :math:`o M^{S-1-l} w`. That is a
sequence which obeys the characteristic polynomial of M, of degree n: alike for n + 1 sublayers in a
row, it is alike for all (Cayley and Hamilton, applied to the sequence less its first value). So an
explicit stack of n + 1 sublayers shows what holds at every depth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import sympy as sp

from deepnet_theory.spec.expression import Expression, fold
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import Functions, alpha, in_sympy
from deepnet_theory.symbolic.proof.step import IDENTITY, Check, Section, Step
from deepnet_theory.symbolic.proof.witness import (
    NEAR,
    TOLERANCE,
    Matrix,
    OnMatrices,
    Witness,
    distance,
    normalise,
)
from deepnet_theory.symbolic.rule.parallel import weighing

SECTION = Section("Several streams")
ALONE = Placement("a branch alone", "x + branch(x)", final_norm=True)
delta = sp.Symbol("delta", positive=True)
Equations = Mapping[str, Expression]


def streams_steps(part: Part, placement: Placement) -> Iterator[Step]:
    """What several streams are to one; no step where there is one."""
    if (several := placement.streams) is None:
        return
    one = placement.of_one_stream
    own = dict(zip(several.names, several.equations, strict=True))
    added = [sp.Symbol(f"G_{i + 1}", positive=True) for i in range(len(own) + 1)]

    def on_matrices(_: Step) -> bool:
        """Explicit sublayers in both stacks: what differs is of second order in r."""
        return all(is_second_order(s, placement) for s in dict.fromkeys(part.layer))

    yield SECTION.equal(
        f"streams-{part.name}",
        _moved(own, several.output, added),
        _moved({"x": one.expression}, one.ending, added),
        f"{len(own)} streams that start alike, and {len(added)} branches: the output moves with "
        f"every branch, against its own size, as that of {one.equation}. Beyond {len(own)} "
        "sublayers what reaches the output obeys the mixing's characteristic polynomial, so that "
        "it stays alike at every depth",
        assumptions=("near-identity",),
        establishes=tuple(added),
        checks=(IDENTITY, Check("explicit sublayers, in several streams and in one", on_matrices)),
    )


def _moved(own: Equations, output: Expression | None, added: Sequence[sp.Symbol]) -> sp.Expr:
    """What the output moves by with the branches, against its size: streams start at 1."""

    def norm(of: sp.Expr) -> sp.Expr:
        return of / of.xreplace({delta: sp.S.Zero})

    state: dict[str, sp.Expr] = dict.fromkeys(own, sp.S.One)
    for one in added:
        maps: Functions = {"norm": norm, "branch": partial(_first, delta * one)}
        names = {**state, "alpha": alpha}
        state = {name: in_sympy(equation, names, maps) for name, equation in own.items()}
    end = state["x"] if output is None else in_sympy(output, state, {"norm": norm})
    return sp.expand(sp.diff(norm(end), delta).xreplace({delta: sp.S.Zero}))


def _first(given: sp.Expr, _: sp.Expr) -> sp.Expr:
    return given


def is_second_order(s: Sublayer, placement: Placement) -> bool:
    """Whether several streams are the one up to second order: each r halved, on matrices."""
    base, less = (beyond(s, placement, times) for times in (1.0, 0.5))
    return base < TOLERANCE**2 or abs(math.log2(base / less) - 2) < 2 * NEAR


def beyond(s: Sublayer, placement: Placement, times: float) -> float:
    """How far the two stacks are apart, their outputs normalised, r multiplied by ``times``."""
    several, one = placement.streams, placement.of_one_stream
    assert several is not None
    own = dict(zip(several.names, several.equations, strict=True))
    depth = len(own) + 1
    return distance(
        on_matrices(s, one, {"x": one.expression}, one.ending, depth, times),
        on_matrices(s, one, own, several.output, depth, times),
    )


def on_matrices(
    s: Sublayer, one: Placement, own: Equations, output: Expression | None, depth: int, times: float
) -> Matrix:
    """The normalised output of an explicit stack of ``depth`` branches that weigh alike."""
    weighed = [weighing(s, one, times, branch) for branch in range(depth)]
    state: dict[str, Any] = dict.fromkeys(own, weighed[0].stream[0])
    for of in weighed:
        names = {**state, "alpha": of.alpha}
        folded = OnMatrices(names, {"norm": normalise, "branch": partial(_branch, of)})
        state = {name: fold(equation.root, folded) for name, equation in own.items()}
    end = state["x"]
    if output is not None:
        end = fold(output.root, OnMatrices(state, {"norm": normalise}))
    return normalise(end)


def _branch(of: Witness, x: Matrix) -> Matrix:
    return replace(of, placement=ALONE, entering=x).output() - x
