"""The magnitude of a matrix, its value for a random one, and what a probe along it sees."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import beta
from deepnet_theory.proof.step import Step
from paper_checks.shared.steps.magnitude.distance import closed_form, d, kappa, m, t1, t2, u
from paper_checks.shared.steps.magnitude.probe import inner, norm_g, norm_u, probe_steps
from paper_checks.shared.steps.magnitude.random_matrix import gaussian_magnitude, norm_x, sigma

__all__ = ["closed_form", "gaussian_magnitude", "given", "magnitude_steps", "probe_steps"]


def magnitude_steps() -> tuple[Step, ...]:
    """The closed form of λ(W), its value for a random matrix, and the probe identity."""
    return (*closed_form(), *gaussian_magnitude(), *probe_steps())


def given() -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    return (d, m, sigma, kappa, u, t1, t2, beta, norm_g, norm_u, norm_x, inner)
