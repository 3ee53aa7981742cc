"""With every matrix gradient O(1), ΔL = O(ηNK): linear in depth."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU

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
    from dataclasses import replace

    import numpy as np
    import torch

    from paper_checks.shared.stacks import (
        Net,
        Pass,
        absolute_gradient,
        backward,
        depths,
        exponent,
        lots,
        many_per_depth,
        model_updates,
        no_more_than,
        on_the_exponent,
        per_depth,
        settings,
        squared_gradient,
        varied,
    )
    from paper_checks.shared.verdicts import seen

    unit, at = Net("(2*N)**(-1/2)", "(2*N)**(-1/2)"), depths(context)

    def size(p: Pass) -> torch.Tensor:
        chosen = p.of("value", "output", "fc1", "fc2")
        return (sum(g.norm().double() ** 2 for g in chosen) / len(chosen)).sqrt()

    # the seeds in lots, for memory; a wide stack's sums fluctuate less
    conditions = varied(context, seeds=96)
    if context.full:
        conditions |= {
            "width 128": replace(conditions["width 128"], seeds=24),
            "64 tokens": replace(conditions["64 tokens"], seeds=48),
        }
    # a text of 64 tokens bends until about 24 layers
    begins = {n: (24, 72, 216) if n == "64 tokens" else at for n in conditions}
    quantities = {"premise": size, "sgd": squared_gradient, "adam": absolute_gradient}
    measured = {}
    for n, s in conditions.items():
        parts = [
            many_per_depth(unit, begins[n], lot, quantities)
            for lot in lots(s, s.seeds // context.pick(24, 8))
        ]
        measured[n] = {q: np.concatenate([part[q] for part in parts]) for q in quantities}
    premise, sgd, adam = (
        [exponent(n, begins[n], values[name]) for n, values in measured.items()]
        for name in quantities
    )
    moved = [
        exponent(
            "text",
            at,
            model_updates(Net(unit.alpha, unit.beta, "adam"), at, settings(context, seeds=24)),
        )
    ]
    many = lots(settings(context, width=32, tokens=16, seeds=64), context.pick(2, 8))
    plain = [per_depth(Net(placement="pre-ln"), at, lot, squared_gradient) for lot in many]
    pre = [exponent("pre-LN", at, np.concatenate(plain))]
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
        no_more_than(PRE, pre, 0.5),  # half way to the proportionality of the premise
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
    "pre-LN, 12 to 216 layers",
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
        "its increment grows ever more slowly, by a factor 1.6 from 16 to 144 layers."
    ),
    check=check,
    seconds=5,
    full_seconds=93,
)
