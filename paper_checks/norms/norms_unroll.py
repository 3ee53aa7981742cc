"""x_{t+1} = x_0 + Σ F_k(Norm(x_k))."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

IDENTITY, BUILT, POST, CORRECTED = (
    "Pre-Norm, as an identity of the recursion",
    "built Pre-LN stacks in float64",
    "Post-Norm unrolls to a sum with weights of its own",
    "F = Norm(x_0 + Σ F_k(Norm(x_k)))",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The recursion written out with undefined functions; the branches of built stacks added."""
    import sympy as sp
    from torch.nn.functional import layer_norm

    from paper_checks.shared.streams import PLAIN, norm_trial, residual_sums, settings
    from paper_checks.shared.verdicts import proved

    x0 = sp.Symbol("x_0")
    norm = sp.Function("n")
    exact, post = True, True
    for depth in (1, 2, 3, 4):
        x, terms = x0, []
        for t in range(depth):
            terms.append(sp.Function(f"F_{t}")(norm(x)))
            x = x + terms[-1]
        exact &= sp.expand(x - x0 - sum(terms)) == 0
        # Post-Norm: x_{t+1} = s_t·(x_t + F_t(x_t)), s_t the norm's factor there
        y, weighted = x0, x0
        for t in range(depth):
            f, factor = sp.Function(f"F_{t}")(y), sp.Symbol(f"s_{t}", positive=True)
            y, weighted = factor * (y + f), sp.expand(factor * weighted + factor * f)
        post &= sp.expand(y - weighted) == 0 and sp.expand(y).coeff(x0, 1) == sp.prod(
            sp.symbols(f"s_0:{depth}", positive=True)
        )
    gaps, corrected = [], []
    for layers in context.pick((8,), (8, 64)):
        for data in ("text", "gaussian:0"):
            trial = norm_trial(
                "pre-ln", "layer", PLAIN, layers, settings(context, data=data, dtype="float64")
            )
            sums = residual_sums(trial)
            total = sums[0][1] + sum(out for _, _, out in sums[:-1])
            gaps.append(float((total - sums[-1][1]).norm() / total.norm()))
            whole, output = total + sums[-1][2], trial.output()
            normed = layer_norm(whole, whole.shape[-1:])
            corrected.append(float((normed - output).norm() / output.norm()))
    return (
        proved(IDENTITY, bool(exact), "1 to 4 sublayers with undefined F_k and Norm"),
        proved(BUILT, max(gaps) < 1e-12, f"largest relative difference {max(gaps):.1e}"),
        proved(POST, bool(post), "the weight of x_0 is the product of the norms' factors"),
        proved(
            CORRECTED,
            max(corrected) < 1e-12,
            f"largest relative difference {max(corrected):.1e}",
        ),
    )


CLAIM = Claim(
    name="norms-unroll",
    source="Pre/Post norm note, §1, the displayed recursion; Su Jianlin, kexue.fm/archives/9009",
    statement="x_{t+1} = x_t + F_t(Norm(x_t)) = x_0 + F_0(Norm(x_0)) + … + F_t(Norm(x_t)).",
    conditions="any branches and norms; built Pre-LN encoders of 8 and 64 layers",
    recorded=(
        Ruling(IDENTITY, Verdict.PROVED),
        Ruling(BUILT, Verdict.PROVED),
        Ruling(POST, Verdict.PROVED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "The unrolling is an identity (one bracket in the note's last line is "
        "misplaced). It says nothing yet about depth: "
        "each F_k still sees all earlier ones through its argument. A Pre-LN model ends "
        "in a final norm that the formula "
        "leaves out, and that norm divides the whole sum by its growing length. "
        "Post-Norm unrolls as well, to a sum in which x_0 carries the product of all the "
        "norms' factors."
    ),
    corrected=(
        "For the stream: x_{t+1} = x_0 + Σ_{k≤t} F_k(Norm(x_k)); for the model's output: "
        "Norm of it."
    ),
    check=check,
    seconds=1.0,
)
