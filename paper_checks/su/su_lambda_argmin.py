"""λ(W) = argmin_κ ‖WWᵀ/κ² − I‖ in closed form."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import proved, seen

CLOSED, SEARCHED = "unique, with a closed form", "against a numerical search"


def check(context: Context) -> tuple[Finding, ...]:
    """The steps of the closed form; a bounded scalar search that knows nothing of it."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    from deepnet_theory.symbolic.asides.magnitude import closed_form

    steps = closed_form()
    failed = [s.name for s in steps if s.check() is not Verdict.PROVED]
    random = np.random.default_rng(context.seed)
    rows = []
    for d, m in context.pick(
        ((1, 1), (8, 8), (8, 32), (32, 8)), ((1, 1), (8, 8), (8, 64), (64, 8), (128, 128))
    ):
        for scale in (0.05, 1.0, 7.0):
            w = scale * random.standard_normal((d, m)) / np.sqrt(m)

            def distance(log_kappa: float, gram: np.ndarray = w @ w.T) -> float:
                return float(np.linalg.norm(gram / np.exp(2 * log_kappa) - np.eye(len(gram))))

            found = np.exp(
                minimize_scalar(
                    distance, bounds=(-9, 9), method="bounded", options={"xatol": 1e-10}
                ).x
            )
            closed = np.linalg.norm(w @ w.T) / np.linalg.norm(w)
            rows.append({"d": d, "m": m, "scale": scale, "searched": found, "closed": closed})
    worst = max(abs(r["searched"] / r["closed"] - 1) for r in rows)
    return (
        proved(
            CLOSED,
            not failed,
            "in u = 1/κ² the squared distance is a quadratic with positive leading coefficient",
            **{"steps": [s.name for s in steps], "failed": failed},
        ),
        seen(
            SEARCHED,
            worst < 1e-6,
            f"the search and the closed form differ by at most {worst:.1g}",
            **{"matrices": rows, "seed": context.seed},
        ),
    )


CLAIM = Claim(
    name="su-lambda-argmin",
    source=f"{SU}, §Magnitude analysis, first equation",
    statement="λ(W) = argmin_{κ>0} ‖WWᵀ/κ² − I‖ defines the magnitude of a matrix.",
    conditions="any W ≠ 0, square or not; the Frobenius norm, which the source leaves open",
    recorded=(Ruling(CLOSED, Verdict.PROVED), Ruling(SEARCHED, Verdict.SUPPORTED)),
    finding=(
        "The argmin exists and is unique for every W ≠ 0: λ(W) = ‖WWᵀ‖_F / ‖W‖_F, that is "
        "λ² = Σσ⁴/Σσ² over the singular values. It is not the root-mean-square singular value "
        "‖W‖_F/√d unless all singular values agree: large ones count for more."
    ),
    check=check,
)
