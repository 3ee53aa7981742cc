from paper_checks.shared.bench import Claim, Finding, Lab, judge
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import PROVED, SU, SUPPORTED
from paper_checks.shared.rules import CONDITIONS, balanced
from paper_checks.shared.stacks import Net, update_exponents

CLAIM = Claim(
    name="su-prenorm",
    source=f"{SU}, §Post-hoc analysis, second paragraph",
    statement="""The same analysis holds for Pre-Norm: set α = 1 in the results and solve for λ
        anew.""",
    conditions="""pre-LN encoder with final norm, matrices stepped, 12 to 144 layers, widths 32 to
        128; text, independent and correlated tokens""",
    finding="""With α = 1 the balance gives λ = (2N)^{−1/2} for SGD and LAMB and 1/(2N) for Adam,
        and each keeps its optimizer's update constant in depth on pre-LN stacks (exponents within
        0.02 of 0). Re-solving is necessary: with the λ = (2N)^{−1/2} of its post-LN rule Adam's
        update grows as N^{1/2}.""",
    seconds=(4, 34),
)

RULES = {"sgd": "(2*N)**(-1/2)", "adam": "1/(2*N)", "lamb": "(2*N)**(-1/2)"}
RIVALS = (("Adam's rule", -1.0), ("linear growth", 1.0))


@CLAIM.stated("α = 1 gives λ = (2N)^{−1/2}, (2N)^{−1}, (2N)^{−1/2} for SGD, Adam, LAMB", PROVED)
def rules(lab: Lab) -> Finding:
    derived, holds = {}, True
    for name, written in RULES.items():
        derivation = derive(optimizer=name, placement="pre-ln")
        entry = derivation.rule.entries[0]
        derived[name] = (entry.alpha, entry.beta)
        # Su's conditions with α = 1, solved without the engine
        _, lam = balanced(*CONDITIONS[name][:2], "unit-residual")
        holds &= all(equal(formula(t), lam) for t in (written, entry.beta))
        holds &= entry.alpha == "1" and derivation.verdict is PROVED
    because = "Su's balance solved with α = 1; the derivation from pre-LN's equation agrees"
    return lab.proved(holds, because, **derived)


@judge
def updates(
    lab: Lab, optimizer: str, beta: str, exponent: float, *rivals: tuple[str, float]
) -> Finding:
    """The exponent of ‖ΔF‖/η of pre-LN stacks with α = 1."""
    conditions = lab.variations(("width 128", "independent tokens", "correlated tokens"))
    found = update_exponents(Net("1", beta, optimizer, "pre-ln"), lab.depths(), conditions)
    return lab.exponent(found, exponent, rivals)


CLAIM.stated("constant update under SGD", SUPPORTED)(updates("sgd", RULES["sgd"], 0.0, *RIVALS))
CLAIM.stated("constant update under Adam", SUPPORTED)(
    updates("adam", RULES["adam"], 0.0, ("SGD's rule", 0.5))
)
CLAIM.stated("constant update under LAMB", SUPPORTED)(updates("lamb", RULES["lamb"], 0.0, *RIVALS))
CLAIM.ours("re-solving matters: with post-LN's λ Adam's update grows as N^{1/2}", SUPPORTED)(
    updates("adam", "(2*N)**(-1/2)", 0.5, ("constant", 0.0))
)
