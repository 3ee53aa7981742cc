"""The increment of one sublayer: its gradients' size times its updates', by the degrees."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.symbols import alpha, beta, eta
from deepnet_theory.symbolic.laws.optimizer import degrees_of, step_length
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.proof.step import ORDER_ONE, Check, Step
from deepnet_theory.symbolic.routes.probe.sizes import KNOBS

SECTION = Section("The balance", "Su, §Increment explosion; §Multiple optimizers")


def increment_step(sublayer: Sublayer, gradient: Step, degrees: Step, optimizer: Optimizer) -> Step:
    """One sublayer's increment: over its scaled matrices, γ·|Δθ| with |Δθ| = η γ^p |θ|^q.

    γ is the value of the gradient's step, p and q those of the degrees' step.
    """
    p, q = degrees_of(degrees)
    size = gradient.rhs
    constants = sp.symbols(f"c_1:{len(sublayer.scaled) + 1}", positive=True)
    update = eta * size**p * beta**q
    return SECTION.order(
        f"increment-{sublayer.name}",
        sp.Add(*(constant * size * update for constant in constants)),
        sp.powsimp(eta * size ** (1 + p) * beta**q),
        (
            "each scaled matrix changes the output by its gradient's size times its update's, "
            f"eta*|g|^({p})*|theta|^({q}) by the degrees; their constants are dropped"
        ),
        uses=("degrees", gradient.name),
        assumptions=("aligned-updates",),
        bounded=constants,
        establishes=constants,
        checks=(ORDER_ONE, Check("the update on exact entries", _updated(optimizer, size))),
    )


def _updated(optimizer: Optimizer, gradient: sp.Expr) -> Callable[[Step], bool]:
    """γ·‖Δθ‖ of the optimizer's own expression, with a gradient of size γ and a matrix of β."""

    def holds(step: Step) -> bool:
        ratios = []
        for residual, size in KNOBS:
            at = {alpha: sp.nsimplify(residual), beta: sp.nsimplify(size)}
            gamma = gradient.subs(at)
            length = step_length(optimizer, gamma, at[beta])
            ratios.append(sp.N(gamma * length / (step.rhs / eta).subs(at), 30))
        return bool(all(abs(ratio / ratios[0] - 1) < sp.Float("1e-20") for ratio in ratios))

    return holds
