"""Encoder–decoder: 0.81(N⁴M)^{1/16}, 0.87(N⁴M)^{−1/16}; (3M)^{1/4}, (12M)^{−1/4}."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

DECODER, RADICALS, DECIMALS, ONCE, TWICE = (
    "decoder: (3M)^{1/4}, (12M)^{−1/4}",
    "encoder: 3^{−3/16}(N⁴M)^{1/16} and 3^{3/16}2^{−1/2}(N⁴M)^{−1/16}",
    "0.81 and 0.87 are their roundings",
    "counting the decoder's amplification once, as published",
    "counting it for the forward and the backward pass: (N²M)^{1/8} up to a constant",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Two linear systems in logarithms, one after the other; the engine's rule beside them."""
    import sympy as sp

    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from paper_checks.shared.verdicts import proved

    N, M = sp.symbols("N M", positive=True)
    q = sp.Rational

    def solve(share):  # type: ignore[no-untyped-def]
        """α and β of share·2β²/α² = 1 with √2 β = 1/α: α⁴ = share."""
        return share ** q(1, 4), (4 * share) ** q(-1, 4)

    decoder = solve(3 * M)
    amplification = M * decoder[1] ** 2 / decoder[0]
    encoder = solve(2 * N * amplification)
    doubled = solve(2 * N * amplification**2)
    claimed = (
        3 ** q(-3, 16) * (N**4 * M) ** q(1, 16),
        3 ** q(3, 16) / sp.sqrt(2) * (N**4 * M) ** q(-1, 16),
    )

    def equal(x, y):  # type: ignore[no-untyped-def]
        return sp.simplify(sp.expand_log(sp.log(x / y), force=True)) == 0

    entries = {
        e.part: e
        for e in derive(
            Selection(optimizer="sgd", stack="encoder-decoder", method="lemma")
        ).rule.entries
    }
    parsed = {
        k: tuple(sp.sympify(t, locals={"N": N, "M": M}) for t in (e.alpha, e.beta))
        for k, e in entries.items()
    }
    numbers = [float(claimed[0].subs({N: 1, M: 1})), float(claimed[1].subs({N: 1, M: 1}))]
    balance = 2 * N * (2 * encoder[1] ** 2) / encoder[0] ** 2 * amplification
    half = sp.simplify(
        sp.expand_log(sp.log(doubled[0] / (N ** q(1, 4) * M ** q(1, 8))), force=True)
    ).free_symbols
    return (
        proved(
            DECODER,
            equal(decoder[0], (3 * M) ** q(1, 4))
            and equal(decoder[1], (12 * M) ** q(-1, 4))
            and all(map(equal, parsed["decoder"], decoder)),
            "α⁴ = 3M, β⁴ = 1/(12M); the engine derives the same",
        ),
        proved(
            RADICALS,
            all(map(equal, encoder, claimed)) and all(map(equal, parsed["encoder"], claimed)),
            "from A·2N·2β²/α² = 1 with A = Mβ_d²/α_d; the engine derives the same",
        ),
        proved(
            DECIMALS,
            [round(x, 2) for x in numbers] == [0.81, 0.87],
            f"{numbers[0]:.6f} and {numbers[1]:.6f}",
        ),
        proved(
            ONCE, equal(balance, sp.Integer(1)), "substituted back, the share of the encoder is 1"
        ),
        proved(
            TWICE,
            not half
            and equal(doubled[0], (6 * sp.sqrt(3)) ** q(-1, 4) * N ** q(1, 4) * M ** q(1, 8)),
            f"α_e = {sp.powsimp(doubled[0], force=True)}",
        ),
    )


CLAIM = Claim(
    name="deepnet-encoder-decoder",
    source="DeepNet, arXiv 2203.00555, Figure 2 (b), §4.3 and Appendix B",
    statement=(
        "Encoder α = 0.81(N⁴M)^{1/16}, β = 0.87(N⁴M)^{−1/16}; decoder α = (3M)^{1/4}, β = "
        "(12M)^{−1/4}."
    ),
    conditions="SGD, closure √(v² + w²) = 1/α in both parts, N encoder and M decoder layers",
    recorded=(
        Ruling(DECODER, Verdict.PROVED),
        Ruling(RADICALS, Verdict.PROVED),
        Ruling(DECIMALS, Verdict.PROVED),
        Ruling(ONCE, Verdict.PROVED),
        Ruling(TWICE, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "The decimals are roundings of 3^{−3/16} = 0.8139 and 3^{3/16}/√2 = 0.8688: N "
        "and M enter as (N⁴M)^{1/16} because the encoder's "
        "share is multiplied by the decoder's amplification A = M v_d w_d/α_d = "
        "M^{1/4}/(√12·3^{1/4}). The paper counts A once. A change of the encoder's "
        "parameters passes the cross-attentions forward and its gradient passes them "
        "backward; counting both gives α_e = const·(N²M)^{1/8}."
    ),
    corrected=(
        "α_e = 3^{−3/16}(N⁴M)^{1/16}, β_e = 3^{3/16}2^{−1/2}(N⁴M)^{−1/16} exactly "
        "(amplification once); α_e = (6√3)^{−1/4}(N²M)^{1/8} if it is counted forward and "
        "backward."
    ),
    check=check,
    seconds=3.0,
)
