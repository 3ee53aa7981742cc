"""LAMB needs λ²/α = 1/(2N), and its relative update does not depend on α, λ."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import seen

BALANCE, CURVE, RELATIVE, ETA, REAL, ALL, MENDED = (
    "α = 1, λ = (2N)^{−1/2} keeps LAMB's update constant in depth",
    "so does α = (2N)^{1/2}, λ = (2N)^{−1/4}",
    "the relative update ‖Δθ‖/‖θ‖ does not depend on α, λ",
    "with Δθ = −η‖θ‖ sign(g) the relative update equals η",
    "with LAMB's own Δθ = −η‖θ‖ sign(g)/√numel it equals η",
    "all parameters stepped",
    "all parameters with the derived learning-rate multipliers",
)
WRITTEN = "-eta*norm(theta)*sign(g)"


def check(context: Context) -> tuple[Finding, ...]:
    """Exponents of LAMB's step; the algorithm of the LAMB paper run on the gradients."""
    import torch

    from deepnet_theory.spec.expression import UPDATE
    from paper_checks.shared.laboratory import update
    from paper_checks.shared.multipliers import scaled_updates
    from paper_checks.shared.stacks import (
        Net,
        backward,
        depths,
        exponent,
        model_updates,
        on_the_exponent,
        settings,
        variations,
    )

    at, s = depths(context), settings(context)
    rivals = [("Adam's rule", -0.5), ("SGD's rule", 0.25)]
    rule = Net("1", "(2*N)**(-1/2)", "lamb")
    own = [exponent(n, at, model_updates(rule, at, v)) for n, v in variations(context).items()]
    curve = [
        exponent(
            "alpha = (2N)^1/2",
            at,
            model_updates(Net("(2*N)**(1/2)", "(2*N)**(-1/4)", "lamb"), at, s),
        )
    ]
    # float64: a step of η/(2N) is lost in the rounding of a gain of 1 in single precision
    everything = settings(context, step="all", dtype="float64")
    every = exponent("all", at, model_updates(rule, at, everything))
    mended = exponent("all, multiplied", at, scaled_updates(rule, at, everything))

    rows = []
    written = UPDATE.parse(WRITTEN)
    for label, net in {
        "plain": Net(),
        "LAMB's rule": rule,
        "Adam's rule": Net("(2*N)**(1/2)", "(2*N)**(-1/2)"),
    }.items():
        for depth in context.pick((8,), (8, 64)):
            p = backward(net.trial(depth, s))
            as_written, real = [], []
            for g in p.gradients:
                size = g.theta.flatten(1).norm(dim=1)
                as_written.append(update(written, 1.0, g.g, g.theta).flatten(1).norm(dim=1) / size)
                real.append(_lamb(g.theta, g.g).flatten(1).norm(dim=1) / size)
            rows.append(
                {
                    "rule": label,
                    "layers": depth,
                    "as written, least and most": [
                        float(torch.stack(as_written).min()),
                        float(torch.stack(as_written).max()),
                    ],
                    "algorithm, least and most": [
                        float(torch.stack(real).min()),
                        float(torch.stack(real).max()),
                    ],
                }
            )
    least = min(r["as written, least and most"][0] for r in rows)
    most = max(r["as written, least and most"][1] for r in rows)
    off = max(abs(x - 1) for r in rows for x in r["algorithm, least and most"])
    spread = max(
        abs(r["algorithm, least and most"][i] / rows[0]["algorithm, least and most"][i] - 1)
        for r in rows
        for i in (0, 1)
    )
    return (
        on_the_exponent(BALANCE, own, 0.0, rivals),
        on_the_exponent(CURVE, curve, 0.0, rivals),
        seen(
            RELATIVE,
            spread < 0.01,
            f"the same within {spread:.1e} for three rules",
            rows=rows,
        ),
        seen(
            ETA,
            abs(least - 1) < 0.1 and abs(most - 1) < 0.1,
            f"it is {least:.0f} to {most:.0f} times η: √numel of the matrix",
        ),
        seen(REAL, off < 0.01, f"within {off:.1e} of η", seed=context.seed),
        on_the_exponent(ALL, [every], 0.0),
        on_the_exponent(MENDED, [mended], 0.0, [("one rate", 1.0)]),
    )


def _lamb(theta: "object", g: "object") -> "object":
    """The first step of the LAMB paper's algorithm 2, η = 1: moments, bias, trust ratio."""
    m, v = (1 - 0.9) * g, (1 - 0.999) * g**2
    r = (m / (1 - 0.9)) / ((v / (1 - 0.999)).sqrt() + 1e-12)
    axes = tuple(range(1, g.ndim))
    trust = theta.pow(2).sum(axes, keepdim=True).sqrt() / r.pow(2).sum(axes, keepdim=True).sqrt()
    return -trust * r


CLAIM = Claim(
    name="su-lamb",
    source=f"{SU}, §Multiple optimizers, LAMB",
    statement=(
        "LAMB needs λ²/α = 1/(2N); its relative update is the learning rate η whatever α and λ are."
    ),
    conditions="post-LN encoder, first step without weight decay, 12 to 144 layers",
    recorded=(
        Ruling(BALANCE, Verdict.SUPPORTED),
        Ruling(CURVE, Verdict.SUPPORTED),
        Ruling(RELATIVE, Verdict.SUPPORTED),
        Ruling(ETA, Verdict.REFUTED),
        Ruling(REAL, Verdict.SUPPORTED, corrected=True),
        Ruling(ALL, Verdict.REFUTED),
        Ruling(MENDED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "λ²/α = 1/(2N) keeps LAMB's update constant in depth anywhere on that curve, and the "
        "relative update does not depend on α and λ. That it equals η needs the factor 1/√numel "
        "that Su drops: as written, Δθ = −η‖θ‖ sign(g) moves a 32×32 matrix by 32 η‖θ‖ and a "
        "32×128 one by 64 η‖θ‖. With all parameters stepped LAMB's update grows as N^{0.98}, "
        "through LayerNorm's gains (biases begin at 0, where LAMB does not move them); with the "
        "derived multipliers it is constant."
    ),
    counterexample=("One 32×32 matrix, no zero gradients: ‖−η‖θ‖ sign(g)‖ = 32 η‖θ‖."),
    corrected=(
        "Δθ = −η‖θ‖ sign(g)/√numel, for which ‖Δθ‖/‖θ‖ = η; the update of all parameters is "
        "constant with the multiplier 1/(2N) on LayerNorm's gains."
    ),
    check=check,
    seconds=4,
    full_seconds=33,
)
