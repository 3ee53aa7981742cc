from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, np, once
from paper_checks.shared.engine import across
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="width-gqa",
    source="""Chickering et al., 'GQA-μP: The maximal parameterization update for grouped query
        attention', arXiv 2605.15290, abstract""",
    statement="""'learning rate transfer across the GQA repetition hyperparameter': under μP one
        learning rate transfers to any number of key and value heads.""",
    conditions="""64 query heads whose values are repeated from G heads, G from 2 to 32; one step
        of the value matrix under signSGD or SGD, at an output matrix as drawn, or after a step
        along its inputs; the change of the values, and of the loss""",
    finding="""Right under Adam, whose step has one size, and wrong under SGD: a value head is read
        by 64/G heads, whose gradients add up, so that one rate of SGD moves the values as 1/G. In
        the first step the gradients are independent, as the output matrix is, and the move falls
        as G^{−1/2}. So ε takes 1/G under Adam. A spectral norm does not show one more thing: the
        gain in loss of a step of signSGD grows as √G at the output matrix as drawn, since a
        repeated value meets 64/G independent columns. After a step of the output matrix it is
        alike at every G.""",
    counterexample="""SGD, 2 and 32 value heads at one rate: the values move 16 times less far at
        32.""",
    corrected="""Key and value under Adam: rate 1 and ε 1/G; under SGD: rate G.""",
    seconds=4,
)
HEADS, GROUPS = 64, (2, 4, 8, 16, 32)


@CLAIM.stated("Adam: a step gains alike at every G, after a step of the output matrix", SUPPORTED)
def adam(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "sign gain later"), 0.0, (("√G", 0.5), ("G", 1.0)))


@CLAIM.stated("SGD at one rate moves the values alike", REFUTED)
def sgd(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "size later"), 0.0, (("1/G", -1.0),))


@CLAIM.correction("as 1/G", SUPPORTED)
def falls(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "size later"), -1.0, (("G^(-1/2)", -0.5),))


@CLAIM.ours("in the first step as G^(-1/2)", SUPPORTED)
def first(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "size"), -0.5, (("1/G", -1.0), ("flat", 0.0)))


@CLAIM.ours("Adam gains as √G in the first step", SUPPORTED)
def gain(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "sign gain"), 0.5, (("flat", 0.0), ("G", 1.0)))


@CLAIM.ours("the package derives 1 and 1/G for Adam, G for SGD", PROVED)
def derived(lab: Lab) -> Finding:
    found = {name: next(r for r in across("kv-heads", name) if r["role"] == "value")
             for name in ("adam", "sgd")}  # fmt: skip
    said = found["adam"]["rate"], found["adam"]["epsilon"], found["sgd"]["rate"]
    return lab.proved(said == ("1", "1/G", "G"), f"rate and ε of Adam, rate of SGD: {said}")


def power(lab: Lab, what: str) -> Interval:
    """The power of G in a size of one step, per unit of rate."""
    return lab.power(GROUPS, steps(lab)[what])


@once
def steps(lab: Lab) -> dict[str, Array]:
    """The size of a value's gradient, and the gain of a step of signSGD: (seeds, G).

    "later" is after a step of the output matrix along the values that it read.
    """
    draw = np.random.default_rng(lab.seed)
    found: dict[str, list[Array]] = {}
    for groups in GROUPS:
        drawn = draw.standard_normal((400, HEADS))  # what comes back to each head, as drawn
        value = draw.standard_normal((400, groups))
        later = np.repeat(value, HEADS // groups, axis=1)  # W_o ∝ δ vᵀ sends back what it read
        for name, back in (("", drawn), (" later", later)):
            g = back.reshape(400, groups, -1).sum(2)
            g = g.reshape(8, -1, groups)
            found.setdefault("size" + name, []).append(np.sqrt((g**2).mean((1, 2))))
            found.setdefault("sign gain" + name, []).append(np.abs(g).sum(2).mean(1))
    return {what: np.stack(values, axis=1) for what, values in found.items()}
