"""The step that states the degrees of an update, with which every route begins."""

from __future__ import annotations

import numpy as np
import sympy as sp

from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.proof.algebra import eta
from deepnet_theory.proof.explicit import change, unit_pair
from deepnet_theory.proof.step import Check, Section, Step
from deepnet_theory.proof.witness import rms
from deepnet_theory.sizes.update import Update


def homogeneity_step(optimizer: Optimizer, counted: Update) -> Step:
    """The step that states the degrees, checked on arrays at several scales."""
    t, s, g, theta = sp.symbols("t s g theta", positive=True)
    update = sp.Function("u")
    because = f"u is the update {optimizer.update}, its degrees counted from this expression"
    if optimizer.floors:
        because += ", above its floor under rms(theta)"

    def scaled(by_g: int, by_theta: int, times: float, seed: int) -> bool:
        """Whether the update of scaled g and θ is ``times`` that of g and θ."""
        (a, b), root = unit_pair(seed), optimizer.expression.root
        b = b * max([1.0, *map(float, optimizer.floors)]) / rms(b)
        once, there = change(root, a, b), change(root, by_g * a, by_theta * b)
        return bool(np.allclose(there, times * once, rtol=1e-9, atol=1e-12 * abs(there).max()))

    def scales(step: Step) -> bool:
        factor = step.rhs / update(eta, g, theta)  # a monomial cancels by itself
        return (
            step.lhs == update(eta, t * g, s * theta)
            and factor.free_symbols <= {t, s}
            # primes: a wrong p cannot hide behind a wrong q
            and all(
                scaled(a, b, float(factor.subs({t: a, s: b})), seed)
                for seed, (a, b) in enumerate(((2, 3), (5, 7), (3, 2)))
            )
        )

    return Section("The optimizer").equal(
        "degrees",
        update(eta, t * g, s * theta),
        t**counted.p * s**counted.q * update(eta, g, theta),
        because,
        source=optimizer.source or "derived here",
        assumptions=("above-floor",) if optimizer.floors else (),
        checks=(Check("the update on explicit arrays, rescaled", scales),),
    )
