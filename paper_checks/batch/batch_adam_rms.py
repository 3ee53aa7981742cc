from paper_checks.shared.batch import SU, rms_of_adam
from paper_checks.shared.bench import Array, Claim, Finding, Lab, once
from paper_checks.shared.record import REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-adam-rms",
    source=f"{SU.format(11267, '2025-09-02')}, 'Mean approximation' and 'Prediction backwards'",
    statement="""The rms of Adam's update is √((μ² + c σ²)/(μ² + σ²)) with c = (1 − β₁)/(1 + β₁),
        which is √c = 0.23 under noise alone at β₁ = 0.9 and does not depend on β₂. Backwards
        the rms gives the signal-to-noise ratio μ²/σ².""",
    conditions="""Adam's averages at ε = 0 under normal gradients, 600 updates, 32,000 entries; β₁
        of 0.5 to 0.95, β₂ of 0.5 to 0.99, μ²/σ² of 0 to 1""",
    finding="""The law is good to 5 % at β₂ ≥ 0.9, under noise and with a signal as large as the
        noise. Below that it does depend on β₂: at β₂ = 0.5 the rms is 0.27, since few gradients
        are in the denominator. Backwards it is of little use at small signals, which are those
        of training: the approximation's own 2 % of the rms is read as a signal-to-noise ratio
        off by 0.002 where it may be 0.01.""",
    counterexample="β₁ = 0.9, β₂ = 0.5, noise alone: 0.27 and not 0.23.",
    corrected="rms = √((μ² + cσ²)/(μ² + σ²)) within 5 % for β₂ ≥ 0.9.",
    seconds=5,
)


@CLAIM.stated("under noise alone it is √((1 − β₁)/(1 + β₁)), within 5 %", SUPPORTED)
def noise(lab: Lab) -> Finding:
    found = {}
    for beta1 in (0.5, 0.9, 0.95):
        law = ((1 - beta1) / (1 + beta1)) ** 0.5
        found[f"β₁ {beta1}"] = lab.mean(rms_of_adam(lab.seed, beta1, 0.95) / law)
    return lab.ratio(found, "rms over the law, β₂ 0.95")


@CLAIM.stated("and with a signal √((μ² + cσ²)/(μ² + σ²)), within 5 %", SUPPORTED)
def signal(lab: Lab) -> Finding:
    found, c = {}, 0.1 / 1.9
    for ratio in (0.01, 0.1, 1.0):
        law = ((ratio + c) / (ratio + 1)) ** 0.5
        found[f"μ²/σ² {ratio}"] = lab.mean(rms_of_adam(lab.seed, 0.9, 0.95, ratio**0.5) / law)
    return lab.ratio(found, "rms over the law, β₁ 0.9, β₂ 0.95")


@CLAIM.stated("it does not depend on β₂: at 0.5 as at 0.95, within 5 %", REFUTED)
def other(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(short(lab)), "rms at β₂ 0.5 over √c, β₁ 0.9")


@CLAIM.correction("from β₂ = 0.9 on it does not, within 5 %", SUPPORTED)
def from_nine(lab: Lab) -> Finding:
    found = {f"β₂ {b}": lab.mean(rms_of_adam(lab.seed, 0.9, b) / LAW) for b in (0.9, 0.97, 0.99)}
    return lab.ratio(found, "rms over √c, β₁ 0.9")


@CLAIM.stated("backwards it gives μ²/σ², within 5 % at 0.01", REFUTED)
def backwards(lab: Lab) -> Finding:
    square, c = rms_of_adam(lab.seed, 0.9, 0.95, 0.1) ** 2, 0.1 / 1.9
    return lab.ratio(lab.mean((square - c) / (1 - square) / 0.01), "μ²/σ² found over 0.01")


LAW = (0.1 / 1.9) ** 0.5


@once
def short(lab: Lab) -> Array:
    """The rms at β₂ = 0.5 over √c, by groups."""
    return rms_of_adam(lab.seed, 0.9, 0.5) / LAW
