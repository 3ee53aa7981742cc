r"""What one sublayer of a scheme does, as scalars in α, the gate and the gain of every matrix.

Every matrix has a gain of its own here, where the rules' laws have one β for all; the stream
that enters has the size X, which a norm takes away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy as sp

from deepnet_theory.spec.norm import Norm
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.nodes import Branch, coefficient, split
from deepnet_theory.symbolic.laws.branch import AT_REST, branch, delta, memory, x
from deepnet_theory.symbolic.laws.placement import P, placement_law, residual

X = sp.Symbol("X", positive=True)  # the size of the stream that enters
gate = sp.Symbol("a", positive=True)  # the learnable scalar on the branch


@dataclass(frozen=True)
class Parameter:
    """One parameter: how the sublayer's output responds to it."""

    name: str
    role: Role
    response: Any


@dataclass(frozen=True)
class SublayerLaw:
    """A sublayer of a scheme: r, what it multiplies the stream by, and its parameters.

    ``added`` is the size of what is added to the stream, and ``homogeneous`` tells that it is
    as large as the stream is: no norm stands between.
    """

    sublayer: str
    weight: Any
    added: Any
    stream: Any
    homogeneous: bool
    parameters: tuple[Parameter, ...]


@cache
def sublayer_law(placement: Placement, sublayer: Sublayer, norm: Norm, gated: bool) -> SublayerLaw:
    """The law of a sublayer in a placement; raises Refusal where the equation has none."""
    law = placement_law(placement)
    argument = _argument(placement)
    times = gate if gated else sp.Integer(1)
    product = times * coefficient(_law_of(sublayer, None, argument))
    weight = law.weight.xreplace({P: product}) / X
    response = law.response.xreplace({P: product})
    found = []
    for parameter in sublayer.parameters:
        moved = _law_of(sublayer, parameter.name, argument).diff(delta).xreplace(AT_REST)
        through = times * coefficient(sp.expand_mul(moved))
        found.append(Parameter(parameter.name, parameter.role, response * through))
    if gated:
        found.append(Parameter("gate", Role.RESIDUAL_GAIN, response * product / gate))
    if "norm" in placement.expression.functions:
        # the branch is opaque to these laws: what scales its argument is in their scalars already
        bare = product / split(argument)[0]
        own = ((Role.NORM_GAIN, law.norm_gain), (Role.NORM_BIAS, law.norm_bias))
        for role, of in own[: 2 if norm.bias else 1]:
            found.append(Parameter(role.value, role, of.xreplace({P: bare})))
    added = weight * X * (1 if law.stream is None else law.stream)
    return SublayerLaw(
        sublayer=sublayer.name,
        weight=weight,
        added=added,
        stream=law.stream,
        homogeneous=added.has(X),
        parameters=tuple(found),
    )


def _argument(placement: Placement) -> Any:
    """What the branch is fed with, the stream written X·x."""
    seen = []

    def note(argument: Any) -> Any:
        seen.append(argument)
        return P * Branch(argument)

    residual(placement, note)
    return sp.sympify(seen[0]).xreplace({x: X * x}).doit()


def _law_of(sublayer: Sublayer, parameter: str | None, argument: Any) -> Any:
    """The branch with a parameter moved; a memory is as large as a stream that no norm takes."""
    moved = branch(sublayer, parameter, argument)
    return sp.expand_mul(
        moved.xreplace({memory: X * memory}).doit() if argument == X * x else moved
    )
