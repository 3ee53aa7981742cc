from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, once, sp, torch
from paper_checks.shared.record import MARGIN, NOTE, PROVED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN, Net, cosines, residual_sums

CLAIM = Claim(
    name="norms-postnorm-decay",
    source=f"{NOTE}, §1, 'Reason', last paragraph; Su Jianlin, kexue.fm/archives/8620",
    statement="""Each Norm of Post-Norm weakens the weight of the identity branch, so that Post-Norm
        stresses the residual branches.""",
    conditions="""built encoders at initialisation, width 32; plain Post-LN, Pre-LN, DeepNorm of 4
        to 128 layers; independent Gaussian tokens, for Post-LN also tokens of correlation ½ and
        text""",
    finding="""A norm after a branch of relative size g weakens the identity by (1 + g²)^{−1/2}, and
        the product of the measured factors is the measured decay, within a percent or two. For real
        plain Post-LN branches that is 0.87 per norm for independent tokens and 0.84 for text, not
        1/√2, and faster further up as tokens become alike. Pre-Norm weakens the identity too, as
        t^{−1/2} or faster, once its final norm is counted; DeepNorm at its constants hardly does:
        cos(F, x_0) is 0.98 from 4 to 64 layers.""",
    corrected="""The identity's weight after t norms is Π(1 + g_l²)^{−1/2} with the branches' own
        relative sizes g_l: exponential for plain Post-LN, t^{−1/2} after Pre-LN's final norm, and
        tending to 1 for DeepNorm, where g = β²/α.""",
    seconds=2.5,
)


@CLAIM.stated(
    "a norm after an uncorrelated branch of variance g² weakens the identity by (1 + g²)^{−1/2}",
    PROVED,
)
def weight(lab: Lab) -> Finding:
    x, branch = sp.symbols("x branch", real=True)
    v, g = sp.symbols("v g", positive=True)
    # E x² = v, E branch² = g²v and E x·branch = 0 in the expanded square of the sum
    moments = {x * branch: 0, x**2: v, branch**2: g**2 * v}
    variance = sp.expand((x + branch) ** 2).subs(moments)
    left = sp.simplify(sp.sqrt(v / variance) * sp.sqrt(1 + g**2))
    return lab.proved(left == 1, "the deviation of x over that of x + G, uncorrelated")


@CLAIM.stated("the share of x_0 in x_t falls exponentially or faster, 10 sublayers", SUPPORTED)
def exponential(lab: Lab) -> Finding:
    bends, shares = {}, {}
    for data, (cosine, _) in decays(lab).items():
        # a power of t would weaken the identity three times as fast below as above
        lower, upper = np.log(cosine[4] / cosine[0]) / 4, np.log(cosine[9] / cosine[4]) / 5
        bends[data], shares[data] = lab.mean(lower / upper), cosine.mean(1).tolist()
    return lab.at_most(bends, 1.0, "rate of the lower half over that of the upper", cosines=shares)


@CLAIM.ours("its rate is that of the measured branch weights, Π(1 + g_l²)^{−1/2}", SUPPORTED)
def product(lab: Lab) -> Finding:
    rates, factors = {}, {}
    for data, (cosine, product) in decays(lab).items():
        rates[data] = lab.mean(np.log(cosine[-1]) / np.log(product))
        factors[data] = float(product.mean() ** (1 / 9))
    return lab.ratio(rates, "measured over predicted rate", per_norm=factors)


@CLAIM.ours("Pre-Norm with its final norm weakens it too, as t^{−1/2} or faster", SUPPORTED)
def pre_norm(lab: Lab) -> Finding:
    pre = grouped(shares(lab, Net(placement="pre-ln"), lab.pick(48, 128)))
    at = np.arange(16, len(pre), 4)
    found, values = lab.power(at, pre[at].T), pre.mean(1)[::16].tolist()
    return lab.at_most(found, -0.5, "exponent in t of cos(x_t, x_0)", values=values)


@CLAIM.ours("DeepNorm at its constants leaves it above 0.95", SUPPORTED)
def deepnorm(lab: Lab) -> Finding:
    depths = lab.pick((4, 16, 32), (4, 16, 64))
    found = {f"N = {n}": lab.mean(shares(lab, DEEPNORM, n)[-1]) for n in depths}
    return lab.at_least(found, 1 - MARGIN, "cos(F, x_0)")


@once
def decays(lab: Lab) -> dict[str, tuple[Array, Array]]:
    """What ten sublayers of plain Post-LN leave of x_0 by data, in eight groups of seeds.

    The cosine of x_t with x_0, (sublayers, groups), and the product of the measured branches'
    factors, (groups,).
    """
    found = {}
    for data in lab.pick(("gaussian:0",), ("gaussian:0", "gaussian:0.5", "text")):
        sums = residual_sums(PLAIN.trial(5, lab.small(data=data, seeds=1024)))
        logs = torch.stack(  # of a token's own factors; the norm takes out the mean
            [-0.5 * torch.log1p(out.double().var(-1) / x.double().var(-1)) for _, x, out in sums]
        )[:-1].sum(0)
        product = grouped(logs.exp().flatten(1).mean(1).numpy()[None])[0]
        found[data] = grouped(cosines([x for _, x, _ in sums])), product
    return found


def shares(lab: Lab, net: Net, layers: int) -> Array:
    """The mean cosine of every x_t with x_0: (sublayers, seeds)."""
    trial = net.trial(layers, lab.small(data="gaussian:0", seeds=64))
    return cosines([x for _, x, _ in residual_sums(trial)])


def grouped(values: Array) -> Array:
    """Means over eight groups of seeds, (…, groups): a mean cosine first, its logarithm then."""
    return np.asarray(values.reshape(len(values), 8, -1).mean(2))
