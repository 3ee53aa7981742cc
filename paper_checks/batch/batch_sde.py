from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, once
from paper_checks.shared.engine import across_batch
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-sde",
    source="""Malladi et al., arXiv 2205.10287, the square root scaling rules; Mlodozeniec et al.,
        arXiv 2512.22382, its rule for the batch""",
    statement="""With a batch κ times larger Adam takes η√κ, 1 − κ(1 − β₁), 1 − κ(1 − β₂) and ε/√κ,
        RMSProp the same without β₁; AdamW's decay takes λ√κ. Then a run of the same samples is
        the same.""",
    conditions="""the package's rows in B; Adam on 64 coordinates of curvature 1/i under normal
        noise, 16,384 samples in batches of 1 and 4, 64 runs each, noise dominant""",
    finding="""Every power is what the two conditions of the package give. In whole runs the rule
        keeps the loss within 5 %; η√κ with the old memories keeps it as well, as long as the
        memories are short beside the run, while linear scaling does not. So the β's are the
        part of the rule that a short memory hides.""",
    counterexample="""η·κ in place of η√κ, κ = 4, before the run has settled: the final loss is a
        quarter lower and more.""",
    corrected="η√κ, κ(1 − β), ε/√κ and λ√κ where noise is dominant.",
    seconds=8,
)

RUNS = 64


@CLAIM.stated("Adam and RMSProp: η√κ, ε/√κ", PROVED)
def rates(lab: Lab) -> Finding:
    rows = [row for name in ("adam", "rmsprop") for row in across_batch(name)]
    found = {(row["rate"], row["epsilon"]) for row in rows}
    return lab.proved(found == {("B**(1/2)", "B**(-1/2)")}, f"rate and ε: {sorted(found)}")


@CLAIM.stated("1 − β takes κ", PROVED)
def memories(lab: Lab) -> Finding:
    found = {row["memory"] for name in ("adam", "rmsprop") for row in across_batch(name)}
    return lab.proved(found == {"B"}, f"1 − β: {sorted(found)}")


@CLAIM.stated("AdamW's decoupled decay takes √κ", PROVED)
def decay(lab: Lab) -> Finding:
    found = {row["decay"] for row in across_batch("adamw") if row["decay"] is not None}
    return lab.proved(found == {"B**(1/2)"}, f"decay: {sorted(found)}")


@CLAIM.stated("by this rule a run of the same samples ends alike, within 5 %", SUPPORTED)
def alike(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(ends(lab)["rule"]), "loss at κ = 4 over κ = 1")


@CLAIM.ours("and by η·κ it does", REFUTED)
def linear(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(ends(lab)["linear"]), "loss at κ = 4 over κ = 1")


@CLAIM.correction(
    "by η√κ it does with the old memories too, where they are short beside the run", SUPPORTED
)
def old(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(ends(lab)["old memories"]), "loss at κ = 4 over κ = 1")


@once
def ends(lab: Lab) -> dict[str, Array]:
    """The final loss at four samples a step over that at one, by run."""
    rate, b1, b2, k = 1e-3, 0.95, 0.99, 4
    plain = trained(lab, 1, rate, b1, b2)
    short = (1 - k * (1 - b1), 1 - k * (1 - b2))
    return {
        "rule": trained(lab, k, rate * k**0.5, *short) / plain.mean(),
        "linear": trained(lab, k, rate * k, *short) / plain.mean(),
        "old memories": trained(lab, k, rate * k**0.5, b1, b2) / plain.mean(),
    }


def trained(lab: Lab, size: int, rate: float, b1: float, b2: float) -> Array:
    """The mean loss over the last eighth of 16,384 samples of Adam, by run."""
    source, h = np.random.default_rng(lab.seed + size), 1 / np.arange(1, 65)
    w, m, v = np.ones((RUNS, 64)), np.zeros((RUNS, 64)), np.zeros((RUNS, 64))
    count, losses = 16384 // size, []
    for update in range(1, count + 1):
        g = h * w + source.standard_normal(w.shape) * (4 / size**0.5)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w = w - rate * (m / (1 - b1**update)) / np.sqrt(v / (1 - b2**update))
        if update > count * 7 / 8:
            losses.append((h * w * w).sum(1) / 2)
    return np.asarray(np.mean(losses, axis=0))
