from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, judge, np, numeric, once
from paper_checks.shared.record import CAKE, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, Net, model_updates, updates_at

CLAIM = Claim(
    name="cake-dimension-free",
    source=f"{CAKE}, §5, first paragraph, answered by §5.1 to §5.3",
    statement="""α = (2N)^{1/4} and β = (8N)^{−1/4} hold for matrices: they depend neither on d nor
        on m nor on the number of heads.""",
    conditions="""built DeepNorm encoders under SGD, text; d = 16 to 128, m = 2d to 8d, 1 to 8
        heads, 8 to 128 layers""",
    finding="""They do not: at every width, hidden width and number of heads tried the update is
        constant in depth (exponents within 0.02 of 0), and its size does not depend on the number
        of heads. A further question is the size's dependence on the dimensions: ‖ΔF‖/η grows as
        d^{1.47} from width 16 to 128 under SGD and as (m/d)^{0.11} with the hidden width. So α and
        β may ignore the width, and the learning rate may not.""",
    counterexample="Width 64 instead of 32 at the same α, β, η: ‖ΔF‖ is 2.8 times as large.",
    corrected="""The depth exponents of α and β do not depend on d, m, heads; ‖ΔF‖ = O(η) has a
        constant that grows as d·√(d/(d + V)) under SGD (independent tokens), and as m/(d + m) in
        the feed-forward sublayers, to be absorbed by η.""",
    seconds=(6.0, 57),
)
DEPTHS = ((8, 16, 32), (8, 16, 32, 64, 128))  # of the quick run and of the full one
RATIOS = (2.0, 4.0, 8.0)  # m/d
HEADS = (1, 2, 4, 8)


@CLAIM.stated("the exponent in depth is 0 at every d, m, number of heads", SUPPORTED)
def in_depth(lab: Lab) -> Finding:
    slopes = {
        f"{knob} {value}": lab.power(lab.pick(*DEPTHS), sizes)
        for knob, table in tables(lab).items()
        for value, sizes in table.items()
    }
    rivals = (("Adam's rule", -0.5), ("no rule", 1.0))
    return lab.exponent(slopes, 0.0, rivals, what="exponent of ‖ΔF‖/η in N")


@judge
def level(lab: Lab, knob: str) -> Finding:
    """Whether the update's size, the mean over depths, does not depend on a knob."""
    table = tables(lab)[knob]
    sizes = lab.columns(size.mean(1) for size in table.values())
    found, values = lab.power(list(table), sizes), sizes.mean(0).tolist()
    return lab.exponent(found, 0.0, what=f"exponent of ‖ΔF‖/η in {knob}", values=values)


CLAIM.stated("the size of the update does not depend on heads", SUPPORTED)(level("heads"))
CLAIM.ours("the size of the update does not depend on m", REFUTED)(level("ffn_ratio"))
CLAIM.ours("the size of the update does not depend on d", REFUTED)(level("width"))


@CLAIM.correction("feed-forward sublayers: it grows with the hidden width as m/(d + m)", SUPPORTED)
def law_of_hidden_width(lab: Lab) -> Finding:
    net, r = Net(DEEPNORM.alpha, DEEPNORM.beta, layer="ffn"), np.array(RATIOS)
    sizes = at_eight_layers(lab, net, "ffn_ratio", RATIOS, seeds=32)
    found = lab.power(RATIOS, sizes * (1 + 1 / r))
    rivals = (("independent of m", lab.slope(r, 1 + 1 / r)), ("m", lab.slope(r, r + 1)))
    what = "exponent in m/d of ‖ΔF‖/η over m/(d + m), feed-forward stack of 8 layers"
    return lab.exponent(found, 0.0, rivals, what=what, values=sizes.mean(0).tolist())


@CLAIM.correction("it grows as d·√(d/(d + V)), V the vocabulary: d^{3/2} for d ≪ V", SUPPORTED)
def law_of_width(lab: Lab) -> Finding:
    d = np.array(lab.widths())
    law = d * np.sqrt(d / (d + numeric.VOCAB))
    sizes = at_eight_layers(lab, DEEPNORM, "width", lab.widths(), seeds=96)
    found = lab.power(d, sizes / law)
    rivals = (("d²", lab.slope(d, d**2 / law)), ("d", lab.slope(d, d / law)))
    what = "exponent in d of ‖ΔF‖/η over d·√(d/(d + V)), independent tokens"
    return lab.exponent(found, 0.0, rivals, what=what, values=sizes.mean(0).tolist())


@once
def tables(lab: Lab) -> dict[str, dict[float, Array]]:
    """‖ΔF‖/η by knob and its value: (seeds, depths) each."""
    common: dict[str, Any] = {"width": 32, "ffn_ratio": 4.0, "heads": 4}

    def measured(**changed: Any) -> Array:
        return model_updates(DEEPNORM, lab.pick(*DEPTHS), lab.small(seeds=48, **(common | changed)))

    base = measured()
    knobs = {"width": lab.widths(), "ffn_ratio": RATIOS, "heads": HEADS}
    return {
        knob: {v: base if v == common[knob] else measured(**{knob: v}) for v in values}
        for knob, values in knobs.items()
    }


def at_eight_layers(lab: Lab, net: Net, knob: str, values: tuple[float, ...], seeds: int) -> Array:
    """‖ΔF‖/η where nothing else changes with the size, on independent tokens: (seeds, values)."""
    settings = [lab.small(seeds=seeds, data="gaussian:0", **{knob: v}) for v in values]
    return updates_at([(net, 8, s) for s in settings])
