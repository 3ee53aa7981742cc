"""Each branch has weight λ²/α, the stack is near the identity, and the O(1) assumptions hold."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU

WEIGHT, SIGNAL, JACOBIAN, SMALL, LAW = (
    "the branch weight is λ²/α: exponents −3/4, −3/2, −1 for SGD, Adam, LAMB",
    "∂L/∂x is O(1) in depth under the three rules",
    "∂x/∂z is O(1) in depth under the three rules",
    "a small branch weight makes the stack near the identity",
    "S·r² bounded does: r = (2N)^{−1/4} loses the input, r = (2N)^{−1/2} keeps a share of it",
)

DATA = ("width 128", "independent tokens", "correlated tokens")


def check(context: Context) -> tuple[Finding, ...]:
    """Branch weights, signals and the share of the input that reaches the output."""
    import numpy as np
    import torch

    from paper_checks._rules import PUBLISHED
    from paper_checks._stack import (
        Net,
        Pass,
        backward,
        depths,
        exponent,
        on_the_exponent,
        per_depth,
        settings,
        variations,
    )

    at = depths(context)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1).norm(dim=1).double()

    def weight_of(alpha: "object") -> "object":
        def of(p: Pass) -> torch.Tensor:
            return torch.stack(
                [norm(b) / norm(x) for b, x in zip(p.branches, p.states, strict=False)]
            ).mean(0)

        return of

    def lowest_signal(p: Pass) -> torch.Tensor:
        return norm(p.signals[0])

    def jacobian(p: Pass) -> torch.Tensor:
        # LN's Jacobian is of size √d/‖z‖ (z the normed sum): its inverse, with z = x + G/α, α = 1
        return torch.stack([norm(x) for x in p.states[1:]]).mean(0)

    def kept(p: Pass) -> torch.Tensor:
        first, last = p.states[0], p.states[-1]
        first = first - first.mean(-1, keepdim=True)
        return (torch.nn.functional.cosine_similarity(first, last, dim=-1)).flatten(1).mean(1).abs()

    worst: dict[str, list[Finding]] = {WEIGHT: [], SIGNAL: [], JACOBIAN: []}
    for name, (alpha, beta) in PUBLISHED.items():
        net = Net(alpha, beta)
        power = {"sgd": -0.75, "adam": -1.5, "lamb": -1.0}[name]
        scale = 1 / np.array([_value(alpha, n) for n in at])
        for label, s in variations(context, DATA).items():
            tag = f"{name}, {label}"
            branch = exponent(tag, at, per_depth(net, at, s, weight_of(alpha)) * scale)
            worst[WEIGHT].append(on_the_exponent(WEIGHT, [branch], power, tolerance=0.08))
            signal = exponent(tag, at, per_depth(net, at, s, lowest_signal))
            worst[SIGNAL].append(on_the_exponent(SIGNAL, [signal], 0.0))
        values = []
        for n in at:
            p = backward(net.trial(n, settings(context)))
            a = _value(alpha, n)
            z = [norm(x + b / a) / norm(x) for x, b in zip(p.states, p.branches, strict=False)]
            values.append(torch.stack(z).mean(0))
        jac = exponent(name, at, torch.stack(values, 1).numpy())
        worst[JACOBIAN].append(on_the_exponent(JACOBIAN, [jac], 0.0))
    order = (Verdict.REFUTED, Verdict.UNDECIDED, Verdict.SUPPORTED)
    merged = []
    for about, found in worst.items():
        one = min(found, key=lambda f: order.index(f.verdict))
        merged.append(
            Finding(
                about, one.verdict, one.because, {"all": [f.because for f in found], "layers": at}
            )
        )
    s = settings(context, seeds=16)
    quarter = per_depth(Net("(2*N)**(1/4)", "1"), at, s, kept).mean(0)
    half = per_depth(Net("(2*N)**(1/2)", "1"), at, s, kept).mean(0)
    rule = per_depth(Net(*PUBLISHED["sgd"]), at, s, kept).mean(0)
    evidence = {
        "layers": at,
        "cosine of output and input at r = (2N)^-1/4": quarter.tolist(),
        "at r = (2N)^-1/2": half.tolist(),
        "at SGD's rule": rule.tolist(),
        "seed": context.seed,
    }
    return (
        *merged,
        Finding(
            SMALL,
            Verdict.REFUTED
            if quarter[-1] < 0.5 * quarter[0] or quarter[-1] < 0.2
            else Verdict.SUPPORTED,
            f"at r = (2N)^(−1/4) the cosine of output and input falls from {quarter[0]:.2f} "
            f"at {at[0]} to "
            f"{quarter[-1]:.2f} at {at[-1]} layers",
            evidence,
        ),
        Finding(
            LAW,
            Verdict.SUPPORTED
            if half[-1] > 0.8 * half[0] and rule[-1] > rule[0]
            else Verdict.REFUTED,
            f"at r = (2N)^(−1/2) it stays {half[0]:.2f} to {half[-1]:.2f}; under SGD's rule "
            f"it rises from "
            f"{rule[0]:.2f} to {rule[-1]:.2f}",
            evidence,
        ),
    )


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
