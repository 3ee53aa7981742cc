from paper_checks.shared.bench import Claim, Finding, Interval, Lab, Tensor, judge, once, sp, torch
from paper_checks.shared.record import PROVED, SUPPORTED
from paper_checks.shared.wide import (
    HIDDEN,
    MUP_WEIGHTS,
    Network,
    Step,
    adam,
    lars,
    sgd,
    spectral,
    widths,
)

CLAIM = Claim(
    name="width-spectral",
    source="""Yang, Simon and Bernstein, 'A Spectral Condition for Feature Learning', arXiv
        2310.17813, Condition 1 and abstract""",
    statement="""Features are learnt at every width if ‖W‖₂ and ‖ΔW‖₂ are Θ(√(n_out/n_in)), in
        contrast to heuristics by the Frobenius norm and the size of entries; μP follows.""",
    conditions="""an explicit network of an embedding, two hidden maps and a head, first steps of
        SGD and Adam at widths 128 to 1,024 (2,048 in the full run), 4 tokens; single gradients of 4
        to 8n independent tokens, widths 64 to 512""",
    finding="""Right, and at rank one exactly: a step then acts on its own token with all of its
        spectral norm. μP's rates put ‖ΔW‖₂ there for SGD and for Adam, in all three shapes; a step
        of a fixed share of ‖W‖_F has a ‖ΔW‖₂ that is √n too large. The sign of a rank-one gradient
        has the norm √(n_out n_in), which is what makes Adam's hidden rate 1/n. That belongs to few
        tokens: of 8n independent ones the sign has a norm of √n, the condition asks for n^{−1/2},
        and μP's table for Adam would be too small by √n.""",
    seconds=(5, 30),
)
WANTED = {"E": 0.5, "W2": 0.0, "H": -0.5}  # √(n_out/n_in): of an embedding n_out, of a head n_in
RATES = {"sgd": {"embedding": 1.0, "head": -1.0}, "adam": {HIDDEN: -1.0, "head": -1.0}}


@CLAIM.stated("at rank one ‖ΔW x‖ = ‖ΔW‖₂‖x‖ for the token of the gradient", PROVED)
def rank_one(lab: Lab) -> Finding:
    held = []
    for rows, inputs in ((2, 3), (3, 2), (1, 3)):
        u, x = (
            sp.Matrix(sp.symbols(f"{s}0:{n}", real=True)) for s, n in (("u", rows), ("x", inputs))
        )
        step = u * x.T
        (top,) = {sp.factor(v) for v in (step * step.T).eigenvals()} - {0}
        acted = step * x
        held.append(sp.expand(acted.dot(acted) - top * x.dot(x)) == 0)
    return lab.proved(all(held), "symbolic u and x: ‖u xᵀx‖² is the top eigenvalue times ‖x‖²")


@judge
def of_a_step(lab: Lab, step: Step) -> Finding:
    found = norms(lab)[step.__name__]
    rivals = (("a width too much", 1.0), ("a width too little", -1.0))
    return lab.exponent({n: found[n] for n in WANTED}, WANTED, rivals)


CLAIM.stated("μP under SGD has ‖ΔW‖₂ ~ √(n_out/n_in)", SUPPORTED)(of_a_step(sgd))
CLAIM.stated("and under Adam", SUPPORTED)(of_a_step(adam))


@CLAIM.stated("a step of a fixed share of ‖W‖_F does not: ‖ΔW‖₂ grows as √n", SUPPORTED)
def frobenius(lab: Lab) -> Finding:
    return lab.exponent(norms(lab)["lars"]["W2"], 0.5, (("flat", 0.0),))


@CLAIM.ours("‖sign(u vᵀ)‖₂ = √(n_out n_in)", PROVED)
def sign(lab: Lab) -> Finding:
    held = []
    for signs in ((1, -1), (1, 1, -1)), ((1, -1, -1), (-1,)), ((-1, 1, 1), (1, -1, 1)):
        s, t = (sp.Matrix(one) for one in signs)
        top = max((s * t.T * t * s.T).eigenvals())
        held.append(top == len(s) * len(t))
    return lab.proved(all(held), "sign(u vᵀ) = sign(u) sign(v)ᵀ, whose square has the value mn")


@CLAIM.ours("of 8n independent tokens ‖sign(g)‖₂ grows as √n", SUPPORTED)
def many_tokens(lab: Lab) -> Finding:
    at = tuple(n // 2 for n in widths(lab)[:-1])
    norms = []
    for n in at:
        source = lab.generator(n)
        delta, x = (torch.randn(16, n, 8 * n, generator=source) for _ in range(2))
        norms.append(torch.linalg.matrix_norm((delta @ x.mT).sign(), 2))
    found = lab.power(at, lab.columns(norms))
    return lab.exponent(found, 0.5, (("of rank one, n", 1.0),))


@once
def norms(lab: Lab) -> dict[str, dict[str, Interval]]:
    """The exponents of ‖ΔW‖₂ of a step at μP's rates; of LARS's at one rate."""
    found: dict[str, dict[str, Interval]] = {}
    for step in (sgd, adam, lars):
        powers = MUP_WEIGHTS.rates(**RATES.get(step.__name__, {}))
        each: dict[str, list[Tensor]] = {name: [] for name in WANTED}
        for width in widths(lab):
            steps = Network(powers, width, lab.pick(32, 16), lab.generator(width), tokens=1).steps(
                step
            )
            for name in WANTED:
                each[name].append(spectral(steps[name]))
        found[step.__name__] = {n: lab.power(widths(lab), lab.columns(v)) for n, v in each.items()}
    return found
