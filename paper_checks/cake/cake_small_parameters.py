from paper_checks.shared.bench import Array, Claim, Expr, Finding, Lab, np, once, sp
from paper_checks.shared.changes import scaled
from paper_checks.shared.engine import formula
from paper_checks.shared.record import CAKE, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, norms

CLAIM = Claim(
    name="cake-small-parameters",
    source=f"{CAKE}, §4.3, last supplement ('at the initial stage ‖θ_i‖ ≪ 1')",
    statement="""‖θ_i‖ ≪ 1 at initialisation, so that ‖θ_i‖² is smaller than ‖θ_i‖ and the update
        O(η‖θ_i‖²) moderate.""",
    conditions="""DeepNorm's constants; θ_i read as the pair of scalars (v, w), and as the two
        matrices of built stacks of width 16 to 128""",
    finding="""The scalar √2β = (2N)^{−1/4}, which is what the source calls ‖θ_i‖, tends to 0 with
        depth: 0.84 for one layer, 0.27 for a hundred, 0.15 for a thousand, where its square is
        0.02. That is slow, a tenth takes 5,000 layers, but the source names no number. Read as
        matrices θ_i is never small: the Frobenius norm is β times √(2Σdm/(d + m)), 1.0 to 12 at
        widths 16 to 128. The closure 1/α = ‖θ‖ is a statement on the gain β, and only its power of
        N means anything.""",
    counterexample="Width 16, N = 16: the feed-forward matrices have ‖θ‖_F = 2.1.",
    corrected="""√(v² + w²) = (2N)^{−1/4}; as matrices ‖θ_i‖_F = β√(2Σdm/(d + m)), Θ(N^{−1/4}) in
        depth at a constant of order √d.""",
)


@CLAIM.stated("scalars: √(v² + w²) < 1 at every N, so that its square is smaller", PROVED)
def below_one(lab: Lab) -> Finding:
    return lab.proved(bool(at(1) < 1) and falling(), f"{listed(1, 100, 1000)}, falling")


@CLAIM.stated("scalars: ≪ 1 in deep stacks, as it tends to 0 with N", PROVED)
def small(lab: Lab) -> Finding:
    limit = sp.limit(size(), formula("N"), sp.oo)
    return lab.proved(limit == 0, f"{size()} tends to {limit}; {listed(1000)}")


@CLAIM.ours("scalars: a tenth from N = 5,000 on, and no sooner", PROVED)
def tenth(lab: Lab) -> Finding:
    return lab.proved(at(5000) == sp.Rational(1, 10) and falling(), f"{listed(5000)}, falling")


@CLAIM.ours("matrices: ‖θ_i‖_F < 1", REFUTED)
def as_matrices(lab: Lab) -> Finding:
    lengths = [float(drawn.mean()) for drawn, _ in matrices(lab).values()]
    least, most = min(lengths), max(lengths)
    return lab.seen(most < 1, f"both matrices of a sublayer: {least:.1f} to {most:.1f}")


@CLAIM.correction(
    "matrices: ‖θ_i‖_F = β√(2Σ dm/(d + m)), the scalar's size times a function of width", SUPPORTED
)
def law(lab: Lab) -> Finding:
    ratios = [drawn / predicted for drawn, predicted in matrices(lab).values()]
    what = "measured over predicted, attention and feed-forward"
    return lab.ratio(lab.mean(np.concatenate(ratios)), what)


def size() -> Expr:
    """√(v² + w²) at v = w = β."""
    return sp.sqrt(2) * formula(DEEPNORM.beta)


def at(layers: int) -> Expr:
    """The same at n layers."""
    return sp.simplify(size().subs(formula("N"), layers))


def falling() -> bool:
    """Whether it falls with every N."""
    return bool(sp.diff(size(), formula("N")).is_negative)


def listed(*layers: int) -> str:
    """It for people."""
    return ", ".join(f"{float(at(n)):.3g} at N = {n}" for n in layers)


@once
def matrices(lab: Lab) -> dict[str, tuple[Array, float]]:
    """‖θ_i‖_F of each seed, the mean over layers, and β√(2Σ dm/(d + m)), by stack and kind."""
    found = {}
    for width in lab.pick((16, 64), (16, 64, 128)):
        for n in lab.pick((1, 16), (1, 16, 128)):
            trial = DEEPNORM.trial(n, lab.small(width=width, seeds=4))
            _, beta = DEEPNORM.rule.entry("encoder", "*").at(N=n)
            group = [(p.detach(), d) for p, d in trial.parameters() if scaled(d)]
            for kind in ("attention", "ffn"):
                squares: dict[int, Array] = {}
                expected = 0.0
                for p, d in group:
                    if d.kind == kind:
                        layer, (out, into) = d.layer or 0, p.shape[1:]
                        square = norms(p).double().numpy() ** 2
                        squares[layer] = squares.get(layer, 0) + square
                        expected += 2 * out * into / (out + into) / n
                drawn = np.mean([s**0.5 for s in squares.values()], axis=0)
                found[f"{kind}, width {width}, N = {n}"] = drawn, beta * expected**0.5
    return found
