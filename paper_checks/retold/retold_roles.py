"""α scales the gradient, λ the initialisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.rules import SCALED
from paper_checks.shared.sources import RETOLD
from paper_checks.shared.verdicts import exponent, worst

if TYPE_CHECKING:
    from paper_checks.shared.laboratory import Interval

ALPHA, LAMBDA, ONLY, BOTH, UPDATE = (
    "α scales the gradient and leaves the initial weights alone",
    "λ scales the initial weights",
    "λ leaves the gradient alone",
    "λ scales gradient and initial weights alike: ‖∂L/∂W‖ ~ λ/α for λ₁ = λ₂ = λ",
    "an optimizer of degree (p, q) sees α^{−(1+p)} λ^{1+p+q}",
)
LAMS, ALPHAS = (0.125, 0.25, 0.5), (16.0, 32.0, 64.0)
DEGREES = {"sgd": (1, 0), "adam": (0, 0), "lamb": (0, 1)}


def check(context: Context) -> tuple[Finding, ...]:
    """Exponents of weight, gradient and update in λ and in α, for a small branch weight."""
    import numpy as np
    import torch

    from paper_checks.shared.stacks import Net, backward, model_updates, settings

    depth = context.pick(4, 16)
    points = [(lam, alpha) for lam in LAMS for alpha in ALPHAS]
    conditions = {"text": settings(context)}
    if context.full:
        conditions["independent tokens"] = settings(context, data="gaussian:0")
        conditions["width 128"] = settings(context, width=128, tokens=16)
    weight: dict[str, tuple[Interval, Interval]] = {}
    gradient: dict[str, tuple[Interval, Interval]] = {}
    updates: dict[tuple[str, str], tuple[Interval, Interval]] = {}
    for label, s in conditions.items():
        sizes = []
        for lam, alpha in points:
            p = backward(Net(repr(alpha), repr(lam)).trial(depth, s)).of(*SCALED)
            weights = sum(g.theta.flatten(1).norm(dim=1).double() ** 2 for g in p).sqrt()
            sizes.append(torch.stack([weights, sum(g.norm().double() ** 2 for g in p).sqrt()]))
        both = torch.stack(sizes, dim=2).numpy()  # (2, seeds, points)
        weight[label], gradient[label] = _fit(points, both[0]), _fit(points, both[1])
        for name in DEGREES:
            moved = [
                model_updates(
                    Net(repr(alpha), repr(lam), name), (depth,), s, lambda d: d.name in SCALED
                )
                for lam, alpha in points
            ]
            updates[name, label] = _fit(points, np.concatenate(moved, axis=1))
    evidence = {"lambda": LAMS, "alpha": ALPHAS, "layers": depth, "seed": context.seed}

    def one(found: dict[str, tuple[Interval, Interval]], knob: int) -> dict[str, Interval]:
        return {label: both[knob] for label, both in found.items()}

    return (
        worst(
            (
                exponent(
                    ALPHA,
                    one(gradient, 1),
                    -1.0,
                    (("none", 0.0),),
                    what="gradient in α",
                    weights={k: [i.low, i.high] for k, i in one(weight, 1).items()},
                    **evidence,
                ),
                exponent(ALPHA, one(weight, 1), 0.0, what="weights in α"),
            )
        ),
        exponent(LAMBDA, one(weight, 0), 1.0, (("none", 0.0),), what="weights in λ"),
        exponent(ONLY, one(gradient, 0), 0.0, what="gradient in λ"),
        exponent(BOTH, one(gradient, 0), 1.0, (("none", 0.0),), what="gradient in λ"),
        worst(
            exponent(
                UPDATE,
                updates[name, label][knob],
                (1 + p + q, -(1 + p))[knob],
                what=f"‖ΔF‖/η of {name} in {'λα'[knob]}, {label}",
                fits={f"{n}, {d}": [i.estimate for i in v] for (n, d), v in updates.items()},
            )
            for name, (p, q) in DEGREES.items()
            for label in conditions
            for knob in (0, 1)
        ),
    )


def _fit(points: list[tuple[float, float]], values: object) -> tuple[Interval, Interval]:
    """The exponents in λ and α of ``values`` (seeds, points), by least squares for each seed."""
    import numpy as np

    from paper_checks.shared.laboratory import t_interval

    design = np.column_stack([np.ones(len(points)), np.log(np.array(points))])
    fitted = np.linalg.lstsq(design, np.log(values).T, rcond=None)[0]  # (3, seeds)
    return t_interval(fitted[1]), t_interval(fitted[2])


CLAIM = Claim(
    name="retold-roles",
    source=f"{RETOLD}, §5 First conclusions, grey box",
    statement="α is responsible for scaling the gradient, λ for scaling the initialisation.",
    conditions="post-LN stacks of 4 and 16 layers with branch weight λ²/α ≤ 1/64 and ReLU; λ from "
    "1/8 to 1/2, α from 16 to 64; text and independent tokens, widths 32 to 128",
    recorded=(
        Ruling(ALPHA, Verdict.SUPPORTED),
        Ruling(LAMBDA, Verdict.SUPPORTED),
        Ruling(ONLY, Verdict.REFUTED),
        Ruling(BOTH, Verdict.SUPPORTED, corrected=True),
        Ruling(UPDATE, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "α scales the gradients and leaves the weights alone; λ scales the weights, and the "
        "gradients just as much: ‖∂L/∂W‖ ~ λ/α with both exponents within 0.002. So the knobs "
        "do not divide the labour. What α alone controls is the relative update of SGD, which "
        "goes as 1/α; an optimizer of degrees (p, q) sees α^{−(1+p)} λ^{1+p+q}."
    ),
    counterexample="z = x + λ²φ(xU₁)U₂/α: halving λ halves ∂z/∂W₁ = λ·(…)/α as well as W₁.",
    corrected=(
        "α scales the gradients (by 1/α) and not the weights; λ scales both, so only λ "
        "changes what the "
        "weights are compared with: relative updates go as 1/α, whatever λ is, for SGD."
    ),
    check=check,
    seconds=1,
    full_seconds=36,
)
