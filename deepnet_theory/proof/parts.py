r"""The sublayers of a part: how many there are, and what makes several of them as good as one.

Each way is one or two rows of the proof, held against explicit sublayers.

Branches in parallel: to first order their residual sum is the sequence of as many sublayers,

.. math:: x(1 + r_1 G_1)(1 + r_2 G_2) = x + r_1 x G_1 + r_2 x G_2 + r_1 r_2\, x G_1 G_2

where the left is the sequence, and all but the last term the sum. So S counts branches, and each
has the increment, the α and the β that it has in the sequence. Products of two branches of one sum
do not come in.

Shared layers: one matrix in n sublayers is stepped by the sum of its uses,

.. math:: \frac{d}{dG}(1 + rG)^n = n r (1 + rG)^{n-1} \sim n r .

Near the identity all uses read one stream and one gradient, so that what the output answers to the
matrix, and the gradient, are n times those of one use. An update of degree p is n^p times as large,
and every use makes the output feel it: n sublayers move by n^{1+p} increments, S of them by S n^p.

Experts are the third of these; their rows stand with a branch's law (``placement.py``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate, combinations

import sympy as sp

from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Part, Selection, Stack
from deepnet_theory.definitions.sublayer import Sublayer
from deepnet_theory.proof.algebra import (
    DEPTHS,
    beta,
    depth_expression,
    eta,
    exponents,
    r,
)
from deepnet_theory.proof.explicit import step_length
from deepnet_theory.proof.placement import gains_product, value_of, x
from deepnet_theory.proof.step import (
    IDENTITY,
    LIMIT,
    Check,
    Point,
    Regime,
    Section,
    Step,
    at_points,
    defines,
    near,
    number,
)
from deepnet_theory.proof.witness import (
    NEAR,
    TOLERANCE,
    Matrix,
    Witness,
    distance,
    normalise,
    of_uses,
    random_matrix,
)
from deepnet_theory.sizes.update import Update

PARALLEL, SHARED, BEYOND = map(
    Section, ("Parallel branches", "Shared layers", "Beyond the first order")
)
ALPHA, WEIGHT = 1000.0, 4e-4  # near the identity, where rounding does not reach r₁r₂ yet
ALONE = Placement("a branch alone", "x + branch(x)", final_norm=True)
n, G = sp.symbols("n_u G", positive=True)


def sublayers(part: Part) -> sp.Expr:
    """S, the residual sublayers of all layers of a part."""
    return sp.Rational(part.sublayers_per_layer) * DEPTHS[part.depth]


def crossings(part: Part) -> sp.Expr:
    """K, the cross-attentions of all layers of a part."""
    return sp.Rational(part.crossings) * DEPTHS[part.depth]


def encoder_and_decoder(stack: Stack) -> tuple[Part, Part]:
    """Both parts of a stack; the algebra of sizes has refused a decoder without cross-attention."""
    encoder, decoder = stack.parts
    return encoder, decoder


def added_up(part: Part, layers: int, term: Callable[[int], sp.Expr], crossing: sp.Expr) -> sp.Expr:
    """Every sublayer's own term, and every cross-attention's, one by one, layer after layer."""
    return sp.Add(*(
        term(number) + (crossing if sublayer.reads_memory else 0)
        for number, sublayer in enumerate(part.layer * layers, start=1)
    ))  # fmt: skip


def as_one(part: Part, selection: Selection, degrees: Update) -> Iterator[Step]:
    """What parallel branches and uses of one matrix are to one of each."""
    placement = selection.the_placement
    stack = iter(part.layer)
    sums = dict.fromkeys(tuple(next(stack) for _ in range(several)) for several in part.sums)
    for index, branches in enumerate((s for s in sums if len(s) > 1), start=1):
        yield parallel_step(f"parallel-{part.name}-{index}", branches, placement)
    if part.uses != "1":
        yield from shared_steps(part, selection, degrees)


# ---- parallel branches ----


def parallel_step(name: str, branches: tuple[Sublayer, ...], placement: Placement) -> Step:
    """The sequence of some branches, and their one sum.

    Two suffice: the first is any sum, and so the branches before the last, one after the other.
    """
    count = (1, 2)
    weights = [sp.Symbol(f"r_{i}", positive=True) for i in count]
    maps = [sp.Symbol(f"G_{i}", commutative=False) for i in count]
    sequence = x
    for weight, branch in zip(weights, maps, strict=True):
        sequence = sequence + weight * sequence * branch

    def on_matrices(step: Step) -> bool:
        """Both sides on explicit maps; and so the branches of ``definitions`` in their equation."""
        draw = random.Random(0)
        after = stream = random_matrix(draw)
        values: dict[sp.Symbol, Matrix | float] = {x: stream}
        for weight, branch in zip(weights, maps, strict=True):
            explicit, size = random_matrix(draw), draw.uniform(0.2, 0.8)
            values |= {branch: explicit, weight: size}
            after = after + size * after * explicit
        sides = (value_of(side, values) for side in (step.lhs, step.rhs))
        return all(distance(side, after) < TOLERANCE for side in sides) and all(
            is_second_order(*pair, placement) for pair in set(combinations(branches, 2))
        )

    names = [s.name for s in branches]
    return PARALLEL.equal(
        name, sequence, sp.expand(sequence),
        f"{', '.join(names)} one after the other are the one residual sum {'+'.join(names)}, all "
        "that is linear here, and products of several branches, of second order in r. So S counts "
        "branches, and each adds what it adds in the sequence, at the sequence's alpha: a norm on "
        "the sum takes alpha out of all terms alike",
        assumptions=("near-identity",), establishes=(x, *weights, *maps),
        checks=(IDENTITY, Check("explicit matrices, and those of the branches", on_matrices)),
    )  # fmt: skip


def is_second_order(one: Sublayer, two: Sublayer, placement: Placement) -> bool:
    """Whether a sequence is a sum and what goes with r₁r₂: on matrices, each r halved."""
    base = beyond(one, two, placement)
    # each by itself: halved together, an error in r₁² would pass
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
    total = first.inner() + second.inner() - first.stream[0]
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
        f"pairs-{part.name}", count * (count - 1) / 2 - within * depth, count**2 / 2,
        f"products of two branches, without the {within} within the sums of a layer: their share "
        "of all pairs vanishes with the depth, so that the second order is that of the sequence",
        regime=Regime(depth, sp.oo), uses=(f"sublayers-{part.name}",),
        checks=(LIMIT, at_points("the pairs of an explicit stack, counted", points)),
    )  # fmt: skip


# ---- shared layers ----


def shared_steps(part: Part, selection: Selection, degrees: Update) -> Iterator[Step]:
    """What the uses of one matrix do together."""
    name, uses = part.name, depth_expression(part.uses)
    g, theta = sp.symbols("g theta", positive=True)
    update = sp.Function("u")

    def on_matrices(step: Step) -> bool:
        """Two uses of an explicit sublayer beside one, in every parameter and in the branch."""
        power = sp.degree(step.rhs, n)
        return all(set(of_uses(selection.placed(s), s).values()) == {power} for s in part.layer)

    def stepped(step: Step) -> bool:
        """The optimizer run on entries of several sizes: two uses beside one, and three."""
        run = partial(step_length, selection.the_optimizer, size=3)
        grown = step.rhs / update(eta, g, theta)
        return step.lhs == update(eta, n * g, theta) and all(
            near(number(run(times * size)) / number(run(size)), grown.subs(n, times), digits=12)
            for times in (2, 3)
            for size in (1, 7)
        )

    yield SHARED.equal(
        f"uses-{name}", n, uses,
        f"every layer of the {name} stands in as many places",
        establishes=(n,), checks=(defines("as asked for", lambda: depth_expression(part.uses)),),
    )  # fmt: skip
    yield SHARED.asymptotic(
        f"shared-response-{name}", sp.diff((1 + r * G) ** n, G), n * r,
        "a product of n_u equal maps, differentiated in the map: the uses of one matrix add up, "
        "alike to first order in r, in what the output answers to it, in its gradient and in "
        "what its branches add to the stream",
        regime=Regime(r, sp.S.Zero), uses=(f"uses-{name}",), assumptions=("near-identity",),
        establishes=(r, G),
        checks=(LIMIT, Check("explicit sublayers, used once and twice", on_matrices)),
    )  # fmt: skip
    yield SHARED.equal(
        f"shared-update-{name}", update(eta, n * g, theta), n**degrees.p * update(eta, g, theta),
        f"its gradient is n_u times that of one use, and the update is of degree {degrees.p} in it",
        uses=("degrees", f"shared-response-{name}"),
        checks=(Check("the update on exact entries, its gradient multiplied", stepped),),
    )  # fmt: skip
