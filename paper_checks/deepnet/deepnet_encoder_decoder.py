from paper_checks.shared.bench import Claim, Finding, Lab, sp
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import DEEPNET, PROVED

CLAIM = Claim(
    name="deepnet-encoder-decoder",
    source=f"{DEEPNET}, Figure 2 (b), §4.3 and Appendix B",
    statement="""Encoder α = 0.81(N⁴M)^{1/16}, β = 0.87(N⁴M)^{−1/16}; decoder α = (3M)^{1/4}, β =
        (12M)^{−1/4}.""",
    conditions="SGD, closure √(v² + w²) = 1/α in both parts, N encoder and M decoder layers",
    finding="""The decimals are roundings of 3^{−3/16} = 0.8139 and 3^{3/16}/√2 = 0.8688: N and M
        enter as (N⁴M)^{1/16} because the encoder's share is multiplied by the decoder's
        amplification A = M v_d w_d/α_d = M^{1/4}/(√12·3^{1/4}). The paper counts A once. A change
        of the encoder's parameters passes the cross-attentions forward and its gradient passes them
        backward; counting both gives α_e = const·(N²M)^{1/8}.""",
    corrected="""α_e = 3^{−3/16}(N⁴M)^{1/16}, β_e = 3^{3/16}2^{−1/2}(N⁴M)^{−1/16} exactly
        (amplification once); α_e = (6√3)^{−1/4}(N²M)^{1/8} if it is counted forward and
        backward.""",
    seconds=3.0,
)

DECODER = ("(3*M)**(1/4)", "(12*M)**(-1/4)")
ENCODER = ("3**(-3/16)*(N**4*M)**(1/16)", "3**(3/16)*2**(-1/2)*(N**4*M)**(-1/16)")
BOTH_WAYS = ("(6*sqrt(3))**(-1/4)*(N**2*M)**(1/8)", "(6*sqrt(3))**(1/4)/sqrt(2)*(N**2*M)**(-1/8)")
SHARES = {"decoder": "3*M", "encoder": "2*N"}  # sublayers of each part
BY_THE_ENGINE = "substituted in both conditions; the engine derives the same"


@CLAIM.stated("decoder: (3M)^{1/4}, (12M)^{−1/4}", PROVED)
def decoder(lab: Lab) -> Finding:
    holds = solves(DECODER, SHARES["decoder"]) and derived("decoder", DECODER)
    return lab.proved(holds, BY_THE_ENGINE)


@CLAIM.stated("encoder: 3^{−3/16}(N⁴M)^{1/16} and 3^{3/16}2^{−1/2}(N⁴M)^{−1/16}", PROVED)
def encoder(lab: Lab) -> Finding:
    holds = solves(ENCODER, SHARES["encoder"], times_amplified=1)
    return lab.proved(holds and derived("encoder", ENCODER), BY_THE_ENGINE)


@CLAIM.stated("0.81 and 0.87 are their roundings", PROVED)
def decimals(lab: Lab) -> Finding:
    constants = {formula("N"): 1, formula("M"): 1}
    numbers = [float(formula(text).subs(constants)) for text in ENCODER]
    rounded = [round(x, 2) for x in numbers] == [0.81, 0.87]
    return lab.proved(rounded, f"{numbers[0]:.6f} and {numbers[1]:.6f}")


@CLAIM.ours("counted for the forward and the backward pass: (N²M)^{1/8} up to a constant", PROVED)
def both_ways(lab: Lab) -> Finding:
    holds = solves(BOTH_WAYS, SHARES["encoder"], times_amplified=2)
    return lab.proved(holds, f"α_e = {BOTH_WAYS[0]}")


def solves(pair: tuple[str, str], sublayers: str, times_amplified: int = 0) -> bool:
    """Whether α, β make the part's share of the update 1 with √2 β = 1/α.

    The share is sublayers·2β²/α², times the decoder's amplification Mβ_d²/α_d. Both conditions
    are linear in log α and log β with determinant −4, so there is no other solution.
    """
    (alpha, beta), (a, b) = (tuple(map(formula, p)) for p in (pair, DECODER))
    amplification = formula("M") * b**2 / a
    share = formula(sublayers) * 2 * beta**2 / alpha**2 * amplification**times_amplified
    unique = sp.Matrix([[-2, 2], [1, 1]]).det() == -4
    return bool(unique and equal(share, sp.Integer(1)) and equal(sp.sqrt(2) * alpha * beta, 1))


def derived(part: str, pair: tuple[str, str]) -> bool:
    """Whether the engine derives α and β for a part."""
    rule = derive(optimizer="sgd", stack="encoder-decoder", method="lemma").rule
    (entry,) = (e for e in rule.entries if e.part == part)
    texts = zip((entry.alpha, entry.beta), pair, strict=True)
    return all(equal(formula(ours), formula(theirs)) for ours, theirs in texts)
