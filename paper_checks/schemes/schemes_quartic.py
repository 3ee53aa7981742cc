from paper_checks.shared.bench import Claim, Expr, Finding, Fit, Lab, sp
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import Net, model_updates

CLAIM = Claim(
    name="schemes-quartic",
    source="""Emadi, 'Exact Attention Sensitivity and the Geometry of Transformer Stability', arXiv
        2602.18849, abstract and design rule""",
    statement="""DeepNorm's N^{−1/4} emerges from the quartic structure of attention's four
        projection matrices; m multiplicative maps are each to be scaled by N^{−1/m}.""",
    conditions="""post-LN encoders of one kind of sublayer, SGD's first step, 32 to 256 layers; β =
        1/α or DeepNet's own closure""",
    finding="""A stack of feed-forward sublayers alone, without any attention, has DeepNorm's
        N^{−1/4}, and its update is constant there. The four is twice the two scaled maps of a
        branch: SGD enters squared, once by the gradient and once by the step. A gated branch of
        three scaled maps needs N^{−1/6}; at N^{−1/3} its update falls as 1/N. Query and key are not
        scaled in DeepNorm at all.""",
    counterexample="""A post-LN stack of N feed-forward sublayers (φ(x W₁) W₂, no attention) under
        DeepNorm's lemma: α = N^{1/4}, β = (4N)^{−1/4}.""",
    corrected="""With β = 1/α a branch of m scaled maps needs β = N^{−1/(2m)} under SGD; under Adam
        N^{−1/m}, which for DeepNorm's two maps is N^{−1/2} and not N^{−1/4}.""",
    seconds=(10, 60),
)

FEED_FORWARD, GATED, ATTENTION = "ffn", "ffn:swiglu", "attention"
SCALED = {FEED_FORWARD: 2, GATED: 3, ATTENTION: 2}


@CLAIM.stated("without attention's four matrices there is no N^{−1/4}", REFUTED)
def without_attention(lab: Lab) -> Finding:
    beta = derived(optimizer="sgd", layer=FEED_FORWARD, method="lemma")
    absent = exponent_of(beta) != sp.Rational(-1, 4)
    return lab.proved(absent, f"feed-forward alone: beta = {beta}")


@CLAIM.stated("m maps give N^{−1/m}: a gated branch of three, N^{−1/3}", REFUTED)
def three_maps(lab: Lab) -> Finding:
    beta = derived(optimizer="sgd", layer=GATED, method="lemma")
    third = exponent_of(beta) == sp.Rational(-1, 3)
    return lab.proved(third, f"three scaled maps: beta = {beta}")


@CLAIM.correction("m scaled maps give N^{−1/(2m)} under SGD and N^{−1/m} under Adam", PROVED)
def by_hand(lab: Lab) -> Finding:
    found = {}
    for layer, maps in SCALED.items():
        for optimizer, power in (("sgd", 2), ("adam", 1)):
            expected = balanced_by_hand(maps, power)
            beta = derived(optimizer=optimizer, layer=layer, closure="symmetric")
            found[f"{optimizer}, {layer}"] = equal(formula(beta), expected)
    return lab.proved(all(found.values()), "N (β^{m−1}/α)^{1+p} = 1 with α = 1/β, solved by hand")


@CLAIM.ours("the same N^{−1/4} with attention alone", PROVED)
def attention_alone(lab: Lab) -> Finding:
    beta = derived(optimizer="sgd", layer=ATTENTION, method="lemma")
    held = exponent_of(beta) == sp.Rational(-1, 4)
    return lab.proved(held, f"attention alone: beta = {beta}, of value and output")


@CLAIM.ours("feed-forward alone at N^{−1/4}: the update is constant in depth", SUPPORTED)
def measured(lab: Lab) -> Finding:
    found = updates(lab, FEED_FORWARD, "1/4")
    return lab.exponent(found, 0.0, (("N^{−1/2}, Adam's rule", -1.0),))


@CLAIM.correction("three maps at N^{−1/6}: the update is constant in depth", SUPPORTED)
def measured_sixth(lab: Lab) -> Finding:
    found = updates(lab, GATED, "1/6")
    return lab.exponent(found, 0.0, (("N^{−1/3}, the sentence's rule", -1.0),))


@CLAIM.ours("three maps at N^{−1/3}: the update falls as 1/N", SUPPORTED)
def measured_third(lab: Lab) -> Finding:
    return lab.exponent(updates(lab, GATED, "1/3"), -1.0, (("constant", 0.0),))


def derived(**chosen: str) -> str:
    """β of the one kind of sublayer, as the engine derives it."""
    (entry,) = derive(**chosen).rule.entries
    return entry.beta


def exponent_of(monomial: str) -> Expr:
    """The exponent in N."""
    depth = sp.Symbol("N", positive=True)
    return sp.simplify(depth * sp.diff(sp.log(formula(monomial)), depth))


def balanced_by_hand(maps: int, power: int) -> Expr:
    """β of N·(β^{m−1}/α)^{power} = 1 with α = 1/β: N·β^{m·power} = 1."""
    depth, b = sp.symbols("N b", positive=True)
    (found,) = sp.solve(sp.log(depth) + maps * power * sp.log(b), b)
    return found


def updates(lab: Lab, layer: str, power: str) -> Fit:
    """The exponent of ‖ΔF‖/η at α = N^power, β = N^−power, in a stack of one kind of sublayer."""
    at = lab.pick((32, 64, 128, 256), (32, 64, 128, 256, 512))
    net = Net(f"N**({power})", f"N**(-{power})", layer=layer)
    return lab.settled(at, model_updates(net, at, lab.small(seeds=lab.pick(8, 16))))
