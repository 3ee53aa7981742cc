"""Slips of notation in §4.2 and §4.3 that change no result."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

BRACKETS, INDEX, INDEX_REAL, SUM = (
    "the last chain of inequalities of §4.3 is well formed as printed",
    "f(x_{2N}, θ_{2N}) without its index is the same function as f_{2N}: scalars, x, v, w > 0",
    "the same for attention and feed-forward sublayers as they are",
    "with the bracket closed: Σ_{i=1}^{2N} (√(v² + w²)/α)² = 2N(v² + w²)/α²; K odd as well",
)
PRINTED = (
    r"\mathcal O(\eta\sum_{i=1}^{2N}(\frac{\sqrt{v_i^2+w_i^2}}{\alpha})^2"
    r"=\mathcal O(\eta\cdot2N\frac{v^2+w^2}{\alpha^2})"
)


def check(context: Context) -> tuple[Finding, ...]:
    """Brackets counted, both kinds of branch at d = n = 1, odd products multiplied out."""
    from itertools import product

    import sympy as sp

    from paper_checks.shared.verdicts import proved

    opened, closed = PRINTED.count("("), PRINTED.count(")")
    v, w, a, x, score = sp.symbols("v w alpha x q", positive=True)

    def attention(y: sp.Expr) -> sp.Expr:  # one token: the softmax of one score
        return sp.exp(score) / sp.exp(score) * y * v * w

    def feed_forward(y: sp.Expr) -> sp.Expr:
        return sp.Max(0, y * v) * w

    same = sp.simplify(attention(x) - feed_forward(x)) == 0
    at = {v: 1, w: 1}
    apart = [branch(sp.Integer(-1)).subs(at) for branch in (attention, feed_forward)]
    r = sp.Rational(1, 3)
    odd = []
    for count in (1, 3):
        logs = sum(
            sp.log(sp.Mul(*((1 + s * r) / sp.sqrt(1 + r**2) for s in signs)))
            for signs in product((1, -1), repeat=count)
        )
        claimed = sp.log(((1 - r**2) / (1 + r**2)) ** sp.Rational(count, 2))
        odd.append(abs(sp.N(logs / 2**count - claimed, 30)) < 1e-25)
    sums = [
        sp.simplify(
            sum((sp.sqrt(v**2 + w**2) / a) ** 2 for _ in range(2 * n))
            - 2 * n * (v**2 + w**2) / a**2
        )
        for n in (1, 2, 5)
    ]
    return (
        proved(BRACKETS, opened == closed, f"{opened} brackets opened, {closed} closed"),
        proved(INDEX, same, "both branches are vwx: f_l depends on l through θ_l alone"),
        proved(
            INDEX_REAL,
            apart[0] == apart[1],
            f"x = −1, v = w = 1: attention's branch is {apart[0]}, the feed-forward one {apart[1]}",
        ),
        proved(SUM, all(s == 0 for s in sums) and all(odd), "added up at N = 1, 2, 5; K = 1, 3"),
    )


CLAIM = Claim(
    name="cake-notation-slips",
    source=(
        "Transformer layer cake (AI推公式), §4.2 (first line of the proof), §4.3 (product of "
        "Jacobians, last chain of inequalities)"
    ),
    statement=(
        "… ≤ O(η Σ_{i=1}^{2N} (√(v_i² + w_i²)/α)² = O(η·2N(v² + w²)/α²); ‖f_{2N}(x*, θ*) − "
        "f(x, θ)‖; K = 2N − i even."
    ),
    conditions="as printed",
    recorded=(
        Ruling(BRACKETS, Verdict.REFUTED),
        Ruling(INDEX, Verdict.PROVED),
        Ruling(INDEX_REAL, Verdict.REFUTED),
        Ruling(SUM, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "Slips without consequences. A bracket of the first O is never closed. The sublayer "
        "f_{2N} loses its index in the first line of the proof, which changes nothing for the "
        "scalar sublayers of the proof (both kinds are the same function of x and θ_l) and "
        "would for attention and feed-forward as they are. The restriction to an even number "
        "of Jacobians is not needed: the geometric mean has the printed form for odd numbers too."
    ),
    counterexample=(
        "The printed chain opens three brackets and closes two; one token of one entry, x = −1, "
        "v = w = 1: attention's branch is −1, the feed-forward one 0."
    ),
    corrected=(
        "O(η Σ_{i=1}^{2N} (√(v_i² + w_i²)/α)²) = O(η·2N(v² + w²)/α²) for equal gains; "
        "f_{2N}(x_{2N}, θ_{2N}); any K."
    ),
    check=check,
    seconds=0.5,
)
