"""BranchNorm's factor, growing from 0 to 1, is the same mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import proved, worst

if TYPE_CHECKING:
    from paper_checks.shared.laboratory import Settings

ALGEBRA, START, END_SGD, END_ADAM, BALANCED = (
    "Norm(x + aF(x)) is DeepNorm with α = 1/a and λ = 1",
    "a ≤ (2N)^{−1/2} keeps SGD's increment bounded in depth: constant at (2N)^{−1/2}",
    "so does every a of the schedule, up to a = 1, under SGD",
    "and under Adam",
    "Adam's increment needs a ~ 1/(2N): constant there, growing as N^{1/2} at a = (2N)^{−1/2}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The residual equations compared; exponents at three points of the schedule."""
    import numpy as np
    import sympy as sp
    import torch

    from deepnet_theory.runtime.linear import NORM_EPS
    from paper_checks.shared.stacks import (
        Exponent,
        Net,
        absolute_gradient,
        depths,
        exponent,
        lots,
        many_per_depth,
        no_more_than,
        on_the_exponent,
        settings,
        squared_gradient,
    )

    a = sp.Symbol("a", positive=True)
    x, f = (sp.Matrix(sp.symbols(f"{n}1:4", real=True)) for n in "xf")
    branchnorm, deepnorm = x + a * f, x / a + f
    parallel = sp.simplify(deepnorm * a - branchnorm) == sp.zeros(3, 1)
    # a norm forgets a positive factor: it is enough that the two sums are parallel, and that its
    # ε is scaled with their square
    trial = Net("5", "1").trial(4, settings(context, dtype="float64", seeds=2))
    epsilon = NORM_EPS / 5**2
    with torch.no_grad():
        target = trial.output()
        state = trial.inputs[-1]
        for residual in trial.model.residuals():
            summed = state + residual.branch(state) / 5
            state = torch.nn.functional.layer_norm(summed, summed.shape[-1:], eps=epsilon)
    off = float((state - target).norm() / target.norm())
    at = depths(context)
    base = settings(context, seeds=128, width=32, tokens=16)
    both = {"SGD": squared_gradient, "Adam": absolute_gradient}

    def fits(alpha: str, s: Settings) -> dict[str, Exponent]:
        parts = [many_per_depth(Net(alpha, "1"), at, lot, both) for lot in lots(s, s.seeds // 32)]
        values = {name: np.concatenate([part[name] for part in parts]) for name in both}
        return {name: exponent(f"{name}, 1/a = {alpha}", at, v) for name, v in values.items()}

    root, whole = fits("(2*N)**(1/2)", base), fits("2*N", base)
    # plain post-LN multiplies random factors: its gradients vary by orders between seeds
    end = fits("1", settings(context, seeds=64, width=32, tokens=16))
    return (
        proved(
            ALGEBRA,
            bool(parallel) and off < 1e-12,
            f"the sums are parallel; stacks of ε and ε/α² agree within {off:.0e}",
        ),
        worst(
            (
                on_the_exponent(START, [root["SGD"]], 0.0, [("linear growth", 1.0)]),
                no_more_than(START, [whole["SGD"]], 0.0),
            )
        ),
        no_more_than(END_SGD, [end["SGD"]], 0.0, seed=context.seed),
        no_more_than(END_ADAM, [end["Adam"]], 0.0, seed=context.seed),
        worst(
            (
                on_the_exponent(BALANCED, [root["Adam"]], 0.5, [("the other", 0.0)]),
                on_the_exponent(BALANCED, [whole["Adam"]], 0.0, [("the other", 0.5)]),
            )
        ),
    )


CLAIM = Claim(
    name="su-branchnorm",
    source=f"{SU}, reply of 2023-07 on BranchNorm (arXiv 2305.02790)",
    statement="BranchNorm, Norm(x + aF(x)) with a growing linearly from 0 to 1, is the same "
    "mechanism as DeepNet's α.",
    conditions="post-LN encoder, λ = 1, a = 1/(2N), (2N)^{−1/2} and 1, 12 to 144 layers, text",
    recorded=(
        Ruling(ALGEBRA, Verdict.PROVED),
        Ruling(START, Verdict.SUPPORTED),
        Ruling(END_SGD, Verdict.REFUTED),
        Ruling(END_ADAM, Verdict.REFUTED),
        Ruling(BALANCED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "BranchNorm with factor a is DeepNorm with α = 1/a and λ = 1, so it is Su's second "
        "alternative at every moment, and at the start of its schedule it has DeepNet's "
        "protection. It is the same mechanism only while a ≤ (2N)^{−1/2} (SGD) or 1/(2N) "
        "(Adam): at the end, a = 1, the network is plain post-LN, whose increment grows about as "
        "N^{0.7} under either. It is a warm-up of the network rather than a bound."
    ),
    counterexample=(
        "a = 1: the stack is plain post-LN; SGD's increment per η is 22, 53 and 100 at 16, "
        "48 and 144 layers of width 32, Adam's 980, 2,260 and 3,950."
    ),
    corrected=(
        "BranchNorm bounds the update while a ≤ (2N)^{−1/2} under SGD and a ≤ 1/(2N) under "
        "Adam; beyond that it relies on the learning rate's own schedule."
    ),
    check=check,
    seconds=11,
    full_seconds=16,
)
