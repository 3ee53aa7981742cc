"""α scales the gradient, λ the initialisation."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import RETOLD
from paper_checks._verdicts import seen

ALPHA, LAMBDA, ONLY, BOTH, UPDATE = (
    "α scales the gradient and leaves the initial weights alone",
    "λ scales the initial weights",
    "λ leaves the gradient alone",
    "λ scales gradient and initial weights alike: ‖∂L/∂W‖ ~ λ/α for λ₁ = λ₂ = λ",
    "an optimizer of degree (p, q) sees α^{−(1+p)} λ^{1+p+q}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Exponents of weight, gradient and update in α and in λ, for a small branch weight."""
    import numpy as np
    import torch

    from paper_checks._stack import Net, backward, model_updates, settings

    s = settings(context)
    depth = context.pick(4, 16)
    lams, alphas = (0.125, 0.25, 0.5), (16.0, 32.0, 64.0)
    points = [(lam, alpha) for lam in lams for alpha in alphas]
    design = np.column_stack([np.ones(len(points)), np.log(np.array(points))])

    def fit(values: list[float]) -> list[float]:
        return np.linalg.lstsq(design, np.log(values), rcond=None)[0][1:].tolist()

    weight, gradient = [], []
    for lam, alpha in points:
        p = backward(Net(repr(alpha), repr(lam)).trial(depth, s))
        chosen = p.of("value", "output", "fc1", "fc2")
        weight.append(float(torch.stack([g.theta.norm() for g in chosen]).norm()))
        gradient.append(float(torch.stack([g.g.norm() for g in chosen]).norm()))
    w, g = fit(weight), fit(gradient)
    updates, worst = {}, 0.0
    for name, (p_, q) in {"sgd": (1, 0), "adam": (0, 0), "lamb": (0, 1)}.items():
        moved = [
            float(
                model_updates(
                    Net(repr(a), repr(lam), name),
                    (depth,),
                    s,
                    lambda d: d.name in ("value", "output", "fc1", "fc2"),
                ).mean()
            )
            for lam, a in points
        ]
        fitted = fit(moved)
        updates[name] = fitted
        worst = max(worst, abs(fitted[0] - (1 + p_ + q)), abs(fitted[1] + 1 + p_))
    evidence = {
        "weight in lambda, alpha": w,
        "gradient in lambda, alpha": g,
        "update in lambda, alpha": updates,
        "lambda": lams,
        "alpha": alphas,
        "layers": depth,
        "seed": context.seed,
    }
    return (
        seen(
            ALPHA,
            abs(g[1] + 1) < 0.05 and abs(w[1]) < 0.01,
            f"exponents in α: gradient {g[1]:.3f}, weights {w[1]:.3f}",
            **evidence,
        ),
        seen(LAMBDA, abs(w[0] - 1) < 0.01, f"exponent of the weights in λ: {w[0]:.3f}"),
        seen(ONLY, abs(g[0]) < 0.05, f"exponent of the gradient in λ: {g[0]:.3f}"),
        seen(
            BOTH, abs(g[0] - 1) < 0.05, f"exponents in λ: gradient {g[0]:.3f}, weights {w[0]:.3f}"
        ),
        seen(
            UPDATE, worst < 0.05, f"all exponents of ‖ΔF‖ within {worst:.3f} for SGD, Adam and LAMB"
        ),
    )


CLAIM = Claim(
    name="retold-roles",
    source=f"{RETOLD}, §5 First conclusions, grey box",
    statement="α is responsible for scaling the gradient, λ for scaling the initialisation.",
    conditions="post-LN stacks with branch weight λ²/α ≤ 1/64; λ from 1/8 to 1/2, α from 16 to 64",
    recorded=(
        Ruling(ALPHA, Verdict.SUPPORTED),
        Ruling(LAMBDA, Verdict.SUPPORTED),
        Ruling(ONLY, Verdict.REFUTED),
        Ruling(BOTH, Verdict.SUPPORTED, corrected=True),
        Ruling(UPDATE, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "α scales the gradients and leaves the weights alone; λ scales the weights, and the "
        "gradients just as much: ‖∂L/∂W‖ ~ λ/α with both exponents within 0.001. So the knobs "
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
)
