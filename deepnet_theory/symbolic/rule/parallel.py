r"""Parallel branches: to first order their residual sum is the sequence of as many sublayers.

.. math:: x(1 + r_1 G_1)(1 + r_2 G_2) = x + r_1 x G_1 + r_2 x G_2 + r_1 r_2\, x G_1 G_2

The left is the sequence, and all but the last term the sum in parallel. So S counts branches, and
each has the increment, the α and the β that it has in the sequence: αx + G₁ + G₂ over α is
x + G₁/α + G₂/α. Products of two branches of one sum do not come in.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, combinations

import sympy as sp

from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.stack import Part
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, beta, exponents
from deepnet_theory.symbolic.laws.placement import gains_product, value_of, x
from deepnet_theory.symbolic.proof.step import (
    IDENTITY,
    LIMIT,
    Check,
    Point,
    Regime,
    Section,
    Step,
    at_points,
)
from deepnet_theory.symbolic.proof.witness import (
    NEAR,
    TOLERANCE,
    Matrix,
    Witness,
    distance,
    normalise,
    random_matrix,
)
from deepnet_theory.symbolic.routes.route import sublayers

SECTION, BEYOND = Section("Parallel branches"), Section("Beyond the first order")
ALPHA, WEIGHT = 1000.0, 4e-4  # near the identity, where rounding does not reach r₁r₂ yet


def parallel_steps(part: Part, placement: Placement) -> Iterator[Step]:
    """What the sums of several branches are to the sequence; no step where there is none."""
    stack = iter(part.layer)
    seen = dict.fromkeys(tuple(next(stack) for _ in range(several)) for several in part.sums)
    for index, branches in enumerate((own for own in seen if len(own) > 1), start=1):
        yield _first_order(f"parallel-{part.name}-{index}", branches, placement)


def _first_order(name: str, branches: tuple[Sublayer, ...], placement: Placement) -> Step:
    count = range(1, len(branches) + 1)
    weights = [sp.Symbol(f"r_{i}", positive=True) for i in count]
    maps = [sp.Symbol(f"G_{i}", commutative=False) for i in count]
    sequence = x
    for weight, own in zip(weights, maps, strict=True):
        sequence = sequence + weight * sequence * own

    def on_matrices(step: Step) -> bool:
        """Both sides on explicit maps; and so the branches of ``spec`` in their equation."""
        draw = random.Random(0)
        after = stream = random_matrix(draw)
        values: dict[sp.Symbol, Matrix | float] = {x: stream}
        for weight, own in zip(weights, maps, strict=True):
            explicit, size = random_matrix(draw), draw.uniform(0.2, 0.8)
            values |= {own: explicit, weight: size}
            after = after + size * after * explicit
        sides = (value_of(side, values) for side in (step.lhs, step.rhs))
        return all(distance(side, after) < TOLERANCE for side in sides) and all(
            is_second_order(*pair, placement) for pair in combinations(branches, 2)
        )

    listed = [s.name for s in branches]
    return SECTION.equal(
        name,
        sequence,
        sp.expand(sequence),
        f"{', '.join(listed)} one after the other are the one residual sum {'+'.join(listed)}, all "
        "that is linear here, and products of several branches, of second order in r. So each "
        "branch adds what it adds in the sequence, S counts branches, and alpha is that of the "
        "sequence: a norm on the sum takes it out of all terms alike, as alpha*x + G_1 + G_2 is "
        "alpha times x + G_1/alpha + G_2/alpha. A norm that they share in front of them changes "
        "none of this",
        assumptions=("near-identity",),
        establishes=(x, *weights, *maps),
        checks=(
            IDENTITY,
            Check("explicit matrices, those of the branches among them", on_matrices),
        ),
    )


def is_second_order(one: Sublayer, two: Sublayer, placement: Placement) -> bool:
    """Whether a sequence is a sum and what goes with r₁r₂: on matrices, each r halved."""
    base = beyond(one, two, placement)
    halved = (beyond(one, two, placement, times) for times in ((0.5, 1.0), (1.0, 0.5)))
    return all(abs(math.log2(base / less) - 1) < NEAR for less in halved)


def beyond(
    one: Sublayer, two: Sublayer, placement: Placement, times: tuple[float, float] = (1.0, 1.0)
) -> float:
    """How far a sequence of two is from the sum in parallel, r multiplied by ``times``."""
    first, second = (
        weighing(s, placement, factor, branch)
        for branch, (s, factor) in enumerate(zip((one, two), times, strict=True))
    )
    stream = first.stream[0]
    total = first.inner() + second.inner() - stream
    parallel = normalise(total) if placement.normalises_sum else total
    return (replace(second, entering=first.output()).output() - parallel).norm


def weighing(s: Sublayer, placement: Placement, times: float, branch: int) -> Witness:
    """A sublayer near the identity whose branch weighs ``times`` what it weighs at the knobs."""
    if "alpha" in placement.expression.names:
        return Witness.at(s, placement, ALPHA / times, 1.0, branch)
    degree = float(exponents(gains_product(s))[beta])
    return Witness.at(s, placement, 1.0, (WEIGHT * times) ** (1 / degree), branch)


def second_order(part: Part) -> Iterator[Step]:
    """How many products of two branches there are; no step where every sum has one branch."""
    if not any(part.parallel):
        return
    depth, count = DEPTHS[part.depth], sublayers(part)
    within = sum(math.comb(several, 2) for several in part.sums)

    def points(_: Step) -> Iterator[Point]:
        for layers in (1, 2, 5):
            sums = list(accumulate(not joins for joins in part.parallel * layers))  # of each branch
            pairs = sum(a != b for a, b in combinations(sums, 2))
            yield {depth: sp.Integer(layers)}, (pairs, sp.Rational(len(sums) ** 2, 2))

    yield BEYOND.asymptotic(
        f"pairs-{part.name}",
        count * (count - 1) / 2 - within * depth,
        count**2 / 2,
        f"products of two branches, without the {within} within the sums of a layer: their share "
        "of all pairs vanishes with the depth, so that the second order is that of the sequence",
        regime=Regime(depth, sp.oo),
        uses=(f"sublayers-{part.name}",),
        checks=(LIMIT, at_points("the pairs of an explicit stack, counted", points)),
    )
