from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, np, once, sp
from paper_checks.shared.record import MARGIN, PROVED, REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import SCALED
from paper_checks.shared.stacks import Net, Quantity, at_points, per_depth, rms

CLAIM = Claim(
    name="su-probe",
    source=f"{SU}, §Magnitude analysis, second equation",
    statement="∂L/∂λ = ⟨∂L/∂W, U⟩, which is in proportion to ∂L/∂W in order of magnitude.",
    conditions="""post-LN stacks with SGD's rule, 12 to 144 layers, widths 16 to 128; text and
        Gaussian tokens of correlation 0 and 0.9; res-post-LN""",
    finding="""The identity is exact, and on a balanced post-LN stack probe and gradient share their
        exponent in depth, so that the probe is a sound instrument for rules in N. It does not have
        the gradient's size: its rms is smaller than ‖∂L/∂W‖ by √((d+m)/2), exactly so (within 5 %)
        for value, output and the second feed-forward matrix, an exponent of −1/2 in width. It is
        blind where the branch ends in a norm (res-post-LN): there it is zero to rounding while the
        gradient, transverse to W, is not.""",
    counterexample="""f(W) with ∂L/∂W orthogonal to U: d = m = 2, U = I, G = ((0, 1), (1, 0)) gives
        ⟨G, U⟩ = 0 with ‖G‖ = √2. On res-post-LN stacks every scaled matrix is such a case.""",
    corrected="""|∂L/∂λ| ≤ ‖∂L/∂W‖‖U‖, and its root mean square is ‖∂L/∂W‖·√(2/(d+m)) for
        independent directions: the same order in depth, not in width; use a transverse probe where
        a norm follows the branch.""",
    seconds=(6, 16),
)

NET = Net("(2*N)**(1/4)", "(2*N)**(-1/4)")
WIDTHS = (16, 32, 64, 128)
DATA = (("text",), ("text", "gaussian:0", "gaussian:0.9"))


@CLAIM.stated("the identity ∂L/∂λ = ⟨∂L/∂W, U⟩", PROVED)
def identity(lab: Lab) -> Finding:
    # the difference quotient of a general cubic loss
    lam, h = sp.symbols("lambda h")
    u, w = sp.symbols("u1:5"), sp.symbols("w1:5")
    monomials = sp.polys.monomials.itermonomials(w, 3)
    loss = sum(sp.Symbol(f"c{i}") * one for i, one in enumerate(monomials))

    pairs = list(zip(w, u, strict=True))
    at, beyond = ({a: size * b for a, b in pairs} for size in (lam, lam + h))
    change = loss.subs(beyond, simultaneous=True) - loss.subs(at, simultaneous=True)
    inner = sum(sp.diff(loss, a) * b for a, b in pairs).subs(at, simultaneous=True)
    same = sp.expand(sp.expand(change / h).subs(h, 0) - inner) == 0
    because = "the difference quotient of a general cubic loss of four entries, as h → 0"
    return lab.proved(same, because)


@CLAIM.stated("same order as ‖∂L/∂W‖ in depth, on a balanced post-LN stack", SUPPORTED)
def depth(lab: Lab) -> Finding:
    found = {}
    for data in lab.pick(*DATA):
        s = lab.settings(seeds=32, width=32, tokens=16, data=data)
        found[data] = lab.settled(lab.depths(), per_depth(NET, lab.depths(), s, ratio(*SCALED)))
    return lab.exponent(found, 0.0, (("independent directions", -0.5),))


@CLAIM.ours("same order as ‖∂L/∂W‖ in width", REFUTED)
def width(lab: Lab) -> Finding:
    return lab.exponent(in_width(lab), 0.0, (("independent directions", -0.5),))


@CLAIM.correction(
    "rms probe ~ ‖∂L/∂W‖/√(d+m) for a scaled matrix: exponent −1/2 in width", SUPPORTED
)
def law(lab: Lab) -> Finding:
    return lab.exponent(in_width(lab), -0.5, (("same order", 0.0),))


@CLAIM.correction("for value, output and fc2 it is ‖∂L/∂W‖·√(2/(d+m)), the constant too", SUPPORTED)
def constant(lab: Lab) -> Finding:
    found, shares = {}, {}
    for data, by_name in over_widths(lab).items():
        for name, values in by_name.items():
            fans = 5 if name.startswith("fc") else 2  # d + m in units of the width
            square = values**2 * fans * np.array(WIDTHS) / 2  # 1 by the law
            shares[f"{name}, {data}"] = np.sqrt(square.mean(0))
            if name != "fc1":  # its mask depends on the matrix itself
                found[f"{name}, {data}"] = lab.mean(square.mean(1))
    low, high = (1 - MARGIN) ** 2, (1 + MARGIN) ** 2
    return lab.within(found, low, high, "square over the law's", shares=shares)


@CLAIM.ours("same order as ‖∂L/∂W‖ in a branch that ends in a norm", REFUTED)
def blind(lab: Lab) -> Finding:
    points = [(net, 8, lab.settings()) for net in (Net(placement="res-post-ln"), Net())]
    inside, plain = at_points(points, {"": ratio("fc1", "fc2")})[""].mean(0)
    what = f"the ratio is {inside:.1e} where the norm is inside the branch"
    # "the same order" would leave a factor of a few, not two powers of ten
    return lab.seen(bool(inside > 0.01 * plain), f"{what}, {plain:.2g} in plain post-LN")


def ratio(*names: str) -> Quantity:
    """rms⟨G, U⟩ / rms‖G‖ over the matrices called so; U has gain 1."""
    return lambda p: rms([g.probe() / g.description.gain for g in p.of(*names)]) / p.size(*names)


@once
def over_widths(lab: Lab) -> dict[str, dict[str, Array]]:
    """The ratio of each scaled matrix by data: (seeds, widths)."""
    quantities, found = {name: ratio(name) for name in SCALED}, {}
    for data in lab.pick(*DATA):
        settings = [lab.settings(seeds=32, width=w, tokens=16, data=data) for w in WIDTHS]
        found[data] = at_points([(NET, 32, s) for s in settings], quantities)
    return found


def in_width(lab: Lab) -> dict[str, Fit]:
    """The ratio's exponent in width, by data."""
    return {
        data: lab.settled(WIDTHS, np.exp(np.mean([np.log(v) for v in of.values()], axis=0)))
        for data, of in over_widths(lab).items()
    }
