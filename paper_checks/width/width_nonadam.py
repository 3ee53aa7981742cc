from paper_checks.shared.bench import Claim, Finding, Lab, Tensor, judge
from paper_checks.shared.record import REFUTED, SUPPORTED
from paper_checks.shared.wide import (
    HIDDEN,
    MUP,
    ROLES,
    Network,
    Step,
    adam,
    exponents,
    lamb,
    lars,
    sgd,
    size,
    widths,
)

CLAIM = Claim(
    name="width-nonadam",
    source="""NVIDIA, Megatron-LM, core/optimizer, get_mup_config_overrides (August 2026), with its
        output multiplier 1/width""",
    statement="""Non-Adam optimizers: a hidden matrix takes the base rate over the width. SGD:
        embeddings, head and vectors take the base rate times the width, hidden matrices the base
        rate. Adam: hidden matrices take ε over the width, embeddings, head and vectors the base
        ε.""",
    conditions="""first steps in an explicit network of an embedding, two hidden maps and a head
        behind a multiplier 1/n; widths 128 to 1,024 (2,048 in the full run), 4 tokens""",
    finding="""'Non-Adam' is no class: the update decides. 1/n is right for a step of the sign,
        as Lion does. For an update of the matrix's own length, LAMB's or LARS's, it is too small by
        √n, and the hidden maps of a wide model hardly learn. SGD's rates are right in all three
        roles. Adam's ε must fall as 1/n for the embedding and the head too, since their gradients
        do; at the base ε it overtakes them at some width.""",
    counterexample="""LAMB at the base rate over the width: the hidden outputs of width 1,024 move
        0.36 times as much as those of width 128.""",
    corrected="""Hidden rates: 1/n for sign-like updates, n^{−1/2} for those of the matrix's length.
        Adam's ε: 1/n for every matrix.""",
    seconds=(5, 30),
)
RATES = MUP.rates(hidden=-1)
SGD_RATES = MUP.rates(embedding=1, head=1)
RIVALS = (("√n", 0.5), ("n", 1.0), ("1/√n", -0.5), ("1/n", -1.0))


@judge
def hidden(lab: Lab, *steps: Step, predicted: float = 0.0) -> Finding:
    found = {s.__name__: exponents(lab, RATES, s, [HIDDEN])[HIDDEN] for s in steps}
    return lab.exponent(found, predicted, tuple(r for r in RIVALS if r[1] != predicted))


CLAIM.stated("1/n for a step of the sign", SUPPORTED)(hidden(adam))
CLAIM.stated("1/n for a step of the matrix's length", REFUTED)(hidden(lamb))
CLAIM.correction("there n^{−1/2}: at 1/n the move falls as n^{−1/2}", SUPPORTED)(
    hidden(lamb, lars, predicted=-0.5)
)


@CLAIM.stated("SGD: n for embedding and head, 1 for hidden maps", SUPPORTED)
def with_sgd(lab: Lab) -> Finding:
    return lab.exponent(exponents(lab, SGD_RATES, sgd, ROLES), 0.0, RIVALS)


@judge
def gradient(lab: Lab, predicted: float, *names: str) -> Finding:
    sizes: dict[str, list[Tensor]] = {name: [] for name in names}
    for width in widths(lab):
        found = Network(MUP, width, 16, lab.generator(width)).gradients()
        for name in names:
            sizes[name].append(size(found[name]))
    fits = {name: lab.power(widths(lab), lab.columns(s)) for name, s in sizes.items()}
    return lab.exponent(fits, predicted, tuple(r for r in RIVALS if r[1] != predicted))


CLAIM.stated("ε over the width for hidden matrices: so falls |g|", SUPPORTED)(gradient(-1.0, "W2"))
CLAIM.stated("the base ε for embedding and head: |g| stays", REFUTED)(gradient(0.0, "E", "H"))
CLAIM.correction("1/n for them too", SUPPORTED)(gradient(-1.0, "E", "H"))
