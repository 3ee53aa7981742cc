from collections.abc import Sequence
from math import log2

from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, Settings, Tensor, judge, once
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import PUBLISHED
from paper_checks.shared.stacks import Net, Pass, at_points, backward, per_depth, per_token

CLAIM = Claim(
    name="su-query-key",
    source=f"{SU}, §Self-attention, above the third equation",
    statement="""Because of the softmax the gradients in λ_q and λ_k are small and do not noticeably
        affect the update.""",
    conditions="""post-LN encoder under the rules of SGD, Adam and LAMB, 64 to 256 layers, SGD to
        512, with one head Adam and LAMB to 1,024; text and Gaussian tokens, 16 and 64 tokens, 1 and
        4 heads, ReLU and GELU""",
    finding="""Query and key gradients have a factor λ_vλ_o/α, one λ more than value and output.
        That factor, not the softmax, makes them small in depth. At λ = 1 their ratio to value and
        output is constant in depth (0.4 on text, 0.9 on independent tokens). The softmax lowers it
        only if tokens are alike, as (1 − ρ)/√ρ for tokens of correlation ρ. Their share of the
        update falls as N^{−1/2} under SGD's and Adam's rules. Under LAMB, whose step is
        proportional to the weight, the share is constant in depth: a tenth on text, a sixth for
        independent tokens. With one head it is constant only from 256 layers on (0.123, 0.122,
        0.114, 0.113 and 0.113 at 64 to 1,024).""",
    counterexample="""LAMB's rule, text, width 32: ‖ΔF‖ from query and key alone is 0.116, 0.114 and
        0.112 of that from the scaled matrices at 64, 128 and 256 layers.""",
    corrected="""‖∂L/∂W_q‖ ~ (λ_vλ_o/α)(1 − ρ) beside (λ/α)√ρ for value and output: negligible in
        order where λ → 0 and the optimizer's step is not proportional to ‖θ‖ (SGD, Adam); of equal
        order for LAMB, since λ²/α·1 = λ/α·λ.""",
    seconds=(25, 80),
)

VARIED = ("64 tokens", "independent tokens", "correlated tokens", "one head", "GELU")
DEPTHS = (64, 128, 256)  # from where the share of ‖ΔF‖ has settled
DEEP = (128, 256, 512)  # for SGD's rule, whose S·r² falls only as (2N)^{−1/2}
DEEPEST = (256, 512, 1024)  # for one head, whose share has settled from there
CONSTANT = ("constant", 0.0)


@CLAIM.stated(
    "under SGD's and Adam's rules the gradient over value's and output's falls as λ", SUPPORTED
)
def small(lab: Lab) -> Finding:
    found, wanted = {}, {}
    for name, power in (("sgd", -0.25), ("adam", -0.5)):  # the exponents of λ in N
        for label, fit in steps(lab)[name]["ratio"].items():
            found[f"{name}, {label}"], wanted[f"{name}, {label}"] = fit, power
    return lab.exponent(found, wanted, (("as large", 0.0),))


@CLAIM.stated("the softmax alone makes it smaller with depth", REFUTED)
def reason(lab: Lab) -> Finding:
    # λ fixed, only α carries the depth: the softmax has to do it alone
    net = Net("2*N", "1")
    fixed = {
        label: lab.settled(DEPTHS, per_depth(net, DEPTHS, s, ratio))
        for label, s in lab.varied(VARIED, seeds=16).items()
    }
    what = "λ = 1, α = 2N: exponent of the ratio to value and output"
    return lab.exponent(fixed, -0.5, (CONSTANT,), what=what)


@CLAIM.correction(
    "the softmax makes it small where tokens are alike: as (1 − ρ)/√ρ in their correlation",
    SUPPORTED,
)
def likeness(lab: Lab) -> Finding:
    like = (0.5, 0.75, 0.875, 0.9375, 0.96875)
    settings = [lab.settings(seeds=32, data=f"gaussian:{rho}") for rho in like]
    found = at_points([(Net("64", "1"), 2, s) for s in settings], {"": ratio})[""]
    fit = lab.settled([(1 - rho) / rho**0.5 for rho in like], found)
    return lab.exponent(fit, 1.0, (("no effect", 0.0),))


@judge
def share(lab: Lab, optimizer: str, exponent: float, *rivals: tuple[str, float]) -> Finding:
    return lab.exponent(steps(lab)[optimizer]["share"], exponent, rivals)


CLAIM.stated("negligible for SGD: their share of ‖ΔF‖ falls as λ² = (2N)^{−1/2}", SUPPORTED)(
    share("sgd", -0.5, CONSTANT)
)
CLAIM.stated("negligible for Adam: their share of ‖ΔF‖ falls as λ = (2N)^{−1/2}", SUPPORTED)(
    share("adam", -0.5, CONSTANT)
)
CLAIM.ours("negligible for LAMB: their share falls with depth", REFUTED)(share("lamb", -0.5))
CLAIM.correction("of equal order for LAMB: their share is constant in depth", SUPPORTED)(
    share("lamb", 0.0, ("vanishing", -0.5))
)


@once
def steps(lab: Lab) -> dict[str, dict[str, dict[str, Fit]]]:
    """By rule, of one backward pass a network: the share, and the gradients' ratio."""
    found = {}
    for name, texts in PUBLISHED.items():
        fits: dict[str, dict[str, Fit]] = {"share": {}, "ratio": {}}
        for label, s in lab.varied(VARIED, seeds=24 if name == "sgd" else 8).items():
            at = DEEP if name == "sgd" else DEEPEST if label == "one head" else DEPTHS
            for of, values in zip(fits.values(), both(Net(*texts, name), at, s), strict=True):
                of[label] = lab.settled(at, values)
        found[name] = fits
    return found


def both(net: Net, at: Sequence[int], s: Settings) -> tuple[Array, Array]:
    """The share of ‖ΔF‖ and the ratio of the gradients: (seeds, depths) each."""
    shares, ratios, eta = [], [], {True: 2.0**-14, False: 2.0**-14}
    for depth in at:
        p, moved = backward(net.trial(depth, s)), {}
        for ours in (True, False):
            moved[ours], eta[ours] = changes(p, ours, eta[ours])
        shares.append(moved[True] / moved[False])
        ratios.append(ratio(p))
        del p  # its memory is free for the next depth
    return Lab.columns(shares), Lab.columns(ratios)


def changes(p: Pass, of_scores: bool, eta: float) -> tuple[Tensor, float]:
    """‖ΔF‖/η per token of each seed after a step of query and key alone, or of the others.

    η is a power of two, so that it rounds no weight; the output changes by about 10⁻³ of
    itself: far above rounding, and near enough to a linear step.
    """
    expression = p.trial.selection.the_optimizer.expression
    chosen = [g for g in p.gradients if (g.description.name in ("query", "key")) == of_scores]
    kept = [g.theta.clone() for g in chosen]
    for _ in range(6):
        for g, old in zip(chosen, kept, strict=True):
            g.theta.copy_(old + g.update(expression, eta))
        change = (p.trial.output() - p.output).double()
        for g, old in zip(chosen, kept, strict=True):
            g.theta.copy_(old)
        relative = float(change.norm() / p.output.norm())
        if 2.0**-13 < relative < 2.0**-8:
            return per_token(change) / eta, eta
        eta *= 2.0 ** round(log2(2.0**-10 / relative))
    raise ArithmeticError(f"no step changes the output by 10⁻³ of itself; the last: {relative:g}")


def ratio(p: Pass) -> Tensor:
    """The root mean square of the gradients of query and key over that of value and output."""
    return p.size("query", "key") / p.size("value", "output")
