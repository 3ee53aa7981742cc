from paper_checks.shared.batch import SU, averages
from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, np, once, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-weight-rms",
    source=f"{SU.format(11307, '2025-10-01')}, 'Quick estimate' to 'The sign's version'",
    statement="""Under decoupled decay λ and noise alone the weights' rms tends to √(η/2λ) under
        AdamW, whatever β₁, and to √(η/2λ·(1 + β₁)/(1 − β₁)) under the sign of an average.
        Without decay it grows as √(RMS₀² + η²t).""",
    conditions="""both updates under normal gradients, η = 0.01, λ = 0.1 and 0.4, 8 times 1/(ηλ)
        updates, β₁ = 0.9, β₂ = 0.95, 8,000 entries; the series in exact terms""",
    finding="""Adam's law holds within 5 %, and so does the growth without decay. The quick
        estimate that takes weights and updates for orthogonal is too small by 4.4 at β₁ = 0.9:
        an update shares its gradients with those before. The sign's law is too large by a
        fifth: the mean field takes the correlation of two signs for that of the averages, and
        it is (2/π) arcsin of that. The sources print the sign's square as equal to a root.""",
    counterexample="Sign of an average, β₁ = 0.9: 0.84 of √(η/2λ·19).",
    corrected="""RMS² = (η/2λ)·Σ_k E u_t·u_{t+k} over all k: 1 under AdamW, and for the sign of an
        average 1 + 2Σ_{k≥1} (2/π) arcsin β₁^k, 13.3 at β₁ = 0.9.""",
    seconds=7,
)
RATE, BETA, DECAYS = 0.01, 0.9, (0.1, 0.4)
START, FREE = 0.3, 3000


@CLAIM.stated("AdamW: √(η/2λ), within 5 %", SUPPORTED)
def adam(lab: Lab) -> Finding:
    return lab.ratio(held(lab, "adam", 1.0), "rms over √(η/2λ)")


@CLAIM.stated("it is in proportion to √(η/λ)", SUPPORTED)
def root(lab: Lab) -> Finding:
    few, more = (runs(lab)["adam", decay] for decay in DECAYS)
    return lab.ratio(
        lab.mean(few / more / (DECAYS[1] / DECAYS[0]) ** 0.5), "at λ over at 4λ, over 2"
    )


@CLAIM.stated("taking weights and updates for orthogonal, it is √(c·η/2λ)", REFUTED)
def quick(lab: Lab) -> Finding:
    return lab.ratio(held(lab, "adam", 0.1 / 1.9), "rms over it, c = (1 − β₁)/(1 + β₁)")


@CLAIM.stated("sign of an average: √(η/2λ·(1 + β₁)/(1 − β₁)), within 5 %", REFUTED)
def sign(lab: Lab) -> Finding:
    return lab.ratio(held(lab, "sign", 19.0), "rms over it")


@CLAIM.correction("the sign's factor is 1 + 2Σ (2/π) arcsin β₁^k", SUPPORTED)
def arcsine(lab: Lab) -> Finding:
    return lab.ratio(held(lab, "sign", series()), f"rms over the law, a factor of {series():.2f}")


@CLAIM.stated("as printed, RMS² ≈ √(η/2λ·(1 + β₁)/(1 − β₁))", REFUTED)
def printed(lab: Lab) -> Finding:
    rate, decay = sp.symbols("eta lambda", positive=True)
    square = rate / (2 * decay) * 19
    return lab.proved(sp.simplify(square - sp.sqrt(square)) == 0, "a square is not its root")


@CLAIM.ours("in general RMS² = (η/2λ)·Σ_k E u_t·u_{t+k} where 1/(ηλ) is long", PROVED)
def general(lab: Lab) -> Finding:
    a, x = sp.symbols("a x", positive=True)  # a = ηλ, correlation x^k of two updates k apart
    # E w² of w' = (1 − a)w − ηu in its steady state, over η/2λ, with Σ (1 − a)^k x^k
    keep = 1 - a
    square = a**2 / (1 - keep**2) * (1 + 2 * keep * x / (1 - keep * x)) / (a / 2)
    limit = sp.limit(square, a, 0)
    return lab.proved(
        sp.simplify(limit - (1 + 2 * x / (1 - x))) == 0, f"tends to {sp.simplify(limit)}"
    )


@CLAIM.stated("without decay RMS² = RMS₀² + η²t under Adam, within 5 %", SUPPORTED)
def growth(lab: Lab) -> Finding:
    law = np.sqrt(START**2 + RATE**2 * FREE)
    return lab.ratio(lab.mean(runs(lab)["adam", 0.0] / law), "rms over it")


def series() -> float:
    """Σ_k of the correlation of two signs of the average k apart, over all k."""
    k = np.arange(1, 2000)
    return float(1 + 4 / np.pi * np.arcsin(BETA**k).sum())


def held(lab: Lab, name: str, factor: float) -> dict[str, Interval]:
    """The rms over √(η/2λ·factor) at both decays."""
    return {
        f"λ {decay}": lab.mean(runs(lab)[name, decay] / (RATE / 2 / decay * factor) ** 0.5)
        for decay in DECAYS
    }


@once
def runs(lab: Lab) -> dict[tuple[str, float], Array]:
    """The weights' rms by update and decay, by groups of entries: (8,)."""
    plain = {("adam", 0.0): simulated(lab, "adam", 0.0)}
    return plain | {(n, d): simulated(lab, n, d) for n in ("adam", "sign") for d in DECAYS}


def simulated(lab: Lab, name: str, decay: float) -> Array:
    """Averaged over the last half of 8/(ηλ) updates; without decay, after FREE updates of START."""
    source, size = np.random.default_rng(lab.seed), 8000
    squares = []
    weights = 0.0 if decay else START * source.standard_normal(size)
    updates = int(8 / (RATE * decay)) if decay else FREE
    drawn = (source.standard_normal(size) for _ in range(200 + updates))
    for update, (m, v) in enumerate(averages(drawn, BETA, 0.95), -200):
        if update < 0:
            continue
        u = np.sign(m) if name == "sign" else m / np.sqrt(v)
        weights = weights - RATE * (u + decay * weights)
        if update == updates - 1 or (decay and update > updates / 2 and update % 20 == 0):
            squares.append((weights**2).reshape(8, -1).mean(1))
    return np.asarray(np.sqrt(np.mean(squares, axis=0)))
