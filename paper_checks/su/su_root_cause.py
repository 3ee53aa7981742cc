from collections.abc import Sequence
from dataclasses import replace

from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, Settings, Tensor, once, torch
from paper_checks.shared.record import MARGIN, REFUTED, SU, SUPPORTED, UNDECIDED
from paper_checks.shared.stacks import Net, Pass, backward, per_depth, update_exponents

CLAIM = Claim(
    name="su-root-cause",
    source=f"{SU}, opening and §Increment explosion",
    statement="""Even with improved gradients, deep models are still not easy to train;
        the root is the explosion of the increment, not of the gradient: the deeper the model,
        the more its output is perturbed.""",
    conditions="""post-LN with α = λ = (2N)^{−1/2} beside Adam's rule, 12 to 144 layers, width 32,
        one step of SGD or of signs, text and independent tokens""",
    finding="""A stack with α = λ = (2N)^{−1/2} has gradients that no one would fault: of the same
        size in every layer and at every depth (exponents within 0.02 of 0). Yet one step of SGD or
        Adam perturbs its output the more the deeper it is, as N^{1.0}, and the range of learning
        rates where one Adam step does what its gradient promises shrinks as N^{−1.0}. Adam's
        rule wins nearly all of that back: what remains is N^{−0.04} on text and N^{−0.12} for
        independent tokens, because a sign step of fixed size is not small beside weights that
        shrink with depth. The update explodes, the gradient does not: that half holds. Whether such
        a stack is then hard to train, and whether for this reason, is not settled by one step of
        stacks of width 32: that half is untested.""",
    counterexample="""Adam's rule, independent tokens, width 32: the largest rate is 0.061, 0.053
        and 0.046 at 12, 36 and 108 layers.""",
    corrected="""Gradients of order one at every depth leave a range of rates that scales as 1/N;
        Adam's rule leaves one that falls slower than N^{−1/2} (measured: N^{−0.04} to
        N^{−0.12}).""",
    would_decide="""Trainings to the end of stacks whose gradients have one size in every layer and
        at every depth, 12 to 144 layers, over all rates: at its best rate the deeper one learns
        less, and with the increment alone held constant (the rule of the optimizer) it no longer
        does.""",
    seconds=(34, 42),
)

UNIT = Net("(2*N)**(-1/2)", "(2*N)**(-1/2)")
ADAM = Net("(2*N)**(1/2)", "(2*N)**(-1/2)")
DATA = ("text", "gaussian:0")
WHAT = "exponent of the inverse of the largest rate"


@CLAIM.stated("a stack whose matrix gradients are of the same size at every depth", SUPPORTED)
def gradient(lab: Lab) -> Finding:
    at = lab.depths()
    found = {n: lab.settled(at, per_depth(UNIT, at, s, Pass.size)) for n, s in stacks(lab, 96)}
    return lab.exponent(found, 0.0, (("linear growth", 1.0),))


@CLAIM.stated("and of the same size in every layer", SUPPORTED)
def layers(lab: Lab) -> Finding:
    found, deepest = {}, lab.depths()[-1]
    for data, s in stacks(lab, 96):
        sizes = lab.columns(g.norm() for g in backward(UNIT.trial(deepest, s)).of("fc1"))
        found[f"fc1, {data}"] = lab.settled(range(1, deepest + 1), sizes)
    return lab.exponent(found, 0.0, (("a power of the layer", -0.5),))


@CLAIM.stated("there one step perturbs the output the more the deeper the stack is", SUPPORTED)
def perturbed(lab: Lab) -> Finding:
    at = lab.depths()
    found: dict[str, Fit] = {}
    for optimizer in ("sgd", "adam"):
        chosen = {f"{optimizer}, {data}": s for data, s in stacks(lab, 16)}
        found |= update_exponents(replace(UNIT, optimizer=optimizer), at, chosen)
    return lab.at_least(found, MARGIN, "exponent of ‖ΔF‖/η in N")


@CLAIM.stated(
    "with such gradients deep stacks are still hard to train, and the increment is the root",
    UNDECIDED,
)
def trains(lab: Lab) -> Finding:
    return lab.undecided("one step was taken of each stack, and none was trained")


@CLAIM.ours(
    "there the range of learning rates where a sign step does what its gradient says "
    "shrinks as 1/N",
    SUPPORTED,
)
def rate(lab: Lab) -> Finding:
    at = lab.depths()
    found = {data: lab.settled(at, largest_rates(UNIT, at, s)) for data, s in stacks(lab, 48)}
    return lab.exponent(found, -1.0, (("constant", 0.0),))


@CLAIM.ours("under Adam's rule that range does not shrink", REFUTED)
def rule(lab: Lab) -> Finding:
    return lab.at_most(ruled(lab), 0.0, WHAT)


@CLAIM.correction(
    "under Adam's rule it shrinks slower than the weights, which scale as N^{−1/2}", SUPPORTED
)
def slowly(lab: Lab) -> Finding:
    return lab.at_most(ruled(lab), 0.5, WHAT, tolerance=0.0)


def stacks(lab: Lab, seeds: int) -> list[tuple[str, Settings]]:
    """Small stacks, by data."""
    return [(d, lab.settings(seeds=seeds, data=d, width=32, tokens=16)) for d in DATA]


@once
def ruled(lab: Lab) -> dict[str, Fit]:
    """The exponent of the inverse of the largest rate under Adam's rule."""
    at = lab.depths()
    return {data: lab.settled(at, 1 / largest_rates(ADAM, at, s)) for data, s in stacks(lab, 16)}


def largest_rates(net: Net, at: Sequence[int], s: Settings) -> Array:
    """The rate where −η sign(g) lowers the loss by half of η‖∇L‖₁, by bisection."""

    def rate(depth: int) -> Tensor:
        trial = net.trial(depth, s)
        p = backward(trial)
        promised, kept = p.absolute(), [g.theta.clone() for g in p.gradients]
        low = torch.full((trial.seeds,), -20.0, dtype=torch.float64)  # powers of two
        high = torch.zeros_like(low)
        for _ in range(12):
            middle = (low + high) / 2
            eta = 2**middle
            for g, old in zip(p.gradients, kept, strict=True):
                g.theta.copy_(old - eta.to(old.dtype).view(-1, *[1] * (old.ndim - 1)) * g.g.sign())
            keeps = (p.loss - trial.loss(trial.output())).double() > eta * promised / 2
            low, high = torch.where(keeps, middle, low), torch.where(keeps, high, middle)
        return 2**low

    return Lab.columns(rate(depth) for depth in at)
