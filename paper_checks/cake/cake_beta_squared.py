from paper_checks.shared.bench import Array, Claim, Expr, Finding, Lab, once, sp
from paper_checks.shared.engine import equal, formula
from paper_checks.shared.gaussian import LinearAttention, squared
from paper_checks.shared.record import CAKE, PROVED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, Net, model_updates

CLAIM = Claim(
    name="cake-beta-squared",
    source=f"{CAKE}, §5.1 (2), remark in brackets, and §5.3, last paragraph",
    statement="""If v = w = β from the start, the bound is β²E‖Δθ‖² in place of (v² + w²)E‖Δθ‖², and
        α and β come out differently.""",
    conditions="""Gaussian W, V with variances 2β²/d, β²/m, m ≥ d/2, independent Δθ; torch encoders
        of 8 to 128 layers, SGD, text and Gaussian tokens of correlation 0 and 0.5""",
    finding="""The sharper bound is right for independent Δθ and hidden widths m ≥ d/2, attention's
        linear branch attains it, and it changes α and β by the constant factors 2^{−1/4} and
        2^{1/4} only (β alone, by 2^{1/2}, under the closure β = 1/α). Both pairs keep the measured
        update constant in depth (exponents between −0.05 and 0.05); the sharper one changes the
        output twice as much. That is what a constant means in a bound of this kind: a convention,
        not an optimum.""",
    corrected="""Under the same closure α = N^{1/4}, β = (4N)^{−1/4}: a constant factor 2^{−1/4} and
        2^{1/4}, the same exponents.""",
    seconds=3.0,
)
SHARPER = Net("N**(1/4)", "(4*N)**(-1/4)")


@CLAIM.stated("β²‖Δθ‖² bounds the parameter term, for d ≤ 2m", PROVED)
def bound(lab: Lab) -> Finding:
    (d, m), slack = sp.symbols("d m", positive=True), sp.Symbol("s", nonnegative=True)
    gap = sp.expand(m * (allowed() - feed_forward_term()).subs(d, 2 * m - slack))
    below = all(c >= 0 for c in sp.Poly(gap, slack).coeffs())
    return lab.proved(below, f"at d = 2m − s, times m: β²E‖Δθ‖² − term = {gap}")


@CLAIM.ours("attention's linear branch attains it: no smaller factor bounds both kinds", PROVED)
def attained(lab: Lab) -> Finding:
    beta, same = sp.Symbol("beta", positive=True), []
    for a in map(LinearAttention, (1, 2, 3)):
        gap = a.parameter_term().subs({a.v: beta, a.w: beta})
        same.append(sp.expand(gap - beta**2 * (squared(a.dV) + squared(a.dW))) == 0)
    return lab.proved(all(same), "E‖xΔW_V W_O + xW_V ΔW_O‖² at v = w = β is β²E‖Δθ‖²")


@CLAIM.ours(
    "with Xavier's variance the feed-forward term is d/(d + m)·β²‖Δθ‖², for every d and m", PROVED
)
def xavier(lab: Lab) -> Finding:
    beta, d, m = sp.symbols("beta d m", positive=True)
    v, w = (beta * sp.sqrt(n / (d + m)) for n in (2 * m, d))  # v²/m = 2w²/d = 2β²/(d + m)
    same = sp.simplify(feed_forward_term(v, w) - d / (d + m) * allowed()) == 0
    return lab.proved(same, "the proved term with both variances 2β²/(d + m)")


@CLAIM.stated("α and β change", PROVED)
def change(lab: Lab) -> Finding:
    published, other = changes().values()
    solved = all(
        equal(factor * formula(getattr(DEEPNORM, name)), formula(getattr(SHARPER, name)))
        for name, factor in zip(("alpha", "beta"), published, strict=True)
    )
    because = f"by the factors {published} under the closure √2 β = 1/α, by {other} under β = 1/α"
    return lab.proved(solved and sp.Integer(1) not in published, because)


@CLAIM.ours("their exponents in N do not", PROVED)
def exponents(lab: Lab) -> Finding:
    free = not any(f.free_symbols for factors in changes().values() for f in factors)
    return lab.proved(free, "all factors are free of N")


@CLAIM.correction(
    "the sharper constants keep the update as constant in depth as the published ones", SUPPORTED
)
def constant(lab: Lab) -> Finding:
    at = lab.shallow()
    slopes = {label: lab.power(at, sizes) for label, sizes in updates(lab).items()}
    rivals = (("Adam's rule", -0.5), ("no rule", 1.0))
    return lab.exponent(slopes, 0.0, rivals, what="exponent of ‖ΔF‖/η in N", depths=at)


@CLAIM.ours("the sharper constants change the output twice as much", SUPPORTED)
def twice(lab: Lab) -> Finding:
    found = updates(lab)
    ratios = {d: found[f"sharper, {d}"] / found[f"published, {d}"] for d in lab.texts()}
    means = {data: lab.mean(ratio.mean(1)) for data, ratio in ratios.items()}
    return lab.within(means, 1.9, 2.1, "ratio of ‖ΔF‖/η, sharper over published")


def feed_forward_term(*gains: Expr) -> Expr:
    """The parameter term that cake-ffn-parameters proves, at v and w; both are β if not given."""
    beta, V, W, d, m = sp.symbols("beta norm_dV norm_dW d m", positive=True)
    v, w = gains or (beta, beta)
    return w**2 * V**2 + d * v**2 / (2 * m) * W**2


def allowed() -> Expr:
    """β²E‖Δθ‖²."""
    beta, V, W = sp.symbols("beta norm_dV norm_dW", positive=True)
    return beta**2 * (V**2 + W**2)


def changes() -> dict[str, list[Expr]]:
    """What the sharper balance multiplies α and β by, under two closures, in logarithms.

    log 2N + 2 log β − 2 log α = 0, and log c + log β + log α = 0.
    """
    N, system = formula("N"), sp.Matrix([[-2, 2], [1, 1]])
    published = sp.Matrix([sp.log(2 * N) / 4, -sp.log(8 * N) / 4])
    closures = {"√2 β = 1/α": sp.sqrt(2), "β = 1/α": sp.Integer(1)}
    found = {}
    for name, c in closures.items():
        gap = system.LUsolve(sp.Matrix([-sp.log(2 * N), -sp.log(c)])) - published
        found[name] = [sp.exp(sp.simplify(sp.expand_log(e, force=True))) for e in gap]
    return found


@once
def updates(lab: Lab) -> dict[str, Array]:
    """‖ΔF‖/η under both pairs of constants: (seeds, depths) each."""
    return {
        f"{name}, {data}": model_updates(net, lab.shallow(), lab.small(seeds=24, data=data))
        for data in lab.texts()
        for name, net in (("published", DEEPNORM), ("sharper", SHARPER))
    }
