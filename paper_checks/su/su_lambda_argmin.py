from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp, symbolic
from paper_checks.shared.engine import unproved
from paper_checks.shared.record import PROVED, SU, SUPPORTED

CLAIM = Claim(
    name="su-lambda-argmin",
    source=f"{SU}, §Magnitude analysis, first equation",
    statement="λ(W) = argmin_{κ>0} ‖WWᵀ/κ² − I‖ defines the magnitude of a matrix.",
    conditions="any W ≠ 0, square or not; the Frobenius norm, which the source leaves open",
    finding="""The argmin exists and is unique for every W ≠ 0: λ(W) = ‖WWᵀ‖_F / ‖W‖_F, that is λ² =
        Σσ⁴/Σσ² over the singular values. It is not the root-mean-square singular value ‖W‖_F/√d
        unless all singular values agree: large ones count for more.""",
)


@CLAIM.stated("unique, with a closed form", PROVED)
def closed(lab: Lab) -> Finding:
    # beside the steps of the derivation: the eigenvalues of WWᵀ are σ²; two of them may be 0
    first = sp.Symbol("sigma_1", positive=True)
    others = sp.symbols("sigma_2:4", real=True)
    squares = [first**2, *(s**2 for s in others)]
    u = sp.Symbol("u", positive=True)  # 1/κ²
    distance = sp.Poly(sum((square * u - 1) ** 2 for square in squares), u)
    curvature, slope, _ = distance.all_coeffs()
    least = -slope / (2 * curvature)
    form = sum(squares) / sum(square**2 for square in squares)
    positive = sp.expand(curvature - sum(square**2 for square in squares)) == 0
    failed = unproved(symbolic.closed_form())
    return lab.proved(
        not failed and positive and sp.simplify(least - form) == 0,
        "in u = 1/κ² the squared distance is a quadratic with the leading coefficient Σσ⁴ > 0 and "
        "its least value at Σσ²/Σσ⁴",
        failed=failed,
    )


@CLAIM.ours("against a numerical search", SUPPORTED)
def searched(lab: Lab) -> Finding:
    random, found = np.random.default_rng(lab.seed), {}
    shapes = ((1, 1), (8, 8), (8, 32), (32, 8)), ((1, 1), (8, 8), (8, 64), (64, 8), (128, 128))
    for d, m in lab.pick(*shapes):
        for scale in (0.05, 1.0, 7.0):
            w = scale * random.standard_normal((d, m)) / np.sqrt(m)
            form = np.linalg.norm(w @ w.T) / np.linalg.norm(w)
            found[f"{d} × {m}, scale {scale:g}"] = float(search(w @ w.T) / form)
    off = max(abs(ratio - 1) for ratio in found.values())
    return lab.seen(off < 1e-6, f"they differ by at most {off:.1g}", ratios=found)


def search(gram: Array) -> float:
    """κ of the least ‖WWᵀ/κ² − I‖, by golden sections in log κ: nothing of the form is used."""
    golden = (5**0.5 - 1) / 2

    def distance(log: float) -> float:
        return float(np.linalg.norm(gram / np.exp(2 * log) - np.eye(len(gram))))

    low, high = -9.0, 9.0
    while high - low > 1e-9:
        left, right = high - golden * (high - low), low + golden * (high - low)
        if distance(left) < distance(right):
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))
