from paper_checks.shared.batch import normal
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-noise-scale",
    source="""McCandlish et al., 'An Empirical Model of Large-Batch Training', arXiv 1812.06162,
        §2.2 and appendix A.1""",
    statement="""From gradients at two batch sizes |𝒢|² = (B_big|G_big|² −
        B_small|G_small|²)/(B_big − B_small) and 𝒮 = (|G_small|² − |G_big|²)/(1/B_small −
        1/B_big) are unbiased for |G|² and tr Σ. Their ratio estimates B_simple, from averages
        of both. Adam's best rate goes as B^a with a of 0.5 to 1.""",
    conditions="""algebra; 32,768 draws of gradients of 64 entries, B of 1 and 4, |G|² a tenth of
        tr Σ, the ratio taken of each draw and of means over draws""",
    finding="""Both estimates are unbiased. The ratio of single draws is not, and it is not even
        finite in the mean, as |𝒢|² passes through 0: means are to be taken first, as the source
        says. The powers of Adam are the two ends of its ε: 1/2 where ε is small beside the
        gradient's noise, and 1 where it is large.""",
    counterexample="|G|² = tr Σ/10, B of 1 and 4: a large share of all draws has |𝒢|² ≤ 0.",
    corrected="Average |𝒢|² and 𝒮 first; an interval that holds 0 for |𝒢|² leaves B_simple open.",
    seconds=3,
)


@CLAIM.stated("|𝒢|² and 𝒮 are unbiased", PROVED)
def unbiased(lab: Lab) -> Finding:
    big, small, square, trace = sp.symbols("B_big B_small G2 S", positive=True)
    at_big, at_small = square + trace / big, square + trace / small  # E|G_B|² = |G|² + tr Σ/B
    g = (big * at_big - small * at_small) / (big - small)
    s = (at_small - at_big) / (1 / small - 1 / big)
    left = sp.simplify(g - square), sp.simplify(s - trace)
    return lab.proved(left == (0, 0), "their means are |G|² and tr Σ")


@CLAIM.stated("the ratio of their means is B_simple", SUPPORTED)
def of_means(lab: Lab) -> Finding:
    squares, traces = (x.reshape(16, -1).mean(1) for x in estimates(lab))
    return lab.ratio(lab.mean(traces / squares / 10), "B_simple found over its own")


@CLAIM.ours("so is the mean ratio of single draws, within 5 %", REFUTED)
def of_draws(lab: Lab) -> Finding:
    squares, traces = estimates(lab)
    middle = float(np.median(traces / squares) / 10)
    return lab.seen(abs(middle - 1) < 0.05, f"the median ratio over B_simple is {middle:.2f}")


@CLAIM.correction("a tenth of single draws and more has |𝒢|² at or below 0", SUPPORTED)
def below(lab: Lab) -> Finding:
    squares, _ = estimates(lab)
    return lab.at_least(lab.mean((squares <= 0).reshape(16, -1).mean(1)), 0.1, "share of draws")


def estimates(lab: Lab) -> tuple[Array, Array]:
    """|𝒢|² and 𝒮 of every draw, where |G|² = 1 and tr Σ = 10: (32_768,) each."""
    noise = normal(lab.seed, 32_768, 4, 64) * np.sqrt(10 / 64)
    g = np.full(64, 1 / 8)
    small, big = ((g + noise[:, :1].mean(1)) ** 2).sum(1), ((g + noise.mean(1)) ** 2).sum(1)
    return (4 * big - small) / 3, (small - big) / (1 - 1 / 4)
