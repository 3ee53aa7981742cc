from paper_checks.shared.bench import Claim, Finding, Lab, sp
from paper_checks.shared.record import CAKE, PROVED

CLAIM = Claim(
    name="cake-index-ranges",
    source=f"{CAKE}, §5.1 (2), the two sums over ∂z_i/∂w_jk",
    statement="(∂z/∂vec(W) Δvec(W))_i is the sum of x_j v_ki R_k Δw_jk over W's entries.",
    conditions="W ∈ R^{d×m}, V ∈ R^{m×d}, any x, R",
    finding="""The sum over W's entries is the derivative, and the second moment that follows,
        dv²/2m · E‖ΔW‖², is that of this sum. A note on the print: its two ranges are exchanged in
        §5.1 (2), where w_jk has j ≤ d and k ≤ m as the same section's z_i writes it; read by the
        letter it asks for entries that do not exist and leaves out others unless m = d.""",
)
SIZES = (((1, 2), (2, 3), (3, 2)), ((1, 2), (2, 1), (2, 3), (3, 2), (3, 4)))  # quick, full: (d, m)


@CLAIM.stated("the sum over W's entries is the derivative", PROVED)
def over_the_entries(lab: Lab) -> Finding:
    chosen = (*lab.pick(*SIZES), (2, 2))
    same = all(agrees(d, m, rows=d, columns=m) for d, m in chosen)
    return lab.proved(same, f"Σ_{{j=1}}^{{d}} Σ_{{k=1}}^{{m}} at (d, m) = {chosen}")


@CLAIM.ours("the printed ranges, exchanged, mean the same only where m = d", PROVED)
def as_printed(lab: Lab) -> Finding:
    sizes = lab.pick(*SIZES)
    square = all(agrees(n, n, rows=n, columns=n) for n in (1, 2, 3))
    apart = not any(agrees(d, m, rows=m, columns=d) for d, m in sizes)
    because = f"Σ_{{j=1}}^{{m}} Σ_{{k=1}}^{{d}} is the derivative at m = d and at none of {sizes}"
    return lab.proved(square and apart, because)


def agrees(d: int, m: int, *, rows: int, columns: int) -> bool:
    """Whether Σ_{j ≤ rows} Σ_{k ≤ columns} x_j v_k1 R_k ΔW_jk is z_1's derivative along ΔW."""
    t, x = sp.Symbol("t"), sp.symbols(f"x_1:{d + 1}")
    R, V = sp.symbols(f"R_1:{m + 1}"), sp.symbols(f"V_1:{m + 1}")
    W, dW = sp.MatrixSymbol("W", d, m), sp.MatrixSymbol("D", d, m)
    if rows > d or columns > m:
        return False  # the sum asks for an entry that does not exist
    z = sum(x[j] * (W[j, k] + t * dW[j, k]) * R[k] * V[k] for j in range(d) for k in range(m))
    total = sum(x[j] * V[k] * R[k] * dW[j, k] for j in range(rows) for k in range(columns))
    return bool(sp.expand(sp.diff(z, t) - total) == 0)
