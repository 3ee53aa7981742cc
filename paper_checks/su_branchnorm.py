"""BranchNorm's factor, growing from 0 to 1, is the same mechanism."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import proved, worst

ALGEBRA, START, END, BALANCED = (
    "Norm(x + aF(x)) is DeepNorm with α = 1/a and λ = 1",
    "a ≤ (2N)^{−1/2} keeps SGD's update bounded in depth",
    "so does every a of the schedule, up to a = 1",
    "Adam's update needs a ~ 1/(2N): constant there, growing as N^{1/2} at a = (2N)^{−1/2}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The residual equations compared; exponents at three points of the schedule."""
    import sympy as sp
    import torch

    from paper_checks._stack import (
        Net,
        absolute_gradient,
        depths,
        exponent,
        no_more_than,
        on_the_exponent,
        per_depth,
        settings,
        squared_gradient,
    )

    a = sp.Symbol("a", positive=True)
    x, f = (sp.Matrix(sp.symbols(f"{n}1:4", real=True)) for n in "xf")
    branchnorm, deepnorm = x + a * f, x / a + f
    parallel = sp.simplify(deepnorm * a - branchnorm) == sp.zeros(3, 1)
    # a norm forgets a positive factor: it is enough that the two sums are parallel
    trial = Net("5", "1").trial(4, settings(context, dtype="float64", seeds=2))
    with torch.no_grad():
        target = trial.output()
        state = trial.inputs[-1]
        for residual in trial.model.residuals():
            state = residual.norms[0](state + 0.2 * residual.branch(state))
    off = float((state - target).norm() / target.norm())
    at = depths(context)
    base = settings(context, seeds=16, width=64)
    start = exponent(
        "a = (2N)^-1/2", at, per_depth(Net("(2*N)**(1/2)", "1"), at, base, squared_gradient)
    )
    # plain post-LN multiplies random factors: its gradients vary by orders between seeds
    many = settings(context, seeds=128, width=32, tokens=16)
    end = [
        exponent(f"a = 1, {name}", at, per_depth(Net(), at, many, quantity))
        for name, quantity in (("SGD", squared_gradient), ("Adam", absolute_gradient))
    ]
    adam = {
        label: exponent(label, at, per_depth(Net(alpha, "1"), at, base, absolute_gradient))
        for label, alpha in (("a = (2N)^-1/2", "(2*N)**(1/2)"), ("a = 1/(2N)", "2*N"))
    }
    return (
        proved(
            ALGEBRA,
            bool(parallel) and off < 1e-4,
            f"the sums are parallel; stacks agree within {off:.0e} (LN's ε)",
        ),
        on_the_exponent(START, [start], 0.0, [("linear growth", 1.0)]),
        worst(no_more_than(END, [e], 0.0, seed=context.seed) for e in end),
        worst(
            on_the_exponent(BALANCED, [adam[label]], predicted, [("the other", rival)])
            for label, predicted, rival in (("a = (2N)^-1/2", 0.5, 0.0), ("a = 1/(2N)", 0.0, 0.5))
        ),
    )


CLAIM = Claim(
    name="su-branchnorm",
    source=f"{SU}, reply of 2023-07 on BranchNorm (arXiv 2305.02790)",
    statement="BranchNorm, Norm(x + aF(x)) with a growing linearly from 0 to 1, is the same "
    "mechanism as DeepNet's α.",
    conditions="post-LN encoder, λ = 1, a = (2N)^{−1/2} and a = 1, 12 to 144 layers",
    recorded=(
        Ruling(ALGEBRA, Verdict.PROVED),
        Ruling(START, Verdict.SUPPORTED),
        Ruling(END, Verdict.REFUTED),
        Ruling(BALANCED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "BranchNorm with factor a is DeepNorm with α = 1/a and λ = 1, so it is Su's second "
        "alternative at every moment, and at the start of its schedule it has DeepNet's "
        "protection. It is the same mechanism only while a ≤ (2N)^{−1/2} (SGD) or 1/(2N) "
        "(Adam): at the end, a = 1, the network is plain post-LN, whose update grows about as "
        "N^{0.9}. It is a warm-up of the network rather than a bound."
    ),
    counterexample=(
        "a = 1: the stack is plain post-LN; Adam's increment per η is 3,200, 6,700 and 21,600 "
        "at 12, 36 and 108 layers."
    ),
    corrected=(
        "BranchNorm bounds the update while a ≤ (2N)^{−1/2} under SGD and a ≤ 1/(2N) under "
        "Adam; beyond that it relies on the learning rate's own schedule."
    ),
    check=check,
    seconds=11,
)
