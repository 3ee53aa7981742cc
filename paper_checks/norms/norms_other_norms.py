from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Tensor, Trial, np
from paper_checks.shared.record import NOTE, SUPPORTED
from paper_checks.shared.stacks import Net, correlation, cosines, residual_sums

CLAIM = Claim(
    name="norms-other-norms",
    source=f"{NOTE}, §1, paragraph after the two formulas",
    statement="""Norm may also be Batch Normalization or Instance Normalization; the conclusions are
        essentially general.""",
    conditions="""built Transformer encoders with the norms replaced (BatchNorm over batch and
        tokens, InstanceNorm over tokens, no running averages), at initialisation, independent
        tokens and text""",
    finding="""What rests on lengths adding in squares is general: Pre-Norm's growth near √t and
        Post-Norm's exponential weakening appear with LayerNorm, RMSNorm, BatchNorm and
        InstanceNorm. What rests on single tokens is not: under BatchNorm and InstanceNorm tokens
        differ in length by 20 % and see each other, so neither ‖x‖ = √d nor causality holds. And
        InstanceNorm over tokens removes what they share: the collapse to equal tokens that plain
        Post-LN shows with LayerNorm (cosine 0.98 after 8 layers) does not happen.""",
    corrected="""The growth of Pre-Norm in squares and the exponential weakening of Post-Norm hold
        for all four; the lemmas on single tokens (‖x‖ = √d, softmax averages of equal vectors) hold
        for LayerNorm and RMSNorm only.""",
    seconds=4.0,
)

# the axes of (k, batch, tokens, d) whose mean is taken out and whose variance is 1
CENTRED = {"layer": (-1,), "rms": (), "batch": (1, 2), "instance": (2,)}
SCALED = {**CENTRED, "rms": (-1,)}


@CLAIM.stated(
    "Pre-Norm: lengths add in squares with each norm, ‖x_t‖² = ‖x_0‖² + Σ‖F_k‖², at the top",
    SUPPORTED,
)
def growth(lab: Lab) -> Finding:
    layers = lab.pick(16, 32)
    at, ratios, exponents = np.arange(8, 2 * layers), {}, {}
    for kind in CENTRED:
        trial = stack(lab, kind, "pre-ln", layers, data="gaussian:0", seeds=256, batch=2)
        sums = residual_sums(trial)
        squares = np.array([square(x) for _, x, _ in sums])  # (sublayers, seeds)
        added = squares[0] + sum(square(out) for _, _, out in sums[:-1])
        ratios[kind] = lab.mean(squares[-1] / added.mean())
        exponents[kind] = lab.numbers(lab.power(at, np.sqrt(squares[at]).T))
    what = f"‖x_t‖² over ‖x_0‖² + Σ‖F_k‖² at t = {2 * layers - 1}"
    return lab.ratio(ratios, what, exponents_of_the_length=exponents)


@CLAIM.stated(
    "Post-Norm: with each norm the share of x_1 in x_t falls exponentially or faster", SUPPORTED
)
def decay(lab: Lab) -> Finding:
    bends, rates = {}, {}
    for kind in CENTRED:
        # from x_1 on, since the first BatchNorm or InstanceNorm takes out what x_0's tokens share
        trial = stack(lab, kind, "post-ln", 5, data="gaussian:0", seeds=256, batch=2)
        cosine = cosines([x for _, x, _ in residual_sums(trial)][1:])
        # a mean cosine of each of eight groups of seeds first, its logarithm then
        logs = np.log(cosine.reshape(9, 8, -1).mean(2))
        # a power of t would weaken the identity more than twice as fast below as above
        bends[kind] = lab.mean((logs[4] - logs[0]) / (logs[8] - logs[4]))
        rates[kind] = lab.numbers(lab.rate(np.arange(9), np.exp(logs).T))
    what = "rate of log cos(x_t, x_1) from t = 1 to 5 over that from 5 to 9"
    return lab.at_most(bends, 1.0, what, rates=rates)


@CLAIM.ours(
    "RMSNorm and LayerNorm act on a token alone and give it √d; BatchNorm and InstanceNorm do so "
    "in the mean over tokens only, and remove what tokens share",
    SUPPORTED,
)
def tokens(lab: Lab) -> Finding:
    spread, alike, leak = {}, {}, {}
    for kind in CENTRED:
        *_, (_, top, _) = residual_sums(stack(lab, kind, "post-ln", 8, batch=2))
        lengths = top.double().norm(dim=-1).flatten(1)
        spread[kind] = float((lengths.std(1) / lengths.mean(1)).mean())
        alike[kind] = float(correlation(top.double()).mean())
        x = lab.normal(lab.generator(), 1, 2, 8, 16)
        others = x.clone()
        others[:, :, 1:] += 1.0
        changed = normalise(kind, x)[:, :, 0] - normalise(kind, others)[:, :, 0]
        leak[kind] = float(changed.abs().max())
    alone, together = ("layer", "rms"), ("batch", "instance")
    return lab.seen(
        max(by[kind] for by in (spread, leak) for kind in alone) < 1e-3
        and min(by[kind] for by in (spread, leak) for kind in together) > 0.01
        and max(alike[kind] for kind in together) < alike["layer"] / 2,
        f"deviation of lengths {rounded(spread)}, what a change of the other tokens does to one "
        f"{rounded(leak)}, tokens' cosine after 8 layers {rounded(alike)}",
    )


def normalise(kind: str, x: Tensor) -> Tensor:
    """A norm without parameters on (k, batch, tokens, d); every seed is a model of its own."""
    centred = x - x.mean(CENTRED[kind], keepdim=True) if CENTRED[kind] else x
    return centred / centred.square().mean(SCALED[kind], keepdim=True).sqrt()


def stack(lab: Lab, kind: str, placement: str, layers: int, **given: Any) -> Trial:
    """A stack whose norms are all of one kind."""
    trial = Net(placement=placement).trial(layers, lab.small(**given))
    for residual in trial.model.residuals():
        for norm in residual.norms:
            norm.register_forward_hook(lambda _, given, __: normalise(kind, given[0]))
    return trial


def square(x: Tensor) -> Array:
    """The mean squared length of the tokens of each seed."""
    return np.asarray(x.double().square().sum(-1).flatten(1).mean(1))


def rounded(values: dict[str, float]) -> dict[str, float]:
    """For people."""
    return {kind: round(value, 3) for kind, value in values.items()}
