from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, once, sp, torch
from paper_checks.shared.gaussian import SIZES, FeedForward, squared
from paper_checks.shared.record import CAKE, PROVED, SUPPORTED
from paper_checks.shared.stacks import PLAIN, residual_sums
from paper_checks.shared.sublayer import feed_forward, normalised

CLAIM = Claim(
    name="cake-ffn-moment",
    source=f"{CAKE}, §5.1, E[z_i], E[z_i²], E‖z‖²",
    statement="E z_i = 0, E z_i² = α² + v²w², E‖z‖² = d(α² + v²w²), hence ‖z‖ ≈ √(d(α² + v²w²)).",
    conditions="""‖x‖² = d, W with variance 2w²/d, V with v²/m, ReLU; widths 16 to 128; built torch
        stacks with Xavier's variance at m = d and m = 4d""",
    finding="""For the variances 2w²/d and v²/m the formula is exact in the mean, for every input of
        length √d and with the true ReLU mask, and ‖z‖ concentrates about it as d^{−1/2}. With the
        Xavier variance 2/(d + m) that DeepNet's code uses, the branch's share is 2dm/(d + m)²:
        0.32 at m = 4d, 0.5 at m = d, as built stacks confirm. The exponents in depth do not
        depend on that factor.""",
    corrected="""E z_i² = α² + v²w² for variances 2w²/d and v²/m; for Xavier's 2/(d + m) it is α² +
        2dm/(d + m)²·v²w² (0.5 at m = d, 0.32 at m = 4d).""",
    seconds=(3.0, 20),
)


@CLAIM.stated("E z_i² averaged over i, Gaussian W and V, the true ReLU mask", PROVED)
def moment(lab: Lab) -> Finding:
    a, same = sp.Symbol("alpha", positive=True), []
    for f in (FeedForward(d, m) for d, m in SIZES):
        square = f.mean(squared(a * f.x + f.hidden(f.x) * f.V))
        same.append(sp.expand(square - (a**2 + f.v**2 * f.w**2) * squared(f.x)) == 0)
    return lab.proved(all(same), "E‖z‖² = (α² + v²w²)‖x‖², contracted")


@CLAIM.stated("E z_i = αx_i over W and V, whose mean over the entries of a centred x is 0", PROVED)
def centred(lab: Lab) -> Finding:
    a, same = sp.Symbol("alpha", positive=True), []
    for f in (FeedForward(d, m) for d, m in SIZES):
        mean = f.mean(sum(a * f.x + f.hidden(f.x) * f.V))
        same.append(sp.expand(mean - a * sum(f.x)) == 0)
    because = "Σ_i E z_i = α Σ_i x_i: V is centred and independent of ReLU(xW)"
    return lab.proved(all(same), because)


@CLAIM.stated("‖z‖ is within O(d^{−1/2}) of √(d(α² + v²w²))", SUPPORTED)
def concentrated(lab: Lab) -> Finding:
    spread = [[np.sqrt(((g**0.5 - 1) ** 2).mean()) for g in gs] for gs in ratios(lab).values()]
    found = lab.power(list(ratios(lab)), np.array(spread).T)
    rivals = (("no concentration", 0.0), ("1/d", -1.0))
    return lab.exponent(found, -0.5, rivals, what="relative spread of ‖z‖ against d, exponent")


@CLAIM.correction("with Xavier's variance: α² + 2dm/(d + m)² · v²w²", SUPPORTED)
def xavier(lab: Lab) -> Finding:
    shares = {}
    for ratio in (1.0, 4.0):
        sums = residual_sums(PLAIN.trial(3, lab.small(width=32, seeds=768, ffn_ratio=ratio)))
        out = torch.stack([branch for site, _, branch in sums if site.kind == "ffn"])
        share, predicted = out.square().mean((0, 2, 3, 4)), 2 * ratio / (1 + ratio) ** 2
        shares[f"m = {ratio:g}d, {predicted:g}"] = lab.mean(share.double() / predicted)
    return lab.ratio(shares, "E‖FFN(x)‖²/d in built stacks over 2dm/(d + m)²")


@once
def ratios(lab: Lab) -> dict[int, list[Array]]:
    """‖z‖² over its prediction at α = 1.5, v = 0.8, w = 0.7 by width, in ten groups of draws."""
    found = {}
    for d in lab.widths():
        g, groups = lab.generator(d), []
        for _ in range(10):
            W, V = feed_forward(g, lab.pick(400, 800), d, 2 * d, 0.8, 0.7)
            x = normalised(g, len(W), 1, d)
            z = 1.5 * x + torch.relu(x @ W) @ V
            groups.append((z.square().sum(-1).flatten() / (d * (1.5**2 + 0.56**2))).numpy())
        found[d] = groups
    return found
