r"""Placements whose stream is not normalised: the change grows exactly as the stream does.

A sublayer adds a scaled branch to the stream, :math:`x_{l+1} = x_l + c\,G(y)`, where y is x_l or
its norm, and c holds 1/α and, where the branch is normalised itself, :math:`\sqrt d/\|G\|` at the
root mean square of the branch. With b the branch's weight and κ the output's response to it,

.. math:: \|x_{l+1}\|^2 = \|x_l\|^2 + d b^2, \qquad
          \|\Delta F\| \le \sum_i \kappa\sqrt{v^2+w^2}\,\|\Delta\theta_i\| .
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement
from deepnet_theory.symbolic.algebra.monomial import S, vanishes
from deepnet_theory.symbolic.algebra.nodes import Branch, Normalise, split
from deepnet_theory.symbolic.expectation import Known, Tensor, moment
from deepnet_theory.symbolic.expectation.model import norm_of
from deepnet_theory.symbolic.laws.branch import x
from deepnet_theory.symbolic.laws.placement import P, residual
from deepnet_theory.symbolic.proof.checks import SQUARES_AT_MOST
from deepnet_theory.symbolic.proof.step import IDENTITY, SAMPLED, Check, Step
from deepnet_theory.symbolic.routes.moments.checks import REACHED
from deepnet_theory.symbolic.routes.moments.norm import RECURSION
from deepnet_theory.symbolic.routes.moments.recursion import (
    COEFFICIENT,
    change,
    index,
    of_parameters,
    parameter_square,
)
from deepnet_theory.symbolic.routes.moments.setting import GaussianBranch, alpha, d, i, v, w

c = sp.Symbol("c", positive=True)  # what the branch is multiplied with
layer = sp.Symbol("l", positive=True)  # sublayers passed
norm_s, norm_y = norm_of("x_l"), norm_of("y")
norm_ds, norm_dy = norm_of("dx_l", r"\Delta x_l"), norm_of("dy", r"\Delta y")
norm_df = norm_of("dF", r"\Delta F")

stream, source = Tensor("s", (d,)), Tensor("y", (d,))
stream_change, source_change = Tensor("ds", (d,)), Tensor("dy", (d,))


@dataclass(frozen=True)
class Stream:
    """What a placement's equation says of a stream that is not normalised."""

    placement: Placement
    scale: sp.Expr  # what stands before the branch, or before its norm
    normed_input: bool
    normed_branch: bool

    @property
    def values(self) -> dict[sp.Symbol, sp.Expr]:
        """‖y‖, ‖Δy‖ and c for this placement; a norm's Jacobian is √d over what it divides by."""
        size = sp.sqrt(d) if self.normed_input else norm_s
        moved = sp.sqrt(d) / norm_s * norm_ds if self.normed_input else norm_ds
        divided = sp.sqrt(d) / (v * w * size) if self.normed_branch else sp.S.One
        return {norm_y: size, norm_dy: moved, c: self.scale * divided}

    @property
    def weight(self) -> sp.Expr:
        """b, the branch against a stream of unit size."""
        return (c * v * w * norm_y / sp.sqrt(d)).xreplace(self.values)


def stream_of(placement: Placement) -> Stream:
    """Read where the norms stand from the placement's equation.

    Raises :class:`Refusal` where it is not x plus a branch, with a norm at the end of the stack.
    """
    equation = residual(placement, lambda y: P * Branch(y))
    terms = sp.Add.make_args(equation)
    added = [term for term in terms if term.has(Branch)]
    path = [term for term in terms if not term.has(Branch)]
    if path != [x] or len(added) != 1 or not placement.final_norm:
        raise _no_law(placement)
    (inner,) = equation.atoms(Branch)
    normed_input = isinstance(inner.args[0], Normalise)
    normed_branch = any(norm.has(Branch) for norm in added[0].atoms(Normalise))
    if not (normed_input or normed_branch):
        raise _no_law(placement)
    scale = split(added[0])[0]
    return Stream(
        placement,
        scale if normed_branch else scale / P,
        normed_input=normed_input,
        normed_branch=normed_branch,
    )


def _no_law(placement: Placement) -> Refusal:
    return Refusal(
        f"the moment route has no law for the placement {placement.name!r}: its equation "
        f"{placement.equation!r} is neither a normalised sum nor a stream with a branch added "
        "that has a norm before or behind it, and a norm at the end; use the method probe"
    )


def stream_steps(
    stream: Stream, branches: tuple[GaussianBranch, ...], of: Mapping[str, Step]
) -> tuple[Step, ...]:
    """From the branch's moments to the coefficient of ‖Δθ‖, for a stream that grows."""
    equation, values = stream.placement.equation, stream.values
    moments = {branch.name: _moments(branch) for branch in branches}
    sizes = tuple(size.name for size, _ in moments.values())
    changes = tuple(moved.name for _, moved in moments.values())
    of_size, of_change = moments[branches[0].name]
    concentrates = ("norm-concentrates",) if stream.normed_branch else ()
    why = ("‖y‖ = √d, y being normalised" if stream.normed_input else "y is the stream itself") + (
        "; c = √d/‖G‖ at the root mean square ‖G‖ = vw‖y‖, times what stands before the norm"
        if stream.normed_branch
        else ""
    )
    growth = RECURSION.equal(
        "stream-growth",
        of_size.rhs.xreplace(values),
        norm_s**2 + d * stream.weight**2,
        f"{equation}: {why}; the stream grows by d·b² a sublayer",
        source=stream.placement.source or "derived here",
        uses=sizes,
        assumptions=concentrates,
        checks=(IDENTITY, SAMPLED),
    )
    squared = (growth.rhs - norm_s**2) / d  # b²
    grown = RECURSION.equal(
        "change-growth",
        of_change.rhs.xreplace(values) / norm_ds**2,
        1 + d * squared / norm_s**2,
        (
            "a change of the stream through the same sublayer, the norms' Jacobians at their "
            "spectral norm: it grows by the factor that the stream grows by, so that relative "
            "to the stream it does not grow"
        ),
        uses=(*changes, "norm-jacobian", growth.name),
        assumptions=("linear-step", *concentrates),
        checks=(
            IDENTITY,
            SAMPLED,
            Check(
                "the stream's own factor", lambda step: vanishes(step.rhs - growth.rhs / norm_s**2)
            ),
        ),
    )
    after = RECURSION.equal(
        "stream-after",
        1 + sp.Sum(squared, (index, 1, layer)),
        1 + layer * squared,
        "‖x_{l+1}‖²/d after l sublayers, from ‖x_1‖² = d",
        uses=(growth.name,),
        assumptions=("unit-activations",),
        establishes=(layer,),
        checks=(Check("grown one by one from d", _grown_one_by_one(growth.rhs)),),
    )
    # the parameter term is stated for ‖y‖ = √d and scales with ‖y‖, ‖c‖ with its inverse
    reached = sp.sqrt(parameter_square(branches[0], of))
    response = reached * (c * norm_y / sp.sqrt(d)).xreplace(values)
    coefficient = RECURSION.at_most(
        COEFFICIENT,
        response / sp.sqrt(after.rhs),
        response,
        (
            "what sublayer l adds per ‖Δθ‖ behind the final norm, whose Jacobian is "
            "√d/‖x‖: the parameter term at ‖y‖ = √d is √(v²+w²)‖Δθ‖, for another ‖y‖ it "
            "scales with it, and the stream has only grown since"
        ),
        uses=(
            grown.name,
            after.name,
            *(name for branch in branches for name in of_parameters(branch)),
        ),
        assumptions=("small-branch-weight",),
        checks=(SQUARES_AT_MOST, REACHED),
    )
    return (
        *(step for pair in moments.values() for step in pair),
        growth,
        grown,
        after,
        coefficient,
        RECURSION.at_most(
            "telescoping",
            norm_df,
            sp.Sum(coefficient.rhs * change(index), (index, 1, S)),
            "every sublayer's own term, carried to the end by a factor of at most 1",
            uses=(coefficient.name,),
            assumptions=("linear-step",),
            establishes=(norm_df,),
            checks=(Check("the recursion run at S = 1, 2, 5", _run(growth, coefficient)),),
        ),
    )


def _moments(branch: GaussianBranch) -> tuple[Step, Step]:
    """E‖x + cG(y)‖² and E‖Δx + c ∂G/∂y Δy‖² for fixed x, y and their changes."""
    size = stream[i] + branch.added(source) * c
    change = stream_change[i] + branch.added(source_change) * c
    return (
        moment(
            RECURSION,
            f"{branch.name}-stream-size",
            (size * size).sum(i),
            ("||x_l + c G(y)||^2", r"\|x_l+cG(y)\|^2"),
            "the branch of a fixed y is centred: it adds its square to the stream's",
            (Known.norm(norm_s, stream), Known.norm(norm_y, source)),
            uses=(f"{branch.name}-norm",),
            assumptions=branch.assumptions,
            establishes=(c, norm_s, norm_y),
        ),
        moment(
            RECURSION,
            f"{branch.name}-stream-change",
            (change * change).sum(i),
            (
                "||dx_l + c dG/dy dy||^2",
                r"\|\Delta x_l+c\,\tfrac{\partial G}{\partial y}\Delta y\|^2",
            ),
            "G is linear in y once the mask is held, so a change adds in the same way",
            (Known.norm(norm_ds, stream_change), Known.norm(norm_dy, source_change)),
            uses=(f"{branch.name}-input-term",),
            assumptions=(*branch.assumptions, "independent-update"),
            establishes=(c, norm_ds, norm_dy),
        ),
    )


def _grown_one_by_one(grown: sp.Expr) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        square: sp.Expr = d
        for passed in (1, 2, 3):
            square = grown.xreplace({norm_s: sp.sqrt(square)})
            at = {layer: sp.Integer(passed)}
            sides = (step.lhs.xreplace(at).doit(), step.rhs.xreplace(at))
            if not all(vanishes(sp.expand(side - square / d)) for side in sides):
                return False
        return True

    return holds


def _run(growth: Step, coefficient: Step) -> Callable[[Step], bool]:
    """Change and stream through explicit stacks, the change divided by the final norm."""

    def holds(step: Step) -> bool:
        generator = random.Random(step.name)
        at = {v: sp.Rational(3, 5), w: sp.Rational(4, 5), alpha: sp.Rational(7, 3)}
        added = ((growth.rhs - norm_s**2) / d).xreplace(at)
        own = coefficient.rhs.xreplace(at)
        for sublayers in (1, 2, 5):
            sizes = [sp.Rational(generator.randint(1, 9), 4) for _ in range(sublayers)]
            square, moved = sp.S.One, sp.S.Zero  # of the stream and of its change, over √d
            for size in sizes:
                moved = moved * sp.sqrt(1 + added / square) + own * size
                square = square + added
            written = step.rhs.xreplace({**at, S: sp.Integer(sublayers)}).doit()
            names = {change(place): size for place, size in enumerate(sizes, 1)}
            bound = written.xreplace(names)
            # a bound, and with the coefficient as it is derived, not a larger one
            excess = bound - own * sum(sizes)
            if sp.N(bound - moved / sp.sqrt(square), 30) < 0 or abs(sp.N(excess, 30)) > 1e-25:
                return False
        return bool(step.lhs == norm_df)

    return holds
