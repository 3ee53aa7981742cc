from paper_checks.shared.bench import Claim, Finding, Lab, sp
from paper_checks.shared.record import NOTE, PROVED

CLAIM = Claim(
    name="norms-direct-sum",
    source=f"{NOTE}, §1, 'Reason', second displayed equation, last line",
    statement="""F_t(Norm(x_t)) + F_t(Norm(x_t)) = (F_t ⊕ F_t)(F_t(Norm(x_t))), where the last
        argument can only be meant as Norm(x_t).""",
    conditions="any branch whose last map is linear; F and G may differ",
    finding="""Exact as it is meant, and for different branches too: two branches that read the same
        input are one, their hidden layers (or heads) side by side. As printed the last line applies
        F_t twice, a slip of the pen: its argument should be Norm(x_t), not F_t(Norm(x_t)).""",
    corrected="F_t(Norm(x_t)) + F_{t+1}(Norm(x_t)) = (F_t ⊕ F_{t+1})(Norm(x_t)).",
)


@CLAIM.stated("F(u) + G(u) = (F ⊕ G)(u), one layer of both hidden layers side by side", PROVED)
def side_by_side(lab: Lab) -> Finding:
    u, a, b, c, d = sp.symbols("u a b c d", real=True)
    relu = sp.Function("relu")
    wide = (sp.Matrix([[c, d]]) * sp.Matrix([relu(a * u), relu(b * u)]))[0]
    holds = sp.expand(c * relu(a * u) + d * relu(b * u) - wide) == 0
    return lab.proved(holds, "one hidden unit each, undefined activation")


@CLAIM.ours("as printed, (F ⊕ F)(F(u)), the branch acts twice and the sides differ", PROVED)
def as_printed(lab: Lab) -> Finding:
    left, right = 2 * 2, 2 * (2 * 2)
    because = f"F(u) = 2u at u = 1: {left} on the left, {right} on the right"
    return lab.proved(left != right, because)
