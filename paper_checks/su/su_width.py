from dataclasses import replace

from paper_checks.shared.bench import Claim, Finding, Fit, Lab, judge, np, numeric, once, torch
from paper_checks.shared.record import PROVED, REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, at_points, norms, rms

CLAIM = Claim(
    name="su-width",
    source=f"{SU}, reply of 2023-05",
    statement="""K is the number of matrices of a layer and a constant of the architecture; the size
        of a matrix is the width, and Xavier's initialisation is adapted to it already, so that a
        wider model has no increment explosion.""",
    conditions="""post-LN and pre-LN with a rule, 8 layers, widths 32 to 256 at fixed heads and
        tokens; text and Gaussian tokens of correlation 0 and 0.9 (the laws on Gaussian tokens), 16
        and 64 tokens""",
    finding="""The first half is right: a layer has the same number of matrices at every width, and
        under Xavier's initialisation the branches of a forward pass have the same size at every
        width. The conclusion is wrong: the increment grows with the width. At fixed depth the
        increment of one step grows as d·d/(d+V) for SGD, d^{3/2}·(d/(d+V))^{1/2} for Adam and
        d·(d/(d+V))^{1/2} for LAMB, V the vocabulary: inputs of a normalised stream have length √d,
        and a Xavier head sends back ‖∂L/∂F‖² ~ d/(d+V). Between widths 32 and 256 that is d^{1.7}
        for SGD and d^{1.8} for Adam on text (tokens of correlation 0.9 add 0.04 to 0.06 to SGD's
        exponent, 64 independent tokens 0.01 to 0.04). A learning rate tuned at one width does not
        transfer to another.""",
    counterexample=(
        "SGD's rule, 8 layers, text: ‖∇L‖² is 0.60, 2.3, 7.8 and 24 at widths 32, 64, 128 and 256."
    ),
    corrected="""SGD's increment grows as d·d/(d+V) in the width at fixed K: as d² while the
        vocabulary is the larger, as d beyond; Adam's as d^{3/2} and LAMB's as d, times
        √(d/(d+V)).""",
    seconds=(10, 91),
)

NETS = {
    "post-LN, SGD's rule": Net("(2*N)**(1/4)", "(2*N)**(-1/4)"),
    "pre-LN, LAMB's rule": Net("1", "(2*N)**(-1/2)", placement="pre-ln"),
}
DEPTH, WIDTHS = 8, (32, 64, 128, 256)
ABSORBED = ("absorbed", 0.0)
QUANTITIES = {  # the increments, and the squared signal at the top
    "sgd": Pass.squared,
    "adam": Pass.absolute,
    "lamb": Pass.normed,
    "signal": lambda p: norms(p.signals[-1]).double() ** 2,
    "branch": lambda p: rms([norms(branch) for branch in p.branches]),
}


@CLAIM.stated("K counts matrices: a layer has the same number at every width", PROVED)
def matrices(lab: Lab) -> Finding:
    # counted in torch's own layer, which packs the three matrices of the scores and values in one
    counts = {
        width: sum(p.ndim == 2 for p in encoder_layer(width).parameters()) for width in WIDTHS
    }
    return lab.proved(len({*counts.values()}) == 1, f"matrices of a layer by width: {counts}")


@CLAIM.stated("Xavier's initialisation gives branches the same size at every width", SUPPORTED)
def forward(lab: Lab) -> Finding:
    rivals = (("one size of entries for every width", 1.0),)
    return lab.exponent(measured(lab)["branch"], 0.0, rivals, what="exponent of ‖G(x)‖/√d in d")


@judge
def absorbed(lab: Lab, optimizer: str) -> Finding:
    return lab.at_most(measured(lab)[optimizer], 0.0, "exponent in d")


CLAIM.stated("the increment of SGD does not grow with the width", REFUTED)(absorbed("sgd"))
CLAIM.stated("the increment of Adam does not grow with the width", REFUTED)(absorbed("adam"))
CLAIM.stated("the increment of LAMB does not grow with the width", REFUTED)(absorbed("lamb"))


@CLAIM.correction(
    "‖∇L‖²/‖∂L/∂F‖² grows as d for a few independent tokens: their inputs have length √d", SUPPORTED
)
def inputs(lab: Lab) -> Finding:
    # many tokens, or tokens that are alike, share a part of their gradients: evidence
    found = measured(lab)["sgd over signal"]
    few = {label: fit for label, fit in found.items() if label.endswith("gaussian:0, 16 tokens")}
    others = {label: fit.to_dict() for label, fit in found.items() if label not in few}
    rivals = (ABSORBED, ("number of parameters", 2.0))
    return lab.exponent(few, 1.0, rivals, correlated_or_more_tokens=others)


@CLAIM.correction(
    "Adam's ‖∇L‖₁/‖∂L/∂F‖ grows as d^{3/2}: √d inputs times the root of d² entries", SUPPORTED
)
def signs(lab: Lab) -> Finding:
    rivals = (ABSORBED, ("number of parameters", 2.0))
    return lab.exponent(measured(lab)["adam over signal"], 1.5, rivals)


@CLAIM.correction("LAMB's Σ‖θ‖‖g‖₁/√n over ‖∂L/∂F‖ grows as d: ‖θ‖ ~ √d", SUPPORTED)
def ratios(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["lamb over signal"], 1.0, (ABSORBED, ("Adam's", 1.5)))


@CLAIM.correction("‖∂L/∂F‖² grows as d/(d + V) with V symbols: a Xavier head", SUPPORTED)
def head(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["signal over law"], 0.0, (("constant head", -0.5),))


@once
def measured(lab: Lab) -> dict[str, dict[str, Fit]]:
    """Exponents in the width: of the increments, and of their parts on Gaussian tokens."""
    conditions = [("text", 16), ("gaussian:0", 16)]
    if lab.full:
        conditions += [("gaussian:0.9", 16), ("gaussian:0", 64)]
    found: dict[str, dict[str, Fit]] = {}
    for data, tokens in conditions:
        at = widths(lab, data, tokens)
        seeds = 16 if tokens > 16 else lab.pick(16, 40)
        s = lab.settings(tokens=tokens, batch=2, seeds=seeds, data=data)
        for name, net in NETS.items():
            of = at_points([(net, DEPTH, replace(s, width=w)) for w in at], QUANTITIES)
            signal, branch = of.pop("signal"), of.pop("branch")
            if data != "text":  # byte embeddings grow less alike with d: the laws are of one ρ
                d, root = np.array(at), np.sqrt(signal)
                of |= {
                    "branch": branch / np.sqrt(d),
                    "sgd over signal": of["sgd"] / signal,
                    "adam over signal": of["adam"] / root,
                    "lamb over signal": of["lamb"] / root,
                    "signal over law": signal / (d / (d + numeric.VOCAB)),
                }
            for quantity, values in of.items():
                label = f"{name}, {data}, {tokens} tokens"
                found.setdefault(quantity, {})[label] = lab.settled(at, values)
    return found


def widths(lab: Lab, data: str, tokens: int) -> tuple[int, ...]:
    """The laws are of wide stacks, and vary less between their seeds."""
    if lab.full:
        return WIDTHS[:3] if tokens > 16 else WIDTHS
    return WIDTHS[:3] if data == "text" else WIDTHS[1:]


def encoder_layer(width: int) -> "torch.nn.Module":
    """One layer of torch's own Transformer, without storage."""
    return torch.nn.TransformerEncoderLayer(width, 4, 4 * width, device="meta")
