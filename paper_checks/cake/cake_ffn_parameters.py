from functools import partial

from paper_checks.shared.bench import Claim, Expr, Finding, Lab, Tensor, sp, torch
from paper_checks.shared.engine import gaussian_moment
from paper_checks.shared.gaussian import SIZES, FeedForward, drawn, entries, free, squared
from paper_checks.shared.record import CAKE, PROVED, REFUTED
from paper_checks.shared.sublayer import feed_forward, normalised

CLAIM = Claim(
    name="cake-ffn-parameters",
    source=f"{CAKE}, §5.1 (2)",
    statement="""E‖∂z/∂vec(V) Δvec(V) + ∂z/∂vec(W) Δvec(W)‖² = w²E‖ΔV‖² + (dv²/2m)E‖ΔW‖² ≤ (v² +
        w²)E‖Δθ‖², hence ‖…‖ ≈ √(v² + w²)‖Δθ‖.""",
    conditions="""Gaussian W (variance 2w²/d), V (v²/m), x of length √d; Δθ independent, fixed, or
        the gradient's of a linear loss; d from 8 to 128, 1 to 64 tokens""",
    finding="""The equality and the bound are right for Δθ with independent centred entries, and for
        nothing else. §4.3 inserts the Δθ of a gradient step of one token. For this Δθ the square is
        at least (mw² + dv²/2)E‖Δθ‖², so it exceeds the bound in proportion to the width. An
        optimizer's step is no independent direction: it is made of the vectors that it multiplies.
        For a fixed ΔV the hidden units' common mean adds up (a factor of 1 + (m − 1)/π for equal
        entries), and for d > 2m, which the source excludes, the last inequality reverses. A note on
        the last line: at v = w the bound is at least twice the square, so its ≈ reads ≤.""",
    counterexample="""d = 1, m = 2, x = 1, v = w = 1, W = (√2, √2), V = 0, Δθ a gradient step:
        ‖ReLU(xW)‖² = 4, so |Δz|² = 4‖Δθ‖², above (v² + w²)‖Δθ‖² = 2‖Δθ‖² (in the mean over W, V
        7.15). For ≈: ΔV = 0 at m = 4d leaves v²/8 of ‖ΔW‖² where the last line has 2v².""",
    corrected="""The equality needs Δθ with uncorrelated centred entries, independent of W, V and x.
        For an SGD step of one token E‖Δz‖² = [w⁴(m² + 5m) + dv²w²(m + 1) + d²v⁴(2d + m +
        3)/4m]/(mw² + dv²/2) · E‖Δθ‖² ≥ (mw² + dv²/2)E‖Δθ‖². For a fixed ΔV of equal entries the
        square is 1 + (m − 1)/π times w²‖ΔV‖².""",
    seconds=(3.0, 17),
)


@CLAIM.stated("Δθ with independent centred entries: the equality", PROVED)
def equality(lab: Lab) -> Finding:
    same = []
    for d, m in SIZES:
        f = FeedForward(d, m)
        change = f.hidden(f.x) * f.dV + f.hidden(f.x, f.dW) * f.V
        square = f.mean(squared(change), free(f.dV, f.dW) | drawn(f.x, 1))
        sizes = (d, m, sp.sqrt(squared(f.dV)), sp.sqrt(squared(f.dW)))
        at = dict(zip(sp.symbols("d m norm_dV norm_dW", positive=True), sizes, strict=True))
        same.append(sp.expand(square - printed().subs(at)) == 0)
    return lab.proved(all(same), "the contraction, with the true mask, is the right-hand side")


@CLAIM.stated("the same: the bound, for d ≤ 2m", PROVED)
def bound(lab: Lab) -> Finding:
    gap = below(1)
    because = f"at d = 2m − s, times 2m: bound − square = {gap.as_expr()}"
    return lab.proved(all(c >= 0 for c in gap.coeffs()), because)


@CLAIM.stated("Δθ an SGD step: the bound", REFUTED)
def stepped(lab: Lab) -> Finding:
    ratios = {
        f"d = {d}, {tokens} tokens": lab.mean(gradient_step(lab, d, tokens))
        for tokens in lab.pick((1, 16), (1, 16, 64))
        for d in lab.pick((8, 16, 32, 64), (8, 16, 32, 64, 128))
    }
    return lab.at_most(ratios, 1.0, "square over (v² + w²)‖Δθ‖², m = 4d", tolerance=0.0)


@CLAIM.ours("the last line's ≈ √(v² + w²)‖Δθ‖ in place of ≤, as an equality, v = w", REFUTED)
def roughly(lab: Lab) -> Finding:
    v, w = sp.symbols("v w", positive=True)
    half = sp.expand(below(sp.Rational(1, 2)).as_expr().subs(w, v))
    never = all(term.as_coeff_Mul()[0] >= 0 for term in sp.Add.make_args(half))
    because = f"at d = 2m − s, v = w, times 2m: half the bound − square = {half}, never < 0"
    return lab.proved(not never, because)


@CLAIM.ours("any fixed Δθ: the equality", REFUTED)
def any_direction(lab: Lab) -> Finding:
    factor = equal_entries(sp.Symbol("m", positive=True))
    return lab.proved(factor == 1, f"equal entries of ΔV: {factor} times the formula")


@CLAIM.ours("the bound needs d ≤ 2m", PROVED)
def narrow(lab: Lab) -> Finding:
    v, w, V, W, d, m = sp.symbols("v w norm_dV norm_dW d m", positive=True)
    ratio = printed() / ((v**2 + w**2) * (V**2 + W**2))
    over = ratio.subs({V: 0, d: 4, m: 1}).subs(w, v / 10)
    return lab.proved(over > 1, f"d = 4, m = 1, ΔV = 0, w = v/10: square over bound {over}")


@CLAIM.correction("fixed ΔV of equal entries: 1 + (m − 1)/π times the formula", PROVED)
def of_equal_entries(lab: Lab) -> Finding:
    m = sp.Symbol("m", positive=True)
    law = 1 + (m - 1) / sp.pi
    return lab.proved(sp.simplify(equal_entries(m) - law) == 0, f"{law}, by Gaussian integrals")


@CLAIM.correction(
    "Δθ an SGD step of one token: E‖Δz‖² in closed form, at least (mw² + dv²/2)E‖Δθ‖²", PROVED
)
def one_token(lab: Lab) -> Finding:
    v, w, d, m = sp.symbols("v w d m", positive=True)
    law = (
        w**4 * (m**2 + 5 * m) + d * v**2 * w**2 * (m + 1) + d**2 * v**4 * (2 * d + m + 3) / (4 * m)
    ) / (m * w**2 + d * v**2 / 2)
    size = m * w**2 + d * v**2 / 2
    above = sp.expand((law * size - size**2) * 4 * m)
    same = all(
        sp.expand(square - (law * size).subs({d: rows, m: columns})) == 0
        and sp.expand(length - size.subs({d: rows, m: columns})) == 0
        for (rows, columns) in SIZES
        for square, length in (of_one_token(rows, columns),)
    )
    return lab.proved(
        same and all(c > 0 for c in sp.Poly(above, v, w, d, m).coeffs()),
        f"contracted; times 4m above the square of E‖Δθ‖² by {above} > 0",
    )


def printed() -> Expr:
    """w²‖ΔV‖² + (dv²/2m)‖ΔW‖²."""
    v, w, V, W, d, m = sp.symbols("v w norm_dV norm_dW d m", positive=True)
    return w**2 * V**2 + d * v**2 / (2 * m) * W**2


def below(share: Expr) -> Expr:
    """How far the square is below a share of the bound at d = 2m − s, times 2m: a polynomial."""
    v, w, V, W, d, m = sp.symbols("v w norm_dV norm_dW d m", positive=True)
    s = sp.Symbol("s", nonnegative=True)
    gap = 2 * m * (share * (v**2 + w**2) * (V**2 + W**2) - printed())
    return sp.Poly(sp.expand(gap.subs(d, 2 * m - s)), v, w, V, W, m, s)


def equal_entries(m: Expr) -> Expr:
    """E‖ReLU(xW)ΔV‖² for ΔV of equal entries over w²‖ΔV‖².

    (Σ_k h_k)² has m squares and m(m − 1) products of means.
    """
    return 1 + (m - 1) * gaussian_moment(1) ** 2 / gaussian_moment(2)


def of_one_token(d: int, m: int) -> tuple[Expr, Expr]:
    """E‖Δz‖² and E‖Δθ‖² of the gradient of ⟨c, z⟩ for one token, ‖c‖ = 1.

    ‖x‖² = d, so ∂z/∂W ΔW = d·cV_RᵀV_R; ∂z/∂V ΔV = ‖h‖²c with h_k = R_k g_k, where the Gaussian
    g_k's square knows nothing of its sign R_k. V looks alike in every direction: c is the first.
    """
    f, c, g = FeedForward(d, m), sp.eye(d)[0, :], entries("g", 1, m)
    length = sum(R * e**2 for R, e in zip(f.R, g, strict=True))
    back = (c * f.V.T).multiply_elementwise(f.R)
    mean = partial(f.mean, more=drawn(g, 2 * f.w**2))
    return mean(squared(length * c + d * back * f.V)), mean(length) + d * mean(squared(back))


def change(x: Tensor, W: Tensor, V: Tensor, dV: Tensor, dW: Tensor) -> Tensor:
    """∂z/∂V ΔV + ∂z/∂W ΔW with the true mask."""
    hidden = x @ W
    return torch.relu(hidden) @ dV + ((x @ dW) * (hidden > 0)) @ V


def gradients(x: Tensor, W: Tensor, V: Tensor, signal: Tensor) -> tuple[Tensor, Tensor]:
    """Those of ⟨signal, z⟩ in V and W, by automatic differentiation."""
    W, V = W.clone().requires_grad_(), V.clone().requires_grad_()
    dV, dW = torch.autograd.grad((torch.relu(x @ W) @ V * signal).sum(), (V, W))
    return dV, dW


def gradient_step(lab: Lab, d: int, tokens: int) -> list[float]:
    """The mean token's ‖Δz‖² over (v² + w²)‖Δθ‖² for the gradient of ⟨c, z⟩, in ten groups."""
    g, found = lab.generator(100 * d + tokens), []
    for _ in range(10):
        W, V = feed_forward(g, lab.pick(40, 80), d, 4 * d, 1.0, 1.0)
        x = normalised(g, len(W), tokens, d)
        dV, dW = gradients(x, W, V, lab.normal(g, len(W), tokens, d))
        square = change(x, W, V, dV, dW).square().sum(-1).mean()
        size = (dV.square().sum((1, 2)) + dW.square().sum((1, 2))).mean()
        found.append(float(square / (2 * size)))
    return found
