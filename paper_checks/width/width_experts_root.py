from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, once, sp
from paper_checks.shared.mixture import Mixture, best, over_noise
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="width-experts-root",
    source="""marin-community/marin, issue 5799 (2026-05-17), 'per-expert MuonH LR sqrt(sparsity)',
        256 experts and 4 for a token, its prompt and its summary""",
    statement="""The rate of an expert 'should be smaller as each expert see less token', by
        √sparsity. 'boost-nonexpert and shrink-expert both failed gate 1, while mid-ratio passed.'
        """,
    conditions="""algebra; 16 experts of 12 × 12 beside a dense matrix, one of them for a token, a
        teacher and noisy labels; one step by polar factors, batches of 256 tokens (512 besides in
        the full run), 24 of them; 64 where it is said""",
    finding="""The rate should be smaller, but by √sparsity only where noise dominates the dense
        matrices too. The rate of a group that sees the share s of the tokens is best at
        ((1 + b)/(1 + b/s))^{1/2} times the dense rate, b being B_noise over the batch of the
        dense matrices: from 1 at b = 0 down to √s. B_noise by group predicts it to 15 % where an
        expert sees more tokens than its matrix has rows; at 4 tokens for 12 rows it is less. At
        s = 1/64 the geometric middle gains more than both ends for b between 1/53 and 1/3: so
        the issue's three outcomes say that B_noise of its dense matrices was there.""",
    counterexample="""A batch of four times B_noise of the dense matrix, s = 1/16: at √s an expert
        gains two thirds of what its best rate does, at s^{1/4} 0.96.""",
    corrected="""Measure B_noise of both groups (`measure MODEL --noise`): the ratio of their rates
        is ((1 + B_noise/B)/(1 + B_noise,experts/B))^{(1 + p)/2}, p the update's power of g.""",
    seconds=(3, 9),
)
EXPERTS, NOISE = 16, 6.0


@CLAIM.stated("the best ratio of the rates is √sparsity", REFUTED)
def root(lab: Lab) -> Finding:
    return lab.within({n: lab.mean(found[0]) for n, found in ratios(lab).items()},
                      0.9 * EXPERTS**-0.5, 1.1 * EXPERTS**-0.5, "best ratio")  # fmt: skip


@CLAIM.stated("√sparsity and one rate both fail, and between them it passes", SUPPORTED)
def between(lab: Lab) -> Finding:
    ratio = float(ratios(lab)["256 tokens"][0].mean())
    gains = {n: r / ratio * (2 - r / ratio) for n, r in tried().items()}
    said = ", ".join(f"{name} {gain:.2f}" for name, gain in gains.items())
    return lab.seen(max(gains, key=lambda n: gains[n]) == "middle", f"of the best gain: {said}")


@CLAIM.ours("B_noise of the two groups, measured, predicts the ratio to 15 %", SUPPORTED)
def predicted(lab: Lab) -> Finding:
    over = {n: lab.mean(found / expected) for n, (found, expected) in ratios(lab).items()}
    return lab.within(over, 0.85, 1.15, "measured over predicted")


@CLAIM.correction("the ratio lies between √s and 1, at every batch", PROVED)
def bounds(lab: Lab) -> Finding:
    b, s = sp.symbols("b s", positive=True)
    square = (1 + b) / (1 + b / s)
    ends = sp.limit(square, b, 0), sp.limit(square, b, sp.oo)
    falls = sp.simplify(sp.diff(square, b) * s * (1 + b / s) ** 2 - (s - 1))  # negative for s < 1
    return lab.proved(ends == (1, s) and falls == 0, f"ratio² = {square}, ends {ends}")


@CLAIM.ours("at s = 1/64 the middle gains most where b is from 1/53 to 1/3", PROVED)
def predicts(lab: Lab) -> Finding:
    s, middle = sp.Rational(1, 64), sp.Rational(1, 64) ** sp.Rational(1, 4)
    at = []
    for end in (1, sp.sqrt(s)):  # two rates gain alike where the best one is their mean
        best_ratio = (end + middle) / 2
        at.append((1 - best_ratio**2) / (best_ratio**2 / s - 1))  # b of that ratio
    low, high = map(float, at)
    return lab.proved(abs(low * 53 - 1) < 0.02 and 0.3 < high < 0.37, f"b {low:.4f} to {high:.3f}")


def tried() -> dict[str, float]:
    return {"one rate": 1.0, "middle": EXPERTS**-0.25, "root": EXPERTS**-0.5}


@CLAIM.ours("and at fewer tokens an expert than its matrix has rows", REFUTED)
def few(lab: Lab) -> Finding:
    found, expected = ratio_at(lab, 64)
    return lab.within(lab.mean(found / expected), 0.85, 1.15, "measured over predicted")


@once
def ratios(lab: Lab) -> dict[str, Array]:
    """By batch, what :func:`ratio_at` has."""
    return {f"{tokens} tokens": ratio_at(lab, tokens) for tokens in lab.pick((256,), (256, 512))}


def ratio_at(lab: Lab, tokens: int) -> Array:
    """The best ratio of the rates in groups of batches, and what B_noise predicts."""
    drawn = Mixture(EXPERTS, tokens, NOISE, lab.seed).gradients(24)
    b, of_experts = (over_noise(drawn, group) for group in ("dense", "experts"))
    dense, experts = (best(drawn, of).reshape(6, 4).mean(1) for of in ("dense", "experts"))
    predicted = np.full(len(dense), ((1 + b) / (1 + of_experts)) ** 0.5)
    return np.stack([experts / dense, predicted])
