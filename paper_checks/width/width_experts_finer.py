from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, np, once
from paper_checks.shared.engine import across
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="width-experts-finer",
    source="""Jiang, Bordelon, Pehlevan and Hanin, 'Hyperparameter Transfer with Mixture-of-Experts
        Layers', arXiv 2601.20205, and Małaśnicki et al., 'μ-Parametrization for Mixture of
        Experts', arXiv 2508.09752; their abstracts""",
    statement="""A parameterization for 'number of experts, and expert (hidden) size' 'enables
        reliable HP transfer' (2601.20205). Under μP: 'how scaling the number of experts and
        granularity affects the optimal learning rate' (2508.09752).""",
    conditions="""E experts of m hidden units, K of them for a token, gates that average them; the
        first step of signSGD of all last matrices, along their gradient; 4 tokens for each expert;
        the package's powers of E, K and m""",
    finding="""Both hold, of different numbers. A step changes the output alike at every E and at
        every K: one rate of Adam works there, and at a fixed K/E below B_noise too, since the
        share of the tokens stays. It does not work for finer experts, G times as many of m/G
        units: a step changes the output by 1/G at one rate. The last matrix of an expert takes
        1/m, so G times the rate. A parameterization in the hidden size has this factor, μP in the
        width has not.""",
    counterexample="""8 times finer experts at one rate: a step changes the output an eighth as
        far.""",
    corrected="""Rate of the last matrix under Adam: 1 in E, 1 in K, 1/m in the hidden size.""",
    seconds=3,
)
FINER = (1, 2, 4, 8)
MIXTURE = "attention,ffn-swiglu@2/8"


@CLAIM.stated("one rate changes the output alike as experts become more", SUPPORTED)
def more(lab: Lab) -> Finding:
    return lab.exponent(moved(lab, "experts"), 0.0, (("1/E", -1.0), ("E^(-1/2)", -0.5)))


@CLAIM.stated("and as a token takes more", SUPPORTED)
def chosen(lab: Lab) -> Finding:
    return lab.exponent(moved(lab, "chosen"), 0.0, (("K", 1.0), ("K^(-1/2)", -0.5)))


@CLAIM.stated("and as experts become finer", REFUTED)
def finer(lab: Lab) -> Finding:
    return lab.exponent(moved(lab, "finer"), 0.0, (("1/G", -1.0),))


@CLAIM.correction("finer: as 1/G, so that the rate must grow as G", SUPPORTED)
def grows(lab: Lab) -> Finding:
    return lab.exponent(moved(lab, "finer"), -1.0, (("flat", 0.0), ("G^(-1/2)", -0.5)))


@CLAIM.ours("the package derives rates of 1 in E and K and of 1/m for the last matrix", PROVED)
def derived(lab: Lab) -> Finding:
    found = {}
    for shape in ("experts", "top-k", "ffn"):
        rates = {row["role"]: row["rate"] for row in across(shape, "adam", layer=MIXTURE)}
        found[shape] = rates["fc2"]
    return lab.proved(found == {"experts": "1", "top-k": "1", "ffn": "1/m"}, f"fc2: {found}")


@CLAIM.ours("below B_noise the powers of E and K cancel at one share K/E", PROVED)
def cancel(lab: Lab) -> Finding:
    rates = {r["role"]: r["rate"] for r in across("experts,top-k,batch", "adam", layer=MIXTURE)}
    found = {role: rates[role] for role in ("fc1", "fc2", "router")}
    return lab.proved(set(found.values()) == {"B**(1/2)*E**(-1/2)*K**(1/2)"}, f"rates {found}")


def moved(lab: Lab, grown: str) -> Interval:
    """The power of what grew in the change of the output, per unit of rate."""
    return lab.power(FINER, changes(lab)[grown])


@once
def changes(lab: Lab) -> dict[str, Array]:
    """By what grew, the change of outputs along their gradient: (seeds, sizes)."""
    draw = np.random.default_rng(lab.seed)
    sizes = {
        "experts": [(8 * n, 4, 32) for n in FINER],
        "chosen": [(32, 4 * n, 32) for n in FINER],
        "finer": [(8 * n, 4 * n, 32 // n) for n in FINER],
    }
    return {
        grown: np.stack([[change(draw, *of) for _ in range(8)] for of in each], axis=1)
        for grown, each in sizes.items()
    }


def change(draw: np.random.Generator, experts: int, chosen: int, hidden: int) -> float:
    """The mean of ⟨δ, Δy⟩/‖δ‖₁ for one step of signSGD, at a rate of 1."""
    tokens, out = 4 * experts // chosen, 16
    scores = draw.standard_normal((tokens, experts)) / 8
    gates = np.exp(scores) * (scores >= np.sort(scores)[:, [-chosen]])
    gates /= gates.sum(1, keepdims=True)
    inner = draw.standard_normal((tokens, experts, hidden))
    back = np.sign(draw.standard_normal((tokens, out)))
    step = np.sign(np.einsum("te,teh,to->eho", gates, inner, back))
    moves = np.einsum("te,teh,eho->to", gates, inner, step)
    return float((moves * back).mean())
