from collections.abc import Iterable

from paper_checks.shared.bench import Claim, Finding, Lab, Tensor, sp, torch
from paper_checks.shared.record import NOTE, PROVED, SUPPORTED

CLAIM = Claim(
    name="norms-direct-sum",
    source=f"{NOTE}, §1, 'Reason', second displayed equation, last line",
    statement="""F_t(Norm(x_t)) + F_t(Norm(x_t)) = (F_t ⊕ F_t)(F_t(Norm(x_t))), where the last
        argument can only be meant as Norm(x_t).""",
    conditions="any branch; feed-forward with ReLU and softmax attention for the wide layer",
    finding="""Exact as it is meant, and for different branches too: two feed-forward branches that
        read the same input are one of twice the hidden width, two attention branches one of twice
        the heads. As printed the last line applies F_t twice, a slip of the pen: its argument
        should be Norm(x_t), not F_t(Norm(x_t)).""",
    corrected="F_t(Norm(x_t)) + F_{t+1}(Norm(x_t)) = (F_t ⊕ F_{t+1})(Norm(x_t)).",
)


@CLAIM.stated("F(u) + G(u) = (F ⊕ G)(u), one layer of both hidden layers side by side", PROVED)
def side_by_side(lab: Lab) -> Finding:
    u, a, b, c, d = sp.symbols("u a b c d", real=True)
    relu = sp.Function("relu")
    wide = (sp.Matrix([[c, d]]) * sp.Matrix([relu(a * u), relu(b * u)]))[0]
    holds = sp.expand(c * relu(a * u) + d * relu(b * u) - wide) == 0
    return lab.proved(holds, "one hidden unit each, undefined activation")


@CLAIM.ours("for feed-forward branches, with G ≠ F: twice the hidden width", SUPPORTED)
def feed_forward(lab: Lab) -> Finding:
    g = lab.generator()
    shapes = ((5, 8), (8, 16), (8, 16), (16, 8), (16, 8))
    x, W1, W2, V1, V2 = (lab.normal(g, *shape) for shape in shapes)
    two = torch.relu(x @ W1) @ V1 + torch.relu(x @ W2) @ V2
    one = torch.relu(x @ torch.cat([W1, W2], 1)) @ torch.cat([V1, V2], 0)
    return same(lab, one, two)


@CLAIM.ours("for attention branches, with G ≠ F: twice the heads", SUPPORTED)
def attention(lab: Lab) -> Finding:
    g = lab.generator(1)
    x = lab.normal(g, 5, 8)
    # Q, K, V (8, 8) and O (8, 8) of two attentions of two heads each; heads lie side by side
    one, other = lab.normal(g, 2, 4, 8, 8)
    both = [torch.cat([a, b], 1) for a, b in zip(one[:3], other[:3], strict=True)]
    wider = attend(x, (*both, torch.cat([one[3], other[3]], 0)), heads=4)
    return same(lab, wider, attend(x, one, heads=2) + attend(x, other, heads=2))


@CLAIM.ours("as printed, (F ⊕ F)(F(u)), the branch acts twice and the sides differ", PROVED)
def as_printed(lab: Lab) -> Finding:
    left, right = 2 * 2, 2 * (2 * 2)
    because = f"F(u) = 2u at u = 1: {left} on the left, {right} on the right"
    return lab.proved(left != right, because)


def same(lab: Lab, one: Tensor, two: Tensor) -> Finding:
    """Whether an identity holds to rounding at drawn points."""
    difference = float((one - two).abs().max())
    return lab.seen(difference < 1e-12, f"largest difference {difference:.1e}")


def attend(x: Tensor, matrices: Iterable[Tensor], heads: int) -> Tensor:
    """Softmax attention of (tokens, d) through Q, K, V and O, with heads of width 4."""
    *inner, out = matrices
    q, k, v = ((x @ m).reshape(len(x), heads, 4).transpose(0, 1) for m in inner)
    mixed = (q @ k.mT / 2).softmax(-1) @ v
    return mixed.transpose(0, 1).flatten(1) @ out
