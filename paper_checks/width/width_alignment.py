from paper_checks.shared.bench import Claim, Finding, Interval, Lab, Tensor, judge, once, torch
from paper_checks.shared.record import SUPPORTED, UNDECIDED
from paper_checks.shared.wide import MUP, SYMBOLS, Network, size, widths

CLAIM = Claim(
    name="width-alignment",
    source="""Everett et al., 'Scaling Exponents Across Parameterizations and Optimizers', arXiv
        2407.05872, abstract and Table 1""",
    statement="""How an update acts depends on its alignment with what it meets: n_in terms add as
        n_in (full) or as √n_in (none), so that Adam's hidden rate is 1/n or 1/√n. Earlier theory
        assumes full alignment, and the best prescription is often one that this excludes.""",
    conditions="""an explicit network of an embedding, two hidden maps and a head, ΔW of a hidden
        map after 1 and 4 steps of Adam at 1/n on 4 symbols of 16, acting on the symbols of the
        batch and on the 12 others, whose embeddings are independent; widths 128 to 1,024
        (2,048)""",
    finding="""Both exponents are there, side by side. On the symbols that it was trained on an
        update acts fully aligned, from the first step on. On independent other ones it acts
        unaligned, and does so after four steps too. So no one exponent describes training: a rate
        of 1/√n lets the outputs of trained symbols grow as √n, and one of 1/n moves the others by
        less and less. Which rule serves best after a long training is not tested.""",
    would_decide="""The best learning rates over widths of long runs on text, under both rules, with
        the alignment measured along them.""",
    seconds=(6, 40),
)
EXTREMES = (("none", 0.5), ("full", 1.0), ("between", 0.75))


@judge
def acts(lab: Lab, steps: int, symbols: str, predicted: float) -> Finding:
    found = alignment(lab)[f"{symbols}, {steps} steps"]
    others = tuple(r for r in EXTREMES if r[1] != predicted)
    return lab.exponent(found, predicted, others, tolerance=0.1)


@CLAIM.stated("alignment lies between none, 1/2, and full, 1", SUPPORTED)
def between(lab: Lab) -> Finding:
    return lab.within(alignment(lab), 0.45, 1.05, "exponent of rms(ΔW h)/(rms(ΔW)·rms(h))")


CLAIM.ours("in the first step it is full on the batch's symbols", SUPPORTED)(
    acts(1, "trained", 1.0)
)
CLAIM.ours("and none on independent others", SUPPORTED)(acts(1, "other", 0.5))
CLAIM.ours("after four steps it is full on the batch's symbols", SUPPORTED)(acts(4, "trained", 1.0))


@CLAIM.stated("the best prescription is often one that full alignment excludes", UNDECIDED)
def best(lab: Lab) -> Finding:
    return lab.undecided("a matter of long trainings, and a few steps are measured here")


@once
def alignment(lab: Lab) -> dict[str, Interval]:
    """The exponents of how far ΔW changes its output beside entries of the same size each."""
    found: dict[str, list[Tensor]] = {}
    for width in widths(lab):
        net = Network(MUP.rates(hidden=-1), width, 16, lab.generator(width))
        optimizer = net.optimizer(0.02)
        start = net.parameters["W2"].detach().clone()
        every = torch.eye(SYMBOLS).expand(16, SYMBOLS, SYMBOLS)[:, :, None]
        with torch.no_grad():
            h = net.forward(net.parameters, every)["first"].tanh()
        trained = net.symbols[:, :, 0].sum(1).bool()
        for step in range(1, 5):
            net.train(optimizer)
            if step in (1, 4):
                change = net.parameters["W2"].detach() - start
                for label, chosen in (("trained", trained), ("other", ~trained)):
                    inputs = h[chosen].view(16, -1, width)
                    acted = size(inputs @ change.mT) / (size(change) * size(inputs))
                    found.setdefault(f"{label}, {step} steps", []).append(acted)
    return {label: lab.power(widths(lab), lab.columns(v)) for label, v in found.items()}
