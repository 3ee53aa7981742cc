import math

from paper_checks.shared.bench import Claim, Finding, Fit, Lab, Tensor, once, sp, torch
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import MARGIN, PROVED, REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import CONDITIONS, balanced
from paper_checks.shared.stacks import Gradient, Net, own_updates, torch_step

CLAIM = Claim(
    name="su-adafactor",
    source=f"{SU}, §Multiple optimizers, the two classes",
    statement="""Adafactor corrects the learning rate by the parameter's norm and so belongs to
        LAMB's class.""",
    conditions="""relative steps off, weight decay 0, first step; torch.optim.Adafactor on matrices
        with rms(θ) from 10⁻⁵ to 1 and on post-LN encoders of 12 to 144 layers""",
    finding="""Adafactor with relative steps off has LAMB's degrees and LAMB's rule as long as
        rms(θ) > 10⁻³, its default floor: there torch's Adafactor moves a stack's output alike at
        every depth. Below the floor it is a sign step of fixed size, Adam's class, and under LAMB's
        rule its update grows as N^{1/2}. LAMB's rule drives deep or wide stacks there by itself:
        with hidden width 4d the feed-forward matrices cross the floor at 391 layers for d = 512 and
        at 49 for d = 4096.""",
    counterexample="""torch's Adafactor: a 1 × 1 matrix θ = 10⁻⁵ takes the step 10⁻³ η, a hundred
        times η·rms(θ).""",
    corrected="""The step is η·max(10⁻³, rms(θ)) an entry: LAMB's class above the floor, Adam's
        below; the depth of crossing is N = 10⁶/(d+m) under λ = (2N)^{−1/2}.""",
    seconds=3,
)

ETA, FLOOR = 1e-4, 1e-3
LAMBS, ADAMS = Net("1", "(2*N)**(-1/2)"), Net("(2*N)**(1/2)", "(2*N)**(-1/2)")


@CLAIM.stated("degrees (0, 1) above its floor: LAMB's, and its rule", PROVED)
def degrees(lab: Lab) -> Finding:
    entries = [derive(optimizer=name).rule.entries[0] for name in ("adafactor", "lamb")]
    ours, lambs = ((entry.alpha, entry.beta) for entry in entries)
    by_hand = balanced(*written_degrees(), CONDITIONS["lamb"][2])
    same = all(equal(formula(text), own) for text, own in zip(lambs, by_hand, strict=True))
    what = f"the published first step has the degrees {written_degrees()}"
    because = f"{what}, and LAMB's rule solves its balance"
    return lab.proved(same and ours == lambs, because, rule=list(ours))


@CLAIM.ours("torch's Adafactor: the first update is η·rms(θ) an entry for rms(θ) ≥ 10⁻³", SUPPORTED)
def above(lab: Lab) -> Finding:
    off = max(abs(r["update"] / r["rms"] - 1) for r in steps(lab) if r["rms"] >= FLOOR)
    because = f"within {off:.1%}, for gradients of rank one and of full rank"
    return lab.seen(off < MARGIN, because, steps=steps(lab))


@CLAIM.stated(
    "torch's Adafactor moves a stack's output alike at every depth under LAMB's rule", SUPPORTED
)
def stack(lab: Lab) -> Finding:
    return lab.exponent(updates(lab, LAMBS, FLOOR), 0.0, (("Adam's class", 0.5), ("SGD", -0.5)))


@CLAIM.ours("the update is η·rms(θ) at every rms(θ)", REFUTED)
def below(lab: Lab) -> Finding:
    off = max(abs(r["update"] / r["rms"] - 1) for r in steps(lab) if r["rms"] < FLOOR)
    because = f"below 10⁻³ it is up to {1 + off:.0f} times that: 10⁻³ η an entry"
    return lab.seen(off < MARGIN, because)


@CLAIM.correction(
    "below the floor it is Adam's class: under LAMB's rule the output's change grows as N^{1/2}, "
    "under Adam's it is constant",
    SUPPORTED,
)
def adams_class(lab: Lab) -> Finding:
    grows, constant = updates(lab, LAMBS, 1.0), updates(lab, ADAMS, 1.0)
    half = lab.exponent(grows, 0.5, (("LAMB's class", 0.0),))
    rivals, lambs = (("LAMB's class", -0.5),), grows.to_dict()
    return lab.worst(half, lab.exponent(constant, 0.0, rivals, under_lambs_rule=lambs))


@CLAIM.correction(
    "LAMB's rule itself leads below the floor: at N = 10⁶/(d + m) layers, where the relative "
    "update begins to grow as N^{1/2}",
    SUPPORTED,
)
def depth_of_crossing(lab: Lab) -> Finding:
    (row,) = derive(optimizer="adafactor").table.sublayers
    power = float(row.kind.beta.exponent("N"))

    def crossing(d: int, m: int) -> float:
        """The depth where a Xavier matrix of gain β has entries of the floor's size."""
        xavier = math.sqrt(2 / (d + m)) * row.kind.beta.at(N=1)
        return float((FLOOR / xavier) ** (1 / power))

    layers = {f"d = {w}, m = {4 * w}": round(crossing(w, 4 * w)) for w in (64, 512, 1024, 4096)}
    width, relative, generator = lab.pick(128, 512), {}, lab.generator(1)
    for times in (0.25, 1.0, 4.0, 16.0):
        theta = torch.empty(4 * width, width, dtype=torch.float64)
        gain = (2 * times * crossing(width, 4 * width)) ** -0.5
        torch.nn.init.xavier_normal_(theta, gain, generator=generator)
        g = torch.randn(theta.shape, generator=generator, dtype=torch.float64)
        relative[times] = float((step(theta.clone(), g) - theta).norm() / theta.norm()) / ETA
    missed = max(abs(r / max(1.0, t**0.5) - 1) for t, r in relative.items())
    what = (
        f"relative update of a Xavier matrix of width {width} at 1/4, 1, 4 and 16 times that depth"
    )
    because = f"{what}: {', '.join(f'{r:.2f} η' for r in relative.values())}"
    shown = {"relative_updates": relative, "layers_at_which_the_floor_is_crossed": layers}
    return lab.seen(missed < MARGIN, because, **shown)


def written_degrees() -> tuple[int, int]:
    """The degrees in g and θ of Adafactor's first step as published, above its floor.

    θ·rms is scaled by U = g/√V with V = (row means ⊗ column means of g²)/mean, on a 2 × 2 matrix;
    U's clipping is a function of U, and keeps its degree.
    """
    c = sp.Symbol("c", positive=True)
    g, theta = (sp.Matrix(2, 2, sp.symbols(f"{name}1:5", positive=True)) for name in ("g", "t"))

    def update(g: sp.Matrix, theta: sp.Matrix) -> sp.Matrix:
        squares = g.multiply_elementwise(g)
        rows, columns = squares * sp.ones(2, 1), sp.ones(1, 2) * squares
        v = rows * columns / (2 * sum(squares))
        rms = sp.sqrt(sum(x**2 for x in theta) / 4)
        return g.multiply_elementwise(v.applyfunc(lambda x: 1 / sp.sqrt(x))) * rms

    def degree(scaled: sp.Matrix) -> int:
        ratios = [sp.simplify(a / b) for a, b in zip(scaled, update(g, theta), strict=True)]
        (power,) = {sp.simplify(c * sp.diff(ratio, c) / ratio) for ratio in ratios}
        return int(power)

    return degree(update(c * g, theta)), degree(update(g, c * theta))


@once
def steps(lab: Lab) -> list[dict[str, float]]:
    """The rms of matrices and of their first updates over η."""
    generator, found = lab.generator(), []
    d, m = lab.pick((32, 64), (128, 256))
    for size in torch.logspace(-5, 0, lab.pick(11, 26)).tolist():
        for rank in (1, d):
            theta, g, other = (lab.normal(generator, d, n) for n in (m, m, 1))
            theta *= size
            moved = step(theta.clone(), g if rank > 1 else other * g[:1]) - theta
            rms, update = (float(x.square().mean().sqrt()) for x in (theta, moved / ETA))
            found.append({"rms": rms, "rank of g": rank, "update": update})
    return found


def step(theta: Tensor, g: Tensor, floor: float = FLOOR) -> Tensor:
    """A first step of torch's Adafactor, in place."""
    torch_step(torch.optim.Adafactor, theta, g, lr=ETA, eps=(None, floor), weight_decay=0.0)
    return theta


def updates(lab: Lab, net: Net, floor: float) -> Fit:
    """The exponent of ‖ΔF‖/η per token after that step of every matrix of every seed."""

    def of_every_seed(one: Gradient) -> None:
        for theta, g in zip(one.theta, one.g, strict=True):
            step(theta, g, floor)

    at, s = lab.depths(), lab.settings(dtype="float64", width=32, tokens=16, seeds=4)
    return lab.settled(at, own_updates(net, at, s, ETA, of_every_seed))
