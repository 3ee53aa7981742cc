from paper_checks.shared.bench import Array, Claim, Expr, Finding, Lab, np, sp, torch
from paper_checks.shared.record import CAKE, PROVED, SUPPORTED
from paper_checks.shared.sublayer import feed_forward

CLAIM = Claim(
    name="cake-parameter-norm",
    source=f"{CAKE}, §4.2, second supplement, and §4.3, E‖∂x_{{l+1}}/∂θ_l‖²",
    statement="E‖∂f_l/∂θ_l‖² = (v_l² + w_l²)/α² with E x² = 1, so ‖∂f_l/∂θ_l‖ ≈ √(v_l² + w_l²)/α.",
    conditions="""scalars with E x² = 1, fair sign I; matrices: Gaussian W, V with variances 2w²/d
        and v²/m, d from 16 to 128, m = 4d""",
    finding="""For the scalar sublayer with a random sign E‖∂f/∂θ‖² is exactly (v² + w²)/α²/(1 +
        r²)², r = vw/α: the printed value is its leading order and an upper bound at every r, four
        times too large at α = v = w = 1. It does not carry over to matrices as a norm of the
        Jacobian: there the squared Frobenius norm is (dmw² + d²v²/2)/(α² + v²w²), which grows as
        the square of the width. Only the mean over independent directions of Δθ is free of the
        width.""",
    corrected="""Scalars: E‖∂f/∂θ‖² = (v² + w²)/α²/(1 + r²)² with r = vw/α. Matrices:
        E‖∂x_{l+1}/∂θ‖_F² = (dmw² + d²v²/2)/(α² + v²w²)·(1 − 2/d).""",
    seconds=5.0,
)


@CLAIM.stated("scalar sublayer, leading order in r", PROVED)
def leading(lab: Lab) -> Finding:
    r, ratios = sp.Symbol("r", positive=True), over_printed()
    limits = {sp.limit(ratio, r, 0) for ratio in ratios.values()}
    return lab.proved(limits == {1}, f"exact over printed is {ratios}")


@CLAIM.ours("scalar sublayer, with and without the random sign, an upper bound at any r", PROVED)
def at_most(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    # 1 − ratio over the common denominator (1 + r²)³, where no coefficient is negative
    below = {
        name: sp.Poly(sp.simplify((1 - ratio) * (1 + r**2) ** 3), r).coeffs()
        for name, ratio in over_printed().items()
    }
    positive = all(c > 0 for coefficients in below.values() for c in coefficients)
    because = f"(1 − ratio)(1 + r²)³ is a polynomial in r of positive coefficients: {below}"
    return lab.proved(positive, because)


@CLAIM.correction(
    "matrices: the squared Frobenius norm is (dmw² + d²v²/2)/(α² + v²w²)·(1 − 2/d)", SUPPORTED
)
def matrices(lab: Lab) -> Finding:
    widths = lab.widths()
    # d·m·w² through V and d²v²/2 through W at v = w = 1/2, m = 4d; the norm takes α² + v²w² out
    # and removes two of the d directions
    d = np.array(widths)
    ratios = jacobians(lab, widths) / ((d * d + d * d / 8) / (4 + 1 / 16) * (1 - 2 / d))
    shown = dict(zip(widths, ratios.mean(0).tolist(), strict=True))
    what = f"measured over predicted at d = {widths[-1]}"
    return lab.ratio(lab.mean(ratios[:, -1]), what, all_widths=shown)


def over_printed() -> dict[str, Expr]:
    """‖∂f/∂θ‖² over (v² + w²)/α² in r, with E x² = 1, the only moment that enters."""
    v, w, a, r = sp.symbols("v w alpha r", positive=True)

    def ratio(sign: int) -> Expr:
        f = (a + sign * v * w) / sp.sqrt(a**2 + v**2 * w**2)
        square = (sp.diff(f, v) ** 2 + sp.diff(f, w) ** 2) / ((v**2 + w**2) / a**2)
        return sp.factor(sp.simplify(square.subs(v, r * a / w)))

    return {"I = 1": ratio(1), "fair sign": sp.factor((ratio(1) + ratio(-1)) / 2)}


def jacobians(lab: Lab, widths: tuple[int, ...]) -> Array:
    """‖∂LN(αx + relu(xW)V)/∂(W, V)‖_F² at α = 2, v = w = 1/2: (seeds, widths)."""
    norm, table = torch.nn.functional.layer_norm, []
    for seed in range(lab.pick(160, 96)):
        row = []
        for d in widths:
            g = torch.Generator().manual_seed(1000 * lab.seed + seed)
            m = 4 * d
            x = norm(lab.normal(g, d), (d,))
            W, V = (w[0].requires_grad_() for w in feed_forward(g, 1, d, m, 0.5, 0.5))
            out = norm(2 * x + torch.relu(x @ W) @ V, (d,))
            every = torch.eye(d, dtype=torch.float64)
            found = torch.autograd.grad(out, (W, V), every, is_grads_batched=True)
            row.append(sum(float(g.square().sum()) for g in found))
        table.append(row)
    return np.array(table)
