from paper_checks.shared.bench import Claim, Finding, Lab, sp
from paper_checks.shared.record import NOTE, PROVED

CLAIM = Claim(
    name="norms-unroll",
    source=f"{NOTE}, §1, the displayed recursion; Su Jianlin, kexue.fm/archives/9009",
    statement="x_{t+1} = x_t + F_t(Norm(x_t)) = x_0 + F_0(Norm(x_0)) + … + F_t(Norm(x_t)).",
    conditions="any branches and norms",
    finding="""The unrolling is an identity (one bracket in the note's last line is misplaced). It
        says nothing yet about depth: each F_k still sees all earlier ones through its argument. A
        Pre-LN model ends in a final norm that the formula leaves out, and that norm divides the
        whole sum by its growing length. Post-Norm unrolls as well, to a sum where x_0 carries
        the product of all the norms' factors.""",
    corrected="""For the stream: x_{t+1} = x_0 + Σ_{k≤t} F_k(Norm(x_k)); for the model's output:
        Norm(x_{t+1}).""",
)


@CLAIM.stated("Pre-Norm, as an identity of the recursion", PROVED)
def identity(lab: Lab) -> Finding:
    x0, norm = sp.Symbol("x_0"), sp.Function("n")
    exact = True
    for depth in range(1, 5):
        x, terms = x0, []
        for t in range(depth):
            terms.append(sp.Function(f"F_{t}")(norm(x)))
            x = x + terms[-1]
        exact &= sp.expand(x - x0 - sum(terms)) == 0
    return lab.proved(exact, "1 to 4 sublayers with undefined F_k and Norm")


@CLAIM.ours("Post-Norm unrolls to a sum with weights of its own", PROVED)
def post_norm(lab: Lab) -> Finding:
    # x_{t+1} = s_t·(x_t + F_t(x_t)), s_t the norm's factor there
    x0, exact = sp.Symbol("x_0"), True
    for depth in range(1, 5):
        factors, branches = sp.symbols(f"s_0:{depth}"), sp.symbols(f"F_0:{depth}")
        y = x0
        for s, f in zip(factors, branches, strict=True):
            y = s * (y + f)
        terms = [f * sp.prod(factors[t:]) for t, f in enumerate(branches)]
        exact &= sp.expand(y - x0 * sp.prod(factors) - sum(terms)) == 0
    return lab.proved(exact, "the weight of x_0 is the product of the norms' factors")
