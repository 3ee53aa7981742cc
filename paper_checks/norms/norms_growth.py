from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, numeric, once, sp, torch
from paper_checks.shared.record import MARGIN, NOTE, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import Net, per_token, residual_sums

CLAIM = Claim(
    name="norms-growth",
    source=f"{NOTE}, §1, 'Reason'",
    statement="""Every term of the unrolled sum is of the same order of magnitude (同一量级), so
        x_{t+1} = Θ(x_t): layer t + 1 differs from layer t as t + 1 differs from t (19 from 18),
        and where t is large the relative difference is small.""",
    conditions="""built Pre-LN encoders at initialisation, 48 to 192 layers, text, independent
        Gaussian tokens, one token; one and four heads, ReLU and GELU, widths 32 and 64""",
    finding="""The terms are of one order, and the difference does become small, but not as 1/t. At
        initialisation the terms of single tokens have equal size and are uncorrelated, so lengths
        add in squares: ‖x_t‖ grows as √t and the relative step is t^{−1/2}, not 1/t. Between
        sublayers 18 and 19 that is a difference of 22 to 25 %, not 6 %. The note's 19 against 18
        would need terms that all point one way. With several tokens attention's terms grow as the
        tokens become alike, by a factor of 1.8 on text and 2.8 for independent tokens in 192 layers
        (all terms lie within a factor of 2.7, with GELU of 5.2), and so ‖x_t‖ somewhat faster than
        √t, as t^{0.52} and t^{0.56}.""",
    counterexample="""Two orthogonal terms of length 1: ‖x_2‖/‖x_1‖ = √2, not 2. Two opposite tokens
        of equal scores: attention's term is 0, at two equal tokens it is a token's.""",
    corrected="""‖x_t‖ ~ √t and ‖x_{t+1} − x_t‖/‖x_t‖ ~ t^{−1/2} for independent branches; t and 1/t
        only if all branches point one way. Feed-forward terms are of one size, attention's grow
        with the tokens' correlation.""",
    seconds=2.5,
)

ORDER = 10.0


@CLAIM.stated(
    "the terms F_k(Norm(x_k)) are of one order of magnitude: the largest is less than ten times "
    "the smallest",
    SUPPORTED,
)
def order(lab: Lab) -> Finding:
    apart = {}
    for label, s in streams(lab).items():
        sizes = np.concatenate([s.ffn, s.attention])
        apart[label] = lab.mean(sizes.max(axis=0) / sizes.min(axis=0))
    return lab.at_most(apart, ORDER, "largest ‖F_k‖ over the smallest", 0.0)


@CLAIM.ours("the feed-forward terms are of one size, within 5 %, by their law in k", SUPPORTED)
def terms(lab: Lab) -> Finding:
    ffn = {label: s.ffn[7:].T for label, s in streams(lab).items()}
    sizes = {label: lab.power(np.arange(size.shape[1]) + 8, size) for label, size in ffn.items()}
    return lab.exponent(sizes, 0.0, what="exponent of ‖F_k‖ in k, feed-forward")


@CLAIM.ours("the attention terms are too, whatever the tokens", REFUTED)
def attention(lab: Lab) -> Finding:
    grown = {label: lab.mean(s.attention[-1] / s.attention[0]) for label, s in streams(lab).items()}
    return lab.ratio(grown, "‖F_k‖ of the last attention sublayer over that of the first")


@CLAIM.stated("19 and 18: ‖x_t‖ grows as t, so the relative step is 1/t", REFUTED)
def linear(lab: Lab) -> Finding:
    growth = {label: s.growth for label, s in streams(lab).items()}
    return lab.exponent(growth, 1.0, what="exponent of ‖x_t‖ in t")


@CLAIM.stated("the relative step ‖x_{t+1} − x_t‖/‖x_t‖ falls where t is large", SUPPORTED)
def falls(lab: Lab) -> Finding:
    return lab.at_most(relative_steps(lab), 0.0, "exponent of the relative step in t", 0.0)


@CLAIM.correction("‖x_t‖ grows as √t at initialisation, single tokens", SUPPORTED)
def root(lab: Lab) -> Finding:
    one, rivals = streams(lab)["one token"], (("linear", 1.0), ("none", 0.0))
    return lab.exponent(one.growth, 0.5, rivals, what="exponent of ‖x_t‖ in t")


@CLAIM.correction("the relative step scales as t^{−1/2}", SUPPORTED)
def relative_step(lab: Lab) -> Finding:
    found = relative_steps(lab)
    # a sublayer's, at t = 18
    at_18 = {label: float(s.steps.mean(1)[1] / 2**0.5) for label, s in streams(lab).items()}
    what = "exponent of the relative step in t"
    return lab.exponent(found, -0.5, (("1/t", -1.0),), what=what, at_18=at_18)


@CLAIM.ours("1/t holds if all terms point one way", PROVED)
def aligned(lab: Lab) -> Finding:
    t = sp.Symbol("t", positive=True)
    one = sp.limit(((t + 1) / t - 1) * t, t, sp.oo)
    half = sp.limit((sp.sqrt((t + 1) / t) - 1) * t, t, sp.oo)
    lengths = (
        "lengths √(t + 1) and √t differ by 1/(2t), but the step between them is at a right angle"
    )
    return lab.proved(one == 1 and half == sp.Rational(1, 2), f"(t + 1)/t − 1 = 1/t; {lengths}")


@CLAIM.ours("the terms are uncorrelated at initialisation", SUPPORTED)
def uncorrelated(lab: Lab) -> Finding:
    cosine = lab.mean(np.mean([s.cosine for s in streams(lab).values()], axis=0))
    return lab.within(cosine, -MARGIN, MARGIN, "mean cosine of consecutive feed-forward terms")


@dataclass(frozen=True)
class Stream:
    """What one Pre-LN stack shows, tokens averaged; (…, seeds) each."""

    length: Array  # ‖x_t‖ at ``at``
    steps: Array  # ‖x_{t+1} − x_t‖/‖x_t‖ there, of both sublayers of a layer together
    ffn: Array  # ‖F_k‖ of the feed-forward sublayers
    attention: Array  # ‖F_k‖ of the attention sublayers
    cosine: Array  # of consecutive feed-forward terms
    at: Array  # t

    @property
    def growth(self) -> numeric.Interval:
        """The exponent of ‖x_t‖ in t."""
        return Lab.power(self.at, self.length.T)


def relative_steps(lab: Lab) -> dict[str, numeric.Interval]:
    """The exponent in t of ‖x_{t+1} − x_t‖/‖x_t‖, by condition."""
    return {label: lab.power(s.at, s.steps.T) for label, s in streams(lab).items()}


@once
def streams(lab: Lab) -> dict[str, Stream]:
    """A stack under every condition."""
    several = {"tokens": 16, "batch": 1, "seeds": 48}
    conditions: dict[str, dict[str, Any]] = {
        "text": several,
        "gaussian:0": {**several, "data": "gaussian:0"},
        "one token": {"tokens": 1, "batch": 16, "seeds": 48, "data": "gaussian:0"},
    }
    if lab.full:
        conditions |= {
            "one head": {**several, "heads": 1},
            "GELU": {**several, "activation": "gelu"},
            "width 64": {**several, "width": 64},
        }
    return {label: stream(lab, **changed) for label, changed in conditions.items()}


def stream(lab: Lab, **changed: Any) -> Stream:
    """One stack, from the 16th sublayer on."""
    net = Net(placement="pre-ln")
    sums = residual_sums(net.trial(lab.pick(48, 192), lab.small(**changed)))
    x = [x.double() for _, x, _ in sums]
    ffn, attention = (
        [out.double() for site, _, out in sums if site.kind == kind]
        for kind in ("ffn", "attention")
    )
    similar = torch.nn.functional.cosine_similarity
    cosines = [similar(a, b, dim=-1).flatten(1).mean(1) for a, b in pairwise(ffn)]
    length, step = lengths(x), lengths([b - a for a, b in pairwise(x)])
    # two sublayers of a layer at a time, so that both kinds count equally
    at = np.arange(16, len(x) - 2, 2)
    steps = np.sqrt(step[at] ** 2 + step[at + 1] ** 2) / length[at]
    cosine = torch.stack(cosines).mean(0).numpy()
    return Stream(length[at], steps, lengths(ffn), lengths(attention), cosine, at)


def lengths(vectors: list[torch.Tensor]) -> Array:
    """The mean length of the tokens of each seed: (entries, seeds)."""
    return Lab.columns(per_token(x) for x in vectors).T
