"""Each branch has weight λ²/α, the stack is near the identity, and the O(1) assumptions hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import worst

if TYPE_CHECKING:
    from torch import Tensor

    from paper_checks._stack import Pass

WEIGHT, SIGNAL, JACOBIAN, SMALL, LAW = (
    "the branch weight is λ²/α: exponents −3/4, −3/2, −1 for SGD, Adam, LAMB",
    "∂L/∂x is O(1) in depth under the three rules",
    "∂x/∂z is O(1) in depth under the three rules",
    "a small branch weight makes the stack near the identity",
    "−log of the cosine of output and input goes as S·r²",
)

DATA = ("width 128", "independent tokens", "correlated tokens")
WEIGHTS = {"sgd": -0.75, "adam": -1.5, "lamb": -1.0}  # the exponents of λ²/α in N


def check(context: Context) -> tuple[Finding, ...]:
    """Branch weights, signals and the share of the input that reaches the output."""
    import numpy as np
    import torch

    from paper_checks._rules import PUBLISHED
    from paper_checks._stack import (
        Net,
        backward,
        depths,
        exponent,
        on_the_exponent,
        per_depth,
        settings,
        variations,
    )

    at = depths(context)
    weights, signals, jacobians = [], [], []
    for name, power in WEIGHTS.items():
        alpha, beta = PUBLISHED[name]
        net = Net(alpha, beta)
        scale = 1 / np.array([_value(alpha, n) for n in at])
        for label, s in variations(context, DATA).items():
            tag = f"{name}, {label}"
            branch = exponent(tag, at, per_depth(net, at, s, _branch) * scale)
            weights.append(on_the_exponent(WEIGHT, [branch], power, [("constant", 0.0)]))
            signals.append(exponent(tag, at, per_depth(net, at, s, lambda p: _norm(p.signals[0]))))
        values = []
        for n in at:
            p = backward(net.trial(n, settings(context)))
            a = _value(alpha, n)
            # LN's Jacobian is √d/‖z‖, z the normed sum: 1 where ‖z‖ is the input's
            z = [_norm(x + b / a) / _norm(x) for x, b in zip(p.states, p.branches, strict=False)]
            values.append(torch.stack(z).mean(0))
        jacobians.append(exponent(name, at, torch.stack(values, 1).numpy()))
    s = settings(context, seeds=32, width=32, tokens=16, dtype="float64", data="gaussian:0")
    quarter = per_depth(Net("(2*N)**(1/4)", "1"), at, s, _cosine)
    laws = []
    for label, net, predicted in (  # S·r² in N
        ("r = (2N)^-1/2", Net("(2*N)**(1/2)", "1"), 0.0),
        ("SGD's rule", Net(*PUBLISHED["sgd"]), -0.5),
        ("LAMB's rule", Net(*PUBLISHED["lamb"]), -1.0),
        ("Adam's rule", Net(*PUBLISHED["adam"]), -2.0),
    ):
        lost = exponent(label, at, -np.log(per_depth(net, at, s, _cosine)))
        laws.append(on_the_exponent(LAW, [lost], predicted, [("S·r", predicted / 2 + 0.5)]))
    return (
        worst(weights),
        on_the_exponent(SIGNAL, signals, 0.0, [("exponential", -1.0)], layers=at),
        on_the_exponent(JACOBIAN, jacobians, 0.0, [("exponential", -1.0)]),
        on_the_exponent(
            SMALL,
            [exponent("cosine of output and input at r = (2N)^-1/4", at, quarter)],
            0.0,
            seed=context.seed,
        ),
        worst(laws),
    )


def _norm(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1).double()


def _branch(p: Pass) -> Tensor:
    """‖G(x)‖/‖x‖, the mean over sublayers."""
    import torch

    sizes = [_norm(b) / _norm(x) for b, x in zip(p.branches, p.states, strict=False)]
    return torch.stack(sizes).mean(0)


def _cosine(p: Pass) -> Tensor:
    """The mean cosine of output and centred input over tokens."""
    from torch.nn.functional import cosine_similarity

    first, last = p.states[0], p.states[-1]
    first = first - first.mean(-1, keepdim=True)
    return cosine_similarity(first, last, dim=-1).flatten(1).mean(1).abs()


def _value(text: str, depth: int) -> float:
    from deepnet_theory.spec.expression import DEPTH, evaluate

    return evaluate(DEPTH.parse(text), N=depth)


CLAIM = Claim(
    name="su-identity",
    source=f"{SU}, §Post-hoc analysis, first paragraph",
    statement=(
        "After scaling, each residual branch has weight λ²/α, a small number for every "
        "optimizer, so the "
        "model is nearly an identity and ∂L/∂x, ∂x/∂z are O(1)."
    ),
    conditions="post-LN encoder at initialisation under the three rules, 12 to 144 layers",
    recorded=(
        Ruling(WEIGHT, Verdict.SUPPORTED),
        Ruling(SIGNAL, Verdict.SUPPORTED),
        Ruling(JACOBIAN, Verdict.SUPPORTED),
        Ruling(SMALL, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Under the three rules the branch weight falls as N^{−3/4}, N^{−3/2} and N^{−1}, and "
        "both ∂L/∂x and ∂x/∂z are constant in depth. The reason given is too weak: that λ²/α is "
        "a small number does not make the stack an identity. What does is S·r² bounded: at r = "
        "(2N)^{−1/4}, small as it is, the output's cosine with the input falls from 0.40 to "
        "0.06 between 12 and 108 layers; at r = (2N)^{−1/2} it stays 0.85, and under SGD's rule "
        "it rises to 0.99."
    ),
    counterexample=(
        "r = (2N)^{−1/4} (α = (2N)^{1/4}, λ = 1): r = 0.26 at 108 layers, cosine of output and "
        "input 0.06."
    ),
    corrected=(
        "The stack is near the identity if and only if S·r² → 0 (a constant share of the input "
        "survives for S·r² = O(1)); all three rules satisfy it."
    ),
    check=check,
    seconds=6,
)
