"""Slips of notation in §4.2 and §4.3 that change no result."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

BRACKETS, INDEX, SUM = (
    "the last chain of inequalities of §4.3 is well formed as printed",
    "f(x_{2N}, θ_{2N}) without its index is the same function as f_{2N}",
    "with the bracket closed: Σ_{i=1}^{2N} (√(v² + w²)/α)² = 2N(v² + w²)/α²; K odd as well",
)
PRINTED = (
    r"\mathcal O(\eta\sum_{i=1}^{2N}(\frac{\sqrt{v_i^2+w_i^2}}{\alpha})^2"
    r"=\mathcal O(\eta\cdot2N\frac{v^2+w^2}{\alpha^2})"
)


def check(context: Context) -> tuple[Finding, ...]:
    """Brackets counted, sublayers of different gains compared, odd products multiplied out."""
    from itertools import product

    import sympy as sp

    from paper_checks._verdicts import proved

    opened, closed = PRINTED.count("("), PRINTED.count(")")
    v, w, a, x = sp.symbols("v w alpha x", positive=True)

    def sublayer(gain: sp.Expr) -> sp.Expr:
        return (a + gain * w) / sp.sqrt(a**2 + gain**2 * w**2) * x

    differ = sp.simplify(
        sublayer(v).subs({a: 2, v: 1, w: 1}) - sublayer(v).subs({a: 2, v: 2, w: 1})
    )
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
        proved(INDEX, differ == 0, f"sublayers of gains v = 1 and v = 2 differ by {differ}"),
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
        Ruling(INDEX, Verdict.REFUTED),
        Ruling(SUM, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "Three slips without consequences: a bracket of the first O is never closed, the "
        "sublayer f_{2N} loses its index in the first line of the "
        "proof, and the restriction to an even number of Jacobians is not needed, since "
        "the geometric mean has the printed form for odd numbers too."
    ),
    counterexample="K = 1: the geometric mean of (1 ± r)/√(1 + r²) is ((1 − r²)/(1 + r²))^{1/2}.",
    corrected=(
        "O(η Σ_{i=1}^{2N} (√(v_i² + w_i²)/α)²) = O(η·2N(v² + w²)/α²) for equal gains; "
        "f_{2N}(x_{2N}, θ_{2N}); any K."
    ),
    check=check,
    seconds=0.5,
)
