from dataclasses import replace

from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, Settings, Tensor, np, once
from paper_checks.shared.record import REFUTED, RETOLD, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, at_points, rms

CLAIM = Claim(
    name="retold-k-parameters",
    source=f"{RETOLD}, §1 Increment explosion",
    statement="""With K parameters in an average layer and the gradients of most of them O(1), ΔL =
        O(ηNK): the squared length of n entries is O(n).""",
    conditions="""post-LN stacks of feed-forward sublayers, 6 and 16 layers, hidden width 2 to 64
        times the width; text and Gaussian tokens of correlation 0 and 0.9""",
    finding="""As upper bounds both sentences hold, and they are far from tight. The retelling's K,
        the number of parameters, is not what the increment counts. Sixteen times as many hidden
        units raise ‖∇L‖² by 40 to 45 % (exponent 0.12 from 2d to 32d, 0.03 from 16d to 64d),
        because each entry's gradient shrinks; twice as many sublayers double it (exponent 1.00). K
        counts matrices, as Su's own post says. Growth with the width d is a separate effect
        (su-width).""",
    counterexample="""Feed-forward stack of 6 layers, width 32: ‖∇L‖² is 0.0126 with hidden width 2d
        and 0.0177 with 32d, sixteen times the parameters.""",
    corrected="""ΔL = Θ(ηNK) with K the number of matrices of a layer; entries' gradients fall as
        1/√numel when a layer is made wider inside.""",
)

RATIOS = ((2, 8, 32), (2, 4, 8, 16, 32, 64))  # hidden widths, in widths
WHOLE = "exponent of ‖∇L‖² in the hidden width"
ENTRY = "exponent of an entry's gradient in the hidden width"


@CLAIM.stated("ΔL = O(ηNK): it grows no faster than parameters added as hidden width", SUPPORTED)
def bound(lab: Lab) -> Finding:
    return lab.at_most(power(lab, "whole"), 1.0, WHOLE, 0.0)


@CLAIM.stated("a parameter's gradient is O(1): it does not grow with the hidden width", SUPPORTED)
def bounded(lab: Lab) -> Finding:
    return lab.at_most(power(lab, "entry"), 0.0, ENTRY, 0.0)


@CLAIM.ours("ΔL grows in proportion to the parameters, Θ(ηNK)", REFUTED)
def parameters(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "whole"), 1.0, what=WHOLE)


@CLAIM.ours("a parameter's gradient keeps its size, Θ(1), in the hidden width", REFUTED)
def entries(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "entry"), 0.0, what=ENTRY)


@CLAIM.correction("ΔL grows in proportion to the number of sublayers of a layer", SUPPORTED)
def sublayers(lab: Lab) -> Finding:
    counts = lab.pick((1, 2, 4), (1, 2, 4, 8))
    nets = [Net("8", "1/4", layer=",".join(["ffn"] * c)) for c in counts]
    found = {
        data: lab.settled(counts, measured(lab, [(net, s) for net in nets])["whole"])
        for data, s in conditions(lab).items()
    }
    return lab.exponent(found, 1.0, (("constant", 0.0),), what="exponent of ‖∇L‖² in the sublayers")


@CLAIM.correction("with the hidden width it scales as m/(d + m): constant for m ≫ d", SUPPORTED)
def hidden_width(lab: Lab) -> Finding:
    at, rivals = lab.pick(*RATIOS), (("parameters", 0.8),)
    law = 1 + 1 / np.array(at)
    found = {data: lab.settled(at, v["whole"] * law) for data, v in wider(lab).items()}
    return lab.exponent(found, 0.0, rivals, what="exponent of ‖∇L‖² over m/(d + m)")


def conditions(lab: Lab) -> dict[str, Settings]:
    """The data."""
    chosen = lab.pick(("text",), ("text", "gaussian:0", "gaussian:0.9"))
    return {data: lab.settings(seeds=16, tokens=16, data=data) for data in chosen}


def power(lab: Lab, quantity: str) -> dict[str, Fit]:
    """The exponent of a quantity in the hidden width, by data."""
    at = lab.pick(*RATIOS)
    return {data: lab.settled(at, v[quantity]) for data, v in wider(lab).items()}


@once
def wider(lab: Lab) -> dict[str, dict[str, Array]]:
    """Stacks of growing hidden width, α and β fixed so that only it changes."""
    net = Net("4", "1/4", layer="ffn")
    return {
        data: measured(lab, [(net, replace(s, ffn_ratio=r)) for r in lab.pick(*RATIOS)])
        for data, s in conditions(lab).items()
    }


def measured(lab: Lab, given: list[tuple[Net, Settings]]) -> dict[str, Array]:
    """‖∇L‖² and an entry's root mean square gradient: (seeds, points) each."""
    points = [(net, lab.pick(6, 16), s) for net, s in given]
    return at_points(points, {"whole": Pass.squared, "entry": entry})


def entry(p: Pass) -> Tensor:
    """The root mean square of the gradient's entries."""
    return rms([g.norm() / g.g[0].numel() ** 0.5 for g in p.of("fc1", "fc2")])
