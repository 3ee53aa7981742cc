"""The probe route of a selection: one block of steps for each distinct sublayer."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.nodes import ONES
from deepnet_theory.symbolic.algebra.symbols import alpha, beta, eta
from deepnet_theory.symbolic.laws.branch import delta, direction, gain, memory, transverse, x
from deepnet_theory.symbolic.laws.optimizer import degrees, homogeneity_step
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.probe.gradient import (
    derivative_steps,
    gradient_step,
    jacobian,
    unit,
    upstream,
)
from deepnet_theory.symbolic.routes.probe.increment import increment_step
from deepnet_theory.symbolic.routes.probe.sublayer import forward_step, scale_step, weight_step
from deepnet_theory.symbolic.routes.route import Increment, Proved, Route


def probe_route(selection: Selection) -> Route:
    """Su's route, one block of steps for each distinct sublayer of the stack."""
    placement, optimizer = selection.the_placement, selection.the_optimizer
    scaling = scale_step(placement)
    counted = homogeneity_step(optimizer, degrees(optimizer))
    steps = [counted, *(() if scaling is None else (scaling,))]
    endings: list[Step] = []
    increments, weights = {}, {}
    for sublayer in selection.the_stack.sublayers:
        name = sublayer.name
        gradient = gradient_step(sublayer, placement, sublayer.scaled)
        steps.append(forward_step(sublayer, placement, scaling))
        steps.extend(derivative_steps(sublayer, placement, sublayer.scaled))
        steps.append(gradient)
        weights[name] = Proved(weight_step(sublayer, placement))
        increments[name] = Increment(increment_step(sublayer, gradient, counted, optimizer))
        steps.append(weights[name].step)
        endings.append(increments[name].step)
    return Route((*steps, *endings), _given(selection), increments, weights)


def _given(selection: Selection) -> tuple[sp.Symbol, ...]:
    symbols: dict[sp.Symbol, None] = dict.fromkeys(
        (alpha, beta, eta, delta, x, memory, ONES, upstream, jacobian, unit)
    )
    for sublayer in selection.the_stack.sublayers:
        for matrix in sublayer.matrices:
            of = (gain(matrix.name), direction(matrix.name), transverse(matrix.name))
            symbols.update(dict.fromkeys(of))
    return tuple(symbols)
