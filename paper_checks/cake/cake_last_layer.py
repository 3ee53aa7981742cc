import math

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Trial, np, numeric, once, torch
from paper_checks.shared.changes import scaled
from paper_checks.shared.record import CAKE, DEEPNET, MARGIN, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN, norms

CLAIM = Claim(
    name="cake-last-layer",
    source=(f"{CAKE}, §4.3, before and after the supplement; {DEEPNET}, proof of Theorem 4.2"),
    statement="‖∂F/∂θ_i‖ ≤ ‖∂F/∂θ_{2N}‖ for every sublayer i, up to Θ.",
    conditions="""Frobenius norm of the Jacobian of all tokens' outputs in a sublayer's scaled
        matrices, built encoders of 4 to 64 layers, text and Gaussian tokens of correlation 0, 0.9
        and 1""",
    finding="""Under DeepNorm the Jacobians ∂F/∂θ_i of all sublayers of one kind have the same
        geometric mean over draws, from 8 to 64 layers: as an order, which is how the source writes
        it, the inequality holds as an equality. As a strict inequality it does not hold. In single
        draws two fifths of the lower sublayers exceed the last one (by up to 1.75 in a small stack,
        computed exactly), and as many do in plain Post-LN. If tokens are alike, attention's norm is
        √(1 + d/m) times the feed-forward's (1.12 at m = 4d, 1.42 at m = d).""",
    counterexample="""Two scalar sublayers whose branches have the sign of their input: ‖∂F/∂θ_1‖ =
        (1 + r)/√(1 + r²)·‖∂F/∂θ_2‖ > ‖∂F/∂θ_2‖.""",
    corrected="""‖∂F/∂θ_i‖ = Θ(‖∂F/∂θ_last of the same kind‖), with a ratio that does not depend on
        depth under DeepNorm's constants; single draws lie on both sides. Between kinds
        attention's norm is √(1 + d/m) times the feed-forward one's for tokens that are alike.""",
    seconds=4.0,
)
DEPTHS = ((4, 8, 16), (8, 16, 32, 64))
DATA = (("text", "gaussian:0.9"), ("text", "gaussian:0", "gaussian:0.9"))
WHAT = "mean over the lower sublayers of log ‖∂F/∂θ_i‖/‖∂F/∂θ_last‖"


@CLAIM.stated("DeepNorm, sublayers of one kind, in the geometric mean over draws", SUPPORTED)
def one_kind(lab: Lab) -> Finding:
    found = {
        f"{label}, N = {n}": lab.mean(np.log(below).mean(0))
        for label, by_depth in under_deepnorm(lab).items()
        for n, below in by_depth.items()
    }
    return lab.at_most(found, 0.0, WHAT)


@CLAIM.ours("as a strict inequality for every sublayer of every draw", REFUTED)
def strict(lab: Lab) -> Finding:
    s = lab.small(width=8, heads=2, tokens=2, seeds=64, dtype="float64")
    sizes = jacobians(DEEPNORM.trial(2, s), entries=True)
    ratios = np.concatenate(list(lower_over_last(sizes).values()))
    share, most = float((ratios > 1).mean()), float(ratios.max())
    above = f"{share:.0%} of the lower sublayers exceed the last of their kind, by up to {most:.2f}"
    return lab.seen(share == 0, f"{above}: exact norms at N = 2, d = 8, two tokens")


@CLAIM.ours(
    "across kinds, an attention against the last feed-forward, tokens alike, geometric mean",
    REFUTED,
)
def across_kinds(lab: Lab) -> Finding:
    found = {f"m = {r:g}d": lab.mean(logs) for r, logs in attention_over_ffn(lab).items()}
    return lab.at_most(found, 0.0, "log of attention's norm over the last feed-forward's")


@CLAIM.ours("plain Post-LN, sublayers of one kind, in the geometric mean over draws", SUPPORTED)
def in_plain_post_ln(lab: Lab) -> Finding:
    n, found, above = lab.pick(16, 32), {}, {}
    for data in lab.pick(*DATA):
        sizes = jacobians(PLAIN.trial(n, lab.small(data=data, seeds=128)))
        for kind, below in lower_over_last(sizes).items():
            found[f"{data}, {kind}"] = lab.mean(np.log(below).mean(0))
            above[f"{data}, {kind}"] = float((below > 1).mean())
    return lab.at_most(found, 0.0, f"{WHAT}, N = {n}", share_of_single_draws_above=above)


@CLAIM.correction(
    "DeepNorm: the lowest layer's norm over the last one's does not depend on depth", SUPPORTED
)
def level(lab: Lab) -> Finding:
    slopes = {
        label: lab.power(list(by_depth), lab.columns(below[0] for below in by_depth.values()))
        for label, by_depth in under_deepnorm(lab).items()
    }
    return lab.exponent(slopes, 0.0, what="exponent in N of lowest over last")


@CLAIM.correction(
    "DeepNorm, tokens alike: attention's norm is √(1 + d/m) times the feed-forward one's", SUPPORTED
)
def law(lab: Lab) -> Finding:
    gaps = {
        f"m = {r:g}d": lab.mean(logs - math.log1p(1 / r) / 2)
        for r, logs in attention_over_ffn(lab).items()
    }
    what = "log of attention's norm over the last feed-forward's, less ½ log(1 + d/m)"
    return lab.within(gaps, -MARGIN, MARGIN, what)


@once
def under_deepnorm(lab: Lab) -> dict[str, dict[int, Array]]:
    """‖∂F/∂θ_i‖ of the lower layers over the last one's by data and kind, and depth."""
    found: dict[str, dict[int, Array]] = {}
    for data in lab.pick(*DATA):
        for n in lab.pick(*DEPTHS):
            sizes = jacobians(DEEPNORM.trial(n, lab.small(data=data, seeds=128)))
            for kind, below in lower_over_last(sizes).items():
                found.setdefault(f"{data}, {kind}", {})[n] = below
    return found


@once
def attention_over_ffn(lab: Lab) -> dict[float, Array]:
    """The mean log of attention's norms over the last feed-forward's, by m/d: (seeds,)."""
    found = {}
    for ratio in lab.pick((4.0,), (1.0, 4.0)):
        s = lab.small(data="gaussian:1", seeds=128, ffn_ratio=ratio)
        sizes = jacobians(DEEPNORM.trial(lab.pick(*DEPTHS)[0], s))
        found[ratio] = np.log(sizes["attention"] / sizes["ffn"][-1]).mean(0)
    return found


def lower_over_last(sizes: dict[str, Array]) -> dict[str, Array]:
    """Each lower layer's over the last one's: (layers − 1, seeds) by kind."""
    return {kind: size[:-1] / size[-1] for kind, size in sizes.items()}


def jacobians(trial: Trial, entries: bool = False) -> dict[str, Array]:
    r"""‖∂F/∂θ_i‖_F of each sublayer's scaled matrices by kind: (layers, seeds).

    By the ``entries`` of F; or by two Gaussian u, since the squared norm of ∂⟨u, F⟩/∂θ has the
    squared Frobenius norm as its mean.
    """
    group = [(p, d) for p, d in trial.parameters() if scaled(d)]
    parameters = [p for p, _ in group]
    squares: dict[str, dict[int, torch.Tensor]] = {}
    g = torch.Generator().manual_seed(trial.settings.seed + 5)
    with numeric.only(trial.model, parameters):
        output = trial.output()
        if entries:
            ones = torch.eye(output[0].numel(), dtype=output.dtype)
            along = [u.view(1, *output.shape[1:]).expand_as(output) for u in ones]
        else:
            drawn = torch.randn(2, *output.shape, generator=g, dtype=output.dtype)
            along = list(drawn / 2**0.5)
        for u in along:
            found = torch.autograd.grad(output, parameters, u, retain_graph=True)
            for (_, d), gradient in zip(group, found, strict=True):
                layers, layer = squares.setdefault(str(d.kind), {}), int(d.layer or 0)
                layers[layer] = layers.get(layer, 0) + norms(gradient).double() ** 2
    return {
        kind: torch.stack([layers[n] for n in range(len(layers))]).sqrt().numpy()
        for kind, layers in sorted(squares.items())
    }
