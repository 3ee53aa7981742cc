from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, Settings, np, once, torch
from paper_checks.shared.record import MARGIN, REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, exponents, lots, residual_sums, sizes

CLAIM = Claim(
    name="su-prenorm-needed",
    source=f"{SU}, §Post-hoc analysis, second paragraph",
    statement="""Plain Pre-Norm (λ = 1) suffers the increment explosion too, so its λ must be
        re-solved.""",
    conditions="""plain pre-LN encoder with final norm, matrices stepped, 8 to 128 layers (the
        stream to 512), widths 32 and 64; text, independent and correlated tokens; typical seeds
        (means of logarithms)""",
    finding="""In plain Pre-Norm the update grows more slowly than the linear growth of the
        argument. Its stream grows as √l and its norms shrink the gradients as 1/√l, so that Adam's
        increment follows Σ 1/x_l and grows about as N^{1/2} (exponents 0.49 to 0.59 between 8 and
        128 layers, by data). SGD's grows as N^{0.26} to N^{0.33}, more slowly at larger depths:
        relative to Σ 1/x_l², at most a logarithm, it gains 22 % from 8 to 32 layers and 7 % from 32
        to 128. Adam needs a rule. Under SGD plain Pre-Norm is nearly balanced.""",
    counterexample="""Plain pre-LN, text, width 64, SGD: ‖∇L‖² is 15, 26 and 36 at 8, 32 and 128
        layers, where linear growth from 8 would give 248.""",
    corrected="""Plain pre-LN: SGD's increment grows no faster than N^{1/2}, and its ratio to Σ
        1/x_l², a logarithm at most, levels off; Adam's grows no faster than Σ 1/x_l ~ N^{1/2}.""",
    seconds=(25, 143),
)

NET = Net(placement="pre-ln")
LINEAR = (("linear growth", 1.0),)


@CLAIM.stated("under SGD the increment grows in proportion to the depth", REFUTED)
def sgd(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["sgd"], 1.0)


@CLAIM.correction("under SGD it grows no faster than N^{1/2}", SUPPORTED)
def law_sgd(lab: Lab) -> Finding:
    beside = {label: fit.to_dict() for label, fit in measured(lab)["sgd over squares"].items()}
    return lab.at_most(measured(lab)["sgd"], 0.5, "exponent", beside_squares=beside)


@CLAIM.stated("under Adam the increment grows with depth", SUPPORTED)
def adam(lab: Lab) -> Finding:
    return lab.at_least(measured(lab)["adam"], MARGIN, "exponent")


@CLAIM.stated("under Adam it grows in proportion to the depth", REFUTED)
def linear(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["adam"], 1.0)


@CLAIM.correction(
    "Adam's grows no faster than Σ_l 1/x_l, x_l the measured size of the stream at sublayer l",
    SUPPORTED,
)
def law_adam(lab: Lab) -> Finding:
    return lab.at_most(measured(lab)["adam over sum"], 0.0, "exponent of their ratio")


@CLAIM.correction("Σ_l 1/x_l² grows no faster than log N", SUPPORTED)
def logarithm(lab: Lab) -> Finding:
    # a logarithm gains as much from each factor of 4; a power e gains 4^e times as much
    gains = {n: lab.settled((1, 4), np.diff(sums, axis=1)) for n, sums in passes(lab)[2].items()}
    return lab.at_most(gains, 0.0, "exponent of what a factor of 4 in depth gains")


@CLAIM.correction("Σ_l 1/x_l grows as N^{1/2}", SUPPORTED)
def root(lab: Lab) -> Finding:
    found = {label: lab.settled(FAR, sums) for label, sums in passes(lab)[1].items()}
    return lab.exponent(found, 0.5, (("logarithm", 0.0), *LINEAR))


AT = (8, 32, 128)
FAR = (64, 256, 1024)  # sublayers


def conditions(lab: Lab) -> dict[str, Settings]:
    """Width and data varied."""
    return lab.varied(("width 64", "independent tokens", "correlated tokens"), seeds=96)


@once
def measured(lab: Lab) -> dict[str, dict[str, Fit]]:
    """The exponents of both increments, alone and beside the stream's sums."""
    quantities = {
        "sgd": Pass.squared,
        "adam": Pass.absolute,
        "adam over sum": lambda p: p.absolute() / (1 / sizes(p.states[:-1])).sum(1),
        "sgd over squares": lambda p: p.squared() / (1 / sizes(p.states[:-1]) ** 2).sum(1),
    }
    return exponents(NET, AT, conditions(lab), quantities, at_once=32)


@once
def passes(lab: Lab) -> dict[int, dict[str, Array]]:
    """Σ_l 1/x_l and Σ_l 1/x_l² over the first ``FAR`` sublayers, by condition: (seeds, FAR) each.

    One forward pass of a deep stack, whose lower part is a shallow stack.
    """
    ends = [n - 1 for n in FAR]
    found: dict[int, dict[str, Array]] = {1: {}, 2: {}}
    for label, s in conditions(lab).items():
        streams = [residual_sums(NET.trial(FAR[-1] // 2, lot)) for lot in lots(s, 3)]
        size = torch.cat([sizes([x for _, x, _ in stream]) for stream in streams])
        for power, sums in found.items():
            sums[label] = (size**-power).cumsum(dim=1)[:, ends].numpy()
    return found
