"""∂L/∂λ = ⟨∂L/∂W, U⟩, of the same order as ‖∂L/∂W‖."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import MARGIN, proved, seen, within, worst

IDENTITY, DEPTH, WIDTH, LAW, CONSTANT, BLIND = (
    "the identity ∂L/∂λ = ⟨∂L/∂W, U⟩",
    "same order as ‖∂L/∂W‖ in depth, on a balanced post-LN stack",
    "same order as ‖∂L/∂W‖ in width",
    "rms probe ~ ‖∂L/∂W‖/√(d+m) for a scaled matrix: exponent −1/2 in width",
    "for value, output and fc2 it is ‖∂L/∂W‖·√(2/(d+m)), the constant too",
    "same order as ‖∂L/∂W‖ in a branch that ends in a norm",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Finite differences in λ on real stacks; probe over gradient in depth and in width."""
    from dataclasses import replace

    import numpy as np
    import torch

    from deepnet_theory.symbolic.asides.magnitude import probe_steps
    from paper_checks.shared.laboratory import t_interval
    from paper_checks.shared.stacks import (
        Net,
        Pass,
        backward,
        depths,
        exponent,
        many_per_depth,
        on_the_exponent,
        per_depth,
        settings,
    )

    # 1. the identity: a central difference in one λ, which uses no gradient
    s = settings(context, dtype="float64", seeds=2)
    net = Net("(2*N)**(1/4)", "(2*N)**(-1/4)")
    trial = net.trial(2, s)
    p = backward(trial)
    differences = []
    for g, (parameter, d) in zip(p.gradients, trial.parameters(), strict=True):
        if d.layer != 0:
            continue
        values = []
        with torch.no_grad():
            kept = parameter.clone()
            for step in (1e-5, -1e-5):
                parameter.copy_(kept * (1 + step))
                values.append(trial.loss(trial.output()))
            parameter.copy_(kept)
        slope = (values[0] - values[1]) / 2e-5
        differences.append(float(((slope - g.probe()) / g.norm()).abs().max()))
    failed = [s.name for s in probe_steps() if s.check() is not Verdict.PROVED]

    # 2. the ratio rms⟨G, U⟩ / rms‖G‖, over the matrices called so; U has gain 1
    def ratio(*names: str) -> "object":
        def of(p: Pass) -> torch.Tensor:
            chosen = p.of(*names)
            beta = chosen[0].description.gain
            square = sum((g.probe() / beta) ** 2 for g in chosen)
            return (square / sum(g.norm() ** 2 for g in chosen)).sqrt()

        return of

    scaled = ("value", "output", "fc1", "fc2")
    at = depths(context)
    s = settings(context, seeds=32, width=32, tokens=16)
    widths = (16, 32, 64, 128)
    in_depth, in_width, constant, shares = [], [], {}, {}
    for data in context.pick(("text",), ("text", "gaussian:0", "gaussian:0.9")):
        s = replace(s, data=data)
        in_depth.append(exponent(data, at, per_depth(net, at, s, ratio(*scaled))))
        quantities = {name: ratio(name) for name in scaled}
        columns = [many_per_depth(net, (32,), replace(s, width=w), quantities) for w in widths]
        values = {n: np.concatenate([c[n] for c in columns], axis=1) for n in scaled}
        logs = [np.log(v) for v in values.values()]
        in_width.append(exponent(data, widths, np.exp(np.mean(logs, axis=0))))
        for name, found in values.items():
            fans = 5 if name.startswith("fc") else 2  # d + m in units of the width
            squares = found**2 * fans * np.array(widths) / 2  # 1 by the law
            shares[f"{name}, {data}"] = np.sqrt(squares.mean(0)).tolist()
            constant[f"{name}, {data}"] = t_interval(squares.mean(1))
    blind = per_depth(Net(placement="res-post-ln"), (8,), settings(context), ratio("fc1", "fc2"))
    tangent = per_depth(Net(), (8,), settings(context), ratio("fc1", "fc2"))
    band = (1 - MARGIN) ** 2, (1 + MARGIN) ** 2
    law = on_the_exponent(LAW, in_width, -0.5, [("same order", 0.0)], shares=shares)
    return (
        proved(
            IDENTITY,
            max(differences) < 1e-6 and not failed,
            f"a central difference in λ agrees to {max(differences):.0e} of ‖∂L/∂W‖",
            **{"differences": differences, "failed steps": failed},
        ),
        on_the_exponent(DEPTH, in_depth, 0.0, [("independent directions", -0.5)]),
        on_the_exponent(WIDTH, in_width, 0.0, [("independent directions", -0.5)]),
        law,
        worst(
            within(CONSTANT, i, *band, f"square over the law's, {label}")
            for label, i in constant.items()
            if not label.startswith("fc1")  # whose mask depends on the matrix itself
        ),
        seen(
            BLIND,
            # "the same order" would leave a factor of a few, not two powers of ten
            float(blind.mean()) > 0.01 * float(tangent.mean()),
            f"the ratio is {float(blind.mean()):.1e} where the norm is inside the branch, "
            f"{float(tangent.mean()):.2g} in plain post-LN",
        ),
    )


CLAIM = Claim(
    name="su-probe",
    source=f"{SU}, §Magnitude analysis, second equation",
    statement="∂L/∂λ = ⟨∂L/∂W, U⟩, which is in proportion to ∂L/∂W in order of magnitude.",
    conditions="post-LN stacks with SGD's rule, 12 to 144 layers, widths 16 to 128; text and "
    "Gaussian tokens of correlation 0 and 0.9; res-post-LN",
    recorded=(
        Ruling(IDENTITY, Verdict.PROVED),
        Ruling(DEPTH, Verdict.SUPPORTED),
        Ruling(WIDTH, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
        Ruling(CONSTANT, Verdict.SUPPORTED, corrected=True),
        Ruling(BLIND, Verdict.REFUTED),
    ),
    finding=(
        "The identity is exact, and on a balanced post-LN stack probe and gradient share their "
        "exponent in depth, so that the probe is a sound instrument for rules in N. It does not "
        "have the gradient's size: its rms is smaller than ‖∂L/∂W‖ by √((d+m)/2), exactly so "
        "(within 5 %) for value, output and the second feed-forward matrix, an exponent of −1/2 "
        "in width. It is blind where the branch ends in a norm (res-post-LN): there it is zero to "
        "rounding while the gradient, transverse to W, is not."
    ),
    counterexample=(
        "f(W) with ∂L/∂W orthogonal to U: d = m = 2, U = I, G = ((0, 1), (1, 0)) gives ⟨G, U⟩ = "
        "0 with ‖G‖ = √2. On res-post-LN stacks every scaled matrix is such a case."
    ),
    corrected=(
        "|∂L/∂λ| ≤ ‖∂L/∂W‖‖U‖, and its root mean square is ‖∂L/∂W‖·√(2/(d+m)) for independent "
        "directions: the same order in depth, not in width; use a transverse probe where a norm "
        "follows the branch."
    ),
    check=check,
    seconds=6,
    full_seconds=16,
)
