from deepnet_theory.definitions.sublayer import Role
from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, Tensor, numeric, once, torch
from paper_checks.shared.record import MARGIN, SU, SUPPORTED, UNDECIDED
from paper_checks.shared.training import byte_loss, descend, model_constants

CLAIM = Claim(
    name="su-rezero-1-over-n",
    source=f"{SU}, reader's comment of 2023-07 on ReZero (arXiv 2003.04887)",
    statement="ReZero's scalars, trained with Adagrad, converge to about 1/N.",
    conditions="""causal ReZero stacks without norms, Adagrad, text, 4 to 32 layers, width 32, 100
        and 300 steps at rates 0.02 and 0.01""",
    finding="""Not decided: the sentence is of converged models, and nothing here converges. On the
        way there, after 300 Adagrad steps, the mean size falls as N^{−0.50 ± 0.03} at rate 0.02 and
        as N^{−0.38 ± 0.03} at rate 0.01 between 4 and 32 layers (N^{−0.47} after 100 steps): never
        faster than N^{−1/2}, which keeps S·a² and not S·a constant, the balance of independent
        directions. The exponent is a property of rate and time as much as of depth. Mean |a| is
        0.079, 0.059, 0.040 and 0.028 at 4, 8, 16 and 32 layers at rate 0.02, so that |a|·N is 0.32,
        0.47, 0.64 and 0.91.""",
    would_decide="""stacks of 12 to 128 layers trained until neither the loss nor mean |a| moves any
        more, with the exponent of mean |a| in N at the end""",
    seconds=(20, 163),
)

AT = (4, 8, 16, 32)
SEEDS, TOKENS, BATCH, WIDTH = 12, 16, 4, 32


@CLAIM.stated("the mean |a| after training scales as 1/N", UNDECIDED)
def inverse(lab: Lab) -> Finding:
    sizes = {label: str(fit) for label, fit in exponents(lab).items()}
    scaled = {label: (values.mean(0) * AT).tolist() for label, values in trained(lab).items()}
    because = f"none of these runs has converged; their exponents are {sizes}"
    return lab.undecided(because, **{"|a|*N": scaled})


@CLAIM.ours("short of convergence the mean |a| falls with the depth", SUPPORTED)
def falls(lab: Lab) -> Finding:
    return lab.at_most(exponents(lab), 0.0, "exponent of mean |a|", tolerance=-MARGIN)


@CLAIM.ours(
    "there it falls no faster than N^{−1/2}: S·a² does not shrink with the depth", SUPPORTED
)
def root(lab: Lab) -> Finding:
    inverses = {label: lab.settled(AT, 1 / values) for label, values in trained(lab).items()}
    return lab.at_most(inverses, 0.5, "exponent of 1/|a|")


def exponents(lab: Lab) -> dict[str, Fit]:
    """Of mean |a| in the depth, by rate and steps."""
    return {label: lab.settled(AT, values) for label, values in trained(lab).items()}


@once
def trained(lab: Lab) -> dict[str, Array]:
    """Mean |a| after training, by rate and steps: (seeds, depths) each."""
    found = {}
    for rate, steps in lab.pick(((0.02, 100),), ((0.02, 300), (0.01, 300))):
        sizes = (train(lab, depth, rate, steps).abs().mean(0) for depth in AT)
        found[f"rate {rate}, {steps} steps"] = lab.columns(sizes)
    return found


def train(lab: Lab, depth: int, rate: float, steps: int) -> Tensor:
    """The scalars (2N, seeds) of x + aF(x) after training from a = 0."""
    generator_for = numeric.generator_for
    model = numeric.build(
        model_constants(depth, 1.0, 1.0, WIDTH, stack="encoder"),
        seeds=SEEDS,
        generator=generator_for(lab.seed, f"rezero {depth}"),
        embedding_generator=generator_for(lab.seed, "embedding and head"),
    )
    norms = (Role.NORM_GAIN, Role.NORM_BIAS)
    parameters = [p for p, d in numeric.described(model) if d.role not in norms]
    gains = [torch.nn.Parameter(torch.zeros(SEEDS)) for _ in model.residuals()]

    def loss_of(windows: Tensor) -> Tensor:
        x = model.embed(windows[..., :-1])
        for residual, gain in zip(model.residuals(), gains, strict=True):  # no norm
            x = x + gain.view(-1, 1, 1, 1) * residual.branch(x)
        return byte_loss(model.head(x), windows[..., 1:])

    data = generator_for(lab.seed, "training data")
    windows = (numeric.text_windows(SEEDS * BATCH, TOKENS + 1, data) for _ in range(steps))
    batches = (drawn.reshape(SEEDS, BATCH, -1) for drawn in windows)
    descend("adagrad", [*parameters, *gains], rate, batches, loss_of)
    return torch.stack([gain.detach() for gain in gains])
