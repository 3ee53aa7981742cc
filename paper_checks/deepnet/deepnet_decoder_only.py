from paper_checks.shared.bench import Claim, Expr, Finding, Lab, sp
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import DEEPNET, PROVED, SUPPORTED
from paper_checks.shared.stacks import Net, update_exponents

CLAIM = Claim(
    name="deepnet-decoder-only",
    source=f"{DEEPNET}, Figure 2 (b), §4.3 and Appendix C",
    statement="Decoder-only stacks of M layers take α = (2M)^{1/4}, β = (8M)^{−1/4}.",
    conditions="""SGD, closure √(v² + w²) = 1/α; built causal stacks of 8 to 128 layers, text and
        Gaussian tokens""",
    finding="""Solved in logarithms, the balance and the closure have the one solution (2M)^{1/4},
        (8M)^{−1/4}, and causal stacks show a constant update under it. It is a statement on
        branches of two scaled matrices. A gated feed-forward has three, whose derivatives are of
        size β²/α: the same conditions give (2M/3)^{1/6} and (18M)^{−1/6} there.""",
    corrected="""α = (2M)^{1/4}, β = (8M)^{−1/4} for branches of two scaled matrices; a gated
        feed-forward takes the α and β that solve 3β⁴/α² = 1/(2M), √3 β = 1/α.""",
    seconds=4.0,
)

PUBLISHED = ("(2*M)**(1/4)", "(8*M)**(-1/4)")


@CLAIM.stated("two sublayers a layer, two scaled matrices each", PROVED)
def solved(lab: Lab) -> Finding:
    M = formula("M")
    # 2M·2b²/a² = 1 and √2 b a = 1: multiply and divide the logarithms
    logarithms = sp.Matrix([-sp.log(4 * M), -sp.log(2) / 2])
    solution = sp.Matrix([[-2, 2], [1, 1]]).LUsolve(logarithms)
    found = [sp.exp(sp.expand_log(e, force=True)) for e in solution]
    by_hand = all(equal(f, formula(c)) for f, c in zip(found, PUBLISHED, strict=True))
    engine = as_published(*rule_of("attention,ffn")["*"])
    return lab.proved(by_hand and engine, "solved in logarithms, and derived by the engine")


@CLAIM.ours("a gated feed-forward (three scaled matrices) takes other constants", PROVED)
def gated(lab: Lab) -> Finding:
    found = rule_of("attention,ffn:swiglu")
    return lab.proved(not as_published(*found["ffn-swiglu"]), f"the balance gives {found}")


@CLAIM.stated("the causal mask changes nothing: ‖ΔF‖/η has exponent 0 in M", SUPPORTED)
def causal(lab: Lab) -> Finding:
    at, net = lab.shallow(), Net(*PUBLISHED, stack="decoder")
    conditions = {data: lab.small(seeds=16, data=data) for data in lab.texts()}
    slopes = update_exponents(net, at, conditions, lab.power)
    rivals = (("Adam's rule", -0.5), ("no rule", 1.0))
    return lab.exponent(slopes, 0.0, rivals, what="exponent of ‖ΔF‖/η in M", depths=at)


@CLAIM.correction("gated feed-forward: β^4/α² shares of the sublayer, α and β of its own", PROVED)
def gated_solves(lab: Lab) -> Finding:
    M, (a, b) = formula("M"), rule_of("attention,ffn:swiglu")["ffn-swiglu"]
    # three matrices: each sublayer's share 3 b⁴/a² is 1/(2M), and √3 b a = 1
    holds = equal(3 * b**4 / a**2, 1 / (2 * M)) and equal(sp.sqrt(3) * b * a, sp.Integer(1))
    return lab.proved(holds, "3β⁴/α² = 1/(2M) and √3 β = 1/α hold for the engine's rule")


def rule_of(layer: str) -> dict[str, tuple[Expr, Expr]]:
    """α and β of each kind of sublayer, as the engine derives them for SGD."""
    found = derive(optimizer="sgd", stack="decoder", method="lemma", layer=layer)
    return {e.sublayer: (formula(e.alpha), formula(e.beta)) for e in found.rule.entries}


def as_published(alpha: Expr, beta: Expr) -> bool:
    """Whether α and β are the published ones."""
    return equal(alpha, formula(PUBLISHED[0])) and equal(beta, formula(PUBLISHED[1]))
