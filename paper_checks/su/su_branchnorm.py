from paper_checks.shared.bench import Claim, Finding, Fit, Lab, judge, once, sp
from paper_checks.shared.record import PROVED, REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, exponents

CLAIM = Claim(
    name="su-branchnorm",
    source=f"{SU}, reply of 2023-07 on BranchNorm (arXiv 2305.02790)",
    statement="""BranchNorm, Norm(x + aF(x)) with a growing linearly from 0 to 1, is the same
        mechanism as DeepNet's α.""",
    conditions="post-LN encoder, λ = 1, a = 1/(2N), (2N)^{−1/2} and 1, 12 to 144 layers, text",
    finding="""BranchNorm with factor a is DeepNorm with α = 1/a and λ = 1, so it is Su's second
        alternative at every moment, and at the start of its schedule it has DeepNet's protection.
        It protects only while a ≤ (2N)^{−1/2} (SGD) or 1/(2N) (Adam): at the end, a = 1, the
        network is plain post-LN, whose increment grows about as N^{0.7} under either. It is a
        warm-up of the network rather than a bound.""",
    counterexample="""a = 1: the stack is plain post-LN; SGD's increment per η is 22, 53 and 100 at
        16, 48 and 144 layers of width 32, Adam's 980, 2,260 and 3,950.""",
    corrected="""BranchNorm bounds the update while a ≤ (2N)^{−1/2} under SGD and a ≤ 1/(2N) under
        Adam; beyond that it relies on the learning rate's own schedule.""",
    seconds=(11, 16),
)

ROOT, WHOLE, END = "(2N)^{−1/2}", "1/(2N)", "1"


@CLAIM.stated("Norm(x + aF(x)) is DeepNorm with α = 1/a and λ = 1", PROVED)
def algebra(lab: Lab) -> Finding:
    a = sp.Symbol("a", positive=True)
    x, f = (sp.Matrix(sp.symbols(f"{name}1:4", real=True)) for name in "xf")
    parallel = (a * (x / a + f) - (x + a * f)).applyfunc(sp.expand) == sp.zeros(3, 1)
    return lab.proved(parallel, "the two sums are parallel, and a norm forgets a positive factor")


@CLAIM.stated(
    "a ≤ (2N)^{−1/2} keeps SGD's increment bounded in depth: constant at (2N)^{−1/2}", SUPPORTED
)
def start(lab: Lab) -> Finding:
    constant = lab.exponent(increments(lab)[ROOT]["SGD"], 0.0, (("linear growth", 1.0),))
    below = lab.at_most(increments(lab)[WHOLE]["SGD"], 0.0, "exponent, a = 1/(2N)")
    return lab.worst(constant, below)


@judge
def at_the_end(lab: Lab, optimizer: str) -> Finding:
    return lab.at_most(increments(lab)[END][optimizer], 0.0, "exponent, a = 1")


CLAIM.ours("so does every a of the schedule, up to a = 1, under SGD", REFUTED)(at_the_end("SGD"))
CLAIM.ours("and under Adam", REFUTED)(at_the_end("Adam"))


@CLAIM.correction(
    "Adam's increment needs a ~ 1/(2N): constant there, growing as N^{1/2} at a = (2N)^{−1/2}",
    SUPPORTED,
)
def balanced(lab: Lab) -> Finding:
    return lab.worst(
        lab.exponent(increments(lab)[ROOT]["Adam"], 0.5, (("the other", 0.0),)),
        lab.exponent(increments(lab)[WHOLE]["Adam"], 0.0, (("the other", 0.5),)),
    )


@once
def increments(lab: Lab) -> dict[str, dict[str, Fit]]:
    """The exponents of both optimizers' increments under λ = 1, by the factor a."""
    both, found = {"SGD": Pass.squared, "Adam": Pass.absolute}, {}
    # at a = 1 plain post-LN multiplies random factors: its gradients vary by orders between seeds
    for a, alpha, seeds in ((ROOT, "(2*N)**(1/2)", 128), (WHOLE, "2*N", 128), (END, "1", 64)):
        s = lab.settings(seeds=seeds, width=32, tokens=16)
        fits = exponents(Net(alpha, "1"), lab.depths(), {"text": s}, both, at_once=32)
        found[a] = {name: of["text"] for name, of in fits.items()}
    return found
