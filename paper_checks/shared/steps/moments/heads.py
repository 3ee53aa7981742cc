"""The linear branch with its heads written out."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import alpha, v, w
from deepnet_theory.proof.step import Section, Step
from paper_checks.shared.expectation import Gaussian, Index, Tensor, expect, moment
from paper_checks.shared.steps.moments.setting import (
    CAKE_ATTENTION,
    KNOWN_X,
    GaussianBranch,
    d,
    i,
    j,
    x,
)

HEADS = Section("Heads")

h = sp.Symbol("h", positive=True)  # heads
head_width = sp.Symbol("d_k", positive=True)


def head_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """The linear branch with its h heads written out: their number drops out."""
    a, kk = Index("a", h), Index("k", head_width)
    value = Tensor("W", (h, d, head_width), Gaussian(w**2 / d))
    output = Tensor("V", (h, head_width, d), Gaussian(v**2 / (h * head_width)))
    z = alpha * x[i] + (x[j] * value[a, j, kk] * output[a, kk, i]).sum(a, j, kk)
    square = (z * z).sum(i)
    return (
        moment(
            HEADS,
            f"{branch.name}-heads",
            square,
            ("||z||^2 with h heads", r"\|z\|^2"),
            (
                "Σ_a x W_V^a W_O^a over the heads is xW_VW_O with the heads' columns side by side: "
                "m = h·d_k, and the number of heads drops out"
            ),
            (KNOWN_X,),
            sp.factor(expect(square, (KNOWN_X,))),
            source=CAKE_ATTENTION,
            uses=(f"{branch.name}-norm",),
            assumptions=branch.assumptions,
            establishes=(h, head_width),
        ),
    )
