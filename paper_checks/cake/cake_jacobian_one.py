import math
from collections.abc import Sequence

from paper_checks.shared.bench import Array, Claim, Expr, Finding, Lab, Tensor, Trial, np, sp
from paper_checks.shared.engine import formula
from paper_checks.shared.record import CAKE, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN, Net, norms
from paper_checks.shared.sublayer import moves

CLAIM = Claim(
    name="cake-jacobian-one",
    source=f"{CAKE}, §4.2, ∂f_l/∂x_l ≐ 1 and the recursion that follows",
    statement="""∂f_l/∂x_l = (α + v_l w_l)/√(α² + v_l²w_l²) ≐ 1, used for each of the 2N factors of
        the recursion.""",
    conditions="""scalar sublayers at α = (2N)^{1/4}, β = (8N)^{−1/4}; torch encoders of 4 to 128
        layers, text and Gaussian tokens of correlation 0 and 0.5""",
    finding="""One factor is 1 to leading order, but a product of 2N factors is not. With all signs
        positive, as the scalar sublayer is printed, the product at DeepNorm's own constants is
        exp((2N)^{1/4}/2) to leading order: 6.4 at 100 layers and 28 at 1,000. Real stacks behave
        otherwise, because their branches point in independent directions: a random change of the
        input reaches the output at its own size at every depth (exponent 0 within 0.013). In plain
        Post-LN it does not: of a change of single tokens 0.28 to 0.43 (geometric mean) is left
        after 32 layers, since attention averages it away.""",
    counterexample=(
        "N = 1000 at its own constants: the 2000 factors multiply to 28, not 1; N = 10: 2.7."
    ),
    corrected="""One factor is 1 + r + O(r²): with equal signs the product is exp((2N)^{1/4}/2);
        with independent directions, as in real stacks, its root mean square is 1.""",
    seconds=(2.5, 38),
)
LAYERS = 32  # of plain Post-LN
DEPTHS = ((4, 8, 16, 32), (8, 16, 32, 64, 128))


@CLAIM.stated("one factor, as r → 0", PROVED)
def one(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    return lab.proved(sp.limit(factor(r), r, 0) == 1, "limit of (1 + r)/√(1 + r²)")


@CLAIM.stated(
    "2N factors of the scalar sublayer as printed (all signs positive), at the constants", REFUTED
)
def every(lab: Lab) -> Finding:
    told = ", ".join(f"{math.exp(log_product(n)):.2g}" for n in (10, 100, 1000))
    because = f"{told} at N = 10, 100, 1000, and grows without bound"
    return lab.proved(abs(leading()[1]) != sp.oo, because)


@CLAIM.correction("their product is exp((2N)^{1/4}/2) to leading order", PROVED)
def growth(lab: Lab) -> Finding:
    ratio, _ = leading()
    because = f"log of the product over (2N)^{{1/4}}/2 tends to {ratio}"
    return lab.proved(ratio == 1, because)


@CLAIM.correction(
    "real DeepNorm stacks: a random change of the input reaches the output at its own size",
    SUPPORTED,
)
def real(lab: Lab) -> Finding:
    at, scalar = lab.pick(*DEPTHS), (log_product(128) - log_product(8)) / math.log(128 / 8)
    found = images(lab, DEEPNORM, at)
    return lab.exponent(
        {label: lab.power(at, ratios) for label, ratios in found.items()},
        0.0,
        (("the scalar product, one sign, from 8 layers to 128", scalar),),
        what="exponent of ‖ΔF‖/‖Δx‖ in N",
        ratios={label: ratios.mean(0).tolist() for label, ratios in found.items()},
    )


@CLAIM.ours("real plain Post-LN stacks: a change of single tokens shrinks", SUPPORTED)
def in_plain_post_ln(lab: Lab) -> Finding:
    found = images(lab, PLAIN, (LAYERS,), ways=("independently",))
    return lab.at_most(
        {label: lab.mean(np.log(ratios[:, 0])) for label, ratios in found.items()},
        -0.05,  # below 1 by more than the margin
        f"mean of log ‖ΔF‖/‖Δx‖ at N = {LAYERS}, plain Post-LN",
        tolerance=0.0,
    )


def factor(r: Expr) -> Expr:
    """∂f/∂x of one printed sublayer."""
    return (1 + r) / sp.sqrt(1 + r**2)


def weight() -> Expr:
    """r = β²/α at the constants, in N."""
    return formula(DEEPNORM.beta) ** 2 / formula(DEEPNORM.alpha)


def log_product(layers: int) -> float:
    """The logarithm of the 2N printed factors."""
    r = float(weight().subs(formula("N"), layers))
    return 2 * layers * (math.log1p(r) - math.log1p(r * r) / 2)


def leading() -> tuple[Expr, Expr]:
    """The limits of the logarithm of all 2N factors over (2N)^{1/4}/2, and of itself."""
    u = sp.Symbol("u", positive=True)
    at = u**-4 / 2  # in u = (2N)^{-1/4}, where r is a power
    logarithm = sp.log(factor(sp.simplify(weight().subs(formula("N"), at)))) * 2 * at
    return sp.limit(logarithm * u * 2, u, 0), sp.limit(logarithm, u, 0)


def images(
    lab: Lab, net: Net, at: Sequence[int], ways: tuple[str, ...] = ("independently", "together")
) -> dict[str, Array]:
    """‖ΔF‖/‖Δx‖ by data and by how the tokens move: (seeds, depths)."""
    found = {}
    for data in lab.texts():
        s = lab.small(data=data, dtype="float64", seeds=32)
        for way in lab.pick(ways[:1], ways):
            images = [through(lab, net.trial(n, s), way) for n in at]
            found[f"{data}, tokens moved {way}"] = lab.columns(images)
    return found


def through(lab: Lab, trial: Trial, way: str) -> Tensor:
    """‖ΔF‖/‖Δx‖ of a small random change of the input, of each seed, in float64."""
    x = trial.inputs[-1]
    v = moves(lab.generator(77), x, way)
    v = v - v.mean(-1, keepdim=True)
    # a change along a normalised token leaves with the first norm: take the tangent part
    v = 1e-5 * (v - (v * x).sum(-1, keepdim=True) / (x * x).sum(-1, keepdim=True) * x)
    change = (trial.model.body(x + v) - trial.model.body(x - v)) / 2
    return norms(change) / norms(v)
