from functools import partial

from paper_checks.shared.bench import Claim, Expr, Finding, Lab, sp, torch
from paper_checks.shared.record import CAKE, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import PLAIN, residual_sums

CLAIM = Claim(
    name="cake-ln-jacobian",
    source=f"{CAKE}, §5.1, from Xiong et al., arXiv 2002.04745, Lemma 3",
    statement="‖∂LN(z)/∂z‖₂ ≈ √d/‖z‖₂ (spectral norm).",
    conditions=(
        "LayerNorm without gain; z ≠ 0 of d entries, 2 to 256; real residual sums of built stacks"
    ),
    finding="""For centred z of three or more entries √d/‖z‖ is the spectral norm exactly, not
        approximately: the Jacobian is √d/‖z‖ times a projection onto d − 2 directions. In real
        stacks αx is centred and the branch's mean is one direction of d, so the formula is off by
        less than 2 % at width 64: the source's ≈ holds where it is used. As an equality for any z
        it would not: a mean makes the true norm larger, √d/‖z − mean‖, and at d = 2 the Jacobian
        vanishes.""",
    counterexample=(
        "z = (a, b) with a > b: LN(z) = (1, −1) is constant, its Jacobian is 0 and not √2/‖z‖."
    ),
    corrected="‖∂LN/∂z‖₂ = √d/√(‖z − mean(z)‖² + dε) for d ≥ 3.",
)


@CLAIM.stated("centred z, d ≥ 3, no ε", PROVED)
def centred(lab: Lab) -> Finding:
    exact = all(top_of(z) * sp.Rational(length(z), len(z)) == 1 for z in POINTS)
    because = "the largest singular value at rational points of 3, 4 and 5 entries"
    return lab.proved(exact, because)


@CLAIM.stated("in real stacks, z = αx + G(x): within 2 %", SUPPORTED)
def real(lab: Lab) -> Finding:
    gaps = []
    for _, x, out in residual_sums(PLAIN.trial(lab.pick(4, 12), lab.small(width=64))):
        z = x + out
        spread = (z - z.mean(-1, keepdim=True)).norm(dim=-1)
        gaps.append((z.norm(dim=-1) / spread).flatten(1).mean(1))
    what = "√d/‖z − mean‖ over √d/‖z‖ of the residual sums at width 64"
    return lab.within(lab.mean(torch.stack(gaps).mean(0)), 0.98, 1.02, what)


@CLAIM.ours("d = 2", REFUTED)
def two(lab: Lab) -> Finding:
    top = top_of((1, -1))
    return lab.proved(top == 1, f"two entries: LN(z) = (±1, ∓1), the Jacobian's norm is {top}")


@CLAIM.ours("z with a mean, as an equality", REFUTED)
def with_mean(lab: Lab) -> Finding:
    moved = tuple(e + 1 for e in POINTS[0])
    square = top_of(moved) * sp.Rational(length(moved), len(moved))
    return lab.proved(square == 1, f"at z = {moved} the true norm is {sp.sqrt(square)} times it")


@CLAIM.correction("√d/‖z − mean(z)‖ for d ≥ 3, and √d/√(‖z − mean(z)‖² + dε) with ε", PROVED)
def corrected(lab: Lab) -> Finding:
    moved = {z: tuple(e + 1 for e in z) for z in POINTS}
    exact = all(top_of(m) * sp.Rational(length(z), len(z)) == 1 for z, m in moved.items())
    gap = torch_gap(lab)
    because = f"at rational points of mean 1; torch's Jacobian, with ε too, agrees within {gap:.1e}"
    return lab.proved(exact and gap < 1e-9, because)


POINTS = ((1, -3, 2), (1, 2, -4, 1), (5, -1, -1, -2, -1))  # centred


def length(z: tuple[int, ...]) -> int:
    """‖z‖²."""
    return sum(e * e for e in z)


def top_of(z: tuple[int, ...]) -> Expr:
    """‖∂LN/∂z‖₂² at a point, exactly."""
    d = len(z)
    x = sp.symbols(f"z_1:{d + 1}", real=True)
    centre = [e - sp.Add(*x) / d for e in x]
    size = sp.sqrt(sp.Add(*(e**2 for e in centre)) / d)
    at = dict(zip(x, z, strict=True))
    jacobian = sp.Matrix([e / size for e in centre]).jacobian(x).subs(at)
    gram = (jacobian.T * jacobian).applyfunc(sp.nsimplify)
    return max(gram.eigenvals(), key=sp.N)


def torch_gap(lab: Lab) -> float:
    """How far the norm of torch's own Jacobian is from the corrected one, relatively."""
    g, gaps = lab.generator(11), []
    for d in lab.pick((3, 8, 64), (3, 4, 8, 16, 64, 256)):
        for shift, eps in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.5)):
            z = lab.normal(g, d)
            z = 1.7 * (z - z.mean()) + shift
            norm = partial(torch.nn.functional.layer_norm, normalized_shape=(d,), eps=eps)
            jacobian = torch.autograd.functional.jacobian(norm, z)  # type: ignore[no-untyped-call]
            top = torch.linalg.matrix_norm(jacobian, 2)
            gaps.append(abs(float(top * (z.var(unbiased=False) + eps).sqrt()) - 1))
    return max(gaps)
