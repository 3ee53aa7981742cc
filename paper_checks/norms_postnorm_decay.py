"""Post-Norm weakens the identity path at each norm."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

WEIGHT, EXPONENTIAL, PRODUCT, PRE, DEEP = (
    "a norm after a branch of variance g² multiplies the identity by (1 + g²)^{−1/2}",
    "the share of x_0 in x_t falls exponentially or faster, independent tokens, 10 sublayers",
    "its rate is that of the measured branch weights, Π(1 + g_l²)^{−1/2}",
    "Pre-Norm with its final norm weakens it too, as a power of t",
    "DeepNorm at its constants leaves it above 0.95",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Cosines of x_t with x_0 and branch sizes in built stacks of both placements."""
    import sympy as sp

    from paper_checks._cake_measure import (
        DEEPNORM,
        PLAIN,
        cosines,
        mean,
        norm_trial,
        np,
        power,
        rate,
        residual_sums,
        settings,
    )
    from paper_checks._verdicts import proved, seen, within

    g, x = sp.symbols("g x", positive=True)
    weight = sp.simplify(x / sp.sqrt(x**2 + g**2 * x**2)) - (1 + g**2) ** sp.Rational(-1, 2)
    given = settings(context, data="gaussian:0", seeds=64)
    trial = norm_trial("post-ln", "layer", PLAIN, 5, given)
    # eight groups of seeds: a mean cosine first, its logarithm then
    cosine = cosines(trial).reshape(10, 8, -1).mean(2)  # (sublayers, groups)
    count = np.arange(len(cosine))
    halves = [rate(count[s], cosine[s].T) for s in (slice(0, 6), slice(4, 10))]
    sums = residual_sums(trial)
    logs = [
        -0.5
        * np.log1p(
            (out.double().square().mean(-1) / x.double().square().mean(-1))
            .flatten(1)
            .mean(1)
            .numpy()
        )
        for _, x, out in sums[:-1]
    ]
    predicted = np.mean(logs)
    layers = context.pick(48, 128)
    pre = cosines(norm_trial("pre-ln", "layer", PLAIN, layers, given))
    at = np.arange(16, len(pre), 4)
    fall = power(at, np.clip(pre[at], 1e-6, None).T)
    deep = {
        n: mean(cosines(norm_trial("post-ln", "layer", DEEPNORM, n, given))[-1])
        for n in context.pick((4, 16, 32), (4, 16, 64))
    }
    deepest = deep[max(deep)]
    return (
        proved(WEIGHT, sp.simplify(weight) == 0, "αx over the deviation of x + G, uncorrelated"),
        within(
            EXPONENTIAL,
            mean((np.log(cosine[9] / cosine[4]) / 5) / (np.log(cosine[4] / cosine[0]) / 4)),
            0.8,
            3.0,
            "rate of the upper half over that of the lower",
            cosines=cosine.mean(1).tolist(),
            rates=[h.estimate for h in halves],
        ),
        within(
            PRODUCT,
            mean(np.log(np.clip(cosine[-1], 1e-6, None)) / (len(cosine) - 1) / predicted),
            0.8,
            1.25,
            "measured over predicted rate",
        ),
        seen(
            PRE,
            fall.high < -0.25,
            f"exponent in t of cos(x_t, x_0) {fall.estimate:.2f} [{fall.low:.2f}, {fall.high:.2f}]",
            values=pre.mean(1)[::16].tolist(),
        ),
        within(
            DEEP,
            deepest,
            0.95,
            1.0,
            f"cos(F, x_0) at N = {max(deep)}",
            by_depth={n: v.estimate for n, v in deep.items()},
        ),
    )


CLAIM = Claim(
    name="norms-postnorm-decay",
    source="Pre/Post norm note, §1, 'Reason', last paragraph; Su Jianlin, kexue.fm/archives/8620",
    statement=(
        "Each Norm of Post-Norm weakens the weight of the identity branch, so that Post-Norm "
        "stresses the residual branches."
    ),
    conditions=(
        "built encoders at initialisation, independent Gaussian tokens, width 32; plain "
        "Post-LN, Pre-LN, DeepNorm of 4 to 128 layers"
    ),
    recorded=(
        Ruling(WEIGHT, Verdict.PROVED),
        Ruling(EXPONENTIAL, Verdict.SUPPORTED),
        Ruling(PRODUCT, Verdict.SUPPORTED, corrected=True),
        Ruling(PRE, Verdict.SUPPORTED),
        Ruling(DEEP, Verdict.SUPPORTED),
    ),
    finding=(
        "A norm after a branch of relative size g weakens the identity by (1 + g²)^{−1/2}, "
        "and the product of the measured factors predicts the measured decay to a few "
        "percent. For real plain Post-LN branches that is 0.87 per norm, not 1/√2, and "
        "faster further up as tokens become alike. Pre-Norm weakens the identity too, as "
        "t^{−1/2} or faster, once its final norm is counted; DeepNorm at its constants "
        "hardly does: cos(F, x_0) is 0.98 from 4 to 64 layers."
    ),
    corrected=(
        "The identity's weight after t norms is Π(1 + g_l²)^{−1/2} with the branches' own "
        "relative sizes g_l: exponential for plain Post-LN, t^{−1/2} after Pre-LN's final "
        "norm, and tending to 1 for DeepNorm, where g = β²/α."
    ),
    check=check,
    seconds=2.0,
)
