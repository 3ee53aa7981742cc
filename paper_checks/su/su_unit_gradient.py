from collections.abc import Callable

from paper_checks.shared.bench import Claim, Finding, Fit, Lab, Tensor, judge, once
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import SCALED
from paper_checks.shared.stacks import Net, Pass, exponents, rms, sizes

CLAIM = Claim(
    name="su-unit-gradient",
    source=f"{SU}, §Increment explosion",
    statement="""With Xavier initialisation and normalisation every matrix can be given a gradient
        norm of O(1).""",
    conditions="""post-LN and pre-LN encoders with α = λ = 1, 8 to 144 layers, widths 32 and 64;
        text, independent and correlated tokens, post-LN also with one head and GELU""",
    finding="""As the bound that O(1) is, the sentence holds in plain stacks, and su-increment-depth
        shows stacks with gradients of order one in every matrix. As an order, which 'proportional
        to the depth' needs, it fails in plain stacks. In post-LN the gradients of value, output and
        feed-forward in the top layer are of order one at every depth. Those of the bottom layer
        vanish in the typical seed (exponent −0.3 to −1.1 between 8 and 128 layers, steeper beyond).
        Query and key of the top layer have almost no gradient (10⁻⁸ from 32 layers on), because all
        tokens have become equal. In plain pre-LN it is the bottom layer that keeps order one, while
        the top layer's gradient falls with the stream's size, as N^{−1/2}.""",
    counterexample="""Plain post-LN, text, width 32, 32 layers: ‖∂L/∂W_q‖ of the top layer is 3·10⁻⁸
        beside 0.6 for the scaled matrices. Plain pre-LN, text, width 32: 0.18, 0.10 and 0.057 for
        the top layer at 16, 48 and 144 layers.""",
    corrected="""Plain pre-LN: the top layer's ‖∂L/∂W‖ ~ 1/x ~ N^{−1/2}, x the size of the stream;
        plain post-LN: O(1) as a bound in the typical seed, of order one at the top alone, zero in
        order for query and key once the tokens have collapsed.""",
    seconds=(15, 81),
)


DATA = ("width 64", "independent tokens", "correlated tokens", "one head", "GELU")


@judge
def order(lab: Lab, which: str, *rivals: tuple[str, float]) -> Finding:
    """Whether gradients have the exponent 0 in depth."""
    return lab.exponent(measured(lab)[which], 0.0, rivals)


@judge
def bound(lab: Lab, which: str) -> Finding:
    """Whether it is at most 0."""
    return lab.at_most(measured(lab)[which], 0.0, "exponent")


CLAIM.stated("plain post-LN: the top layer's scaled matrices", SUPPORTED)(
    order("post-LN top", ("pre-LN", -0.5))
)
CLAIM.stated("plain post-LN: the bottom layer's scaled matrices, as a bound", SUPPORTED)(
    bound("post-LN bottom")
)
CLAIM.ours("plain post-LN: the bottom layer's scaled matrices, as an order", REFUTED)(
    order("post-LN bottom")
)
CLAIM.ours("plain post-LN: query and key of the top layer, as an order", REFUTED)(
    order("post-LN query")
)
CLAIM.ours("plain pre-LN: the top layer's scaled matrices, as an order", REFUTED)(
    order("pre-LN top")
)
CLAIM.stated("plain pre-LN: the bottom layer's scaled matrices, as a bound", SUPPORTED)(
    bound("pre-LN bottom")
)
CLAIM.stated("plain pre-LN: the top layer's scaled matrices, as a bound", SUPPORTED)(
    bound("pre-LN top")
)
CLAIM.correction(
    "plain pre-LN: the top layer's gradient scales as 1/x, x the size of the stream that it leaves",
    SUPPORTED,
)(order("pre-LN top times stream", ("O(1)", 0.5)))


@once
def measured(lab: Lab) -> dict[str, dict[str, Fit]]:
    """The exponents in plain post-LN and pre-LN, by matrices and condition."""
    top, bottom = size_in(-1, *SCALED), size_in(0, *SCALED)
    post = {
        "post-LN top": top,
        "post-LN bottom": bottom,
        "post-LN query": size_in(-1, "query", "key"),
    }
    pre = {
        "pre-LN top": top,
        "pre-LN bottom": bottom,
        "pre-LN top times stream": lambda p: top(p) * sizes(p.states[-1:])[:, 0],
    }
    some, net = lab.varied(DATA[:3], seeds=192), Net(placement="pre-ln")
    return {
        **exponents(Net(), (8, 32, 128), lab.varied(DATA, seeds=96), post, at_once=16),
        **exponents(net, (16, 48, 144), some, pre, at_once=32),
    }


def size_in(layer: int, *names: str) -> Callable[[Pass], Tensor]:
    """The rms of ‖∂L/∂W‖ over matrices of the top layer (−1) or of the bottom one (0)."""

    def of(p: Pass) -> Tensor:
        layers = sorted({g.description.layer or 0 for g in p.gradients})
        chosen = [g for g in p.of(*names) if g.description.layer == layers[layer]]
        return rms([g.norm() for g in chosen])

    return of
