r"""A feed-forward sublayer's output to first order in its input and both of its matrices.

.. math:: \Delta x_{l+1} \approx \frac{\partial\mathrm{LN}}{\partial z}\Bigl(
          \frac{\partial z}{\partial x}\Delta x + \frac{\partial z}{\partial V}\Delta V
          + \frac{\partial z}{\partial W}\Delta W\Bigr),\qquad z = \alpha x + \phi(xW)V .

Source: layer cake, §5.1.
"""

from __future__ import annotations

import numpy as np
import sympy as sp

from deepnet_theory.proof.algebra import (
    Activation,
    DirectionalDifferential,
    Label,
    Normalise,
    alpha,
)
from deepnet_theory.proof.placement import (
    AT_REST,
    central_difference,
    delta,
    value_of,
    x,
)
from deepnet_theory.proof.step import Check, Section, Step
from deepnet_theory.proof.witness import (
    TOLERANCE,
    Array,
    distance,
    leaky_relu,
    normal,
    normalise,
)

SECTION = Section("Derivatives of a sublayer", "layer cake, §5.1, change of the output")

_W, _V, _move_x, _move_w, _move_v = sp.symbols("W V dx dW dV", commutative=False)
_MOVES = ((x, _move_x), (_W, _move_w), (_V, _move_v))


def change_steps() -> tuple[Step, ...]:
    """The derivative of x_{l+1} along a move of x, W and V, by the chain rule through z."""
    z = alpha * x + Activation(x * _W) * _V
    moved_x, moved_w, moved_v = (of + delta * by for of, by in _MOVES)
    moved = alpha * moved_x + Activation(moved_x * moved_w) * moved_v
    of_z = sp.expand_mul(sp.diff(moved, delta).xreplace(AT_REST))
    return (
        SECTION.equal(
            "sublayer-change-first-order",
            sp.Derivative(Normalise(moved), delta),
            sp.expand_mul(DirectionalDifferential(Label(Normalise), z, sp.expand_mul(of_z))),
            (
                "at delta = 0: the norm's Jacobian applied to the changes of z that the moves of "
                "x, V and W make, which is what a small step does to first order"
            ),
            source=f"{SECTION.source}, second and third lines",
            assumptions=("linear-step",),
            checks=(Check("finite difference at explicit matrices", _differenced),),
        ),
    )


def given() -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    return (x, delta, alpha, _W, _V, _move_x, _move_w, _move_v)


def _differenced(step: Step) -> bool:
    generator = np.random.default_rng(25)
    named = {s: normal(generator) for s in (x, _W, _V, _move_x, _move_w, _move_v)}
    weight = 1.7

    def output(h: float) -> Array:
        y, w, v = (named[of] + h * named[by] for of, by in _MOVES)
        return normalise(weight * y + leaky_relu(y @ w) @ v)

    found, values = central_difference(output), {**named, alpha: weight, delta: 0.0}
    sides = (value_of(side, values) for side in (step.lhs, step.rhs))
    return all(distance(side, found) < TOLERANCE for side in sides)
