from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, once, sp
from paper_checks.shared.mixture import Mixture
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED, UNDECIDED

CLAIM = Claim(
    name="width-experts-cancel",
    source="""Peng et al., 'Complete-muE: Optimal Hyperparameter Transfer and Scaling for MoE
        Models', arXiv 2605.23893, abstract, its Bridge II""",
    statement="""From a dense to a sparse mixture 'the first-order SDE LR/WD correction cancels
        while a bounded residual σ₀ shift remains': the learning rate of experts stays.""",
    conditions="""algebra of the conditions on signal and noise over a fixed number of updates; the
        first step of an expert's rows under the sign and under SGD, 4 to 32 experts,
        1,024 tokens an expert, labels without noise""",
    finding="""It cancels in one of two sums. Of E experts each sees 1/E of the tokens of every
        update and of the run. The summed noise of a run stays at one rate, under an update of
        degree 0 in g, and the summed signal falls as E^{−1/2} where noise dominates: both cannot
        stay. The step that gains most takes E^{−1/2} there (width-experts-root), and 1 where the
        signal dominates: then a rate that stays is right under Adam, exactly, since the sign does
        not see that the gradient falls as 1/E. Under SGD it is not: the rate takes E.""",
    counterexample="""SGD, 4 and 32 experts at one rate: a step changes the output of an expert an
        eighth as far.""",
    corrected="""Signal dominant: Adam's rate stays and ε takes 1/E; SGD's rate takes E. Noise
        dominant, degree p: E^{−(1 + p)/2} times that gains most in a step.""",
    would_decide="""Best rates over numbers of experts of whole runs on text, with B_noise of the
        experts along them.""",
    seconds=3,
)
COUNTS = (4, 8, 16, 32)


@CLAIM.stated(
    "signal dominant: a step of Adam moves an expert's output alike at one rate", SUPPORTED
)
def adam(lab: Lab) -> Finding:
    return lab.exponent(lab.power(COUNTS, moved(lab)["adam"]), 0.0, (("1/E", -1.0),))


@CLAIM.stated("and one rate of SGD", REFUTED)
def sgd(lab: Lab) -> Finding:
    return lab.exponent(lab.power(COUNTS, moved(lab)["sgd"]), 0.0, (("1/E", -1.0),))


@CLAIM.correction("SGD's falls as 1/E, and so does the gradient that ε stands beside", SUPPORTED)
def falls(lab: Lab) -> Finding:
    found = {name: lab.power(COUNTS, moved(lab)[name]) for name in ("sgd", "gradient")}
    return lab.exponent(found, {"sgd": -1.0, "gradient": -1.0}, (("flat", 0.0),))


@CLAIM.stated("noise dominant: one rate leaves signal and noise of a run as they are", REFUTED)
def both(lab: Lab) -> Finding:
    signal, noise = sums()
    return lab.proved(signal == 0 and noise == 0, f"signal E^({signal}), noise E^({noise})")


@CLAIM.ours("it leaves the noise, and the signal falls as E^(-1/2)", PROVED)
def one(lab: Lab) -> Finding:
    signal, noise = sums()
    holds = (signal, noise) == (-sp.Rational(1, 2), 0)
    return lab.proved(holds, f"signal E^({signal}), noise E^({noise})")


@CLAIM.stated("of whole runs the best rate of experts stays", UNDECIDED)
def runs(lab: Lab) -> Finding:
    return lab.undecided("one step and sums over a run are checked here, not a run's best rate")


def sums() -> tuple[sp.Expr, sp.Expr]:
    """Powers of E of the summed signal and noise, of T updates of degree 0 at a rate that stays.

    An expert's own gradient is G + ξ/√(B/E): of size √E, with a response of one over that.
    """
    e, updates = sp.symbols("E T", positive=True)
    gradient = sp.sqrt(e)
    signal, noise = updates * gradient**0 / gradient, updates * gradient**0
    powers = (sp.simplify(e * sp.diff(total, e) / total) for total in (signal, noise))
    return next(powers), next(powers)


@once
def moved(lab: Lab) -> dict[str, Array]:
    """By seed and number of experts: an expert's gradient, and the output change of a step."""
    found: dict[str, list[Array]] = {"adam": [], "sgd": [], "gradient": []}
    for count in COUNTS:
        drawn = (Mixture(count, 1024 * count, 0.0, 8 * lab.seed + k).gradients(1) for k in range(6))
        each = [one["experts"][0] for one in drawn]
        g = np.stack([one[0] for one in each])
        x = g / np.linalg.norm(g, axis=-1, keepdims=True) * g.shape[-1] ** 0.5  # of size 1, aligned
        for name, step in (("adam", np.sign(g)), ("sgd", g)):
            found[name].append((step * x).sum(-1).mean(-1))
        found["gradient"].append(np.sqrt((g**2).mean((1, 2))))
    return {name: np.stack(values, axis=1) for name, values in found.items()}
