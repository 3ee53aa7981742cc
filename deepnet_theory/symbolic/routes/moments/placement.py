r"""Placements whose stream is not normalised: the change grows exactly as the stream does.

A sublayer adds a scaled branch to the stream, :math:`x_{l+1} = x_l + c\,G(y)`, where y is x_l or
its norm, and c holds 1/α and, where the branch is normalised itself, :math:`\sqrt d/\|G\|` at the
root mean square of the branch. With b the branch's weight and κ the output's response to it,

.. math:: \|x_{l+1}\|^2 = \|x_l\|^2 + d b^2, \qquad
          \|\Delta F\| \le \sum_i \kappa\sqrt{v^2+w^2}\,\|\Delta\theta_i\| .
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement
from deepnet_theory.symbolic.algebra.nodes import Branch, Normalise
from deepnet_theory.symbolic.algebra.rational import vanishes
from deepnet_theory.symbolic.algebra.symbols import S
from deepnet_theory.symbolic.expectation import ENUMERATED, Expectation, Known, Tensor, expect
from deepnet_theory.symbolic.expectation.model import norm_of
from deepnet_theory.symbolic.laws.placement import P, PlacementLaw, placement_law, residual
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import IDENTITY, SAMPLED, Check, Step
from deepnet_theory.symbolic.routes.moments.norm import RECURSION
from deepnet_theory.symbolic.routes.moments.recursion import (
    COEFFICIENT,
    SQUARES,
    both,
    change,
    index,
)
from deepnet_theory.symbolic.routes.moments.setting import GaussianBranch, alpha, d, i, v, w

c = sp.Symbol("c", positive=True)  # what the branch is multiplied with
layer = sp.Symbol("l", positive=True)  # sublayers passed
norm_s, norm_y = norm_of("x_l"), norm_of("y")
norm_ds, norm_dy = norm_of("dx_l", r"\Delta x_l"), norm_of("dy", r"\Delta y")
norm_df = norm_of("dF", r"\Delta F")

stream, source = Tensor("s", (d,)), Tensor("y", (d,))
stream_change, source_change = Tensor("ds", (d,)), Tensor("dy", (d,))


def _known(symbol: Any, tensor: Tensor) -> Known:
    return Known(symbol, (tensor[i] * tensor[i]).sum(i), 2)


@dataclass(frozen=True)
class Stream:
    """What a placement's equation says of a stream that is not normalised."""

    placement: Placement
    law: PlacementLaw
    normed_input: bool
    normed_branch: bool

    @property
    def weight(self) -> Any:
        """b, the branch against a stream of unit size."""
        return self.law.weight.xreplace({P: v * w})

    @property
    def response(self) -> Any:
        """κ, of the output to a change of the branch."""
        return self.law.response.xreplace({P: v * w})

    @property
    def values(self) -> dict[Any, Any]:
        """‖y‖, ‖Δy‖ and c for this placement; a norm's Jacobian is √d over what it divides by."""
        size = sp.sqrt(d) if self.normed_input else norm_s
        moved = sp.sqrt(d) / norm_s * norm_ds if self.normed_input else norm_ds
        plain = self.law.response if not self.normed_branch else self.law.weight
        factor = sp.sqrt(d) / (v * w * size) if self.normed_branch else sp.S.One
        return {norm_y: size, norm_dy: moved, c: plain * factor}


def stream_of(placement: Placement) -> Stream:
    """Read where the norms stand from the placement's equation.

    Raises :class:`Refusal` where it is not x plus a branch, with a norm at the end of the stack.
    """
    equation = residual(placement, lambda y: P * Branch(y))
    terms = sp.Add.make_args(equation)
    added = [term for term in terms if term.has(Branch)]
    if len(terms) != 2 or len(added) != 1 or not placement.final_norm:
        raise Refusal(
            f"the moment route has no law for the placement {placement.name!r}: its equation "
            f"{placement.equation!r} is neither a normalised sum nor a stream with a branch added "
            "and a norm at the end; use --method probe"
        )
    (inner,) = equation.atoms(Branch)
    return Stream(
        placement,
        placement_law(placement),
        normed_input=isinstance(inner.args[0], Normalise),
        normed_branch=any(norm.has(Branch) for norm in added[0].atoms(Normalise)),
    )


def stream_steps(placement: Placement, branches: tuple[GaussianBranch, ...]) -> tuple[Step, ...]:
    """From the branch's moments to the coefficient of ‖Δθ‖, for a stream that grows."""
    found = stream_of(placement)
    moments = tuple(step for branch in branches for step in _moments(branch))
    sizes = tuple(step.name for step in moments if step.name.endswith("size"))
    changes = tuple(step.name for step in moments if step.name.endswith("change"))
    of_theta = tuple(f"{b.name}-parameter-bound-in-theta" for b in branches)
    grown = norm_s**2 + d * found.weight**2
    ratio = 1 + d * found.weight**2 / norm_s**2
    square = norm_s**2 + c**2 * v**2 * w**2 * norm_y**2
    moved = norm_ds**2 + c**2 * v**2 * w**2 * norm_dy**2
    why = ("‖y‖ = √d, y being normalised" if found.normed_input else "y is the stream itself") + (
        "; c = √d/‖G‖ at the root mean square ‖G‖ = vw‖y‖, times what stands before the norm"
        if found.normed_branch
        else ""
    )
    name = placement.source or "derived here"
    return (
        *moments,
        Step(
            name="stream-growth",
            section=RECURSION,
            lhs=square.xreplace(found.values),
            rhs=grown,
            relation=Relation.EQUAL,
            because=f"{placement.equation}: {why}; the stream grows by d·b² a sublayer",
            source=name,
            uses=sizes,
            assumptions=("norm-concentrates",) if found.normed_branch else (),
            checks=(IDENTITY, SAMPLED),
        ),
        Step(
            name="change-growth",
            section=RECURSION,
            lhs=moved.xreplace(found.values) / norm_ds**2,
            rhs=ratio,
            relation=Relation.EQUAL,
            because=(
                "a change of the stream through the same sublayer, the norms' Jacobians at their "
                "spectral norm: it grows by the factor that the stream grows by, so that relative "
                "to the stream it does not grow"
            ),
            source="derived here",
            uses=(*changes, "norm-jacobian", "stream-growth"),
            assumptions=("linear-step", *(("norm-concentrates",) if found.normed_branch else ())),
            checks=(IDENTITY, SAMPLED, Check("the stream's own factor", _factor_of(grown))),
        ),
        Step(
            name="stream-after",
            section=RECURSION,
            lhs=1 + sp.Sum(found.weight**2, (index, 1, layer)),
            rhs=1 + layer * found.weight**2,
            relation=Relation.EQUAL,
            because="‖x_{l+1}‖²/d after l sublayers, from ‖x_1‖² = d",
            source="derived here",
            uses=("stream-growth",),
            assumptions=("unit-activations",),
            establishes=(layer,),
            checks=(Check("grown one by one from d", _grown_one_by_one(grown)),),
        ),
        Step(
            name=COEFFICIENT,
            section=RECURSION,
            lhs=both * found.response / sp.sqrt(1 + layer * found.weight**2),
            rhs=both * found.response,
            relation=Relation.AT_MOST,
            because=(
                "what sublayer l adds per ‖Δθ‖ behind the final norm, whose Jacobian is "
                "√d/‖x‖: the parameter term at ‖y‖ = √d is √(v²+w²)‖Δθ‖, for another ‖y‖ it "
                "scales with it, and the stream has only grown since"
            ),
            source="derived here",
            uses=("change-growth", "stream-after", *of_theta),
            assumptions=("small-branch-weight",),
            checks=(SQUARES,),
        ),
        Step(
            name="telescoping",
            section=RECURSION,
            lhs=norm_df,
            rhs=sp.Sum(both * found.response * change(index), (index, 1, S)),
            relation=Relation.AT_MOST,
            because="every sublayer's own term, carried to the end by a factor of at most 1",
            source="derived here",
            uses=(COEFFICIENT,),
            assumptions=("linear-step",),
            establishes=(norm_df,),
            checks=(Check("the recursion run at S = 1, 2, 5", _run(found)),),
        ),
    )


def _moments(branch: GaussianBranch) -> tuple[Step, ...]:
    """E‖x + cG(y)‖² and E‖Δx + c ∂G/∂y Δy‖² for fixed x, y and their changes."""
    return tuple(
        Step(
            name=f"{branch.name}-stream-{what}",
            section=RECURSION,
            lhs=Expectation((z * z).sum(i), text, tex, known),
            rhs=expect((z * z).sum(i), known),
            relation=Relation.EQUAL,
            because=because,
            source="derived here",
            uses=(f"{branch.name}-{used}",),
            assumptions=(*branch.assumptions, *premises),
            establishes=(c, *(k.symbol for k in known)),
            checks=(ENUMERATED,),
        )
        for what, base, along, text, tex, known, because, used, premises in (
            (
                "size", stream, source, "||x_l + c G(y)||^2", r"\|x_l+cG(y)\|^2",
                (_known(norm_s, stream), _known(norm_y, source)),
                "the branch of a fixed y is centred: it adds its square to the stream's",
                "norm", (),
            ),
            (
                "change", stream_change, source_change, "||dx_l + c dG/dy dy||^2",
                r"\|\Delta x_l+c\,\tfrac{\partial G}{\partial y}\Delta y\|^2",
                (_known(norm_ds, stream_change), _known(norm_dy, source_change)),
                "G is linear in y once the mask is held, so a change adds in the same way",
                "input-term", ("independent-update",),
            ),
        )
        for z in (base[i] + branch.added(along) * c,)
    )  # fmt: skip


def _factor_of(grown: Any) -> Callable[[Step], bool]:
    return lambda step: vanishes(step.rhs - grown / norm_s**2)


def _grown_one_by_one(grown: Any) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        square: Any = d
        for passed in (1, 2, 3):
            square = grown.xreplace({norm_s: sp.sqrt(square)})
            at = {layer: sp.Integer(passed)}
            sides = (step.lhs.xreplace(at).doit(), step.rhs.xreplace(at))
            if not all(vanishes(sp.expand(side - square / d)) for side in sides):
                return False
        return True

    return holds


def _run(found: Stream) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        generator = random.Random(step.name)
        at = {v: sp.Rational(3, 5), w: sp.Rational(4, 5), alpha: sp.Rational(7, 3)}
        weight, response = (sp.sympify(e).xreplace(at) for e in (found.weight, found.response))
        own = both.xreplace(at) * response
        for sublayers in (1, 2, 5):
            sizes = [sp.Rational(generator.randint(1, 9), 4) for _ in range(sublayers)]
            square, moved = sp.S.One, sp.S.Zero  # of the stream and of its change, over √d
            for size in sizes:
                moved = moved * sp.sqrt(1 + weight**2 / square) + own * size
                square = square + weight**2
            written = step.rhs.xreplace({**at, S: sp.Integer(sublayers)}).doit()
            names = {change(place): size for place, size in enumerate(sizes, 1)}
            bound = written.xreplace(names)
            # a bound, and with the coefficient as it is derived, not a larger one
            excess = bound - own * sum(sizes)
            if sp.N(bound - moved / sp.sqrt(square), 30) < 0 or abs(sp.N(excess, 30)) > 1e-25:
                return False
        return bool(step.lhs == norm_df)

    return holds
