"""‖∂LN/∂z‖₂ = √d/‖z‖."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

CENTRED, TWO, ANY, REAL, CORRECTED = (
    "centred z, d ≥ 3, no ε",
    "d = 2",
    "z with a mean",
    "in real stacks, z = αx + G(x): within 2 %",
    "√d/‖z − mean(z)‖ for d ≥ 3, and √d/√(‖z − mean(z)‖² + dε) with ε",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Singular values of torch's own Jacobian, and of the exact one at rational points."""
    import sympy as sp
    import torch
    from torch.nn.functional import layer_norm

    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared.laboratory import Case, Trial
    from paper_checks.shared.streams import PLAIN, generator, mean, residual_sums, settings
    from paper_checks.shared.verdicts import proved, within

    exact = []
    for point in ((1, -3, 2), (1, 2, -4, 1), (5, -1, -1, -2, -1)):
        d = len(point)
        z = sp.symbols(f"z_1:{d + 1}", real=True)
        centre = [e - sp.Add(*z) / d for e in z]
        size = sp.sqrt(sp.Add(*(e**2 for e in centre)) / d)
        jacobian = (
            sp.Matrix([e / size for e in centre]).jacobian(z).subs(dict(zip(z, point, strict=True)))
        )
        gram = (jacobian.T * jacobian).applyfunc(sp.nsimplify)
        top = max(gram.eigenvals(), key=lambda e: sp.N(e))
        exact.append(sp.simplify(top * sum(e * e for e in point) / d - 1) == 0)
    g = generator(context, 11)
    sizes = context.pick((2, 3, 8, 64), (2, 3, 4, 8, 16, 64, 256))
    rows = []
    for d in sizes:
        for shift, eps in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.5)):
            z = torch.randn(d, generator=g, dtype=torch.float64)
            z = 1.7 * (z - z.mean()) + shift
            jacobian = torch.autograd.functional.jacobian(
                lambda y, d=d, e=eps: layer_norm(y, (d,), eps=e), z
            )
            norm = float(torch.linalg.matrix_norm(jacobian, 2))
            centre = z - z.mean()
            rows.append(
                {
                    "d": d, "shift": shift, "epsilon": eps,
                    "over claimed": norm * float(z.norm()) / d**0.5,
                    "over corrected": norm * float((centre.square().mean() + eps).sqrt()),
                }
            )  # fmt: skip
    centred = [r for r in rows if r["shift"] == r["epsilon"] == 0]
    wide = [r for r in rows if r["d"] > 2]
    off = max(abs(r["over corrected"] - 1) for r in wide)
    shifted = [r["over claimed"] for r in wide if r["shift"]]
    sums = residual_sums(
        Trial(
            Case(
                Selection(optimizer="sgd"),
                PLAIN,
                {"N": context.pick(4, 12)},
                settings(context, width=64),
            ),
        )
    )
    gaps = [
        ((x + o).norm(dim=-1) / (x + o - (x + o).mean(-1, keepdim=True)).norm(dim=-1))
        .flatten(1)
        .mean(1)
        for _, x, o in sums
    ]
    real = mean(torch.stack(gaps).mean(0).double().numpy())
    return (
        proved(
            CENTRED,
            all(exact) and all(abs(r["over claimed"] - 1) < 1e-9 for r in centred if r["d"] > 2),
            "exact at rational points; torch's Jacobian to 1e-9",
        ),
        proved(
            TWO,
            all(abs(r["over claimed"] - 1) < 1e-9 for r in centred if r["d"] == 2),
            "two entries: LN(z) = (±1, ∓1), the Jacobian is 0",
        ),
        proved(
            ANY,
            all(abs(s - 1) < 1e-9 for s in shifted),
            (
                f"with mean 1 and deviation near 1.7 the true norm is {max(shifted):.3f} "
                "times the formula"
            ),
        ),
        within(
            REAL, real, 0.98, 1.02, "√d/‖z − mean‖ over √d/‖z‖ of the residual sums at width 64"
        ),
        proved(
            CORRECTED,
            off < 1e-9,
            f"largest deviation {off:.1e} over d ≥ 3, with mean and with ε",
            rows=rows,
        ),
    )


CLAIM = Claim(
    name="cake-ln-jacobian",
    source="Transformer layer cake (AI推公式), §5.1, from Xiong et al., arXiv 2002.04745, Lemma 3",
    statement="‖∂LN(z)/∂z‖₂ ≈ √d/‖z‖₂ (spectral norm).",
    conditions=(
        "LayerNorm without gain; z ≠ 0 of d entries, 2 to 256; real residual sums of built stacks"
    ),
    recorded=(
        Ruling(CENTRED, Verdict.PROVED),
        Ruling(TWO, Verdict.REFUTED),
        Ruling(ANY, Verdict.REFUTED),
        Ruling(REAL, Verdict.SUPPORTED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "For centred z of three or more entries √d/‖z‖ is the spectral norm exactly, not "
        "approximately: the Jacobian is "
        "√d/‖z‖ times a projection onto d − 2 directions. A mean makes the true norm "
        "larger, √d/‖z − mean‖, and at d = 2 the "
        "Jacobian vanishes. In real stacks αx is centred and the branch's mean is one "
        "direction of d, so the formula is off by less than 2 % at width 64."
    ),
    counterexample=(
        "z = (a, b) with a > b: LN(z) = (1, −1) is constant, its Jacobian is 0 and not √2/‖z‖."
    ),
    corrected="‖∂LN/∂z‖₂ = √d/√(‖z − mean(z)‖² + dε) for d ≥ 3.",
    check=check,
    seconds=1.5,
)
