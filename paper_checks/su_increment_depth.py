"""With every matrix gradient O(1), ΔL = O(ηNK): linear in depth."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU

PREMISE, SGD, ADAM, OUTPUT, PRE = (
    "α = λ = (2N)^{−1/2} has matrix gradients of order one at every depth",
    "there −ΔL/η of SGD grows in proportion to the depth",
    "and that of Adam",
    "and ‖ΔF‖/η of Adam",
    "plain pre-LN, where the premise fails: it grows no faster than N^{1/2}",
)
MENDED = "−ΔL/η of SGD is the sum of the squared gradients, whatever they are"


def check(context: Context) -> tuple[Finding, ...]:
    """Real SGD steps, gradient sizes and exponents on a stack that satisfies the premise."""
    import numpy as np
    import torch

    from paper_checks._stack import (
        Net,
        Pass,
        absolute_gradient,
        backward,
        depths,
        exponent,
        model_updates,
        no_more_than,
        on_the_exponent,
        per_depth,
        settings,
        squared_gradient,
        varied,
    )
    from paper_checks._verdicts import seen

    unit, at = Net("(2*N)**(-1/2)", "(2*N)**(-1/2)"), depths(context)

    def size(p: Pass) -> torch.Tensor:
        chosen = p.of("value", "output", "fc1", "fc2")
        return (sum(g.norm().double() ** 2 for g in chosen) / len(chosen)).sqrt()

    conditions = varied(context, seeds=96)
    premise = [exponent(n, at, per_depth(unit, at, s, size)) for n, s in conditions.items()]
    sgd = [exponent(n, at, per_depth(unit, at, s, squared_gradient)) for n, s in conditions.items()]
    adam = [
        exponent(n, at, per_depth(unit, at, s, absolute_gradient)) for n, s in conditions.items()
    ]
    moved = [
        exponent(
            "text",
            at,
            model_updates(Net(unit.alpha, unit.beta, "adam"), at, settings(context, seeds=24)),
        )
    ]
    pre = [
        exponent(
            "pre-LN",
            at,
            per_depth(Net(placement="pre-ln"), at, settings(context, width=64), squared_gradient),
        )
    ]
    ratios = []
    s = settings(context, dtype="float64", seeds=4)
    for net in (unit, Net(), Net(placement="pre-ln")):
        trial = net.trial(at[1], s)
        p = backward(trial)
        total = squared_gradient(p)
        eta = 1e-6 / float(total.mean())
        with torch.no_grad():
            for (parameter, _), g in zip(trial.parameters(), p.gradients, strict=True):
                parameter.sub_(eta * g.g)
            ratios.append(((p.loss - trial.loss(trial.output())) / eta / total).tolist())
    off = float(np.abs(np.array(ratios) - 1).max())
    return (
        on_the_exponent(PREMISE, premise, 0.0, [("SGD's rule", -0.5)]),
        on_the_exponent(SGD, sgd, 1.0, [("constant", 0.0), ("square root", 0.5)]),
        on_the_exponent(ADAM, adam, 1.0, [("constant", 0.0), ("square root", 0.5)]),
        on_the_exponent(OUTPUT, moved, 1.0, [("constant", 0.0), ("square root", 0.5)]),
        no_more_than(PRE, pre, 0.5),
        seen(
            MENDED,
            off < 0.01,
            f"ΔL of a real step agrees within {off:.1e} in three networks",
            **{"ratios": ratios, "layers": at[1], "seed": context.seed},
        ),
    )


CLAIM = Claim(
    name="su-increment-depth",
    source=f"{SU}, §Increment explosion",
    statement="With every matrix gradient of norm O(1), ΔL = O(ηNK): one step changes the "
    "loss in proportion to depth.",
    conditions="post-LN with α = λ = (2N)^{−1/2} (gradients O(1), branches small) and plain "
    "pre-LN, 12 to 144 layers",
    recorded=(
        Ruling(PREMISE, Verdict.SUPPORTED),
        Ruling(SGD, Verdict.SUPPORTED),
        Ruling(ADAM, Verdict.SUPPORTED),
        Ruling(OUTPUT, Verdict.SUPPORTED),
        Ruling(PRE, Verdict.SUPPORTED),
        Ruling(MENDED, Verdict.SUPPORTED),
    ),
    finding=(
        "Given its premise the statement is exact: on a near-identity stack with matrix "
        "gradients of order one (α = λ = (2N)^{−1/2}) the increments of SGD and Adam and Adam's "
        "‖ΔF‖ all grow as N^{1.0}. The premise is a choice of α and λ, not a property of Xavier "
        "and normalisation as such: plain pre-LN has gradients that fall towards the top, and "
        "its increment grows as N^{0.3}."
    ),
    check=check,
    seconds=4,
)
