from paper_checks.shared.bench import Claim, Finding, Interval, Lab, judge, once
from paper_checks.shared.record import REFUTED, SUPPORTED, TPV
from paper_checks.shared.wide import HIDDEN, MUP, STANDARD, Powers, adam, exponents, trained

CLAIM = Claim(
    name="width-coordinate-check",
    source=f"{TPV}; README of the authors' package mup, 'Making Your Own Coord Check Plots'",
    statement="""If over a few steps the sizes of activations and output blow up or shrink with the
        width there is a bug; if instead the curves converge to the right, most likely the
        implementation is correct.""",
    conditions="""an explicit network of an embedding, two hidden maps and a head, two steps of
        torch's Adam on 4 tokens, widths 128 to 1,024 (2,048 in the full run)""",
    finding="""The check finds what is too large, and not what is too small. Standard
        parametrization at one rate is seen. But hidden rates of 1/n² instead of 1/n, where the
        hidden matrices do not learn in a wide model, leave every curve flat, and the changes of the
        curves too: the embedding moves all that is above it. A lazy parametrization is flat in size
        as well, while its features' change falls as n^{−1/2}. What decides is one role stepped at a
        time, and the change in place of the size.""",
    counterexample="""Table 8 with hidden rates 1/n²: sizes and changes of all activations are flat
        after two steps; a step of a hidden matrix alone changes its output by 1/n.""",
    corrected="""The change of a role's own output in one step of that role is Θ(1) for each
        role.""",
    seconds=(6, 40),
)
RIGHT = MUP.rates(hidden=-1)
FROZEN = MUP.rates(hidden=-2)
LAZY = STANDARD.rates(embedding=-0.5, hidden=-1.5, head=-1)
GROWING = (("√n", 0.5), ("n", 1.0), ("1/√n", -0.5), ("1/n", -1.0))


@judge
def sizes(lab: Lab, which: str, when: str) -> Finding:
    """Are activations as large, or moved as far, at every width?"""
    found = {name: i for name, i in steps(lab)[which][when].items() if name != "logits"}
    return lab.exponent(found, 0.0, GROWING)


CLAIM.stated("Table 8 is seen flat", SUPPORTED)(sizes("right", "after"))


@CLAIM.stated("standard parametrization at one rate is seen to grow", SUPPORTED)
def grows(lab: Lab) -> Finding:
    found = trained(lab, STANDARD, 1e-3, 1, seeds=8)["after"]["logits"]
    return lab.at_least(found, 0.5, "exponent of the logits' size after one step")


@CLAIM.stated("what is flat is correct: hidden rates 1/n² are not flat", REFUTED)
def frozen(lab: Lab) -> Finding:
    found = steps(lab)["frozen"]["change"]
    below = {name: i for name, i in found.items() if name in ("first", "y")}
    return lab.at_most(below, -0.5, "exponent of the activations' change", tolerance=0.0)


CLAIM.ours("hidden rates 1/n²: every size is flat", SUPPORTED)(sizes("frozen", "after"))
CLAIM.ours("and every change", SUPPORTED)(sizes("frozen", "change"))
CLAIM.ours("a lazy parametrization: every size is flat", SUPPORTED)(sizes("lazy", "after"))


@CLAIM.correction(
    "stepped alone, a hidden matrix at 1/n² changes its output by 1/n, at 1/n by 1", SUPPORTED
)
def alone(lab: Lab) -> Finding:
    found = {n: exponents(lab, p, adam, [HIDDEN])[HIDDEN] for n, p in POWERS.items() if n != "lazy"}
    return lab.exponent(found, {"right": 0.0, "frozen": -1.0}, (("1/√n", -0.5),))


@CLAIM.correction("the change of the features in the lazy one falls as n^{−1/2}", SUPPORTED)
def lazy(lab: Lab) -> Finding:
    found = {n: i for n, i in steps(lab)["lazy"]["change"].items() if n != "logits"}
    return lab.exponent(found, -0.5, (("flat", 0.0),))


POWERS: dict[str, Powers] = {"right": RIGHT, "frozen": FROZEN, "lazy": LAZY}


@once
def steps(lab: Lab) -> dict[str, dict[str, dict[str, Interval]]]:
    return {name: trained(lab, powers, 0.03, 2, seeds=8) for name, powers in POWERS.items()}
