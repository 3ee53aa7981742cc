import math

from paper_checks.shared.batch import SU
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-samples-steps",
    source=f"{SU.format(11260, '2025-09-01')}, 'Data efficiency'; arXiv 1812.06162, eq. 2.11",
    statement="""At the best rate a step gains ΔL_max/(1 + B_noise/B). So the same loss needs S =
        (1 + B_noise/B) S_min steps and E = (B + B_noise) S_min samples, and (S/S_min −
        1)(E/E_min − 1) = 1.""",
    conditions="""algebra; whole runs on 200 coordinates of curvature 1/i to a twentieth of the
        first loss, in exact second moments, at the best rate of every step, for noise in
        proportion to the curvature and for equal noise in every coordinate""",
    finding="""Exact for one step, and so for a run in which B_noise stays what it is. In a whole
        run it grows as the loss falls, and the product is not 1 but 0.7 to 0.8 where the noise
        is in proportion to the curvature, and below 0.4 where it is not. The tradeoff is there;
        a fit of its form gives a B_noise of no single moment.""",
    counterexample="""Curvature 1/i, equal noise in every coordinate, a twentieth of the first
        loss: the product is below 0.4.""",
    corrected="""(S/S_min − 1)(E/E_min − 1) = 1 step by step; over a run the product is below 1
        where B_noise grows.""",
    seconds=9,
)


@CLAIM.stated("of one step: (S/S_min − 1)(E/E_min − 1) = 1", PROVED)
def relation(lab: Lab) -> Finding:
    batch, noise = sp.symbols("B B_noise", positive=True)
    steps = 1 + noise / batch
    least = sp.limit(batch * steps, batch, 0)
    left = sp.simplify((steps - 1) * (batch * steps / least - 1) - 1)
    return lab.proved(left == 0 and least == noise, "S = 1 + B_noise/B, E = B S, E_min = B_noise")


@CLAIM.stated("fewer samples with smaller batches, fewer steps with larger ones", SUPPORTED)
def tradeoff(lab: Lab) -> Finding:
    falls, grows = [], []
    for by_batch in (run(1.0), run(0.0)):
        sizes, steps = by_batch
        falls.append(bool((np.diff(steps) < 0).all()))
        samples = sizes * steps
        grows.append(bool((np.diff(samples) > -0.005 * samples[:-1]).all()))  # level where B → 0
    return lab.seen(all(falls + grows), f"steps fall {falls}, samples grow {grows}")


@CLAIM.stated("over a whole run to one loss, within 5 %", REFUTED)
def over_a_run(lab: Lab) -> Finding:
    found = {name: product(kind) for name, kind in (("Σ ∝ H", 1.0), ("Σ ∝ I", 0.0))}
    off = max(abs(values - 1).max() for values in found.values())
    listed = {name: [round(float(v), 2) for v in values] for name, values in found.items()}
    return lab.seen(off < 0.05, f"products over a decade of B: {listed}")


@CLAIM.correction("over a run the product is below 1: B_noise grows as the loss falls", SUPPORTED)
def below(lab: Lab) -> Finding:
    top = max(product(kind).max() for kind in (1.0, 0.0))
    return lab.seen(top < 1, f"at most {top:.2f}")


def product(kind: float) -> Array:
    """(S/S_min − 1)(E/E_min − 1) at the batches that take 1.5 to 20 times the fewest steps."""
    sizes, steps = run(kind)
    fewest, least = steps[-1], (sizes * steps).min()
    inside = (steps > 1.5 * fewest) & (steps < 20 * fewest)
    return np.asarray(((steps / fewest - 1) * (sizes * steps / least - 1))[inside])


def run(kind: float) -> tuple[Array, Array]:
    """Batch sizes, and the steps to a twentieth of the loss with noise of H to this power."""
    sizes = np.logspace(-0.5, 6, 14)
    return sizes, np.array([steps(float(size), kind) for size in sizes])


def steps(size: float, kind: float) -> float:
    """Steps at the best rate of each, interpolated within the last."""
    h = 1 / np.arange(1, 201)
    squares, noise, taken = h**-0.5, h**kind / size, 0.0
    loss = first = float((h * squares).sum())
    while True:
        g = h * h * squares
        rate = g.sum() / (h * (g + noise)).sum()
        squares = (1 - rate * h) ** 2 * squares + rate**2 * noise
        left = float((h * squares).sum())
        if left <= first / 20:
            return taken + math.log(loss / (first / 20)) / math.log(loss / left)
        loss, taken = left, taken + 1
