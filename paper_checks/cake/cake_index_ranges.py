"""The sums over W of §5.1: Σ_{j=1}^m Σ_{k=1}^d or the other way round?"""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

PRINTED, SQUARE, CORRECTED = (
    "Σ_{j=1}^{m} Σ_{k=1}^{d} over W ∈ R^{d×m}, as printed",
    "as printed, for m = d",
    "Σ_{j=1}^{d} Σ_{k=1}^{m}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The directional derivative of z_i in W at explicit sizes, against both sums."""
    from paper_checks.shared.verdicts import proved

    sizes = context.pick(((1, 2), (2, 3), (3, 2)), ((1, 2), (2, 1), (2, 3), (3, 2), (3, 4)))
    printed = {s: _agrees(*s, swapped=True) for s in sizes}
    mended = {s: _agrees(*s, swapped=False) for s in (*sizes, (2, 2))}
    square = {n: _agrees(n, n, swapped=True) for n in (1, 2, 3)}
    return (
        proved(
            PRINTED, all(printed.values()), f"agreement with the derivative at (d, m): {printed}"
        ),
        proved(SQUARE, all(square.values()), "for m = d both sums have the same terms"),
        proved(CORRECTED, all(mended.values()), f"agreement at (d, m): {mended}"),
    )


def _agrees(d: int, m: int, *, swapped: bool) -> bool:
    """Whether the double sum of x_j v_ki R_k ΔW_jk is the derivative of z_1 along ΔW."""
    import sympy as sp

    t = sp.Symbol("t")
    x = sp.symbols(f"x_1:{d + 1}")
    R = sp.symbols(f"R_1:{m + 1}")
    W = sp.Matrix(d, m, lambda j, k: sp.Symbol(f"W_{j}_{k}"))
    dW = sp.Matrix(d, m, lambda j, k: sp.Symbol(f"D_{j}_{k}"))
    V = sp.symbols(f"V_1:{m + 1}")
    moved = W + t * dW
    z = sum(x[j] * moved[j, k] * R[k] * V[k] for j in range(d) for k in range(m))
    rows, columns = (m, d) if swapped else (d, m)
    try:
        total = sum(x[j] * V[k] * R[k] * dW[j, k] for j in range(rows) for k in range(columns))
    except IndexError:
        return False  # the sum asks for an entry that does not exist
    return bool(sp.expand(sp.diff(z, t) - total) == 0)


CLAIM = Claim(
    name="cake-index-ranges",
    source="Transformer layer cake (AI推公式), §5.1 (2), the two sums over ∂z_i/∂w_jk",
    statement=(
        "(∂z/∂vec(W) Δvec(W))_i = Σ_{j=1}^{m} Σ_{k=1}^{d} x_j v_ki R_k Δw_jk for W ∈ R^{d×m}."
    ),
    conditions="W ∈ R^{d×m}, V ∈ R^{m×d}, any x, R",
    recorded=(
        Ruling(PRINTED, Verdict.REFUTED),
        Ruling(SQUARE, Verdict.PROVED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "The two ranges are exchanged in §5.1 (2): w_jk has j ≤ d and k ≤ m, as the same "
        "section's z_i writes it. As "
        "printed the sum asks for entries that do not exist and leaves out others unless "
        "m = d. It is a slip of the "
        "pen: the second moment that follows, dv²/2m · E‖ΔW‖², is that of the right sum."
    ),
    counterexample=(
        "d = 1, m = 2: the printed sum asks for w_21, which does not exist, and leaves out w_12."
    ),
    corrected="(∂z/∂vec(W) Δvec(W))_i = Σ_{j=1}^{d} Σ_{k=1}^{m} x_j v_ki R_k Δw_jk.",
    check=check,
    seconds=0.5,
)
