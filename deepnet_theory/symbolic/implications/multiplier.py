r"""Learnt multipliers: a number that multiplies the branch, or the stream, steps as a parameter.

.. math:: \frac{\partial}{\partial\lambda}\,(x + \lambda P B) = P B, \qquad
          \frac{\partial}{\partial\lambda}\,\frac{\lambda x + w b}{\|\lambda x + w b\|}
          = \frac{w}{1 + w^2} \ \text{across, for unit } x \perp b \text{ at } \lambda = 1

On the branch it moves the output by the branch before it. One number on the whole stream changes no
direction: the norm at the end sees it beside what is added later, w = √S·r.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import sympy as sp

from deepnet_theory.spec.placement import STREAM_GAIN
from deepnet_theory.symbolic.algebra.monomial import exponent_in, present, simplified
from deepnet_theory.symbolic.algebra.nodes import Branch, coefficient
from deepnet_theory.symbolic.implications.orders import Numbers, OfKind
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.laws.placement import AT_REST, P, delta, gains_product, residual
from deepnet_theory.symbolic.proof.checks import Point, at_points, number
from deepnet_theory.symbolic.proof.step import Section, Step
from deepnet_theory.symbolic.proof.witness import sizes

SECTION = Section("Learnt multipliers")


def multiplier_steps(of: OfKind) -> Iterator[Step]:
    """Response, share and learning rate of every learnt multiplier of the placement."""
    placement = of.problem.selection.placed(of.kind.sublayer)
    for index, name in enumerate(placement.learnt):
        start, derivative = _derivative(of, index)
        along = name == STREAM_GAIN and not placement.per_channel
        if along:
            weight = of.kind.weight
            lasting = placement.final_norm and not placement.normalises_sum
            derivative = sp.sqrt(of.balanced.sublayers) * weight if lasting else weight
        yield (response := _response(of, name, derivative, along))
        yield (share := _share(of, name, start, response))
        if exponent_in(share.rhs, of.balanced.depth) > 0:
            yield _rate(of, name, share)


def _derivative(of: OfKind, index: int) -> tuple[sp.Expr, sp.Expr]:
    """What a multiplier starts at, and the size of the output's derivative in it."""
    starts: list[sp.Expr] = []

    def learnt(start: sp.Expr) -> sp.Expr:
        starts.append(sp.sympify(start))
        return start + (delta if len(starts) == index + 1 else 0)

    output = residual(
        of.problem.selection.placed(of.kind.sublayer), lambda y: P * Branch(y), learnt=learnt
    )
    moved = coefficient(sp.expand_mul(output.diff(delta)).xreplace(AT_REST))
    own = {**of.kind.own, P: gains_product(of.kind.sublayer).xreplace(of.kind.own)}
    return starts[index].xreplace(of.kind.own), moved.xreplace(own)


def _response(of: OfKind, name: str, derivative: sp.Expr, along: bool) -> Step:
    balanced, kind = of.balanced, of.kind

    def points(_: Step) -> Iterator[Point]:
        found = sizes(of.problem.selection.placed(kind.sublayer), kind.sublayer).responses[name]
        assert found is not None
        for a, b, layers in (("7", "1/5", 3), ("11", "1/3", 10**4), ("40", "2/5", 10**8)):
            at = {kind.alpha: sp.Rational(a), kind.beta: sp.Rational(b)}
            at |= of.depths(layers, 7)
            size = at[kind.alpha] ** found.alpha * at[kind.beta] ** found.beta
            if along and derivative.has(balanced.depth):
                size *= sp.sqrt(sum(1 for _ in balanced.part.layer) * layers)
            yield at, size

    says = (
        "one number on the whole stream leaves its direction: what it moves is the stream beside "
        "what is added to it, S independent branches behind a multiplier, sqrt(S)*r"
        if along
        else "the derivative in a learnt multiplier is what it multiplies"
    )
    return SECTION.equal(
        f"{name}-response-{of.tag}",
        derivative,
        present(simplified(derivative)),
        says,
        uses=(f"sublayers-{balanced.part.name}", *of.weights),
        assumptions=("near-identity",),
        checks=(at_points("explicit matrices, a multiplier of one of them moved", points),),
    )


def _share(of: OfKind, name: str, start: sp.Expr, response: Step) -> Step:
    balanced, p, q = of.balanced, of.problem.degrees.p, of.problem.degrees.q
    count = balanced.sublayers * balanced.factor * balanced.rate
    moved = count * response.rhs ** (1 + p) * (start**q if start != 0 else 1)

    def stepped(at: Numbers) -> Any:
        """S responses to the optimizer's own step of a number of that size and gradient."""
        size, own = number(response.rhs, at), number(start, at) if start != 0 else 1
        update = step_length(of.problem.selection.the_optimizer, size, own)
        return number(count, at) * size * number(update)

    return SECTION.equal(
        f"{name}-share-{of.tag}",
        moved,
        present(balanced.at_solution(moved)),
        "S multipliers, each stepped under the gradient that its response makes, move the output "
        "by this share of the learning rate, where the scaled matrices move it by 1",
        uses=(response.name, *of.at_rule),
        assumptions=("aligned-updates",),
        checks=(of.at_depths("the optimizer's step of such a number", stepped),),
    )


def _rate(of: OfKind, name: str, share: Step) -> Step:
    """The multiplier of its learning rate that makes its share one, where the share grows."""

    def inverse(at: Numbers, step: Step) -> Any:
        return 1 / number(step.lhs, at)

    return SECTION.equal(
        f"{name}-rate-{of.tag}",
        1 / share.lhs,
        present(simplified(1 / share.rhs)),
        "its share grows with the depth: its learning rate takes the inverse",
        uses=(share.name, *of.at_rule),
        checks=(of.at_depths("the inverse of the share", partial(inverse, step=share)),),
    )
