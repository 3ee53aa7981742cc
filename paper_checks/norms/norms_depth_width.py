from paper_checks.shared.bench import Array, Claim, Finding, Lab, once
from paper_checks.shared.record import MARGIN, NOTE, SUPPORTED, UNDECIDED
from paper_checks.shared.training import ends, model_constants, train_model

CLAIM = Claim(
    name="norms-depth-width",
    source=f"{NOTE}, §1, 'Reason'; Su Jianlin, kexue.fm/archives/9009",
    statement="Depth is usually more important than width.",
    conditions="""byte-level causal Pre-LN stacks of equal parameters, 2 layers of width 64 and 8 of
        width 32, β = (2M)^{−1/2}, Adam at the best of three rates each, paired windows, 240 steps
        (480 in the full run)""",
    finding="""Not decided: "usually" speaks of models that nobody can train here. At 98 thousand
        parameters in the layers and 61 thousand tokens a run, the sentence does not hold: two
        layers of width 64 end 0.11 nats (0.05 to 0.16) below eight layers of width 32, each at the
        best of its rates, 3·10⁻³ for both. The wide model also has the larger embedding and head.
        A short run favours the model that learns the frequencies of bytes faster, so this small
        trial cannot speak for long ones.""",
    would_decide="""Families of usual size, 100 million parameters and more, over four shapes of
        equal parameters and equal operations, each at its best rate, trained on as many tokens as
        are usual for the size, with paired seeds and several data sets.""",
    seconds=(60, 200),
)
SHAPES = {"deep": (8, 32), "wide": (2, 64)}  # layers and width: 12·d²·N is the same
RATES = (1e-3, 3e-3, 1e-2)


@CLAIM.stated("usually, at the size of models in use, the deeper model is better", UNDECIDED)
def usually(lab: Lab) -> Finding:
    return lab.undecided("no model of usual size is trained here")


@CLAIM.ours("100 thousand parameters: the deeper model is not lower by 5 %", SUPPORTED)
def small(lab: Lab) -> Finding:
    every = losses(lab)
    best = {name: min(of.values(), key=lambda v: float(v.mean())) for name, of in every.items()}
    rates = {
        name: {f"{rate:g}": float(v.mean()) for rate, v in of.items()} for name, of in every.items()
    }
    gap = lab.mean(best["deep"] - best["wide"])
    what = "8 layers of 32 minus 2 layers of 64, each at its best rate, nats"
    return lab.at_least(gap, -MARGIN, what, losses=rates)


@once
def losses(lab: Lab) -> dict[str, dict[float, Array]]:
    """The loss of every seed over the last tenth of the steps, by shape and rate."""
    steps, found = lab.pick(240, 480), {}
    for name, (layers, width) in SHAPES.items():
        beta = (2 * layers) ** -0.5
        net = model_constants(layers, 1.0, beta, width, "pre-ln")
        found[name] = {
            rate: ends(train_model(net, steps, rate, seed=lab.seed, seeds=4)[0], steps // 10)
            for rate in RATES
        }
    return found
