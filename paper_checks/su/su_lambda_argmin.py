from paper_checks.shared.bench import Claim, Finding, Lab, sp
from paper_checks.shared.record import PROVED, SU

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
    # the eigenvalues of WWᵀ are σ²; two of them may be 0
    first = sp.Symbol("sigma_1", positive=True)
    others = sp.symbols("sigma_2:4", real=True)
    squares = [first**2, *(s**2 for s in others)]
    u = sp.Symbol("u", positive=True)  # 1/κ²
    distance = sp.Poly(sum((square * u - 1) ** 2 for square in squares), u)
    curvature, slope, _ = distance.all_coeffs()
    least = -slope / (2 * curvature)
    form = sum(squares) / sum(square**2 for square in squares)
    positive = sp.expand(curvature - sum(square**2 for square in squares)) == 0
    return lab.proved(
        positive and sp.simplify(least - form) == 0,
        "in u = 1/κ² the squared distance is a quadratic with the leading coefficient Σσ⁴ > 0 and "
        "its least value at Σσ²/Σσ⁴",
    )
