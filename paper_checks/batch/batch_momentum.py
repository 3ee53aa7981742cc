from paper_checks.shared.batch import SU, best_of
from paper_checks.shared.bench import Claim, Finding, Lab, np, once, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-momentum",
    source=f"{SU.format(11301, '2025-09-22')}, 'A larger batch'",
    statement="""An average of the gradient with β₁ has the covariance (1 − β₁)/(1 + β₁)·Σ/B, so
        that momentum makes the batch of SGD larger by (1 + β₁)/(1 − β₁).""",
    conditions="""algebra for one update of an average in its steady state; whole runs of 500
        updates on 32 coordinates of curvature 1/i in exact second moments, each at its best
        constant rate, β₁ = 0.9""",
    finding="""Right for one update, not for a run. Momentum removes noise from one update, and the
        noise returns in the next updates, which share their gradients. At its best constant rate
        SGD with β₁ = 0.9 ends within 1 % of the loss of SGD without momentum. A batch 19 times as
        large ends at a fifth of that loss. So a batch cannot be replaced by an average, and B_noise
        of a run is not divided by 19.""",
    counterexample="""500 updates, curvature 1/i, noise of variance 3 in every coordinate, B = 1:
        the best losses are 0.537 without an average, 0.537 with β₁ = 0.9 and 0.103 at B = 19.""",
    corrected="""An average with β₁ divides the noise of one update by (1 + β₁)/(1 − β₁). Over many
        updates at small rates it changes nothing.""",
    seconds=4,
)
BETA, COUNT = 0.9, 500


@CLAIM.stated("the average's covariance is (1 − β₁)/(1 + β₁) of the gradient's", PROVED)
def covariance(lab: Lab) -> Finding:
    beta, k = sp.Symbol("beta", positive=True), sp.Symbol("k", integer=True, nonnegative=True)
    total = (1 - beta) ** 2 / (1 - beta**2)
    partial = sp.summation(((1 - beta) * beta**k) ** 2, (k, 0, 9))
    left = sp.simplify(partial - total * (1 - beta**20))
    return lab.proved(
        left == 0 and sp.simplify(total - (1 - beta) / (1 + beta)) == 0,
        "Σ((1 − β)β^k)² over k < K is (1 − β)/(1 + β)·(1 − β^{2K})",
    )


@CLAIM.stated("so in one update the batch counts as (1 + β₁)/(1 − β₁) times larger", PROVED)
def one_update(lab: Lab) -> Finding:
    batch, noise, beta = sp.symbols("B B_noise beta", positive=True)
    with_average = 1 / (1 + (1 - beta) / (1 + beta) * noise / batch)
    larger = (1 / (1 + noise / batch)).subs(batch, batch * (1 + beta) / (1 - beta))
    return lab.proved(sp.simplify(with_average - larger) == 0, "η*/η_max of both")


@CLAIM.stated("momentum takes gradient noise out cheaply: a run does as with that batch", REFUTED)
def over_a_run(lab: Lab) -> Finding:
    ends = losses(lab)
    found = ends["average"] / ends["larger batch"]
    return lab.seen(abs(found - 1) < 0.05, f"loss with the average over that batch's: {found:.2f}")


@CLAIM.correction("a run ends as without the average, within 1 %", SUPPORTED)
def as_without(lab: Lab) -> Finding:
    ends = losses(lab)
    found = ends["average"] / ends["plain"]
    return lab.seen(abs(found - 1) < 0.01, f"loss with the average over that without: {found:.4f}")


@once
def losses(lab: Lab) -> dict[str, float]:
    """The lowest mean losses after the same number of updates."""
    h, noise = 1 / np.arange(1, 33), 3 * np.ones(32)
    larger = (1 + BETA) / (1 - BETA)
    return {
        "plain": best_of(1.0, COUNT, h, noise),
        "average": best_of(1.0, COUNT, h, noise, BETA),
        "larger batch": best_of(larger, COUNT, h, noise),
    }
