import math
from dataclasses import replace
from typing import Any

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.rule import RuleEntry
from deepnet_theory.definitions.scheme import Scheme, measurable
from paper_checks.shared.bench import Array, Claim, Finding, Lab, Settings, Trial, judge, np, sp
from paper_checks.shared.later import numeric
from paper_checks.shared.record import MARGIN, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import Net, backward, norms
from paper_checks.shared.training import above_bytes, model_constants, train_model

CLAIM = Claim(
    name="schemes-keel-vanishing",
    source="""Chen and Wei, 'Post-LayerNorm Is Back: Stable, Expressive, and Deep', arXiv
        2601.19895, its analysis of Post-LN""",
    statement="""Deep Post-LN fails to train because its gradient vanishes: both norms of a layer
        divide it by √2, so that (1/2)^L of it reaches the bottom of L layers. A stream multiplied
        by the number of sublayers keeps it.""",
    conditions="""built encoders of 16 and 64 layers at initialisation, width 32, text and
        independent tokens, 32 seeds; causal stacks of 48 feed-forward sublayers, 120 steps of
        Adam without warm-up, four seeds""",
    finding="""A layer of plain Post-LN does not halve its gradient: it takes 4 to 8 % of that off,
        on average over 16 and 64 layers, at initialisation. The √2 counts the identity alone; what
        it loses passes through the branch, exactly so for a random linear one. Nor is the fall what
        keeps such a stack from training. Feed-forward sublayers alone pass the gradient on whole (a
        layer changes it by less than 1 % of a halving), and 48 of them are as stuck at the byte
        frequencies as a Post-LN Transformer; at DeepNorm's constants they learn. Keel's stream does
        keep the gradient, as the source says, and divides the branch by 2N, which makes the update
        smaller: its success does not separate the two. What would overturn this: stacks of one
        update and different gradients, each at its best rate with warm-up, where only those with a
        small gradient fail. What would not: a plot of gradients beside a loss that does not fall,
        or one learning rate.""",
    counterexample="""48 feed-forward sublayers, α = 1, Xavier, Adam at 3·10⁻³: the gradient at the
        bottom is that at the top, and after 120 steps the loss is 0.035 nats above the byte
        frequencies.""",
    corrected="""E‖Jᵀg‖² = ‖g‖² for J = (I + W)/√2 with independent entries of variance 1/d; plain
        Post-LN takes less than a fifth of a halving off a layer. A smaller branch trains: α =
        (2N)^{1/4}, β = (8N)^{−1/4}.""",
    seconds=30,
)
KEEL = Scheme(  # above its first layer, which is pre-LN's
    name="keel",
    equation="norm(alpha*x + branch(norm(x)))",
    final_norm=False,
    optimizer="adamw",
    parts=(RuleEntry("encoder", alpha="2*N"),),
    source="Chen and Wei, arXiv 2601.19895",
)
HALVED = math.log(2)  # what the sentence says of a layer
SUBLAYERS, STEPS = 48, 120


@judge
def falls(lab: Lab, layer: str | None, low: float, high: float) -> Finding:
    found = {
        f"{layers} layers, {s.data}": lab.mean(fall(Net(layer=layer).trial(layers, s)))
        for layers, s in stacks(lab)
    }
    return lab.within(found, low, high, "fall of log ‖∂L/∂x_l‖ a layer, in units of ln 2")


CLAIM.stated("plain Post-LN: a layer halves the gradient", REFUTED)(
    falls(None, 1 - MARGIN, 1 + MARGIN)
)


@CLAIM.stated("where the gradient does not vanish Post-LN trains, feed-forward alone", REFUTED)
def trains(lab: Lab) -> Finding:
    found = {f"rate {rate:g}": above(lab, 1.0, 1.0, rate) for rate in (3e-3, 1e-3)}
    what = f"plain Post-LN of {SUBLAYERS} feed-forward sublayers minus byte frequencies, nats"
    return lab.at_most({n: lab.mean(v) for n, v in found.items()}, -MARGIN, what, 0.0)


@CLAIM.stated("a stream multiplied by the number of sublayers keeps the gradient", SUPPORTED)
def keel(lab: Lab) -> Finding:
    selection, rule = measurable(KEEL, None, None)
    found = {}
    for layers, s in stacks(lab):
        case = numeric.Case(selection, rule, {"N": layers}, s, scheme=KEEL)
        found[f"{layers} layers, {s.data}"] = lab.mean(layers * fall(numeric.Trial(case)))
    return lab.within(found, -0.5, 0.5, "fall from top to bottom, in units of ln 2")


CLAIM.ours("there, in feed-forward sublayers alone, the gradient does not fall", SUPPORTED)(
    falls("ffn", -MARGIN, MARGIN)
)


@CLAIM.correction("a norm after x + Wx halves the identity's share and W's makes it up", PROVED)
def whole(lab: Lab) -> Finding:
    d = 3
    g = sp.Matrix(sp.symbols(f"g:{d}", real=True))
    w = sp.Matrix(d, d, sp.symbols(f"w:{d * d}", real=True))
    sizes = {}
    for label, branch in (("identity", 0 * w), ("both", w)):
        squared = ((sp.eye(d) + branch).T * g / sp.sqrt(2)).norm() ** 2
        poly = sp.Poly(sp.expand(squared), *w)
        # E of an independent entry is 0 and of its square 1/d
        moments = {0: sp.Integer(1), 1: sp.Integer(0), 2: sp.Rational(1, d)}
        mean = sum(c * sp.prod([moments[k] for k in powers]) for powers, c in poly.terms())
        sizes[label] = sp.simplify(mean / g.norm() ** 2)
    held = sizes == {"identity": sp.Rational(1, 2), "both": sp.Integer(1)}
    return lab.proved(
        held, f"E‖Jᵀg‖²/‖g‖² of the identity {sizes['identity']}, of J {sizes['both']}"
    )


CLAIM.correction("plain Post-LN: a layer takes less than a fifth of that off", SUPPORTED)(
    falls(None, -0.2, 0.2)
)


@CLAIM.correction("what trains there is a smaller update, at DeepNorm's constants", SUPPORTED)
def smaller(lab: Lab) -> Finding:
    # of 24 layers, that are 48 sublayers
    found = above(lab, SUBLAYERS**0.25, (4 * SUBLAYERS) ** -0.25, 3e-3)
    return lab.at_most(lab.mean(found), -MARGIN, "DeepNorm minus byte frequencies, nats", 0.0)


def stacks(lab: Lab) -> list[tuple[int, Settings]]:
    """Layers and sizes of the measured stacks."""
    every = [lab.small(data=data, seeds=32) for data in ("text", "gaussian:0")]
    return [(layers, s) for s in every for layers in (16, 64)]


def fall(trial: Trial) -> Array:
    """The fall of log ‖∂L/∂x_l‖ a layer from the last sublayer to the first: (seeds,)."""
    sizes = Lab.columns(norms(g.double()) for g in backward(trial).signals)
    fallen = np.log(sizes[:, -1] / sizes[:, 0]) / (HALVED * trial.depth["N"])
    return np.asarray(fallen)


def above(lab: Lab, alpha: float, beta: float, rate: float) -> Array:
    """What feed-forward sublayers alone learn, above the byte frequencies: (seeds,)."""
    read: dict[str, Any] = {"seed": lab.seed, "seeds": 4, "batch": 4}
    losses, _ = train_model(feed_forward(alpha, beta), STEPS, rate, **read)
    return above_bytes(losses, STEPS // 5, **read)


def feed_forward(alpha: float, beta: float) -> Constants:
    """Feed-forward sublayers alone."""
    made = model_constants(SUBLAYERS, alpha, beta)
    (part,) = made.parts
    kept = tuple(s for s in part.sublayers if s.kind == "ffn")
    return replace(made, parts=(replace(part, sublayers=kept),))
