from fractions import Fraction
from math import e
from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, numeric, once, sp
from paper_checks.shared.record import CAKE, DEEPNET, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import PLAIN, correlation

CLAIM = Claim(
    name="cake-softmax-lemma",
    source=f"{CAKE}, §4.1; {DEEPNET}, Lemma 4.1",
    statement="‖softmax(q)X‖ ≤ ‖x_i‖ = √d, and so softmax(q)X and x_i have equal magnitude.",
    conditions="""tokens normalised to √d; any scores; built attention with 64 to 512 tokens, text
        and Gaussian tokens of correlation 0 and 0.5""",
    finding="""The bound is convexity and holds for tokens of equal length. The average has a
        token's magnitude only if tokens are correlated: E‖softmax(q)X‖² = d(ρ + (1 − ρ)Σs_i²).
        Independent tokens shrink as n^{−1/2} under equal scores, and as √(1/d + e/n) in built
        attention at gain 1: to 0.27 of their length at 64 tokens and 0.19 at 512. Tokens of
        correlation ½ keep 0.70 at any n. Plain Post-LN makes the lemma true by itself: with text
        the mean cosine of two tokens rises from 0.17 to above 0.99 in 16 layers.""",
    counterexample=(
        "Two tokens x_2 = −x_1 with equal scores: the average is 0, the tokens have length √d."
    ),
    corrected="""‖softmax(q)X‖ ≤ max‖x_i‖, and E‖softmax(q)X‖² = d(ρ + (1 − ρ)Σ s_i²): equal
        magnitude needs ρ > 0 or concentrated scores.""",
    seconds=4.5,
)
TOKENS = ((64, 128, 256), (64, 128, 256, 512))  # in built attention


@CLAIM.stated("‖softmax(q)X‖ ≤ √d for tokens of length √d", PROVED)
def bound(lab: Lab) -> Finding:
    because = "(Σs)(Σ s_i x_i²) − (Σ s_i x_i)² = Σ_{i<j} s_i s_j (x_i − x_j)² ≥ 0 in a coordinate"
    return lab.proved(convex(), because)


@CLAIM.ours("tokens of different lengths: the bound is the longest one's, not every one's", PROVED)
def unequal(lab: Lab) -> Finding:
    square = Fraction(2 + 1, 2) ** 2
    seen = f"x_1 = 2e, x_2 = e, equal scores: squared length {square}, that of x_2 is 1, of x_1 4"
    return lab.proved(convex() and square > 1, f"the same identity; {seen}")


@CLAIM.stated("equal magnitude, for any tokens and scores", REFUTED)
def equal_magnitude(lab: Lab) -> Finding:
    square = Fraction(1 - 1, 2) ** 2
    return lab.proved(square > 0, f"x_2 = −x_1 with equal scores: squared length {square}")


@CLAIM.correction("independent tokens, equal scores: the average shrinks as n^{−1/2}", SUPPORTED)
def equal_scores(lab: Lab) -> Finding:
    lengths = lab.pick((4, 32, 256), (4, 16, 64, 256))
    sizes = averages(lab, lengths, data="gaussian:0", seeds=128, scores=0.0)
    return lab.exponent(
        lab.power(lengths, sizes),
        -0.5,
        (("equal magnitude", 0.0),),
        what="exponent of ‖softmax·X‖/‖X‖ in n, queries 0",
        values={data: v.mean(0).tolist() for data, v in by_data(lab).items()},
        text=lab.power(lab.pick(*TOKENS), by_data(lab)["text"]).estimate,
    )


@CLAIM.correction(
    "independent tokens, built attention at gain 1: it shrinks as √(1/d + e/n)", SUPPORTED
)
def built(lab: Lab) -> Finding:
    lengths, found, bends = lab.pick(*TOKENS), {}, []
    varied = {"1 head": {"heads": 1}, "width 64": {"width": 64}}
    sizes: dict[str, dict[str, Any]] = {"4 heads": {}, **lab.pick({}, varied)}
    for label, given in sizes.items():
        law = np.sqrt(1 / given.get("width", 32) + e / np.array(lengths))
        bends.append(lab.slope(lengths, law))
        found[label] = lab.power(lengths, averages(lab, lengths, data="gaussian:0", **given) / law)
    rivals = (("equal magnitude", -max(bends)), ("equal scores", -0.5 - min(bends)))
    what = "exponent in n of the average's size over √(1/d + e/n)"
    exponent_alone = lab.power(lengths, by_data(lab)["gaussian:0"]).estimate
    return lab.exponent(found, 0.0, rivals, what=what, exponent_alone=exponent_alone)


@CLAIM.correction("E‖softmax(q)X‖²/d = ρ + (1 − ρ)Σ s_i²", PROVED)
def mean_square(lab: Lab) -> Finding:
    # E x_i² = 1 and E x_i x_j = ρ in each coordinate, with Σs = 1
    s, rho = sp.symbols("s_1:5", positive=True), sp.Symbol("rho")
    moment = sum(s[i] * s[j] * (1 if i == j else rho) for i in range(4) for j in range(4))
    law = rho * sum(s) ** 2 + (1 - rho) * sum(a**2 for a in s)
    return lab.proved(sp.expand(moment - law) == 0, "expanded exactly, for four tokens")


@CLAIM.ours(
    "correlated tokens (ρ = 0.5): the average keeps its magnitude, exponent 0 in n", SUPPORTED
)
def correlated(lab: Lab) -> Finding:
    slope = lab.power(lab.pick(*TOKENS), by_data(lab)["gaussian:0.5"])
    return lab.exponent(slope, 0.0, (("independent tokens", -0.5),), what="exponent in n")


@CLAIM.ours(
    "plain Post-LN with text: the tokens' correlation rises with depth, so the lemma becomes an "
    "equality",
    SUPPORTED,
)
def deeper(lab: Lab) -> Finding:
    trial, entering = PLAIN.trial(16, lab.small()), list[Any]()
    for residual in trial.model.residuals():
        residual.register_forward_pre_hook(lambda _, args: entering.append(correlation(args[0])))
    trial.output()
    first, *_, last = (lab.mean(c) for c in entering)
    what = f"mean cosine of two tokens, {first.estimate:.2f} at first, after 16 layers"
    return lab.ratio(last, what)


def convex() -> bool:
    """One coordinate of four tokens; the sum over coordinates is ‖·‖², pairs stand for any n."""
    s, x = sp.symbols("s_1:5", positive=True), sp.symbols("x_1:5", real=True)
    mixed = sum(a * b for a, b in zip(s, x, strict=True))
    squares = sum(a * b**2 for a, b in zip(s, x, strict=True))
    spread = sum(s[i] * s[j] * (x[i] - x[j]) ** 2 for i in range(4) for j in range(i))
    return bool(sp.expand(sum(s) * squares - mixed**2 - spread) == 0)


@once
def by_data(lab: Lab) -> dict[str, Array]:
    """‖softmax·X‖/‖X‖ on text and on Gaussian tokens."""
    data = ("gaussian:0", "gaussian:0.5", "text")
    return {name: averages(lab, lab.pick(*TOKENS), data=name) for name in data}


def averages(lab: Lab, lengths: tuple[int, ...], scores: float = 1.0, **given: Any) -> Array:
    """‖softmax·X‖/‖X‖ of built attention with scaled scores: (seeds, lengths)."""
    found: list[Any] = []
    for n in lengths:
        sizes = lab.small(**{"seeds": 64, **given, "tokens": n})
        trial = PLAIN.trial(1, sizes, lambda d: scores if d.name == "query" else 1.0)
        found.append(numeric.take_trace(trial).each("attention_average")[0])
    return lab.columns(found)
