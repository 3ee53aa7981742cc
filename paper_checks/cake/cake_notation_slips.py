from paper_checks.shared.bench import Claim, Expr, Finding, Lab, sp
from paper_checks.shared.record import CAKE, PROVED

CLAIM = Claim(
    name="cake-notation-slips",
    source=f"""{CAKE}, §4.2 (first line of the proof), §4.3 (product of Jacobians, last chain of
        inequalities)""",
    statement="""… ≤ O(η Σ_{i=1}^{2N} (√(v_i² + w_i²)/α)²) = O(η·2N(v² + w²)/α²); ‖f_{2N}(x*, θ*) −
        f(x, θ)‖; K = 2N − i even.""",
    conditions="equal gains; scalar sublayers with x, v, w > 0",
    finding="""What is meant holds; two notes on the print, without consequences. The sublayer
        f_{2N} loses its index in the first line of the proof, which changes nothing for the scalar
        sublayers of the proof (both kinds are the same function of x and θ_l) and would for
        attention and feed-forward as they are. The restriction to an even number of Jacobians is
        not needed, as cake-random-sign proves.""",
)


@CLAIM.stated("Σ_{i=1}^{2N} (√(v² + w²)/α)² = 2N(v² + w²)/α²", PROVED)
def added(lab: Lab) -> Finding:
    v, w, a = sp.symbols("v w alpha", positive=True)
    i, N = sp.Symbol("i", integer=True), sp.Symbol("N", integer=True, positive=True)
    total = sp.summation((sp.sqrt(v**2 + w**2) / a) ** 2, (i, 1, 2 * N))
    same = sp.simplify(total - 2 * N * (v**2 + w**2) / a**2) == 0
    return lab.proved(same, f"the sum is {total}")


@CLAIM.stated("f without its index is f_{2N}, for the scalar sublayers of the proof", PROVED)
def without_index(lab: Lab) -> Finding:
    v, w, x = sp.symbols("v w x", positive=True)
    same = sp.simplify(attention(x, v, w) - feed_forward(x, v, w)) == 0
    return lab.proved(same, "both branches are vwx: f_l depends on l through θ_l alone")


@CLAIM.ours("its index is needed for attention and feed-forward as they are", PROVED)
def with_index(lab: Lab) -> Finding:
    one = sp.Integer(1)
    a, f = (branch(-one, one, one) for branch in (attention, feed_forward))
    return lab.proved(
        a != f, f"x = −1, v = w = 1: attention's branch is {a}, the feed-forward one {f}"
    )


def attention(y: Expr, v: Expr, w: Expr) -> Expr:
    """One token: the softmax of one score, whatever it is, is 1."""
    score = sp.Symbol("q", real=True)
    return sp.exp(score) / sp.exp(score) * y * v * w


def feed_forward(y: Expr, v: Expr, w: Expr) -> Expr:
    """ReLU between the two scalars."""
    return sp.Max(0, y * v) * w
