r"""What a gradient step of one sublayer moves: the output along the signal that made it.

For one token ΔV = hᵀδ and ΔW = xᵀ(δVᵀ∘R), δ being the signal at the output and the factor −η left
out. The output then moves along δ by the kernel that ‖Δθ‖² is of ‖δ‖²,

.. math:: \langle\delta, \Delta z\rangle = \|\Delta\theta\|^2 = \|g\|\,\|\Delta\theta\| ,

where an update that is independent of x, W and V has mean 0. Derived here.
"""

from __future__ import annotations

import sympy as sp

from deepnet_theory.symbolic.expectation import Index, Known, Polynomial, Tensor, expect, moment
from deepnet_theory.symbolic.expectation.model import NamedQuantity, norm_of
from deepnet_theory.symbolic.proof.step import Section, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    KNOWN_X,
    GaussianBranch,
    d,
    i,
    j,
    k,
    mask,
    x,
)

GRADIENT_STEP = Section("A gradient step")

signal = Tensor("delta", (d,))
entry = NamedQuantity("delta_i", r"\delta_i", real=True)
norm_signal = norm_of("delta", r"\delta")
KNOWN_ENTRY = Known(entry, signal[i])
KNOWN_SIGNAL = Known.norm(norm_signal, signal)


def gradient_step_steps(branch: GaussianBranch) -> tuple[Step, Step]:
    """E Δz_i along δ_i, and E‖Δθ‖² by the same factor."""
    drift = _drift(branch)
    return drift, _size(branch, drift)


def _kept(branch: GaussianBranch, product: Polynomial) -> Polynomial:
    masked: Polynomial = product * mask[k] if branch.rectified else product
    return masked


def _hidden(branch: GaussianBranch, at: str) -> Polynomial:
    """h_k, summed over an index of its own."""
    over = Index(at, d)
    summed: Polynomial = _kept(branch, (x[over] * branch.W[over, k]).sum(over))
    return summed


def _signal(branch: GaussianBranch, at: str) -> Polynomial:
    """(δVᵀ∘R)_k."""
    over = Index(at, d)
    summed: Polynomial = _kept(branch, (branch.V[k, over] * signal[over]).sum(over))
    return summed


def _drift(branch: GaussianBranch) -> Step:
    through_v = (_hidden(branch, "j") * _hidden(branch, "e")).sum(k) * signal[i]
    size = (x[j] * x[j]).sum(j)
    through_w = (size * _signal(branch, "g") * _kept(branch, branch.V[k, i])).sum(k)
    known = (KNOWN_X, KNOWN_ENTRY)
    return moment(
        GRADIENT_STEP,
        f"aligned-{branch.name}-drift",
        through_v + through_w,
        (
            f"(dz/dV dV + dz/dW dW)_i[{branch.name}]",
            r"(\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W)_i",
        ),
        (
            "ΔV = hᵀδ, ΔW = xᵀ(δVᵀ∘R) for one token: the output moves along δ itself by the kernel "
            "‖h‖² + ‖x‖²·V's part, while an independent update has mean 0"
        ),
        known,
        sp.factor(expect(through_v + through_w, known)),
        uses=tuple(f"{branch.name}-derivative-{which}-matrix" for which in ("second", "first")),
        assumptions=(*branch.assumptions, "independent-signal"),
        establishes=(entry,),
    )


def _size(branch: GaussianBranch, drift: Step) -> Step:
    of_v = (_hidden(branch, "j") * _hidden(branch, "e")).sum(k) * (signal[i] * signal[i]).sum(i)
    of_w = (x[j] * x[j]).sum(j) * (_signal(branch, "g") * _signal(branch, "a")).sum(k)
    return moment(
        GRADIENT_STEP,
        f"aligned-{branch.name}-size",
        of_v + of_w,
        (f"||dtheta||^2[{branch.name}]", r"\|\Delta\theta\|^2"),
        (
            "the same kernel: <δ, Δz> = ‖Δθ‖², so that a gradient step moves the output along the "
            "signal by |g||Δθ|, the most that a step of its size can"
        ),
        (KNOWN_X, KNOWN_SIGNAL),
        drift.rhs / entry * norm_signal**2,
        uses=(drift.name,),
        assumptions=(*branch.assumptions, "independent-signal"),
        establishes=(norm_signal,),
    )
