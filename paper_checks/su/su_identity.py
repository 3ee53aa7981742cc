"""Each branch has weight λ²/α, the stack is near the identity, and the O(1) assumptions hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import worst

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from paper_checks.shared.laboratory import Settings, Trial
    from paper_checks.shared.stacks import Net, Pass

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

    from paper_checks.shared.rules import PUBLISHED
    from paper_checks.shared.stacks import (
        Net,
        backward,
        depths,
        exponent,
        on_the_exponent,
        settings,
        variations,
    )

    at = depths(context)
    weights, signals, jacobians = [], [], []
    for name, power in WEIGHTS.items():
        alpha, beta = PUBLISHED[name]
        for label, s in variations(context, DATA).items():
            if label == "width 128":  # for memory
                s = replace(s, seeds=4)
            columns: dict[str, list[torch.Tensor]] = {}
            for n in at:
                trial, a = Net(alpha, beta).trial(n, s), _value(alpha, n)
                p = backward(trial)
                sizes = torch.stack([_norm(x) for x in p.signals])
                for what, value in (
                    ("weight", _branch(p) / a),
                    ("bottom", sizes[0]),
                    ("largest", sizes.amax(0)),
                    ("jacobian", _jacobian(trial, p, a)),
                ):
                    columns.setdefault(what, []).append(value)
            fits = {
                what: exponent(f"{name}, {label}, {what}", at, torch.stack(c, 1).numpy())
                for what, c in columns.items()
            }
            weights.append(on_the_exponent(WEIGHT, [fits["weight"]], power, [("constant", 0.0)]))
            signals += [fits["bottom"], fits["largest"]]
            jacobians.append(fits["jacobian"])
    s = settings(context, seeds=32, width=32, tokens=16, dtype="float64", data="gaussian:0")
    quarter = _cosines(Net("(2*N)**(1/4)", "1"), at, s)
    inputs = {"": s}
    if context.full:
        inputs[", text"] = replace(s, data="text", seeds=96)
    laws, shown = [], []
    for label, net, predicted in (  # S·r² in N
        ("r = (2N)^-1/2", Net("(2*N)**(1/2)", "1"), 0.0),
        ("SGD's rule", Net(*PUBLISHED["sgd"]), -0.5),
        ("LAMB's rule", Net(*PUBLISHED["lamb"]), -1.0),
        ("Adam's rule", Net(*PUBLISHED["adam"]), -2.0),
    ):
        lost = [exponent(label + n, at, -np.log(_cosines(net, at, v))) for n, v in inputs.items()]
        laws.append(on_the_exponent(LAW, lost, predicted, [("S·r", predicted / 2 + 0.5)]))
        shown += [e.to_dict() for e in lost]
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
        replace(worst(laws), evidence={"measured": shown, "layers": at}),
    )


def _norm(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1).double()


def _branch(p: Pass) -> Tensor:
    """‖G(x)‖/‖x‖, the mean over sublayers."""
    import torch

    sizes = [_norm(b) / _norm(x) for b, x in zip(p.branches, p.states, strict=False)]
    return torch.stack(sizes).mean(0)


def _cosines(net: Net, at: Sequence[int], s: Settings) -> np.ndarray:
    """The mean cosine of output and centred input over tokens: (seeds, depths)."""
    import torch
    from torch.nn.functional import cosine_similarity

    from paper_checks.shared.stacks import lots

    columns = []
    for depth in at:
        found = []
        for lot in lots(s, s.seeds // 16):  # for memory
            trial = net.trial(depth, lot)
            with torch.no_grad():
                first, last = trial.inputs[-1], trial.output()
            first = first - first.mean(-1, keepdim=True)
            found.append(cosine_similarity(first, last, dim=-1).flatten(1).mean(1).abs())
        columns.append(torch.cat(found))
    return torch.stack(columns, dim=1).double().numpy()


def _jacobian(trial: Trial, p: Pass, alpha: float) -> Tensor:
    """‖uᵀ ∂x/∂z‖/‖u‖ for a random u at the stack's own z, the mean over sublayers."""
    import torch

    generator = torch.Generator().manual_seed(trial.settings.seed)
    sizes = []
    for residual, x, b in zip(trial.model.residuals(), p.states, p.branches, strict=False):
        z = (x + b / alpha).requires_grad_()
        u = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        (back,) = torch.autograd.grad(residual.norms[0](z), z, u)
        sizes.append(_norm(back) / _norm(u))
    return torch.stack(sizes).mean(0)


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
    conditions="post-LN encoder at initialisation under the three rules, 12 to 144 layers, text "
    "and Gaussian tokens, widths 32 to 128",
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
        "(2N)^{−1/4}, small as it is, the output's cosine with the input falls from 0.41 to "
        "0.02 between 16 and 144 layers; at r = (2N)^{−1/2} it stays 0.89, and under SGD's rule "
        "it rises to 0.99."
    ),
    counterexample=(
        "r = (2N)^{−1/4} (α = (2N)^{1/4}, λ = 1): r = 0.24 at 144 layers, cosine of output and "
        "input 0.02."
    ),
    corrected=(
        "The stack is near the identity if and only if S·r² → 0 (a constant share of the input "
        "survives for S·r² = O(1)); all three rules satisfy it."
    ),
    check=check,
    seconds=5,
    full_seconds=59,
)
