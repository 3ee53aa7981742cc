from dataclasses import replace

from paper_checks.shared.bench import Claim, Finding, Fit, Lab, once, torch
from paper_checks.shared.record import SU, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, backward, exponents, model_updates, per_depth

CLAIM = Claim(
    name="su-increment-depth",
    source=f"{SU}, §Increment explosion",
    statement="""With every matrix gradient of norm O(1), ΔL = O(ηNK): one step changes the loss in
        proportion to depth.""",
    conditions="""post-LN with α = λ = (2N)^{−1/2} (gradients O(1), branches small) and plain
        pre-LN, 12 to 216 layers""",
    finding="""Given its premise the statement is exact: on a near-identity stack with matrix
        gradients of order one (α = λ = (2N)^{−1/2}) the increments of SGD and Adam and Adam's ‖ΔF‖
        all grow as N^{1.0}. The premise is a choice of α and λ, not a property of Xavier and
        normalisation as such: plain pre-LN has gradients that fall towards the top, and its
        increment grows ever more slowly, by a factor 1.6 from 16 to 144 layers.""",
    seconds=(5, 93),
)

UNIT = Net("(2*N)**(-1/2)", "(2*N)**(-1/2)")
PRE = Net(placement="pre-ln")
SLOWER = (("constant", 0.0), ("square root", 0.5))


@CLAIM.stated("α = λ = (2N)^{−1/2} has matrix gradients of order one at every depth", SUPPORTED)
def premise(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["premise"], 0.0, (("SGD's rule", -0.5),))


@CLAIM.stated("there −ΔL/η of SGD grows in proportion to the depth", SUPPORTED)
def sgd(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["sgd"], 1.0, SLOWER)


@CLAIM.stated("and that of Adam", SUPPORTED)
def adam(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["adam"], 1.0, SLOWER)


@CLAIM.ours("and ‖ΔF‖/η of Adam", SUPPORTED)
def output(lab: Lab) -> Finding:
    at, net = lab.depths(), replace(UNIT, optimizer="adam")
    found = lab.settled(at, model_updates(net, at, lab.settings(seeds=24)))
    return lab.exponent(found, 1.0, SLOWER)


@CLAIM.ours("plain pre-LN, where the premise fails: it grows no faster than N^{1/2}", SUPPORTED)
def pre(lab: Lab) -> Finding:
    s = lab.settings(width=32, tokens=16, seeds=64)
    found = per_depth(PRE, lab.depths(), s, Pass.squared, at_once=lab.pick(32, 8))
    # half way to the proportionality of the premise
    return lab.at_most(lab.settled(lab.depths(), found), 0.5, "exponent of the increment")


@CLAIM.stated("−ΔL/η of SGD is the sum of the squared gradients, whatever they are", SUPPORTED)
def sum_of_squares(lab: Lab) -> Finding:
    s, ratios = lab.settings(dtype="float64", seeds=4), []
    for net in (UNIT, Net(), PRE):
        trial = net.trial(lab.depths()[1], s)
        p = backward(trial)
        eta = 1e-6 / float(p.squared().mean())
        for g in p.gradients:
            g.theta.sub_(eta * g.g)
        ratios.append((p.loss - trial.loss(trial.output())) / eta / p.squared())
    off = float((torch.stack(ratios) - 1).abs().max())
    return lab.seen(off < 0.01, f"ΔL of a real step agrees within {off:.1e} in three networks")


@once
def measured(lab: Lab) -> dict[str, dict[str, Fit]]:
    """The exponents of the gradients' size and of both increments, by condition."""
    quantities = {"premise": Pass.size, "sgd": Pass.squared, "adam": Pass.absolute}
    conditions = lab.varied(seeds=96)
    if lab.full:  # a wide stack's sums fluctuate less
        conditions |= {
            "width 128": replace(conditions["width 128"], seeds=24),
            "64 tokens": replace(conditions["64 tokens"], seeds=48),
        }
    # a text of 64 tokens bends until about 24 layers
    longer = {n: conditions.pop(n) for n in ("64 tokens",) if n in conditions}
    at_once = lab.pick(24, 8)  # for memory
    found = exponents(UNIT, lab.depths(), conditions, quantities, at_once)
    later = exponents(UNIT, (24, 72, 216), longer, quantities, at_once)
    return {name: fits | later[name] for name, fits in found.items()}
