from paper_checks.shared.batch import SU, loss_after
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.engine import across_batch
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-linear-or-root",
    source=f"{SU.format(10542, '2024-11-14')}, 'Square root' and 'Linear scaling'",
    statement="""An increment of SGD keeps its covariance if η ∝ √B. Its stochastic differential
        equation stays the same if η ∝ B, and with it the result of the run.""",
    conditions="""algebra; the exact mean loss of SGD on 32 coordinates of curvature 1/i after
        4,096 samples in batches of 1 to 16, at rates far below 1/h""",
    finding="""Both sentences are right, and they are about different things. Over a run noise adds
        up as its root, so that holding one increment's covariance is not holding the run's:
        under √B the final loss moves by more than a tenth, under B it stays within 5 %. The
        package's two conditions give B as well.""",
    counterexample="""Rates 0.002·√(B/1), B = 1 and 16, 4,096 samples: the final losses differ by
        more than a tenth.""",
    corrected="""For SGD in the noise-dominated regime η ∝ B leaves signal and noise of a run of
        fixed samples as they are.""",
    seconds=1,
)
SIZES = (1, 4, 16)


@CLAIM.stated("η ∝ √B holds the covariance of one increment", PROVED)
def increment(lab: Lab) -> Finding:
    batch, sigma, rate = sp.symbols("B sigma eta", positive=True)
    covariance = (rate * sp.sqrt(batch)) ** 2 * sigma / batch
    return lab.proved(sp.diff(covariance, batch) == 0, f"η²Σ/B = {sp.simplify(covariance)}")


@CLAIM.stated("η ∝ B leaves mean and variance of the run as they are, at small rates", PROVED)
def equation(lab: Lab) -> Finding:
    batch, h, sigma, rate, seen, small = sp.symbols("B h sigma eta E s", positive=True)
    kept = 1 - small * rate * batch * h  # one update of E/(sB) at the rate sηB
    mean = sp.limit(kept ** (seen / (small * batch)), small, 0)
    shock = (small * rate * batch) ** 2 * sigma / (small * batch) / (1 - kept**2)
    level = sp.limit(shock * batch, small, 0)
    holds = sp.diff(mean, batch) == 0 and sp.simplify(sp.diff(level / batch, batch)) == 0
    return lab.proved(bool(holds), f"mean {mean}; variance in the end {sp.simplify(level / batch)}")


@CLAIM.stated("so the loss after the same samples is the same, within 5 %", SUPPORTED)
def linear(lab: Lab) -> Finding:
    found = losses(1.0)
    return lab.seen(float(np.ptp(found) / found[0]) < 0.05, f"batches {SIZES}: {listed(found)}")


@CLAIM.ours("and so it is under η ∝ √B", REFUTED)
def root(lab: Lab) -> Finding:
    found = losses(0.5)
    return lab.seen(float(np.ptp(found) / found[0]) < 0.05, f"batches {SIZES}: {listed(found)}")


@CLAIM.correction("the package's conditions give η ∝ B for SGD", PROVED)
def derived(lab: Lab) -> Finding:
    found = across_batch("sgd")
    return lab.proved({row["rate"] for row in found} == {"B"}, "the rate of every role is B")


def losses(power: float) -> Array:
    """The mean loss after 4,096 samples at rates 0.002·B^power."""
    h = 1 / np.arange(1, 33)
    ends = [
        loss_after(2e-3 * size**power, size, 4096 // size, h, 20 * np.ones(32)) for size in SIZES
    ]
    return np.array(ends)


def listed(found: Array) -> str:
    return ", ".join(f"{loss:.4f}" for loss in found)
